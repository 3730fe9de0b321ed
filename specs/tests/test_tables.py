"""The specification's tables, executed: paths, ranges, checksums, error codes, members."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)

from specs.tests.text import DIRECTORY, DOCUMENTS, section, tables
from specs.tests.verdicts import MANIFEST_SCHEMA, SCHEMA, in_schema
from zarr_manifest import Limits, errors
from zarr_manifest.format.checksums import _REGISTRY, compute_checksum, parse_checksum
from zarr_manifest.format.document_codecs import KNOWN_CODECS
from zarr_manifest.locations import Base, StoreLocation, UrlLocation, known_schemes
from zarr_manifest.sources import source_range
from zarr_manifest.stores import requested_range

REQUESTS = {"whole chunk", "range [a, b)", "from a on", "last k bytes"}


# ---------------------------------------------------------------- paths

(PATHS,) = tables(section("Path resolution"))
ROOT = re.search(r"array `(.+)` of a hierarchy at `(.+)`:$", section("Path resolution"), re.M)


@pytest.mark.parametrize("row", PATHS, ids=" ".join)
def test_path_resolution(row: list[str]) -> None:
    base, path, stated = row
    assert ROOT is not None
    root = Base.parse("./").resolve(ROOT[2])
    assert isinstance(root, UrlLocation)
    try:
        location = Base.parse(base or "./", directory=ROOT[1], root=root).resolve(path)
    except errors.InvalidPathError as error:
        found = error.code
    else:
        within = " in the hierarchy's store" if isinstance(location, StoreLocation) else ""
        found = f"{location}{within}"
    assert found == stated


def test_schemes() -> None:
    sentence = re.search(r"one of ((`\w+`,?\s*)+)", section("Schemes"))
    assert sentence is not None
    schemes = re.findall(r"`(\w+)`", sentence[1])
    assert sorted(schemes) == sorted(known_schemes())
    for scheme in schemes:
        path = f"{scheme}://{'' if scheme == 'file' else 'name'}/f.nc"
        assert in_schema("manifest", {"0": {"path": path}})
        assert in_schema("manifest", {"0": {"path": path.swapcase()}})


# ---------------------------------------------------------------- ranges

(RANGES,) = tables(section("Reading"))
REQUESTED = {request: re.fullmatch(r"\[(.*)\)", bytes_) for request, bytes_ in RANGES}
MINUS_SIGN = "\N{MINUS SIGN}"


def test_range_table_is_complete() -> None:
    assert set(REQUESTED) == REQUESTS
    assert all(REQUESTED.values())


@given(
    st.sampled_from(sorted(REQUESTS)),
    st.integers(0, 2**53),
    st.integers(1, 40),
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted),
    st.booleans(),
)
def test_ranges(name: str, o: int, n: int, bounds: list[int], open_ended: bool) -> None:
    a, b = bounds
    requests: dict[str, ByteRequest | None] = {
        "whole chunk": None,
        "range [a, b)": RangeByteRequest(a, b),
        "from a on": OffsetByteRequest(a),
        "last k bytes": SuffixByteRequest(a),
    }
    formula = REQUESTED[name]
    assert formula is not None
    # Both ends, as the text writes them.
    numbers = {"o": o, "n": n, "a": a, "b": b, "k": a}
    start, stop = eval(formula[1].replace(MINUS_SIGN, "-"), {"min": min}, numbers)
    assert o <= start <= stop <= o + n
    # n is the length, or what the object has beyond the offset.
    size = o + n if open_ended else None
    request = requested_range(requests[name])
    found = source_range(o, None if open_ended else n, request, size=size)
    if name == "last k bytes" and a == 0:
        # No bytes: where they would begin is nobody's business.
        assert found.start == found.stop
    else:
        assert (found.start, found.stop) == (start, stop)


# ---------------------------------------------------------------- checksums

CHECKSUMS = {
    name: (int(digits), level) for name, digits, level, _ in tables(section("Checksums"))[0]
}


#: Files that name each algorithm; CONTRIBUTING.md, "Add a checksum", says what goes there.
NAMING_CHECKSUMS = (
    "zarr_manifest/format/checksums.py",
    "zarr_manifest/command_line/creating.py",
    "specs/chunk-manifest-json/features.md",
    "specs/chunk-manifest-json/manifest.schema.json",
    "specs/tests/vocabulary.py",
    "conformance/adapters/javascript/src/checksums.js",
    "conformance/generator/area_checksums.py",
    "tests/format/test_checksums.py",
)


@pytest.mark.parametrize("name", sorted({*CHECKSUMS, *_REGISTRY}))
def test_an_algorithm_is_named_wherever_one_has_to_be(name: str) -> None:
    named = re.compile(rf"\b{name}\b")
    root = DIRECTORY.parent.parent
    lacking = [p for p in NAMING_CHECKSUMS if not named.search((root / p).read_text("utf-8"))]
    assert not lacking, f"{name} has to be added to {', '.join(lacking)}"


def test_checksum_registry() -> None:
    registered = {name: algorithm.hex_digits for name, algorithm in _REGISTRY.items()}
    assert {name: digits for name, (digits, _) in CHECKSUMS.items()} == registered, (
        f"the table of features.md and the registry differ: change {', '.join(NAMING_CHECKSUMS)}"
    )
    assert {level for _, level in CHECKSUMS.values()} <= {"MUST", "SHOULD", "MAY"}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_checksum(name: str) -> None:
    digits, _ = CHECKSUMS[name]
    computed = compute_checksum(name, b"123456789")
    assert parse_checksum(computed) == (name, computed.partition(":")[2])
    for length in (digits - 1, digits, digits + 1):
        entry = {"path": "f.nc", "checksum": f"{name}:{'a' * length}"}
        assert in_schema("manifest", {"0": entry}) == (length == digits)


# ---------------------------------------------------------------- error codes

CODES = {code: phase for code, _, phase in tables(section("Error codes"))[0]}
FEATURES = tables(section("Optional features"))[0]

# Of what the package does besides reading: converting from other formats, writing.
BEYOND_THE_SPECIFICATION = {"not_convertible", "write_conflict"}


def test_codes_are_those_of_the_package() -> None:
    classes = {getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    classes -= {errors.ManifestError}
    assert {cls.code for cls in classes} - set(CODES) <= BEYOND_THE_SPECIFICATION
    assert set(CODES) <= {cls.code for cls in classes} - BEYOND_THE_SPECIFICATION
    assert len(CODES) == len(tables(section("Error codes"))[0])


def test_every_code_in_the_text_is_in_the_table() -> None:
    text = "\n".join(DOCUMENTS.values())
    stated = set(re.findall(r"\*\(error:\s`(\w+)`\)\*", text)) - {"code"}  # the convention itself
    stated |= set(re.findall(r"\(`(\w+)`\)", section("Precedence")))
    stated |= set(re.findall(r"<!-- invalid \w+: (\w+) -->", text))
    assert stated <= set(CODES)
    elsewhere = text.replace(section("Error codes"), "")
    assert [code for code in CODES if f"`{code}`" not in elsewhere] == []


def test_phases() -> None:
    phases = [name for name, _ in tables(section("Phases"))[0]]
    assert phases == ["declaration", "manifest", "chunk"]
    stated = {code: re.findall("|".join(phases), phase) for code, phase in CODES.items()}
    assert [code for code, named in stated.items() if not named] == ["read_only"]


def test_codes_in_other_tables() -> None:
    absent, denied, failed = tables(DOCUMENTS["transports.md"])[0]
    stated = {absent[1], absent[3], *denied[1:], *failed[1:]}
    stated |= {row[2] for row in FEATURES}
    stated |= {row[1] for row in tables(section("Validators"))[0]}
    assert stated <= set(CODES)
    assert all(phase in CODES[code] for _, _, code, phase in FEATURES)


# ---------------------------------------------------------------- members


def test_members_of_the_configuration() -> None:
    rows = tables(section("Name and configuration"))[0]
    members = {row[0].removesuffix(" (required)"): row[0].endswith("(required)") for row in rows}
    schema = SCHEMA["$defs"]["configuration"]
    assert set(members) == set(schema["properties"])
    assert [name for name, required in members.items() if required] == schema["required"]


def test_members_of_features() -> None:
    """The core leads to each feature from the members that a reader without it refuses."""
    led = {"declaration": tables(section("Name and configuration"))[0]}
    led["entry"] = tables(section("Entries"))[1]
    for feature, stated, _, _ in FEATURES:
        # What follows a comma needs the feature only with some values.
        names, _, owner = re.sub(" of an? ", "|", stated.partition(", or ")[0]).partition("|")
        anchor = re.search(r"\((#.+)\)", feature)
        assert anchor is not None
        rows = [row for row in led[owner] if set(row[0].split(", ")) & set(names.split(", "))]
        assert rows
        assert any(f"(features.md{anchor[1]})" in row[-1] for row in rows)
        assert {name for row in rows for name in row[0].split(", ")} == set(names.split(", "))


def test_members_of_entries() -> None:
    forms, members = tables(section("Entries"))
    names = [name for row in members for name in row[0].split(", ")]
    schema = MANIFEST_SCHEMA["$defs"]["entry"]
    assert sorted(names) == sorted(schema["properties"])
    needs_path = {name for row in members if row[2] == "path" for name in row[0].split(", ")}
    assert needs_path == set(schema["dependentRequired"])
    values = {"P": '"f.nc"', "D": '"AQI="', "o": "3", "n": "4"}
    for form, _ in forms[:-1]:
        entry = re.sub(r"\b[PDon]\b", lambda match: values[match[0]], form)
        assert in_schema("manifest", {"0": json.loads(entry)})


# ---------------------------------------------------------------- codecs, limits


def test_codecs_of_documents() -> None:
    stated = {name: level for name, level, _ in tables(section("Encoded manifests"))[0]}
    assert set(stated) == set(KNOWN_CODECS)
    assert set(stated.values()) == {"MUST", "SHOULD"}


def test_defaults_admit_what_the_text_asks_for() -> None:
    least = {name: _number(text) for name, _, text in tables(section("Limits"))[0]}
    assert least.pop("nesting") == 32
    assert least["manifest_bytes"] == 2**26
    assert {name for name in least if getattr(Limits(), name) < least[name]} == set()


def _number(text: str) -> int:
    """A number with thousands separators, or a power."""
    match = re.fullmatch("([0-9,]+)([⁰¹²³⁴-⁹]*)", text)
    assert match is not None
    power = match[2].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    return int(match[1].replace(",", "")) ** int(power or 1)
