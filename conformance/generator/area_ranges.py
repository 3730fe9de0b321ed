"""Area ``ranges``: which bytes of a source answer which request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, standard

AREA = "ranges"
_SECTION = "reading"

# A chunk of ten bytes between others that must not be seen.
_BYTES = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)
_CHUNK = _BYTES.chunk((0,))
_BEFORE, _AFTER = b"before--", b"--after"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _entries()
    yield from _requests()
    yield from _no_bytes()
    yield from _open_ended()
    yield from _out_of_bounds()


def _read(
    name: str,
    description: str,
    manifest: Mapping[str, Any],
    sources: Mapping[str, bytes],
    **options: Any,
) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description, **options).array(manifest=manifest)
    for path, content in sources.items():
        case.put(f"a/{path}", content)
    return case


def _entries() -> Iterator[Case]:
    first, second = ARRAY.chunk((0,)), ARRAY.chunk((1,))
    yield _read(
        "whole-objects",
        "An entry with a path alone is the whole object, from its first byte to its last.",
        {"0": {"path": "0.bin"}, "1": {"path": "1.bin"}},
        {"0.bin": first, "1.bin": second},
    ).reads()
    yield _read(
        "offset-only",
        "An entry with an offset and no length runs to the end of the object.",
        {"0": {"path": "0.bin", "offset": 4}, "1": {"path": "1.bin", "offset": 1}},
        {"0.bin": b"HEAD" + first, "1.bin": b"X" + second},
    ).reads()
    yield _read(
        "length-only",
        "An entry with a length and no offset begins at byte 0.",
        {"0": {"path": "0.bin", "length": 4}, "1": {"path": "1.bin", "length": 4}},
        {"0.bin": first + b"TAIL", "1.bin": second + second},
    ).reads()
    yield _read(
        "explicit-offset-zero",
        "offset 0 is the default, and may be stated: it is not the same as no offset and no bytes.",
        {"0": {"path": "d.bin", "offset": 0, "length": 4}, "1": {"path": "d.bin", "offset": 4}},
        {"d.bin": first + second},
    ).reads()
    yield _read(
        "start-and-end-of-the-object",
        "Entries may begin with the first byte of an object and end with its last one.",
        {
            "0": {"path": "d.bin", "offset": 0, "length": 4},
            "1": {"path": "d.bin", "offset": 7, "length": 4},
        },
        {"d.bin": first + b"GAP" + second},
    ).reads()
    yield _read(
        "reverse-order",
        "Chunks may lie in the source in any order; a reader that merges ranges must give each its "
        "own.",
        {
            "0": {"path": "d.bin", "offset": 8, "length": 4},
            "1": {"path": "d.bin", "offset": 4, "length": 4},
        },
        {"d.bin": b"HEAD" + second + first},
    ).reads()
    same = Array(values=(7, 8, 7, 8))
    yield (
        Case(
            f"{AREA}/two-chunks-of-the-same-bytes",
            _SECTION,
            "Entries may refer to the same bytes, as deduplicating writers do.",
        )
        .array(array=same, manifest={k: {"path": "d.bin", "offset": 2, "length": 4} for k in "01"})
        .put("a/d.bin", b"XX" + same.chunk((0,)) + b"YY")
        .reads()
    )
    overlap = Array(values=(7, 8, 8, 9))
    yield (
        Case(
            f"{AREA}/overlapping-entries",
            _SECTION,
            "Entries may overlap; each chunk is its own range, however the reader merges them.",
        )
        .array(
            array=overlap,
            manifest={
                "0": {"path": "d.bin", "offset": 1, "length": 4},
                "1": {"path": "d.bin", "offset": 3, "length": 4},
            },
        )
        .put("a/d.bin", b"X" + overlap.chunk((0,))[:2] + overlap.chunk((1,)) + b"Y")
        .reads()
    )
    many = Array(shape=(7, 9), chunks=(2, 2))
    entries, source = many.lay_out("d.bin", gap=b"padding")
    yield (
        Case(
            f"{AREA}/many-chunks-of-one-object",
            _SECTION,
            "Chunks at the edges of an array are stored whole; only the elements inside count.",
        )
        .array(array=many, manifest=entries)
        .put("a/d.bin", source)
        .reads()
        .reads(selection=[[3, 7], [5, 9]])
        .reads(selection=[[6, 7], [8, 9]])
    )


def _bytes(name: str, description: str, entry: Mapping[str, Any], source: bytes) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description)
    return case.array(array=_BYTES, manifest={"0": {"path": "d.bin", **entry}}).put(
        "a/d.bin", source
    )


def _between(name: str, description: str) -> Case:
    entry = {"offset": len(_BEFORE), "length": len(_CHUNK)}
    return _bytes(name, description, entry, _BEFORE + _CHUNK + _AFTER)


def _requests() -> Iterator[Case]:
    yield _between(
        "get-whole", "Without a range, a request is answered with exactly the entry's bytes."
    ).gets([0], None, _CHUNK)
    yield (
        _between(
            "get-bounded",
            "Bytes from start up to, not including, stop, counted from the entry's first.",
        )
        .gets([0], {"start": 2, "stop": 7}, _CHUNK[2:7])
        .gets([0], {"start": 0, "stop": 10}, _CHUNK)
    )
    yield (
        _between("get-from", "Bytes from start to the end of the entry, not of the object.")
        .gets([0], {"start": 6}, _CHUNK[6:])
        .gets([0], {"start": 0}, _CHUNK)
    )
    yield (
        _between(
            "get-last", "The last bytes of the entry, not of the object: shards are found by them."
        )
        .gets([0], {"last": 3}, _CHUNK[-3:])
        .gets([0], {"last": 10}, _CHUNK)
    )
    yield _between(
        "get-beyond-the-entry",
        "A range that ends past the entry is clamped to it. The bytes behind the entry belong to "
        "somebody else: a reader that returns them leaks its neighbour.",
    ).gets([0], {"start": 7, "stop": 14}, _CHUNK[7:])
    yield (
        _between(
            "get-more-than-there-is-from-the-end",
            "A suffix longer than the entry is clamped to it, and does not reach back before it.",
        )
        .gets([0], {"last": 12}, _CHUNK)
        .gets([0], {"last": 10**9}, _CHUNK)
    )
    yield (
        _between(
            "get-past-the-end",
            "A range that begins past the end of the entry holds no bytes; it is neither an error "
            "nor the bytes that follow the entry.",
        )
        .gets([0], {"start": 11, "stop": 13}, b"")
        .gets([0], {"start": 12}, b"")
    )
    yield (
        _between(
            "get-zero-bytes",
            "Requests for no bytes are answered with no bytes. A suffix of 0 must not become -0, "
            "and with it the whole entry.",
        )
        .gets([0], {"start": 3, "stop": 3}, b"")
        .gets([0], {"last": 0}, b"")
        .gets([0], {"start": 10}, b"")
    )


def _no_bytes() -> Iterator[Case]:
    for name, entry, code in (
        ("missing", {"path": "gone.bin", "length": 10}, "source_not_found"),
        ("short", {"path": "data.bin", "offset": 90, "length": 10}, "range_out_of_bounds"),
    ):
        case = Case(
            f"{AREA}/zero-bytes-of-a-{name}-source",
            _SECTION,
            "A request for no bytes may be answered without a look at the source; a reader that "
            "looks raises what it finds.",
        )
        case.array(array=_BYTES, manifest={"0": entry}).put("a/data.bin", _BEFORE)
        either = {"any_of": [case.answer("bytes", b""), failure(code, "chunk")]}
        for part in ({"start": 3, "stop": 3}, {"start": 10}, {"last": 0}):
            case.ask("get_chunk", {"array": "a", "chunk": [0], "range": part}, either)
        yield case


def _open_ended() -> Iterator[Case]:
    entry, source = {"offset": len(_BEFORE)}, _BEFORE + _CHUNK
    yield (
        _bytes(
            "open-ended-get",
            "Parts of an entry that runs to the end of the object: bounded, from, and past the "
            "end.",
            entry,
            source,
        )
        .gets([0], {"start": 2, "stop": 7}, _CHUNK[2:7])
        .gets([0], {"start": 6}, _CHUNK[6:])
        .gets([0], {"start": 7, "stop": 90}, _CHUNK[7:])
    )
    yield (
        _bytes(
            "open-ended-last",
            "A suffix of an entry that runs to the end of the object is a suffix of the object as "
            "well, but only up to the entry's first byte.",
            entry,
            source,
        )
        .gets([0], {"last": 4}, _CHUNK[-4:])
        .gets([0], {"last": 12}, _CHUNK)
        .gets([0], {"last": 0}, b"")
    )
    yield (
        _bytes(
            "open-ended-past-the-end",
            "A range past the end of an entry without a length holds no bytes.",
            entry,
            source,
        )
        .gets([0], {"start": 10, "stop": 12}, b"")
        .gets([0], {"start": 500}, b"")
    )
    yield (
        _bytes(
            "whole-object-get",
            "Parts of an entry that is a whole object, with a suffix longer than the object.",
            {},
            _CHUNK,
        )
        .gets([0], {"start": 1, "stop": 3}, _CHUNK[1:3])
        .gets([0], {"last": 3}, _CHUNK[-3:])
        .gets([0], {"last": 30}, _CHUNK)
    )


_TOO_FAR = [
    ("begins-past-the-end", {"offset": 50, "length": 4}, "begins past the end of its source"),
    ("begins-at-the-end", {"offset": 16, "length": 4}, "begins where its source ends"),
    (
        "ends-past-the-end",
        {"offset": 14, "length": 4},
        "begins within its source and ends past its end: what is there is not the chunk, and must "
        "not be filled up",
    ),
    ("is-longer-than-the-source", {"length": 17}, "is longer than its whole source"),
    ("is-open-ended-past-the-end", {"offset": 17}, "begins past the end, and has no length"),
    ("is-open-ended-at-the-end", {"offset": 16}, "begins at the end, and has no length"),
    (
        "is-huge",
        {"offset": 8, "length": 2**53 - 9},
        "has a length that nobody can allocate; a reader must not try before it knows better",
    ),
    ("is-far-away", {"offset": 2**53 - 5, "length": 4}, "lies as far away as integers go"),
]


def _out_of_bounds() -> Iterator[Case]:
    for name, entry, problem in _TOO_FAR:
        yield standard(
            f"{AREA}/entry-{name}",
            _SECTION,
            f"An entry that {problem}: an error, and never fill values. The source is not the one "
            "that the manifest was written for, or not complete.",
            manifest={"0": {"path": "data.bin", **entry}},
        ).refuses("range_out_of_bounds", "chunk", selection=[[0, 2]])
    yield _read(
        "empty-source",
        "A source of no bytes has none for an entry: a truncated file must not read as fill "
        "values.",
        {"0": {"path": "0.bin", "length": 4}, "1": {"path": "1.bin"}},
        {"0.bin": b"", "1.bin": ARRAY.chunk((1,))},
    ).refuses("range_out_of_bounds", "chunk")
    yield _read(
        "empty-source-open-ended",
        "An entry without a length has the bytes of its source, and no bytes are no chunk: a "
        "truncated file must not read as fill values.",
        {"0": {"path": "0.bin"}, "1": {"path": "1.bin"}},
        {"0.bin": b"", "1.bin": ARRAY.chunk((1,))},
    ).refuses("range_out_of_bounds", "chunk")
    yield (
        standard(
            f"{AREA}/other-chunks-still-read",
            _SECTION,
            "Sources are judged when they are read: a chunk whose range is wrong does not keep "
            "others from being read.",
            manifest={
                "0": {"path": "data.bin", "offset": 4, "length": 4},
                "1": {"path": "data.bin", "offset": 40, "length": 4},
            },
        )
        .reads(selection=[[0, 2]])
        .refuses("range_out_of_bounds", "chunk", selection=[[1, 3]])
    )
