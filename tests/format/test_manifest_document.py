"""The manifest document: what is valid decodes, what is not says which member and where."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.properties import examples
from zarr_manifest.format import LARGEST_INTEGER, Limits, collect, interpret_document, strict
from zarr_manifest.manifest import Manifest

# No surrogates: they cannot be written as UTF-8.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
STRING_MEMBERS = ("etag", "last_modified", "version", "checksum")
KNOWN = {"path", "offset", "length", "data", *STRING_MEMBERS}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ANNOTATIONS = st.dictionaries(
    TEXT.map(lambda text: f"_{text}") | st.tuples(TEXT, TEXT).map(":".join), JSON_VALUES
)
NOT_UNDERSTOOD = TEXT.filter(
    lambda name: name not in KNOWN and ":" not in name and not name.startswith("_")
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """A valid entry, as Python writes it."""
    entry: dict[str, Any] = {}
    kind = draw(st.sampled_from(["empty", "path", "data"]))
    if kind == "empty":
        return entry
    if kind == "data":
        entry["data"] = base64.b64encode(draw(st.binary(min_size=1, max_size=20))).decode()
        strings: tuple[str, ...] = ("checksum",)
    else:
        entry["path"] = draw(TEXT)
        offset = draw(st.none() | st.integers(0, LARGEST_INTEGER - 1))
        largest = LARGEST_INTEGER - (offset or 0)
        length = draw(st.none() | st.integers(1, largest) | st.just(largest))
        if offset is not None:
            entry["offset"] = offset
        if length is not None:
            entry["length"] = length
        strings = STRING_MEMBERS
    for name in strings:
        if draw(st.booleans()):
            entry[name] = draw(TEXT)
    entry |= draw(ANNOTATIONS)
    return dict(draw(st.permutations(list(entry.items()))))


def without_annotations(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name in KNOWN}


@pytest.mark.slow
@given(
    st.dictionaries(TEXT, entries(), max_size=6),
    st.sampled_from([None, 1]),
    st.booleans(),
)
@examples(0.4)
def test_valid_document_decodes_to_what_was_written(
    document: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    decoded = strict(interpret_document(text, Limits()))
    assert list(decoded) == list(document)
    for key, entry in document.items():
        # A second implementation of the round trip: msgspec omits what is unset.
        assert msgspec.to_builtins(decoded[key]) == without_annotations(entry)


@pytest.mark.slow
@given(entries().filter(bool), NOT_UNDERSTOOD, JSON_VALUES, st.booleans())
def test_a_member_that_is_not_understood_is_refused(
    entry: dict[str, Any], name: str, value: Any, is_first: bool
) -> None:
    entry = {name: value, **entry} if is_first else {**entry, name: value}
    document = json.dumps({"0": {"path": "a"}, "1": entry, "2": {}}, ensure_ascii=False).encode()
    with pytest.raises(zm.errors.InvalidEntryError, match="unknown member") as raised:
        strict(interpret_document(document, Limits()))
    assert raised.value.chunk == "1"
    assert located(raised.value, document).startswith("{")


def test_of_many_problems_each_entry_has_its_own() -> None:
    document = b'{"0": {"path": "a", "ofset": 8}, "1": {"path": 1}, "2": {"_x": 1}, "3": {}}'
    _, problems = collect(interpret_document(document, Limits()))
    assert [(problem.code, problem.chunk) for problem in problems] == [
        ("invalid_entry", "0"),
        ("invalid_entry", "1"),
        ("invalid_entry", "2"),
    ]


@given(st.binary(min_size=1, max_size=20), st.integers(1, 15))
def test_validators_report_unused_bits_of_base64(data: bytes, bits: int) -> None:
    text = base64.b64encode(data).decode()
    body = text.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    unused = bits & {0: 0, 1: 3, 2: 15}[text.count("=")]
    last = alphabet[alphabet.index(body[-1]) | unused]
    document = json.dumps({"0": {"data": body[:-1] + last + text[len(body) :]}}).encode()
    entries, problems = collect(interpret_document(document, Limits(), validating=True))
    assert entries["0"].data == data
    assert [(problem.code, problem.chunk) for problem in problems] == (
        [("invalid_entry", "0")] if unused else []
    )


def located(error: zm.ManifestError, document: bytes) -> str:
    """The text at the position that an error names, which its three numbers agree about."""
    match = re.search(r"at line (\d+), column (\d+) \(byte (\d+)\)", str(error))
    assert match is not None, str(error)
    line, column, byte = map(int, match.groups())
    lines = document.decode(errors="replace").split("\n")
    rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
    assert rest == document[byte:].decode(errors="replace")
    return rest


GOOD = '{"path": "ü.nc", "offset": 1, "length": 2}'
# One of each check; which values it refuses is stated by the conformance corpus.
WRONG_ENTRIES = {
    "no object": ("[1]", "array"),
    "type": ('{"path": "a", "offset": 1.5}', "entry.offset"),
    "range": ('{"path": "a", "offset": 9007199254740992}', "entry.offset"),
    "base64": ('{"data": "YQ"}', "entry.data"),
    "no bytes": ('{"path": "a", "length": 0}', "'length' must not be 0"),
    "far end": ('{"path": "a", "offset": 1, "length": 9007199254740991}', "larger than 2^53-1"),
    "no data": ('{"data": ""}', "'data' must not be empty"),
    "contradiction": ('{"path": "a", "data": ""}', "'path' and 'data'"),
    "no path": ('{"etag": "x"}', "'etag' requires 'path'"),
    "unknown member": ('{"path": "a", "ofset": 8}', "unknown member 'ofset'"),
    "nothing known": ('{"Path": "f.nc"}', "neither 'path' nor 'data'"),
}


@pytest.mark.parametrize(("entry", "says"), WRONG_ENTRIES.values(), ids=WRONG_ENTRIES)
def test_wrong_entry_is_named_and_located(entry: str, says: str) -> None:
    for layout in ('{{"0": {0}, "1.2": {1}}}', '{{\n "0": {0},\n\n  "1.2":\t{1}\n}}'):
        document = layout.format(GOOD, entry).encode()
        with pytest.raises(zm.errors.InvalidEntryError) as raised:
            strict(interpret_document(document, Limits()))
        error = raised.value
        assert error.code == "invalid_entry"
        assert error.chunk == "1.2"
        assert "in member '1.2'" in str(error)
        assert says in str(error)
        assert located(error, document).startswith(entry)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('{"data": "YQ==", "checksum": "md5:00"}', zm.errors.InvalidEntryError),
        ('{"path": "a", "checksum": "crc9:00"}', zm.errors.UnsupportedChecksumError),
        ('{"path": "a", "last_modified": "yesterday"}', zm.errors.InvalidEntryError),
    ],
)
def test_what_the_manifest_refuses_is_located_too(
    entry: str, expected: type[zm.ManifestError]
) -> None:
    document = f'{{"0.0": {GOOD},\n "1.2": {entry}}}'.encode()
    with pytest.raises(expected) as raised:
        Manifest.loads(document, grid_shape=(3, 3))
    assert raised.value.chunk == "1.2"
    assert "in member '1.2'" in str(raised.value)
    assert located(raised.value, document).startswith(entry)


@pytest.mark.slow
@given(st.dictionaries(TEXT, entries(), max_size=3), TEXT)
@examples(0.4)
def test_position_whatever_the_text_around(before: dict[str, Any], key: str) -> None:
    document = json.dumps({**before, key: {"path": 1}}, indent=1, ensure_ascii=False).encode()
    with pytest.raises(zm.errors.InvalidEntryError) as raised:
        strict(interpret_document(document, Limits()))
    assert raised.value.chunk == key
    assert re.match(r'\{\s*"path": 1\s*\}', located(raised.value, document))


@pytest.mark.parametrize(
    ("document", "at"),
    [
        (b" \n ", ""),
        (b'{"0": {"path": "a"}', ""),
        (b"{'0': {}}", "'0'"),
        (b'{"0": {"path": "a", "_x": NaN}}', "NaN"),
        (b'{\n"0": {"path": "a"}\n"1": {}}', '"1"'),
        (b"\xef\xbb\xbf{}", "\ufeff{}"),
    ],
)
def test_what_is_not_json_is_located(document: bytes, at: str) -> None:
    with pytest.raises(zm.errors.InvalidJSONError, match="not JSON") as raised:
        strict(interpret_document(document, Limits()))
    rest = located(raised.value, document)
    assert rest.startswith(at)
    assert at or not rest


@pytest.mark.parametrize(
    "document",
    [
        b'{\n"0": {"path": "\xff"}}',
        b'{\n"\xff": {}}',
        b'{"0": {},\n"1": {"path": "a\xc3"}}',
        b'{"0": {"path": 1,\n"b\xc3": 2}}',  # the decoder ends before
        b'{"0": {"path": "a",\n"b\xc3": 2}}',  # the decoder skips it
    ],
)
def test_what_is_not_utf8_is_located(document: bytes) -> None:
    byte = re.search(rb"[\xff\xc3]", document)
    assert byte is not None
    for validating in (False, True):
        with pytest.raises(zm.errors.InvalidJSONError, match="not UTF-8") as raised:
            strict(interpret_document(document, Limits(), validating=validating))
        assert f"line 2, column {byte.start() - document.index(b'\n')}" in str(raised.value)


def test_wrong_value_of_a_repeated_member() -> None:
    with pytest.raises(zm.errors.InvalidManifestError, match="duplicate member"):
        strict(interpret_document(b'{"0": {"path": 1}, "0": {}}', Limits()))


def test_empty_document() -> None:
    assert strict(interpret_document(b" {} ", Limits())) == {}


@pytest.mark.parametrize(
    "document",
    [
        b'{"0": {"path": %s}}',
        b'{"0": {"path": "a"}, "1": {}, "2": {"y": %s}}',
        b"%s",
    ],
)
def test_deep_nesting_is_refused(document: bytes) -> None:
    for bomb in (b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000 + b"1" + b"}" * 200_000):
        with pytest.raises(zm.ManifestError) as raised:
            strict(interpret_document(document % bomb, Limits()))
        assert raised.value.code in ("limit_exceeded", "invalid_manifest", "invalid_entry")
        assert len(str(raised.value)) < 500


def test_default_limits_are_not_below_those_of_the_specification() -> None:
    limits = Limits()
    assert limits.manifest_bytes >= 2**26
    assert limits.entries >= 10**6
    assert limits.inline_bytes >= 2**24
    assert limits.path_length >= 2048
    assert limits.partitions >= 1000
    nested = b'{"0": {"path": "a", "_x": ' + b"[" * 30 + b"]" * 30 + b"}}"
    assert strict(interpret_document(nested, limits))


def test_limits_are_inclusive() -> None:
    document = b'{"0": {"data": "YWJj"}, "1": {"data": "ZGU="}, "2": {"path": "f.n"}}'
    exact = Limits(manifest_bytes=len(document), entries=3, inline_bytes=5, path_length=3)
    assert len(strict(interpret_document(document, exact))) == 3
    for limits, says in (
        (Limits(manifest_bytes=len(document) - 1), f"{len(document)} bytes"),
        (Limits(entries=2), "3 entries"),
        (Limits(inline_bytes=4), "5 inline bytes"),
        (Limits(path_length=2), "'path' has 3 characters"),
    ):
        with pytest.raises(zm.errors.LimitExceededError, match=says) as raised:
            strict(interpret_document(document, limits))
        assert raised.value.code == "limit_exceeded"
        assert "Raise Limits(" in str(raised.value)


@pytest.mark.parametrize("member", ["path", "etag", "version"])
def test_what_is_sent_to_a_server_is_not_long(member: str) -> None:
    """A document of 65 kB may decode to one path of 2 GiB."""
    entry = {"path": "f.nc", member: "é" * 8192}
    assert strict(interpret_document(json.dumps({"0": entry}).encode(), Limits()))
    entry[member] += "é"
    with pytest.raises(zm.errors.LimitExceededError) as raised:
        strict(interpret_document(json.dumps({"0": entry}).encode(), Limits()))
    assert raised.value.chunk == "0"
    assert f"{member!r} has 8,193 characters, the limit is 8,192" in str(raised.value)
    assert "Limits(path_length=...)" in str(raised.value)
    assert len(str(raised.value)) < 300
