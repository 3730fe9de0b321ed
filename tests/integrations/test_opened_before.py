"""Arrays that were opened before a change keep their values, or fail, here and in workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.hierarchies import consolidate
from tests.processes import CONTEXT, in_worker

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata is currently not part",
    "ignore:Object at .* is not recognized as a component",
)

DAYS = 8
KEPT: dict[str, dict[str, Any]] = {
    "inline": {"inline": True},
    "document": {"inline": False},
    "partitions": {"partition_shape": (2,)},
}
PLAIN: dict[str, dict[str, Any]] = {
    "plain": {"manifest_url": "./manifest.json"},
    "plain_partitions": {"manifest_url": "./{partition}.json", "partition_shape": (2,)},
}
REPLACED = "have been replaced since.*[Oo]pen the hierarchy again"


def write(root: Path, first: int, forms: dict[str, dict[str, Any]]) -> None:
    """Write one array of each form, whose values are the numbers of days."""
    values = np.arange(first, first + DAYS, dtype="<i4")
    options: dict[str, Any] = {"dimension_names": ["time"], "fill_value": -1}
    zarr.create_group(root)
    for name, form in forms.items():
        entries = {str(i): {"data": values[2 * i : 2 * i + 2].tobytes()} for i in range(DAYS // 2)}
        zm.create_array(root, name, entries, shape=DAYS, chunks=2, dtype="<i4", **options, **form)
    zarr.create_array(root, name="native", data=values, chunks=2, compressors=None, **options)
    consolidate(root)


def append(root: Path, forms: dict[str, dict[str, Any]]) -> None:
    write(root.with_name("next.zarr"), DAYS, forms)
    zm.append(root, [root.with_name("next.zarr")], dim="time")


def trim(root: Path, forms: dict[str, dict[str, Any]]) -> None:
    zm.trim(root, dim="time", keep=4)


def edit(root: Path, forms: dict[str, dict[str, Any]]) -> None:
    with zm.edit(root) as group:
        for name in forms:
            group[name][3:5] = 77
        group["native"][3:5] = 77


def roll(root: Path, forms: dict[str, dict[str, Any]]) -> None:
    """The shape is the same in the end, and each value at another place."""
    append(root, forms)
    zm.trim(root, dim="time", keep=DAYS)


type Change = Callable[[Path, dict[str, dict[str, Any]]], None]
CHANGES = pytest.mark.parametrize("change", [append, trim, edit, roll])


def opened(store: zm.ManifestStore, *, consolidated: bool = True) -> xr.Dataset:
    return xr.open_zarr(store, chunks={}, consolidated=consolidated, mask_and_scale=False)


def assert_old(dataset: xr.Dataset) -> None:
    for name, variable in dataset.variables.items():
        np.testing.assert_array_equal(variable.values, np.arange(DAYS), err_msg=str(name))


def manifest_store(root: Path, **options: Any) -> zm.ManifestStore:
    return zm.ManifestStore(root, allow=[root.with_name("next.zarr").as_uri()], **options)


@pytest.mark.slow
@CHANGES
@pytest.mark.parametrize("bulk", [True, pytest.param(False, marks=pytest.mark.combinations)])
def test_values_stay(tmp_path: Path, change: Change, bulk: bool) -> None:
    """Also if the same store is opened again meanwhile."""
    root = tmp_path / "h.zarr"
    write(root, 0, KEPT)
    store = manifest_store(root, read_only=True)
    with zarr.config.set({"zarr_manifest.bulk": bulk}):
        datasets = [opened(store, consolidated=which) for which in (True, False)]
    sent = pickle.dumps(datasets)
    change(root, KEPT)
    new = opened(store).compute()
    assert set(new.sizes.values()) != {DAYS} or new["inline"].values.tolist() != [*range(DAYS)]
    # The last ones were sent on without being read.
    for each in (datasets, in_worker(sent), in_worker(pickle.dumps(in_worker(sent)))):
        for dataset in each:
            assert_old(dataset)
    assert opened(store).compute().identical(new)


@pytest.mark.slow
def test_a_computation_of_dask_in_processes(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write(root, 0, KEPT)
    total = opened(manifest_store(root)).sum()
    roll(root, KEPT)
    with ProcessPoolExecutor(1, CONTEXT) as workers:
        total = total.compute(scheduler="processes", pool=workers)
    assert {int(each) for each in total.values()} == {sum(range(DAYS))}


@pytest.mark.slow
@CHANGES
def test_documents_that_are_overwritten(tmp_path: Path, change: Change) -> None:
    """Their names say nothing of their contents: a worker that finds others fails."""
    root = tmp_path / "h.zarr"
    write(root, 0, PLAIN)
    dataset = opened(manifest_store(root))
    sent = pickle.dumps(dataset)
    assert_old(in_worker(sent))
    change(root, PLAIN)
    worker = in_worker(sent)
    for name in PLAIN:
        with pytest.raises(zm.errors.ManifestError, match="pen the hierarchy again"):
            worker[name].load()


@pytest.mark.slow
def test_metadata_that_are_too_large_to_be_sent(tmp_path: Path) -> None:
    """More than 64 KiB: here of chunks that do not compress."""
    root = tmp_path / "h.zarr"
    write(root, 0, {"inline": KEPT["inline"]})
    values = np.random.default_rng(0).integers(0, 256, (DAYS, 2**15), "u1")
    large = {f"{i}.0": {"data": values[2 * i : 2 * i + 2].tobytes()} for i in range(DAYS // 2)}
    options: dict[str, Any] = {"dtype": "u1", "dimension_names": ["time", "x"]}
    zm.create_array(
        root, "large", large, shape=values.shape, chunks=(2, 2**15), **options, inline=True
    )
    dataset = opened(manifest_store(root))
    small, sent = pickle.dumps(dataset["inline"]), pickle.dumps(dataset["large"])
    assert len(sent) < 2**15
    np.testing.assert_array_equal(in_worker(sent).values, values)
    trim(root, KEPT)
    for body in (sent, pickle.dumps(in_worker(sent))):
        with pytest.raises(zm.errors.ManifestNotFoundError, match=REPLACED):
            in_worker(body).load()
    np.testing.assert_array_equal(in_worker(small).values, np.arange(DAYS))


@pytest.mark.slow
def test_members_of_a_group_that_is_older_than_what_its_store_has_seen(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write(root, 0, KEPT)
    store = manifest_store(root, read_only=True)
    group: Any = zarr.open_group(store, mode="r")
    trim(root, KEPT)
    assert opened(store)["inline"].values.tolist() == [4, 5, 6, 7]
    for name in KEPT:
        array = group[name]
        for each in (array, in_worker(pickle.dumps(array))):
            with pytest.raises(zm.errors.ManifestNotFoundError, match=REPLACED):
                each[:]


@pytest.mark.slow
def test_an_absent_chunk_of_an_array_that_was_native(tmp_path: Path) -> None:
    """The manifest that it got has other chunks at the same indices."""
    root = tmp_path / "h.zarr"
    write(root, 0, {})
    (root / "native/c/1").unlink()
    dataset = opened(manifest_store(root))
    np.testing.assert_array_equal(dataset["native"], [0, 1, -1, -1, 4, 5, 6, 7])
    sent = pickle.dumps(dataset)
    trim(root, {})
    for each in (dataset, in_worker(sent)):
        for _ in range(2):
            with pytest.raises(zm.errors.SourceNotFoundError, match="was native when"):
                each["native"].load()
            np.testing.assert_array_equal(each["native"][4:], [4, 5, 6, 7])


@pytest.mark.slow
def test_what_dask_sends_with_a_task(tmp_path: Path) -> None:
    """The same however many other arrays there are."""
    root = tmp_path / "h.zarr"
    sizes: list[int] = []
    for count in (1, 20):
        hierarchy = root / str(count)
        write(hierarchy, 0, {f"variable_{i:02}": {"inline": True} for i in range(count)})
        array: Any = zarr.open_group(manifest_store(hierarchy), mode="r")["variable_00"]
        sizes.append(len(pickle.dumps(array.store)))
    assert sizes[1] <= sizes[0] + 10
    assert sizes[0] < 2000
