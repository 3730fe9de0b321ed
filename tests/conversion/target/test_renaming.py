"""Nodes whose names Zarr does not allow get others, and what refers to them follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.conversion.inline_nodes import inline_manifest, metadata, read, vector
from zarr_manifest.conversion import ArrayNode, GroupNode, RefusedNode, write_hierarchy


def named(path: str, *dimensions: str, **attributes: Any) -> ArrayNode:
    more = {"dimension_names": list(dimensions), "attributes": attributes}
    shape = [1] * len(dimensions)
    manifest = inline_manifest({(0,) * len(shape): 7}, (1,) * len(shape))
    return ArrayNode(path, metadata(shape, shape, **more), manifest)


def node(store: MemoryStore, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store._store_dict[f"{path}/zarr.json"].to_bytes())
    return found


def test_the_name_that_xarray_gives_to_arrays_without_one() -> None:
    store = MemoryStore()
    old = "__xarray_dataarray_variable__"
    report = write_hierarchy(store, [vector(old, [1, 2]), vector(f"g/{old}", [3])], inline_below=0)
    assert report.refused == []
    assert read(store, "xarray_dataarray_variable") == [1, 2]
    assert read(store, "g/xarray_dataarray_variable") == [3]
    assert report.notes == [
        (path, f"it was named {old!r}")
        for path in ("xarray_dataarray_variable", "g/xarray_dataarray_variable")
    ]


def test_new_names_of_arrays_and_groups() -> None:
    store = MemoryStore()
    nodes = [
        GroupNode("__g", {"title": "kept"}),
        vector("__g/__v", [1]),
        vector("__g/w", [2]),
        vector("__xarray_dataarray_variable__", [3]),
        RefusedNode("__g/bad", "not_convertible", "for some reason"),
    ]
    rename = {"/__g/": "g", "__g/__v": "v", "__xarray_dataarray_variable__": "sst", "no/x": "y"}
    report = write_hierarchy(store, nodes, rename=rename, inline_below=0)
    assert [refused.path for refused in report.refused] == ["__g/bad"]
    assert read(store, "g/v") == [1]
    assert read(store, "g/w") == [2]
    assert read(store, "sst") == [3]
    assert node(store, "g")["attributes"] == {"title": "kept"}
    assert sorted(report.notes) == [
        ("g", "it was named '__g'"),
        ("g/v", "it was named '__v'"),
        ("no/x", "there is no such node: its new name was ignored"),
        ("sst", "it was named '__xarray_dataarray_variable__'"),
    ]


def test_dimensions_and_references_to_other_variables_follow() -> None:
    store = MemoryStore()
    nodes = [
        GroupNode("g", {"coordinates": "__lat other", "title": "__time __lat"}),
        named("g/__time", "__time", units="days"),
        named("g/__lat", "y"),
        named("g/v", "__time", "y", coordinates="__lat lon", cell_measures="area: __lat"),
        named("other/v", "__time", coordinates="__lat"),
    ]
    report = write_hierarchy(
        store, nodes, rename={"g/__time": "time", "g/__lat": "lat"}, inline_below=0
    )
    assert report.refused == []
    assert node(store, "g")["attributes"] == {"coordinates": "lat other", "title": "__time __lat"}
    assert node(store, "g/time")["dimension_names"] == ["time"]
    assert node(store, "g/v")["dimension_names"] == ["time", "y"]
    expected = {"coordinates": "lat lon", "cell_measures": "area: lat"}
    assert node(store, "g/v")["attributes"] == expected
    # Another group has other variables.
    assert node(store, "other/v")["dimension_names"] == ["__time"]
    assert node(store, "other/v")["attributes"] == {"coordinates": "__lat"}


def test_a_new_name_that_is_taken() -> None:
    report = write_hierarchy(
        MemoryStore(), [vector("a", [1]), vector("b", [2])], rename={"b": "a"}, inline_below=0
    )
    assert [(refused.path, refused.reason) for refused in report.refused] == [
        ("a", "there is already a node at this path")
    ]


@pytest.mark.parametrize("name", ["", "a/b", "..", "__x", "zarr.json", "a\n"])
def test_names_that_zarr_does_not_allow(name: str) -> None:
    store = MemoryStore()
    with pytest.raises(zm.errors.InvalidPathError, match="cannot be renamed to"):
        write_hierarchy(store, [vector("a", [1])], rename={"a": name}, inline_below=0)
    assert store._store_dict == {}


def test_the_refusal_names_the_remedy() -> None:
    report = write_hierarchy(
        MemoryStore(), [vector("a/__g/b", [1]), vector("..", [1])], inline_below=0
    )
    group, dots = (refused.reason for refused in report.refused)
    assert group.endswith("the name '__g'. Give it another: rename={'a/__g': ...}.")
    assert dots.endswith("the name '..'")


def test_the_command_line(tmp_path: Path) -> None:
    array = xr.DataArray(np.arange(3), dims="x")
    array.to_netcdf(tmp_path / "f.nc", engine="netcdf4")
    run("create", f"{tmp_path}/f.nc", f"{tmp_path}/first.zarr")
    assert (tmp_path / "first.zarr/xarray_dataarray_variable/zarr.json").exists()
    old = "__xarray_dataarray_variable__"
    options = ["--rename", f"{old}=sst", "--rename", "nothing=x"]
    done = run("create", f"{tmp_path}/f.nc", f"{tmp_path}/second.zarr", *options)
    assert done.status == 0
    assert f"/sst: it was named {old!r}" in done.stderr
    assert "/nothing: there is no such node" in done.stderr
    assert (tmp_path / "second.zarr/sst/zarr.json").exists()
    done = run("create", f"{tmp_path}/f.nc", f"{tmp_path}/third.zarr", "--rename", "sst")
    assert done.status == 2
    assert "--rename takes KEY=VALUE" in done.stderr


def test_references_to_reserved_names(tmp_path: Path) -> None:
    zarray = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "order": "C"}
    zarray |= {"fill_value": 0, "filters": None, "compressor": None}
    refs: dict[str, Any] = {"__v/.zarray": json.dumps(zarray), "__v/0": ["s3://b/f.nc", 0, 1]}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    done = run("import", "kerchunk", f"{tmp_path}/refs.json", f"{tmp_path}/h.zarr")
    assert done.status == 1
    assert "Give it another: --rename __v=NEW." in done.stderr
    options = ["--rename", "__v=v", "--overwrite"]
    done = run("import", "kerchunk", f"{tmp_path}/refs.json", f"{tmp_path}/h.zarr", *options)
    assert done.status == 0
