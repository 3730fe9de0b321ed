"""zarr grows an array before it writes: a manifest array would be left with fill values."""

from __future__ import annotations

import asyncio
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
from tests.counted_requests import Requests
from tests.hierarchies import FIELD, Values, files_below, read, write_manifest_array

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at (raw|old|v2) is not recognized"),
]
NATIVE = {"chunks": (3, 4), "dtype": "i4", "compressors": None, "fill_value": -1}


def resize(array: Any) -> None:
    array.resize((9, 8))


def resize_both_ways(array: Any) -> None:
    array.resize((9, 4))


def resize_and_keep_chunks(array: Any) -> None:
    sync(array.async_array.resize((6, 9), delete_outside_chunks=False))


def append(array: Any) -> None:
    array.append(FIELD[:2])


def append_along_the_other_axis(array: Any) -> None:
    array.append(FIELD[:, :2], axis=1)


def refused(root: Path, act: Callable[[], Any]) -> zm.errors.ReadOnlyError:
    before = files_below(root)
    with pytest.raises(zm.errors.ReadOnlyError, match=r"zarr_manifest\.edit") as caught:
        act()
    assert files_below(root) == before
    return caught.value


@pytest.mark.parametrize("path", ["a/b/external", "inline"])
@pytest.mark.parametrize(
    "grow", [resize, resize_both_ways, resize_and_keep_chunks, append, append_along_the_other_axis]
)
def test_growing_is_refused(
    path: str, grow: Callable[[Any], None], root: Path, values: Values
) -> None:
    store = zm.ManifestStore(root)
    array = zarr.open_array(store, path=path, mode="r+")
    if grow is resize_both_ways:  # chunks that a manifest refers to are asked for first
        with pytest.raises(zm.errors.ReadOnlyError):
            grow(array)
    else:
        assert refused(root, lambda: grow(array)).array == path
    assert array.shape == FIELD.shape
    for reader in (store, zm.ManifestStore(root)):
        np.testing.assert_array_equal(read(reader, path), values[path])


def test_writing_metadata_synchronously(root: Path, values: Values) -> None:
    store = zm.ManifestStore(root)
    buffer: Any = store.get_sync("inline/zarr.json")
    larger = type(buffer).from_bytes(buffer.to_bytes().replace(b'"shape": [6', b'"shape": [7'))
    assert b'"shape": [7' in larger.to_bytes()
    refused(root, lambda: store.set_sync("inline/zarr.json", larger))
    refused(root, lambda: asyncio.run(store.set("inline/zarr.json", larger)))


@pytest.mark.parametrize("path", ["a/b/external", "inline"])
def test_growing_in_an_edit(path: str, root: Path, values: Values) -> None:
    with zm.edit(root) as group:
        group[path].resize((9, 10))
        group[path][6:] = 1
    grown = read(zm.ManifestStore(root), path)
    np.testing.assert_array_equal(grown[:6, :8], values[path])
    assert (grown[:6, 8:] == -1).all()
    assert (grown[6:] == 1).all()


def test_a_native_array_may_grow_without_a_manifest_beside_it(root: Path, values: Values) -> None:
    store = zm.ManifestStore(root)
    zarr.open_array(store, path="a/b/external", mode="r")
    array: Any = zarr.open_array(store, path="a/sharded", mode="r+")
    array.append(FIELD)
    np.testing.assert_array_equal(read(store, "a/sharded")[6:], FIELD)


@pytest.mark.parametrize(
    ("shape", "names", "may"),
    [
        ((6, 8), ("t", "x"), False),
        ((6, 9), ("y", "t"), True),  # grows along "y", which is not there
        ((5, 8), ("t", "x"), True),  # another size already
        ((6, 8), None, True),
    ],
)
def test_a_native_array_beside_a_manifest_array(
    tmp_path: Path, shape: tuple[int, int], names: Any, may: bool
) -> None:
    zarr.create_group(tmp_path)
    write_manifest_array(tmp_path, "m", np.zeros(shape), shape, {}, dimension_names=names)
    zarr.create_array(tmp_path / "n", shape=6, dtype="i4", dimension_names=["t"])
    store = zm.ManifestStore(tmp_path)
    array: Any = zarr.open_group(store, mode="r+")["n"]
    _ = zarr.open_group(store, mode="r+")["m"]
    if may:
        array.resize(7)
        assert zarr.open_array(store, path="n").shape == (7,)
    else:
        error = refused(tmp_path, lambda: array.resize(7))
        assert "'m'" in str(error)
        assert error.array == "n"


@pytest.mark.parametrize("is_consolidated", [False, True])
@pytest.mark.parametrize("path", ["", "g"])
def test_a_manifest_array_that_the_store_has_not_met(
    tmp_path: Path, path: str, is_consolidated: bool
) -> None:
    zarr.create_group(tmp_path)
    root = tmp_path / path
    zarr.create_group(root, overwrite=True)
    zarr.create_array(root / "n", shape=6, dtype="i4", dimension_names=["t"])
    zm.create_array(
        root, "m", {}, shape=6, chunks=6, dtype="i4", dimension_names=["t"], inline=False
    )
    if is_consolidated:
        zarr.consolidate_metadata(zm.ManifestStore(root))
    (root / "no_node").mkdir()
    (root / "link").symlink_to("/usr")
    name = f"{path}/n".strip("/")
    for location in (tmp_path, Requests(LocalStore(tmp_path))):
        array: Any = zarr.open_array(zm.ManifestStore(location), path=name, mode="r+")
        error = refused(tmp_path, lambda array=array: array.append(np.zeros(2, "i4")))
        assert f"{path}/m'".strip("/") in str(error)
    array.attrs["units"] = "K"
    with zm.edit(tmp_path) as group:
        group[name].resize(7)


def test_a_manifest_array_that_is_written_after_the_store_was_opened(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    zarr.create_array(tmp_path / "n", shape=6, dtype="i4", dimension_names=["t"])
    store = zm.ManifestStore(tmp_path)
    array: Any = zarr.open_array(store, path="n", mode="r+")
    array.resize(7)
    zm.create_array(
        tmp_path, "m", {}, shape=7, chunks=7, dtype="i4", dimension_names=["t"], inline=False
    )
    refused(tmp_path, lambda: array.resize(8))


def test_growing_synchronously_beside_a_manifest_array(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    zarr.create_array(tmp_path / "n", shape=6, dtype="i4", dimension_names=["t"])
    zm.create_array(
        tmp_path, "m", {}, shape=6, chunks=6, dtype="i4", dimension_names=["t"], inline=False
    )
    store = zm.ManifestStore(tmp_path)
    buffer: Any = store.get_sync("n/zarr.json")
    node = json.loads(buffer.to_bytes())
    node["shape"] = [7]
    larger = type(buffer).from_bytes(json.dumps(node).encode())
    refused(tmp_path, lambda: store.set_sync("n/zarr.json", larger))


# xarray ----------------------------------------------------------------------------------


def dataset(steps: range) -> xr.Dataset:
    values = np.stack([FIELD + step for step in steps]).astype("f8")
    return xr.Dataset(
        {
            "sst": (("time", "y", "x"), values),
            "ice": (("time", "y", "x"), -values),
            "mask": (("y", "x"), FIELD % 2),
        },
        coords={"time": np.array(steps, "f8")},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("virtual", "consolidated", "chunks"),
    [
        (["sst"], True, None),
        (["ice"], False, {"time": 1}),
        (["time"], True, {"time": 1}),
        (["sst", "ice", "time"], False, None),
    ],
)
def test_appending_a_dataset(
    tmp_path: Path, virtual: list[str], consolidated: bool, chunks: Any
) -> None:
    """Some variables are native, and zarr would have grown those before it meets the others."""
    first = dataset(range(2))
    root = tmp_path / "h.zarr"
    encoding = {name: {"compressors": None} for name in first.variables}
    first.to_zarr(root, zarr_format=3, consolidated=False, encoding=encoding)
    for name in virtual:
        body = first[name].to_numpy().tobytes()
        zm.write_manifest(root, name, {(0,) * first[name].ndim: {"data": body}}, inline=True)
    if consolidated:
        zarr.consolidate_metadata(zm.ManifestStore(root))
    new = dataset(range(2, 4)) if chunks is None else dataset(range(2, 4)).chunk(chunks)

    def append_it() -> None:
        new.drop_vars("mask").to_zarr(zm.ManifestStore(root), append_dim="time", mode="a")

    before = files_below(root)
    with pytest.raises(zm.errors.ReadOnlyError, match=r"zarr_manifest\.edit"):
        append_it()
    # xarray has written the attributes of the group, without consolidated metadata.
    before.pop("zarr.json")
    assert files_below(root).items() >= before.items()
    found: Any = xr.open_zarr(zm.ManifestStore(root), consolidated=False)
    xr.testing.assert_identical(found.load(), first)
    assert zm.validate(root) == []


@pytest.mark.slow
@pytest.mark.parametrize("compute", [True, False])
def test_appending_in_an_edit(tmp_path: Path, *, compute: bool) -> None:
    """Some variables are native, and others not; with dask, they are written when it computes."""
    root = tmp_path / "h.zarr"
    first, both = dataset(range(2)), dataset(range(4))
    encoding = {name: {"compressors": None} for name in first.variables}
    first.to_zarr(root, zarr_format=3, consolidated=False, encoding=encoding)
    body = first["sst"].to_numpy().tobytes()
    zm.write_manifest(root, "sst", {(0, 0, 0): {"data": body}}, inline=True)
    new = dataset(range(2, 4)).drop_vars("mask").chunk({"time": 2})
    with zm.edit(root) as group:
        delayed = new.to_zarr(group.store, append_dim="time", compute=compute, consolidated=False)
        if not compute:
            delayed.compute(scheduler="threads")
        found: Any = xr.open_zarr(zm.ManifestStore(root), consolidated=False)
        xr.testing.assert_identical(found.load(), first)
    found = xr.open_zarr(zm.ManifestStore(root), consolidated=False)
    xr.testing.assert_identical(found.load(), both)


def test_an_append_that_fails_in_an_edit_changes_nothing(tmp_path: Path) -> None:
    """xarray has replaced attributes and made arrays longer by then."""
    root = tmp_path / "h.zarr"
    first = dataset(range(2))
    first.to_zarr(root, zarr_format=3, consolidated=False)
    body = first["sst"].to_numpy().tobytes()
    zm.write_manifest(root, "sst", {(0, 0, 0): {"data": body}}, inline=True)

    def fail(block: Any) -> Any:
        raise ZeroDivisionError

    new = dataset(range(2, 4)).drop_vars("mask").chunk({"time": 2}).assign_attrs(title="new")
    new["sst"] = new["sst"].copy(data=new["sst"].data.map_blocks(fail, dtype="i4"))
    before = files_below(root)
    with pytest.raises(ZeroDivisionError), zm.edit(root) as group:
        new.to_zarr(group.store, append_dim="time", consolidated=False)
    after = files_below(root)
    assert {key: after[key] for key in before} == before
    written = after.keys() - before.keys()
    assert all("/chunks/sha256/" in key for key in written)
