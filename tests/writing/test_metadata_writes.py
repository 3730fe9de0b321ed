"""Metadata of a hierarchy with manifest arrays change in an edit, and nowhere else."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core.sync import sync
from zarr.storage import LocalStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.counted_requests import Requests
from tests.hierarchies import consolidate, files_below, read, written_once
from tests.hierarchies import in_memory as hierarchy_in_memory
from zarr_manifest.format import document_checksum

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized"),
]

VALUES = np.arange(1, 7, dtype="i4")
ARRAY: dict[str, Any] = {
    "shape": 6, "chunks": 2, "dtype": "i4", "fill_value": -1, "dimension_names": ["t"],
    "compressors": None,
}  # fmt: skip


@functools.cache
def new() -> xr.Dataset:
    """Return more of the arrays; made here, because it imports dask."""
    return xr.Dataset({"m": ("t", VALUES[:2]), "n": ("t", VALUES[:2])}, attrs={"title": "new"})


@functools.cache
def more() -> xr.Dataset:
    """Return another array."""
    return xr.Dataset({"more": ("t", VALUES)}, attrs={"title": "more"})


@written_once
def write(root: Path, *manifests: str) -> Path:
    """Write arrays "m" and "n" in the root and in a group "g", of which some have a manifest."""
    zarr.create_group(root).create_group("g")
    for path in ("m", "n", "g/m", "g/n"):
        zarr.create_array(root / path, **ARRAY)[:] = VALUES
    for path in manifests:
        entries = {(i,): {"data": VALUES[2 * i : 2 * i + 2].tobytes()} for i in range(3)}
        zm.write_manifest(root, path, entries, inline=False)
    return root


# By name: what zarr or xarray does with the root.
OPERATIONS: dict[str, Callable[[Any], object]] = {
    "attributes of the root": lambda root: root.attrs.update(title="new"),
    "attributes of a group": lambda root: root["g"].attrs.put({"title": "new"}),
    "attributes of a manifest array": lambda root: root["g/m"].attrs.update(units="K"),
    "attributes of a native array": lambda root: root["n"].update_attributes({"units": "K"}),
    "grow a manifest array": lambda root: root["m"].resize(9),
    "grow a native array": lambda root: root["g/n"].resize(9),
    "shrink a manifest array": lambda root: root["m"].resize(3),
    "shrink a native array": lambda root: root["g/n"].resize(3),
    "append": lambda root: root["g/n"].append(VALUES[:3]),
    "append to a manifest array": lambda root: root["m"].append(VALUES[:3]),
    "create a group": lambda root: root.create_group("x/y"),
    "create an array": lambda root: root.create_array("g/x", data=VALUES, chunks=2),
    "overwrite a manifest array": lambda root: root.create_array(
        "m", data=VALUES[:4], chunks=2, overwrite=True
    ),
    "overwrite a native array": lambda root: root.create_array(
        "g/n", data=VALUES[:4], chunks=2, overwrite=True
    ),
    "overwrite a group": lambda root: root.create_group("g", overwrite=True),
    "overwrite a group by an array": lambda root: root.create_array(
        "g", data=VALUES, overwrite=True
    ),
    "delete a manifest array": lambda root: root.__delitem__("g/m"),
    "delete a native array": lambda root: root.__delitem__("n"),
    "delete a group": lambda root: root.__delitem__("g"),
    "append a dataset": lambda root: new().to_zarr(root.store, append_dim="t", consolidated=False),
    "add a variable": lambda root: more().to_zarr(root.store, mode="a", consolidated=False),
    "add a variable to a group": lambda root: more().to_zarr(
        root.store, group="g", mode="a", consolidated=False
    ),
    "write all anew": lambda root: more().to_zarr(root.store, mode="w", consolidated=False),
}
# These say nothing in a comparison with a hierarchy that only zarr has written.
OTHERS: dict[str, Callable[[Any], object]] = {
    "consolidate": lambda root: zarr.consolidate_metadata(root.store),
    "create the root": lambda root: zarr.open_group(root.store, mode="w"),
    "clear": lambda root: sync(root.store.clear()),
    "delete a directory": lambda root: sync(root.store.delete_dir("g/n")),
    "delete chunks": lambda root: sync(root.store.delete_dir("n/c")),
    "delete metadata": lambda root: root.store.delete_sync("g/n/zarr.json"),
    "set metadata": lambda root: root.store.set_sync(
        "g/n/zarr.json", root.store.get_sync("g/n/zarr.json")
    ),
    "metadata of Zarr v2": lambda root: root.store.set_sync(
        "g/.zattrs", root.store.get_sync("n/c/0")
    ),
    "set if it does not exist": lambda root: sync(
        root.store.set_if_not_exists("x/zarr.json", root.store.get_sync("zarr.json"))
    ),
}


def opened(store: Any, *, consolidated: bool) -> Any:
    return zarr.open_group(store, mode="r+", use_consolidated=consolidated)


@pytest.mark.parametrize("name", [*OPERATIONS, *OTHERS])
def test_outside_of_an_edit_nothing_changes(name: str, tmp_path: Path) -> None:
    root = write(tmp_path / "h", "m", "g/m")
    operation = {**OPERATIONS, **OTHERS}[name]
    for consolidated in (False, True):
        if consolidated:
            consolidate(root)
        before = files_below(root)
        with pytest.raises(zm.errors.ReadOnlyError, match=r"zarr_manifest\.edit"):
            operation(opened(zm.ManifestStore(root), consolidated=consolidated))
        assert files_below(root) == before


def state(store: Any, *, consolidated: bool) -> dict[str, Any]:
    root = opened(store, consolidated=consolidated)
    return {
        path: (dict(node.attrs), node[:].tolist() if isinstance(node, zarr.Array) else None)
        for path, node in [("", root), *root.members(max_depth=None)]
    }


@pytest.mark.slow
@pytest.mark.parametrize(("consolidated", "name"), crossed([True, False], OPERATIONS))
def test_in_an_edit_zarr_does_what_it_does_without_manifests(
    consolidated: bool, name: str, tmp_path: Path
) -> None:
    plain = write(tmp_path / "plain")
    OPERATIONS[name](opened(LocalStore(plain), consolidated=False))
    expected = state(plain, consolidated=False)
    root = write(tmp_path / "h", "m", "g/m")
    if consolidated:
        consolidate(root)
    with zm.edit(root) as group:
        OPERATIONS[name](group)
        assert state(group.store, consolidated=False) == expected
    for use in {False, consolidated}:
        assert state(zm.ManifestStore(root), consolidated=use) == expected
    assert zm.validate(root) == []


@pytest.mark.slow
def test_consolidating_in_an_edit(tmp_path: Path) -> None:
    """Also once copies that say something else have been replaced, which is refused unasked."""
    root = write(tmp_path / "h", "m", "g/m")
    own = files_below(root)
    for is_stale in (False, True):
        if is_stale:
            with pytest.raises(zm.errors.InvalidConfigurationError), zm.edit(root) as group:
                zarr.consolidate_metadata(group.store)
            assert zm.recover(root, trust="own") == ["g/m"]
        with zm.edit(root) as group:
            zarr.consolidate_metadata(group.store)
        found = state(zm.ManifestStore(root), consolidated=True)
        assert found == state(zm.ManifestStore(root), consolidated=False)
        assert len(found) == 6
        assert {**files_below(root), "zarr.json": b""} == {**own, "zarr.json": b""}
        stale = json.loads((root / "zarr.json").read_text())
        stale["consolidated_metadata"]["metadata"]["g/m"]["shape"] = [4]
        (root / "zarr.json").write_text(json.dumps(stale))


# Values of native arrays ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["BatchedCodecPipeline", "FusedCodecPipeline"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_native_values_are_written(pipeline: str, in_memory: bool, tmp_path: Path) -> None:
    """Also fill values, for which zarr deletes chunks; and in shards."""
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, pipeline):
        pytest.skip(f"zarr {zarr.__version__} has no {pipeline}")
    root = write(tmp_path, "m")
    sharded = {**ARRAY, "chunks": (2,), "shards": (4,), "compressors": "auto"}
    zarr.create_array(root / "s", **sharded)[:] = VALUES
    location: Any = hierarchy_in_memory(root) if in_memory else root
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
        store = zm.ManifestStore(location)
        for path in ("n", "g/n", "s"):
            array: Any = zarr.open_array(store, path=path, mode="r+")
            array[1:5] = -1
            assert array[:].tolist() == [1, -1, -1, -1, -1, 6]
            array[:] = -1
            assert read(zm.ManifestStore(location), path).tolist() == [-1] * 6
            assert not [key for key in sync(keys(store, f"{path}/")) if "/c/" in key]
            array[2:] = 5
            assert array[:].tolist() == [-1, -1, 5, 5, 5, 5]
    assert not store._written_now


async def keys(store: Any, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


def test_xarray_writes_a_region_of_native_arrays(tmp_path: Path) -> None:
    root = write(tmp_path, "m")
    region = {"t": slice(2, 4)}
    new()[["n"]].drop_attrs().to_zarr(zm.ManifestStore(root), region=region, consolidated=False)
    assert read(zm.ManifestStore(root), "n").tolist() == [1, 2, 1, 2, 5, 6]


# How it is known --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_manifest_that_another_process_has_written_meanwhile(tmp_path: Path) -> None:
    """The node itself is read again, and all that is to be deleted."""
    root = write(tmp_path)
    group = opened(zm.ManifestStore(root), consolidated=False)
    group.attrs["title"] = "old"
    array = group["g/n"]
    zm.write_manifest(root, "g/n", {}, inline=False)
    before = files_below(root)
    for act in (
        lambda: array.attrs.update(units="K"),
        lambda: array.resize(9),
        lambda: opened(zm.ManifestStore(root), consolidated=False),
    ):
        with contextlib.suppress(zm.errors.ReadOnlyError):
            act()
        assert files_below(root) == before
    again = write(tmp_path / "again")
    group = opened(zm.ManifestStore(again), consolidated=False)
    group.attrs["title"] = "old"
    zm.write_manifest(again, "g/n", {}, inline=False)
    before = files_below(again)
    with pytest.raises(zm.errors.ReadOnlyError):
        del group["g"]
    assert files_below(again) == before


class Unlistable(LocalStore):
    supports_listing = False


class Forbidden(LocalStore):
    def list_dir(self, prefix: str) -> Any:
        raise PermissionError(prefix)


@pytest.mark.parametrize("kind", [Unlistable, Forbidden])
def test_where_nodes_cannot_be_listed_each_is_looked_at(
    kind: type[LocalStore], tmp_path: Path
) -> None:
    root = write(tmp_path, "g/m")
    zarr.open_array(zm.ManifestStore(kind(root)), path="n", mode="r+").attrs["units"] = "K"
    with pytest.raises(zm.errors.ReadOnlyError):
        zarr.open_array(zm.ManifestStore(kind(root)), path="g/m", mode="r+").attrs["units"] = "K"
    consolidate(root)
    with pytest.raises(zm.errors.ReadOnlyError):
        zarr.open_array(zm.ManifestStore(kind(root)), path="n", mode="r+").attrs["units"] = "mm"


def test_a_store_without_a_node_at_its_root(tmp_path: Path) -> None:
    """zarr would make its root a group, and one hierarchy of all that is in it."""
    write(tmp_path / "first", "m")
    before = files_below(tmp_path)
    with pytest.raises(zm.errors.ReadOnlyError):
        zarr.create_group(zm.ManifestStore(tmp_path), path="second")
    assert files_below(tmp_path) == before
    zarr.create_group(zm.ManifestStore(tmp_path / "second")).create_array("x", data=VALUES)


def test_looking_takes_one_read_and_a_walk_once(tmp_path: Path) -> None:
    """A walk stops at the first manifest, or at the copies of all nodes."""

    def made(root: Path, path: str) -> list[tuple[str, str]]:
        requests = Requests(LocalStore(root))
        store = zm.ManifestStore(requests)
        array: Any = zarr.open_array(store, path=path, mode="r+")
        for number in range(3):
            requests.made.clear()
            with contextlib.suppress(zm.errors.ReadOnlyError):
                array.attrs["units"] = str(number)
            if number == 0:
                first = list(requests.made)
        return [*first, *(("again", key) for _, key in requests.made)]

    root = write(tmp_path)
    nodes = [("get", f"{path}/zarr.json".lstrip("/")) for path in ("", "g", "m", "g/m", "g/n")]
    own, put = ("get", "n/zarr.json"), ("put", "n/zarr.json")
    again = [("again", "n/zarr.json")] * 2
    assert sorted(made(root, "n")) == sorted(
        [*nodes, own, ("list", ""), ("list", "g"), put, *again]
    )
    consolidate(root)
    assert sorted(made(root, "n")) == sorted([("get", "zarr.json"), own, put, *again])
    assert made(write(tmp_path / "other", "m"), "m") == []


@pytest.mark.parametrize("path", ["", "n"])
def test_a_change_that_is_being_written_is_not_undone(path: str, tmp_path: Path) -> None:
    """In a hierarchy without manifests, too."""
    root = write(tmp_path)
    consolidate(root)
    text = (root / "zarr.json").read_text()
    pending = document_checksum((root / "n/zarr.json").read_bytes())
    stated = f'"must_understand": false, "pending": {{"n": "{pending}"}}'
    (root / "zarr.json").write_text(text.replace('"must_understand": false', stated, 1))
    before = files_below(root)
    with pytest.raises(zm.errors.WriteConflictError, match="recover"):
        zarr.open(zm.ManifestStore(root), path=path, mode="r+").attrs["x"] = 1
    assert files_below(root) == before
    zm.recover(root)
    zarr.open(zm.ManifestStore(root), path=path, mode="r+").attrs["x"] = 1


# Removed native arrays --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../g/n/c/1", "file"])
def test_chunks_of_removed_arrays_stay_for_manifests(path: str, tmp_path: Path) -> None:
    root = write(tmp_path)
    path = (root / "g/n/c/1").as_uri() if path == "file" else path
    zm.create_array(root, "v", {"0": {"path": path}}, **{**ARRAY, "shape": 2}, inline=False)
    with zm.edit(root) as group:
        del group["g"]
        del group["n"]
    left = [key for key in files_below(root) if key.startswith(("g/", "n/"))]
    assert left == ["g/n/c/1"]
    store = zm.ManifestStore(root, allow=[root.as_uri()])
    assert read(store, "v").tolist() == [3, 4]


def test_documents_of_partitions_outside_the_grid_stay_below_removed_arrays(tmp_path: Path) -> None:
    root = write(tmp_path)
    entries = {str(i): {"path": "../n/c/0"} for i in range(3)}
    documents = {"manifest_url": "../n/{partition}-{digest}.json", "partition_shape": [1]}
    zm.create_array(root, "v", entries, **ARRAY, **documents)
    # Whoever makes the array as large again reads them again.
    smaller = json.loads((root / "v/zarr.json").read_text()) | {"shape": [2]}
    (root / "v/zarr.json").write_text(json.dumps(smaller))
    with zm.edit(root) as group:
        del group["n"]
    kept = [key for key in files_below(root) if key.startswith("n/")]
    assert [key[:4] for key in sorted(kept)] == ["n/0-", "n/1-", "n/2-", "n/c/"]
