"""Area ``chunk-keys``: which members of a document name which chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from conformance.generator.arrays import Array, canonical
from conformance.generator.case import Case, failure, problem
from conformance.generator.standard import ENTRIES, refused_and_reported, standard

AREA = "chunk-keys"
_SECTION = "chunk-keys"
_GRID: dict[str, Any] = {"shape": (4, 3), "chunks": (2, 2)}
_SCALAR = Array(shape=(), chunks=(), values=(4711,))


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _encodings()
    yield from _dimensions()
    yield from _outside()
    yield from _refused()


def _read(name: str, description: str, array: Array, keys: dict[str, str] | None = None) -> Case:
    """Make an array whose manifest has these keys in place of the canonical ones."""
    entries, source = array.lay_out("data.bin", gap=b"GAP")
    manifest = {(keys or {}).get(key, key): entry for key, entry in entries.items()}
    case = Case(f"{AREA}/{name}", _SECTION, description)
    return case.array(array=array, manifest=manifest).put("a/data.bin", source)


def _encodings() -> Iterator[Case]:
    for name, separator in (("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")):
        array = Array(**_GRID, key_encoding=(name, separator))
        title = f"{name}-{'slash' if separator == '/' else 'dot'}"
        encoding = f"the chunk key encoding {name!r} with the separator {separator!r}"
        yield _read(
            f"canonical-{title}",
            "Canonical keys (0.1) name the chunks whatever the array's encoding is, here "
            f"{encoding}. Existing writers produce them beside every encoding.",
            array,
        ).reads()
        own = {canonical(index): array.key(index) for index in array.indices()}
        if own["0.1"] != "0.1":
            yield _read(
                f"own-{title}",
                f"The array's own keys ({own['0.1']}) are accepted as well as canonical ones, with "
                f"{encoding}.",
                array,
                own,
            ).reads()
    yield _read(
        "mixed-spellings",
        "One document may name some chunks canonically and others by the array's own keys.",
        Array(**_GRID),
        {"0.1": "c/0/1", "1.0": "c/1/0"},
    ).reads()


def _dimensions() -> Iterator[Case]:
    yield _read(
        "zero-dimensional", "The chunk of a zero-dimensional array is called 0.", _SCALAR
    ).reads()
    yield _read(
        "zero-dimensional-own-default",
        "The own key of a zero-dimensional array with the default encoding is c, and accepted.",
        _SCALAR,
        {"0": "c"},
    ).reads()
    yield _read(
        "zero-dimensional-v2",
        "With the encoding v2, both the canonical and the own key of a zero-dimensional array are "
        "0.",
        replace(_SCALAR, key_encoding=("v2", ".")),
    ).reads()
    yield (
        _read(
            "three-dimensional",
            "Keys of three dimensions name the chunks in C order of the grid, with chunks that the "
            "edge of the array cuts in every dimension.",
            Array(shape=(3, 5, 4), chunks=(2, 3, 3)),
        )
        .reads()
        .reads(selection=[[1, 3], [2, 5], [3, 4]])
    )
    yield (
        _read(
            "numbers-of-several-digits",
            "Grid indices are decimal numbers: chunk 10 comes after chunk 9, not after chunk 1.",
            Array(shape=(12,), chunks=(1,)),
        )
        .reads()
        .lists(*map(str, range(12)))
    )


def _outside() -> Iterator[Case]:
    beyond = {"2": {"path": "gone.bin"}, str(2**53 - 1): {"path": "data.bin", "length": 4}}
    yield (
        standard(
            f"{AREA}/outside-the-grid",
            _SECTION,
            "Keys outside the chunk grid are ignored by readers (an array that was shrunk has "
            "them), and do not exist when chunks are listed.",
            manifest={**beyond, **ENTRIES},
        )
        .reads()
        .lists("0", "1")
    )
    yield standard(
        f"{AREA}/outside-the-grid-is-not-resolved",
        "precedence",
        "What an entry outside the grid says of its source does not matter: neither a location "
        "that nobody authorised nor a path or checksum that is not valid keeps the array from "
        "being read.",
        manifest={
            **ENTRIES,
            "5": {"path": "s3://elsewhere/f.bin"},
            "6": {"path": "a#b"},
            "7": {"path": "data.bin", "checksum": "sum"},
        },
    ).reads()
    case = standard(
        f"{AREA}/bad-entry-outside-the-grid",
        "precedence",
        "Entries are judged by themselves before their keys are, so that one that is not valid may "
        "be refused even outside of the grid. A reader may also never look at it.",
        manifest={**ENTRIES, "9": {"path": 1}},
    )
    either = [case.values(), failure("invalid_entry", "manifest")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})
    yield standard(
        f"{AREA}/outside-the-grid-validate",
        "conformance-classes",
        "A validator reports keys outside the chunk grid: they are usually a mistake in the shape.",
        manifest={**beyond, **ENTRIES},
    ).reports(*(problem("invalid_chunk_key", key) for key in beyond))


def _refused() -> Iterator[Case]:
    for name, key, description, reported in _REFUSED:
        manifest: dict[str, Any] = {"0": ENTRIES["0"], key: ENTRIES["1"]}
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} The chunk that it may mean would otherwise read as fill values.",
            "invalid_chunk_key",
            manifest=manifest,
            reported=reported,
            chunk=key,
        )
    yield from refused_and_reported(
        f"{AREA}/two-spellings",
        _SECTION,
        "A document that names one chunk canonically and by the array's own key contradicts "
        "itself.",
        "invalid_chunk_key",
        manifest={**ENTRIES, "c/1": ENTRIES["0"]},
        chunk="c/1",
    )
    for name, keys, array, description in _OTHER_GRIDS:
        entries, source = array.lay_out("data.bin")
        assert len(entries) == math.prod(array.shape) // math.prod(array.chunks)
        case = Case(f"{AREA}/{name}", _SECTION, description)
        case.array(array=array, manifest={keys.get(key, key): e for key, e in entries.items()})
        yield case.put("a/data.bin", source).refuses("invalid_chunk_key", "manifest")


# Name, key in place of "1" in a one-dimensional array, description, whether a validator is asked.
_REFUSED: list[tuple[str, str, str, bool]] = [
    ("leading-zero", "01", "Numbers in keys have no leading zeros.", True),
    ("negative", "-1", "Grid indices are not negative; -1 is not the last chunk.", True),
    ("plus-sign", "+1", "Numbers in keys have no sign.", False),
    ("space", " 1", "Keys have no spaces, although many parsers of integers skip them.", False),
    ("empty-key", "", "The empty string is no key.", False),
    ("fraction", "1.0", "In one dimension, 1.0 is an index with one number too many.", False),
    ("exponent", "1e0", "Numbers in keys are written in decimal digits.", False),
    ("hexadecimal", "0x1", "Numbers in keys are decimal.", False),
    ("underscore", "0_1", "Numbers in keys have no separators; some languages parse them.", False),
    ("arabic-digits", "\u0661", "Only the digits 0 to 9 of ASCII are digits.", False),
    ("above-the-largest-integer", str(2**53),
     "2^53 is no grid index: not every language holds it exactly. It is not taken for a key "
     "outside of the grid.", True),
    ("huge", "9" * 30, "A number above 2^53-1 is no grid index.", False),
    ("trailing-dot", "1.", "Nothing follows the last number.", False),
    ("own-key-with-other-separator", "c.1", "With the separator /, c.1 is no key of the "
                                            "array.", False),
    ("own-key-with-leading-slash", "/c/1", "The own key is relative to the array: no slash begins "
                                           "it.",
     False),
    ("key-from-the-root", "a/c/1", "The own key is relative to the array, not to the "
                                   "hierarchy.", False),
    ("own-key-with-trailing-slash", "c/1/", "Nothing follows the own key.", False),
    ("unknown-member-of-the-document", "metadata",
     "A document has no members but chunk keys; metadata cannot lie beside them.", True),
]  # fmt: skip

# Name, keys in place of the canonical ones, array, description.
_OTHER_GRIDS: list[tuple[str, dict[str, str], Array, str]] = [
    (
        "too-few-numbers", {"1.0": "1"}, Array(shape=(2, 2), chunks=(1, 2)),
        "A key has one number per dimension: 1 is no chunk of two dimensions, not even where the "
        "second number could only be 0.",
    ),
    (
        "own-key-of-default-in-v2", {"1": "c/1"}, Array(key_encoding=("v2", "/")),
        "The own keys of the encoding v2 do not begin with c: only the array's own encoding "
        "counts.",
    ),
    (
        "zero-dimensional-empty-key", {"0": ""}, _SCALAR,
        "Joining no numbers gives the empty string, which is no key: the chunk of a "
        "zero-dimensional array is 0.",
    ),
    (
        "zero-dimensional-empty-key-of-v2", {"0": ""}, replace(_SCALAR, key_encoding=("v2", "/")),
        "With the encoding v2, too, the chunk of a zero-dimensional array is 0.",
    ),
    (
        "zero-dimensional-own-key-with-a-separator", {"0": "c/"}, _SCALAR,
        "The own key of a zero-dimensional array is c, without a separator.",
    ),
    (
        "slash-in-v2-with-dots", {"1.0": "1/0"},
        Array(shape=(2, 2), chunks=(1, 2), key_encoding=("v2", ".")),
        "With the encoding v2 and the separator '.', 1/0 is no key of the array.",
    ),
    (
        "own-key-without-prefix", {"1.0": "1/0"}, Array(shape=(2, 2), chunks=(1, 2)),
        "With the default encoding, own keys begin with c: 1/0 is not one.",
    ),
]  # fmt: skip
