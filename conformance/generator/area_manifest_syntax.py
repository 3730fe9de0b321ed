"""Area ``manifest-syntax``: the document as JSON, before its entries mean anything."""

from __future__ import annotations

import json
from collections.abc import Iterator

from conformance.generator.case import Case, failure, problem
from conformance.generator.standard import ENTRIES, SOURCE, refused_and_reported, standard

AREA = "manifest-syntax"
_SECTION = "manifest-document"
_TEXT = json.dumps(ENTRIES)
_FIRST, _SECOND = (json.dumps(ENTRIES[key]) for key in ("0", "1"))


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _readable()
    yield from _left_to_the_reader()
    for name, code, document, description, reported in _REFUSED:
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} The document is refused as a whole.",
            code,
            manifest=document,
            reported=reported,
        )


def _readable() -> Iterator[Case]:
    yield standard(
        f"{AREA}/pretty-printed",
        _SECTION,
        "Whitespace of any JSON kind is allowed between tokens: manifests are edited by hand.",
        manifest=b"\r\n\t "
        + json.dumps(ENTRIES, indent="\t").encode().replace(b"\n", b"\r\n")
        + b"\n\n",
    ).reads()
    yield standard(
        f"{AREA}/minified",
        _SECTION,
        "A document without any whitespace reads as well: most writers write such.",
        manifest=json.dumps(ENTRIES, separators=(",", ":")).encode(),
    ).reads()
    yield standard(
        f"{AREA}/members-in-any-order",
        _SECTION,
        "Members of an object have no order: entries may come in any, and so may their members.",
        manifest={
            key: dict(reversed(ENTRIES[key].items())) for key in sorted(ENTRIES, reverse=True)
        },
    ).reads()
    yield standard(
        f"{AREA}/escapes-in-strings",
        _SECTION,
        "Keys, member names and values may be written with JSON escapes: a reader that searches "
        "the text instead of parsing it would find no entry, and return fill values.",
        manifest=(
            rb'{"\u0030": {"p\u0061th": "d\u0061ta.bin", "offset": 4, "length": 4}, '
            rb'"1": {"path": ".\/data.bin", "offset": 8, "length": 4}}'
        ),
    ).reads()
    yield standard(
        f"{AREA}/numbers-in-unknown-members",
        _SECTION,
        "Annotations are ignored, whatever they hold: large integers, fractions and nested objects "
        "in them are nobody's concern.",
        manifest={
            key: {
                **entry,
                "_size": 2**53 - 1,
                "_huge": 2**70,
                "x:mean": -1.5e-300,
                "_nested": {"path": ["other.bin"], "offset": {"0": None}},
            }
            for key, entry in ENTRIES.items()
        },
    ).reads()
    yield (
        standard(
            f"{AREA}/empty-object",
            _SECTION,
            "An empty document is valid: every chunk of the array is missing.",
            manifest={},
        )
        .reads(missing=[(0,), (1,)])
        .lists()
    )


def _numbers() -> Iterator[Case]:
    case = standard(
        f"{AREA}/number-beyond-binary64-in-an-annotation",
        _SECTION,
        "1e400 is JSON, and beyond what most parsers can represent: a reader may ignore it with "
        "its annotation, or refuse the document.",
        manifest=_with_second('"offset": 8, "length": 4, "x:large": 1e400'),
    )
    either = [case.values(), failure("invalid_json", "manifest")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})
    yield standard(
        f"{AREA}/number-beyond-binary64",
        _SECTION,
        "An offset of 1e400 is no integer up to 2^53-1; a parser that cannot represent it may "
        "refuse the document first.",
        manifest=_with_second('"offset": 1e400, "length": 4'),
    ).refuses(["invalid_entry", "invalid_json"], "manifest")
    row = '{"path": "row.bin", "offset": -0, "length": 4}'
    yield (
        standard(
            f"{AREA}/minus-zero",
            _SECTION,
            "-0 is 0, and so an integer from 0 on: the beginning of the source.",
            manifest=f'{{"0": {_FIRST}, "1": {row}}}'.encode(),
        )
        .put("a/row.bin", SOURCE[8:12])
        .reads()
    )


def _left_to_the_reader() -> Iterator[Case]:
    yield from _numbers()
    case = standard(
        f"{AREA}/number-beyond-every-float",
        _SECTION,
        "1e400 in an annotation is a number of JSON that no usual type holds. A reader that "
        "ignores the annotation reads the array, and one whose parser refuses the number says so; "
        "it must not take the chunk for one without an entry.",
        manifest=_with_second('"offset": 8, "length": 4, "_mean": 1e400'),
    )
    refused = failure(["invalid_json", "invalid_entry"], "manifest")
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": [case.values(), refused]})
    case = standard(
        f"{AREA}/byte-order-mark",
        _SECTION,
        "A reader may ignore a byte order mark or refuse it as invalid JSON; it must do one of "
        "both.",
        manifest=b"\xef\xbb\xbf" + _TEXT.encode(),
    )
    values = case.values()
    yield case.ask(
        "read",
        {"array": "a", "selection": None},
        {"any_of": [values, failure("invalid_json", "manifest")]},
    )
    for name, chunk, document in (
        ("member-twice", "0", f'{{"0": {_FIRST}, "0": {_SECOND}, "1": {_SECOND}}}'),
        (
            "member-twice-in-another-spelling",
            "0",
            f'{{"0": {_FIRST}, "\\u0030": {_SECOND}, "1": {_SECOND}}}',
        ),
        (
            "member-of-an-entry-twice",
            "1",
            f'{{"0": {_FIRST}, "1": {_SECOND[:-1]}, "length": 2}}}}',
        ),
    ):
        yield standard(
            f"{AREA}/{name}",
            _SECTION,
            "A document that has a member twice says two things about one chunk: a validator must "
            "report it, because readers differ in which one they take.",
            manifest=document.encode(),
        ).reports(problem("invalid_manifest", chunk))


def _with_second(members: str) -> bytes:
    """Make a document whose second entry has these members beside its path."""
    return f'{{"0": {_FIRST}, "1": {{"path": "data.bin", {members}}}}}'.encode()


_JSON, _MANIFEST = "invalid_json", "invalid_manifest"

# Name, code, document, description, and whether a validator is asked too.
_REFUSED: list[tuple[str, str, bytes, str, bool]] = [
    ("not-json", _JSON, b"0: data.bin 4 4\n1: data.bin 8 4\n",
     "A document that is not JSON is refused.", True),
    ("truncated", _JSON, f'{{"0": {_FIRST}, "1": '.encode(),
     "A document that was cut off (by a failed upload, say) must not be read as far as it goes: "
     "the chunks that are lost would read as fill values.", True),
    ("empty-file", _JSON, b"",
     "A file of no bytes is not an empty manifest: the writer failed.", True),
    ("only-whitespace", _JSON, b" \n",
     "Whitespace alone is not JSON.", False),
    ("not-utf-8", _JSON, _TEXT.replace("data.bin", "d\xe4ta.bin").encode("latin-1"),
     "A document in Latin-1 must be refused, and not be read with replacement characters, which "
     "would name another object.", True),
    ("utf-16", _JSON, _TEXT.encode("utf-16-le"),
     "Manifests are UTF-8; JSON in UTF-16 is not.", False),
    ("null", _MANIFEST, b"null",
     "null is JSON, but no object of entries; it must not read as a manifest without "
     "entries.", True),
    ("list", _MANIFEST, f"[{_FIRST}, {_SECOND}]".encode(),
     "A list of entries has no chunk keys, whatever their order suggests.", True),
    ("string", _MANIFEST, json.dumps(_TEXT).encode(),
     "A string is not an object, even if it holds JSON.", False),
    ("number", _MANIFEST, b"0", "A number is not an object.", False),
    ("trailing-garbage", _JSON, f"{_TEXT}}}".encode(),
     "Nothing may follow the object: what does may be what an overwritten longer file "
     "left.", False),
    ("two-documents", _JSON, f'{{"0": {_FIRST}}}\n{{"1": {_SECOND}}}\n'.encode(),
     "One document is one object; JSON lines are not. A reader that stops after the first object "
     "would return fill values for the rest.", False),
    ("comment", _JSON, f'{{"0": {_FIRST}, /* x */ "1": {_SECOND}}}'.encode(),
     "JSON has no comments.", False),
    ("trailing-comma", _JSON, f'{{"0": {_FIRST}, "1": {_SECOND},}}'.encode(),
     "JSON has no comma after the last member.", False),
    ("single-quotes", _JSON, _TEXT.replace('"', "'").encode(),
     "JSON has no single quotes; Python's repr of a dictionary is not a manifest.", False),
    ("nan", _JSON,
     _with_second('"offset": 8, "length": 4, "_mean": NaN'),
     "JSON has no NaN, not even in members that are otherwise ignored: readers that accept it and "
     "those that do not would disagree about the whole document.", False),
    ("number-with-leading-zero", _JSON,
     _with_second('"offset": 08, "length": 4'),
     "JSON has no numbers with leading zeros; some parsers take them for octal.", False),
    ("lone-surrogate-in-a-path", _JSON,
     f'{{"0": {_FIRST}, "1": {{"path": "data.bin\\ud800"}}}}'.encode(),
     "An escaped lone surrogate is not text: decoders replace it, and would name another "
     "object.", True),
    ("lone-surrogate-in-a-key", _JSON, f'{{"0": {_FIRST}, "1\\udc00": {_SECOND}}}'.encode(),
     "An escaped lone surrogate is not text in a key either.", False),
    ("lone-surrogate-in-an-annotation", _JSON,
     _with_second('"offset": 8, "length": 4, "_n": ["\\ude00\\ud83d"]'),
     "Nowhere in a document is an escaped lone surrogate text, here two of them in the wrong "
     "order, in an annotation that nobody needs.", True),
    ("lone-surrogate-in-a-name", _JSON,
     _with_second('"offset": 8, "length": 4, "_\\ud800\\u0041": 1'),
     "A surrogate before another character is as lone as one before nothing.", False),
    ("raw-control-character", _JSON,
     _with_second('"offset": 8, "length": 4, "_n": "a\nb"'),
     "A line break within a string must be escaped in JSON.", False),
]  # fmt: skip
