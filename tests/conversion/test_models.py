"""Zarr object models: there and back, and as other libraries write and read them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.hierarchies import assert_same, write_hierarchy

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "attributes": {},
    "shape": [4],
    "data_type": "int16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 7,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}


@pytest.fixture(scope="module")
def hierarchy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A hierarchy with every kind of node; and its arrays' values, by path."""
    root = tmp_path_factory.mktemp("models") / "data.zarr"
    return root, write_hierarchy(root)


def as_json(value: object) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.slow
def test_a_hierarchy_there_and_back(hierarchy: tuple[Path, Any], tmp_path: Path) -> None:
    root, values = hierarchy
    model = as_json(zm.to_model(root))
    stores = [zm.ModelStore(model, allow=[root]), tmp_path / "new.zarr"]
    zm.from_model(model, stores[1])
    stores[1] = zm.ManifestStore(stores[1], allow=[root])
    stores.append(pickle.loads(pickle.dumps(stores[0])))
    for store in stores:
        group = zarr.open_group(store, mode="r")
        assert group["a"].attrs["path"] == "a"
        for path in values:
            assert_same(group[path][...], values, path)
    assert as_json(zm.to_model(stores[0])) == model
    assert as_json(zm.to_model(stores[1])) == model


def test_a_manifest_in_partitions_becomes_one(tmp_path: Path) -> None:
    entries = {(n,): {"path": f"s3://b/{n}", "offset": n} for n in (0, 3)}
    options = {"shape": 8, "chunks": 2, "dtype": "u1", "partition_shape": (1,)}
    zm.create_array(tmp_path, "a", entries, **options)
    model: Any = zm.to_model(tmp_path)
    manifest = model["members"]["a"]["storage_transformers"][0]["configuration"]["manifest"]
    assert {key: entry["path"] for key, entry in manifest.items()} == {
        "0": "s3://b/0",
        "3": "s3://b/3",
    }


@pytest.mark.parametrize("entry", [{"data": b"12"}, {"path": "s3://b/0", "length": 2}], ids=str)
@pytest.mark.parametrize("partitions", [None, (1,)])
def test_a_model_does_not_say_where_its_hierarchy_is(
    tmp_path: Path, entry: Any, partitions: tuple[int] | None
) -> None:
    options = {"shape": 4, "chunks": 2, "dtype": "u1", "partition_shape": partitions}
    zm.create_array(tmp_path / "h", "g/a", {(0,): entry, (1,): entry}, base="../../", **options)
    model: Any = zm.to_model(tmp_path / "h")
    zm.from_model(model, tmp_path / "deep" / "h")
    stored = json.loads((tmp_path / "deep" / "h" / "g" / "a" / "zarr.json").read_text())
    for node in (model["members"]["g"]["members"]["a"], stored):
        assert "base" not in node["storage_transformers"][0]["configuration"]
    assert zm.to_model(tmp_path / "deep" / "h") == model


@pytest.mark.slow
def test_xarray_opens_a_model(tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": (("x",), np.arange(6.0), {"units": "K"})}, {"x": np.arange(6)})
    dataset.to_zarr(tmp_path / "native.zarr", consolidated=False)
    store = zm.ModelStore(zm.to_model(tmp_path / "native.zarr"), allow=[tmp_path])
    with xr.open_zarr(store) as opened:
        xr.testing.assert_identical(opened.load(), dataset)


def test_what_cannot_be_referred_to_is_named() -> None:
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="a", data=np.arange(4))
    with pytest.raises(zm.errors.NotConvertibleError, match=r"no URL.*array 'a'"):
        zm.to_model(store)


_names = st.text("abc", min_size=1, max_size=3)
_models = st.recursive(
    st.just(ARRAY),
    lambda nodes: st.builds(
        lambda members, title: {**GROUP, "attributes": {"title": title}, "members": members},
        st.dictionaries(_names, nodes, max_size=3),
        st.text(max_size=5),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(_models)
def test_libraries_of_models_agree(model: dict[str, Any]) -> None:
    """What they write is a model, and what is made of it is one for them."""
    import pydantic_zarr.v3
    import zarr_metadata.model

    is_group = model["node_type"] == "group"
    kind: Any = pydantic_zarr.v3.GroupSpec if is_group else pydantic_zarr.v3.ArraySpec
    theirs = kind(**model)
    ours = zm.to_model(zm.ModelStore(theirs.model_dump()))
    assert kind(**ours).model_dump() == theirs.model_dump()
    for path, node in _flat("", as_json(ours)):
        parse: Any = (
            zarr_metadata.model.ZarrV3ArrayMetadata
            if node["node_type"] == "array"
            else zarr_metadata.model.ZarrV3GroupMetadata
        )
        metadata = {name: value for name, value in node.items() if name != "members"}
        parsed = parse.from_json(metadata).to_json()
        assert zm.to_model(zm.ModelStore(parsed)).get("attributes") == node["attributes"], path


def _flat(path: str, node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    members = node.get("members", {}).items()
    return [(path, node), *(each for name, member in members for each in _flat(name, member))]


@pytest.mark.slow
def test_libraries_accept_manifests(hierarchy: tuple[Path, Any]) -> None:
    import pydantic_zarr.v3
    import zarr_metadata.model

    root, _ = hierarchy
    model = as_json(zm.to_model(root))
    spec = pydantic_zarr.v3.GroupSpec(**model)
    assert as_json(zm.to_model(zm.ModelStore(spec.model_dump()))) == model
    for _, node in _flat("", model):
        if node["node_type"] == "array":
            zarr_metadata.model.ZarrV3ArrayMetadata.from_json(node)


def test_a_model_of_zarr_2(tmp_path: Path) -> None:
    import pydantic_zarr.v2

    old = zarr.create_group(tmp_path / "old.zarr", zarr_format=2, attributes={"title": "old"})
    old.create_array("a", shape=(4,), chunks=(2,), dtype=">i2", fill_value=7)
    spec = pydantic_zarr.v2.GroupSpec.from_zarr(old)
    zm.from_model(spec.model_dump(), tmp_path / "new.zarr")
    group = zarr.open_group(zm.ManifestStore(tmp_path / "new.zarr"), mode="r")
    assert group.attrs["title"] == "old"
    np.testing.assert_array_equal(group["a"][:], np.full(4, 7, ">i2"))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ([], "not an object"),
        ({}, "'zarr_format' is None"),
        ({"zarr_format": 3}, "'node_type' is None"),
        ({**ARRAY, "members": {}}, "it is an array, but has members"),
        ({**GROUP, "members": []}, "'members' is \\[\\]"),
        ({**GROUP, "members": {"a/b": GROUP}}, "'a/b' is not a name"),
        ({**GROUP, "members": {"..": GROUP}}, "'\\.\\.' is not a name"),
        ({**GROUP, "members": {"a": 1}}, "it is 1, not an object.*array 'a'"),
    ],
)
def test_what_is_no_model(model: Any, why: str) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match=why):
        zm.ModelStore(model)


def test_a_model_store_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_group(zm.ModelStore(GROUP), mode="w")


def test_a_hierarchy_is_compared_with_a_model(tmp_path: Path) -> None:
    """Every node that is missing, additional or different, and nothing else."""
    root = tmp_path / "data.zarr"
    model: dict[str, Any] = {**GROUP, "members": dict.fromkeys(("a", "b", "c"), ARRAY)}
    zm.from_model(model, root)
    assert zm.validate(root, model=model) == []

    file = tmp_path / "model.json"
    members = {"a": ARRAY, "b": {**ARRAY, "shape": [6], "fill_value": 0}, "d": GROUP}
    file.write_text(json.dumps({**GROUP, "members": members}))
    assert run("validate", str(root), "--model", str(file)).stdout.splitlines() == [
        "differs_from_model: 'b' 'fill_value' and 'shape' differ",
        "differs_from_model: 'c' is not in the model",
        "differs_from_model: 'd' is missing",
        "3 problems",
    ]


@pytest.mark.slow
def test_the_commands_write_and_read_models(hierarchy: tuple[Path, Any], tmp_path: Path) -> None:
    root, values = hierarchy
    file, target = tmp_path / "model.json", tmp_path / "new.zarr"
    run("export", "model", str(root), str(file))
    assert json.loads(file.read_text()) == as_json(zm.to_model(root))
    run("import", "model", str(file), str(target))
    group = zarr.open_group(zm.ManifestStore(target, allow=[root]), mode="r")
    assert_same(group["a/b/external"][...], values, "a/b/external")
    assert run("export", "model", str(root), str(file)).status == 3
