"""Declarations in ``zarr.json``: hidden and put back, and nothing else touched."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import (
    ArrayMetadata,
    arrays_in,
    collect,
    declare,
    dump_node,
    interpret_codecs,
    interpret_members,
    parse_node,
    strict,
    undeclared_kind,
    without_declarations,
)

OURS = [{"name": "chunk-manifest-json", "configuration": {"manifest": "./m.json"}}]
NAMES = st.text("abc", min_size=1, max_size=3)
ATTRIBUTES = st.dictionaries(NAMES, st.integers() | st.text(max_size=3), max_size=2)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    node: dict[str, Any] = {"node_type": "array", "attributes": draw(ATTRIBUTES)}
    if draw(st.booleans()):
        node["storage_transformers"] = draw(st.sampled_from([OURS, []]))
    if draw(st.booleans()):
        node["chunk-manifest-json"] = {"must_understand": True}
    return node


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """An array, or a group with or without consolidated metadata."""
    if draw(st.booleans()):
        return draw(arrays())
    group: dict[str, Any] = {"node_type": "group", "attributes": draw(ATTRIBUTES)}
    kind = draw(st.sampled_from(["absent", "null", "there"]))
    if kind == "null":
        group["consolidated_metadata"] = None
    elif kind == "there":
        inner = st.just({"node_type": "group", "attributes": {}})
        paths = st.lists(NAMES, min_size=1, max_size=2).map("/".join)
        members = draw(st.dictionaries(paths, arrays() | inner, max_size=3))
        group["consolidated_metadata"] = {"kind": "inline", "metadata": members}
    return group


@given(nodes())
def test_hidden_and_put_back(node: dict[str, Any]) -> None:
    original = copy.deepcopy(node)
    declared = {array.path: array.declaration for array in arrays_in(node)}
    shown = parse_node(without_declarations(node))
    assert shown is not None
    assert b"storage_transformers" not in dump_node(shown)
    assert b"must_understand" not in dump_node(shown)
    for array in arrays_in(shown):
        assert array.declaration == {}
        assert array.undeclared == array.metadata
        declare(array, declared[array.path])
    for array in arrays_in(original):
        if array.metadata.get("storage_transformers") == []:
            del array.metadata["storage_transformers"]
    assert shown == original
    assert parse_node(dump_node(shown)) == original


def test_paths_of_consolidated_arrays() -> None:
    array = {"node_type": "array"}
    inner = {
        "node_type": "group",
        "consolidated_metadata": {"metadata": {"deep": array}},
    }
    members = {"a": array, "g": inner, "g/b": array, "junk": 5}
    group = {"node_type": "group", "consolidated_metadata": {"metadata": members}}
    assert [found.path for found in arrays_in(group)] == ["a", "g/deep", "g/b"]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"node_type": "group"},
        {"node_type": "group", "consolidated_metadata": []},
        {"node_type": "group", "consolidated_metadata": {}},
        {"node_type": "group", "consolidated_metadata": {"metadata": ["a"]}},
    ],
)
def test_no_arrays(node: dict[str, Any]) -> None:
    assert list(arrays_in(node)) == []


def test_null_declares_nothing() -> None:
    assert ArrayMetadata("", {"storage_transformers": None}).declaration == {}


def test_an_array_with_a_lock_is_not_plain() -> None:
    node = {"node_type": "array", "chunk-manifest-json": {"must_understand": True}}
    assert undeclared_kind(dump_node(node)) is None
    assert undeclared_kind(dump_node({"node_type": "array"})) == "array"


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 90, b'"node_type"']
)
def test_not_a_node(document: bytes) -> None:
    assert parse_node(document) is None


TEXTS = st.text('[]{}"\\é', max_size=4)


@given(
    st.lists(TEXTS | st.none(), min_size=95, max_size=105),
    TEXTS,
    st.sampled_from(["utf-8", "utf-16", "utf-32-le"]),
    st.booleans(),
)
def test_levels_are_counted_outside_of_texts(
    names: list[str | None], text: str, encoding: str, ascii: bool
) -> None:
    node: Any = text
    for name in names:
        node = [text, node] if name is None else {name: node, name + "]": text}
    document = json.dumps({"attributes": node}, ensure_ascii=ascii).encode(encoding)
    if len(names) < 100:
        assert parse_node(document) == {"attributes": node}
    else:
        with pytest.raises(zm.errors.LimitExceededError):
            parse_node(document)


@pytest.mark.parametrize("levels", [100, 900, 100_000])
def test_nested_too_deeply(levels: int) -> None:
    with pytest.raises(zm.errors.LimitExceededError, match="100 levels"):
        parse_node(b'{"a":' + b"[" * levels + b"]" * levels + b"}")
    assert parse_node(b'{"a":' + b"[" * 99 + b"]" * 99 + b', "b": "[[{{\\"["}') is not None


def test_what_zarr_writes_but_json_does_not_know() -> None:
    node = parse_node(b'{"attributes": {"x": NaN, "y": [Infinity, -Infinity]}}')
    assert node is not None
    assert math.isnan(node["attributes"]["x"])
    assert json.loads(dump_node(node))["attributes"]["y"] == [math.inf, -math.inf]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_nodes_are_written_as_zarr_writes_them(node: dict[str, Any]) -> None:
    assert dump_node(node) == json.dumps(node, indent=2).encode()


VALID = {
    "shape": [],
    "data_type": "int8",
    "chunk_grid": {"name": "regular"},
    "chunk_key_encoding": "default",
    "codecs": [{"name": "bytes"}],
    "fill_value": 0,
    "zarr_format": 3,
}


def test_valid_members() -> None:
    strict(interpret_members(VALID))
    strict(interpret_members({**VALID, "data_type": {"name": "x"}, "unknown": None}))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        *((name, ..., "missing") for name in [*VALID][:5]),
        ("shape", None, "null"),
        ("codecs", 3, "3"),
        ("chunk_grid", True, "true"),
    ],
)
def test_invalid_member_is_named(name: str, value: Any, found: str) -> None:
    metadata = {k: v for k, v in VALID.items() if k != name}
    if value is not ...:
        metadata[name] = value
    with pytest.raises(
        zm.errors.InvalidConfigurationError, match=f"'{name}' is {found}, not a"
    ) as raised:
        strict(interpret_members(metadata))
    assert raised.value.code == "invalid_configuration"


def test_another_zarr_format_is_named() -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match="'zarr_format' is"):
        strict(interpret_members({**VALID, "zarr_format": True}))


def test_fill_value_is_required_but_may_be_anything() -> None:
    strict(interpret_members({**VALID, "fill_value": None}))
    with pytest.raises(
        zm.errors.InvalidConfigurationError, match="'fill_value' is missing, not a value"
    ):
        strict(interpret_members({k: v for k, v in VALID.items() if k != "fill_value"}))


def test_long_values_are_cut() -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError) as raised:
        strict(interpret_members({**VALID, "codecs": "x" * 10_000}))
    assert len(str(raised.value)) < 300


BLOSC = {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}


@pytest.mark.parametrize(
    ("name", "changed", "wrong"),
    [
        ("blosc", {}, []),
        ("blosc", {"typesize": 2000, "clevel": 0, "blocksize": 2**20}, []),
        ("blosc", {"clevel": 32768, "shuffle": 3}, ["clevel", "shuffle"]),
        ("blosc", {"clevel": True, "typesize": 4.0}, ["clevel", "typesize"]),
        ("blosc", {"clevel": None, "blocksize": [1]}, ["clevel", "blocksize"]),
        ("blosc", {"typesize": 0, "blocksize": -1}, ["typesize", "blocksize"]),
        ("numcodecs.blosc", {"shuffle": -1}, []),
        ("numcodecs.blosc", {"clevel": -1}, ["clevel", "shuffle"]),
        ("zstd", {"clevel": 99}, []),
    ],
)
@pytest.mark.parametrize("sharded", [False, True])
def test_codecs_that_are_not_configured_validly(
    name: str, changed: dict[str, Any], wrong: list[str], sharded: bool
) -> None:
    codecs: list[Any] = ["bytes", {"name": name, "configuration": {**BLOSC, **changed}}]
    if sharded:
        codecs = [{"name": "sharding_indexed", "configuration": {"codecs": codecs}}]
    _, errors = collect(interpret_codecs(codecs))
    found = [error.problem for error in errors]
    assert len(found) == len(wrong)
    for problem in found:
        assert problem.startswith(f"the codec {name!r} is not configured validly: ")
    assert {member for member in wrong if repr(member) in " ".join(found)} == set(wrong)
