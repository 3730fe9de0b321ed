"""The schemas and the package agree, but for the differences that are listed with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zarr.registry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from specs.tests.differences import (
    BEYOND_THE_READER,
    BEYOND_THE_SCHEMAS,
    Case,
    Difference,
)
from specs.tests.documents import (
    bases,
    declarations,
    hostile_references,
    manifests,
    transformer_lists,
)
from specs.tests.faults import (
    declaration_faults,
    list_faults,
    manifest_faults,
    references,
)
from specs.tests.verdicts import (
    ARRAY,
    MANIFEST_SCHEMA,
    REGISTRY,
    SCHEMA,
    in_package,
    in_schema,
)
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations.resolving import Base

SCHEMAS = [SCHEMA, MANIFEST_SCHEMA]

# The same documents in every run: a difference that is found tomorrow is not yesterday's mistake.
bounded = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def unexplained(kind: str, value: Any, code: str | None) -> bool:
    """Whether the schema disagrees with the package's code, and no difference says why."""
    accepted = in_schema(kind, value)
    listed = BEYOND_THE_SCHEMAS if accepted else BEYOND_THE_READER
    case = Case(kind, value)
    agreed = accepted == (code is None)
    return not agreed and not any(difference.applies(case) for difference in listed.values())


def assert_agreement(kind: str, value: Any) -> None:
    code = in_package(kind, value)
    assert not unexplained(kind, value, code), f"the package says {code}"


# ---------------------------------------------------------------- every single fault


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("manifest", manifest_faults),
        ("declaration", declaration_faults),
        ("storage_transformers", list_faults),
    ],
)
def test_single_faults(kind: str, faults: Callable[[], Iterator[Any]]) -> None:
    values = list(faults())
    found = [value for value in values if unexplained(kind, value, in_package(kind, value))]
    assert found == []
    assert len(values) > 100


def test_references_one_by_one() -> None:
    here = Base.parse("./", directory=ARRAY)
    found: list[tuple[str, str]] = []
    for text in references():
        resolved = _code(lambda text=text: here.resolve(text))
        base = _code(lambda text=text: Base.parse(text, directory=ARRAY))
        # As a path, as a base, and as the reference of a manifest document.
        for kind, code in (
            ("path", resolved),
            ("from_array", base),
            ("manifest_reference", resolved),
        ):
            if unexplained(kind, text, code):
                found.append((kind, text))
    assert found == []


def _code(resolve: Callable[[], object]) -> str | None:
    try:
        resolve()
    except InvalidPathError as error:
        return error.code
    return None


# ---------------------------------------------------------------- many at once


def _declaration(**configuration: Any) -> dict[str, Any]:
    return {"name": "chunk-manifest-json", "configuration": configuration}


@given(manifests())
@bounded
def test_manifests(manifest: Any) -> None:
    assert_agreement("manifest", manifest)


@given(declarations())
@bounded
def test_declarations(declaration: Any) -> None:
    assert_agreement("declaration", declaration)


@given(
    st.just({"must_understand": True})
    | st.dictionaries(
        st.sampled_from(["must_understand", "name"]),
        st.booleans() | st.none() | st.integers(0, 1) | st.text(max_size=2),
    )
    | st.none()
    | st.booleans()
    | st.lists(st.none(), max_size=1)
)
@bounded
def test_locks(lock: Any) -> None:
    assert_agreement("lock", lock)


@given(hostile_references, bases)
@bounded
def test_references(path: str, base: str) -> None:
    assert_agreement("declaration", _declaration(manifest={"0.0": {"path": path}}, base=base))


@given(transformer_lists())
@settings(bounded, max_examples=60)
def test_lists_of_transformers(transformers: Any) -> None:
    parts = transformers if isinstance(transformers, list) else []
    # A list disagrees where one of its declarations does.
    if not any(_is_ours(part) and _disagreed(part) for part in parts):
        assert_agreement("storage_transformers", transformers)


def _is_ours(transformer: Any) -> bool:
    return isinstance(transformer, dict) and transformer.get("name") == "chunk-manifest-json"


def _disagreed(declaration: Any) -> bool:
    code = in_package("declaration", declaration)
    return in_schema("declaration", declaration) != (code is None)


@given(st.text(max_size=6))
@settings(bounded, max_examples=100)
def test_any_text_as_key_and_as_path(text: str) -> None:
    assert_agreement("manifest", {text: {}})
    assert_agreement("manifest", {"0.0": {"path": text}})


# ---------------------------------------------------------------- differences


@pytest.fixture
def suffixed_keys() -> None:
    """A chunk key encoding that the specification does not know."""
    register = getattr(zarr.registry, "register_chunk_key_encoding", None)
    if register is None:
        pytest.skip("this zarr has no registry of chunk key encodings")
    from zarr.core.chunk_key_encodings import V2ChunkKeyEncoding

    class Suffixed(V2ChunkKeyEncoding):
        name = "suffixed"

        def decode_chunk_key(self, chunk_key: str) -> tuple[int, ...]:
            return super().decode_chunk_key(chunk_key.removesuffix(".tiff"))

        def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
            return f"{super().encode_chunk_key(chunk_coords)}.tiff"

    register("suffixed", Suffixed)


@pytest.mark.parametrize("name", BEYOND_THE_SCHEMAS)
def test_schema_accepts_what_the_package_refuses(name: str) -> None:
    difference = BEYOND_THE_SCHEMAS[name]
    case = difference.example
    assert in_schema(case.kind, case.value)
    assert in_package(case.kind, case.value) is not None
    assert_only(difference, case, BEYOND_THE_SCHEMAS)


@pytest.mark.parametrize("name", BEYOND_THE_READER)
def test_schema_refuses_what_the_package_accepts(name: str, suffixed_keys: None) -> None:
    difference = BEYOND_THE_READER[name]
    case = difference.example
    assert not in_schema(case.kind, case.value)
    assert in_package(case.kind, case.value, **difference.metadata) is None
    assert_only(difference, case, BEYOND_THE_READER)


def assert_only(difference: Difference, case: Case, listed: dict[str, Difference]) -> None:
    """An example shows its own difference and no other one."""
    assert [other for other in listed.values() if other.applies(case)] == [difference]
    assert difference.reason


def test_differences_are_no_licence() -> None:
    """What no difference is about must be agreed upon: here is one of each."""
    for value in ({"0.0": {"path": "f"}}, {"0.0": {"path": "f\\g"}}):
        case = Case("manifest", value)
        listed = [*BEYOND_THE_SCHEMAS.values(), *BEYOND_THE_READER.values()]
        assert not any(difference.applies(case) for difference in listed)
        assert in_schema("manifest", value) == (in_package("manifest", value) is None)


# ---------------------------------------------------------------- the schemas themselves


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["title"])
def test_schema_is_valid(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert "://" not in schema["$id"]  # nothing is fetched


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["title"])
def test_examples_of_the_schemas_are_valid(schema: dict[str, Any]) -> None:
    found = list(_examples(schema))
    assert len(found) > 5
    for pointer, value in found:
        part = {"$ref": f"{schema['$id']}#{pointer}"}
        assert Draft202012Validator(part, registry=REGISTRY).is_valid(value), value


def _examples(part: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every example, and where the part of the schema is that it stands in."""
    if isinstance(part, dict):
        for value in part.get("examples", []):
            yield pointer, value
        for name, member in part.items():
            yield from _examples(member, f"{pointer}/{name}")
    elif isinstance(part, list):
        for number, member in enumerate(part):
            yield from _examples(member, f"{pointer}/{number}")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["title"])
def test_patterns_are_portable(schema: dict[str, Any]) -> None:
    """No look-around and no escapes that only some engines know."""
    text = json.dumps(schema)
    assert "(?" not in text
    assert "\\\\u" not in text
