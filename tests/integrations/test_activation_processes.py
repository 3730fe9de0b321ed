"""``enable()`` in other processes: workers of dask, and of pools."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
import zarr.storage._common as opening

from tests.hierarchies import FIELD, write_manifest_array
from tests.processes import CONTEXT, cluster
from zarr_manifest import enable
from zarr_manifest.errors import LocationNotAllowedError
from zarr_manifest.integrations import dask_preload

PRELOAD = "zarr_manifest.integrations.dask_preload"
ORIGINAL = opening.make_store


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """Write a hierarchy whose array is in a file outside it; the URL of that file's directory."""
    elsewhere = tmp_path / "archive"
    elsewhere.mkdir()
    (elsewhere / "raw.bin").write_bytes(FIELD.tobytes())
    manifest = {"0.0": {"path": (elsewhere / "raw.bin").as_uri()}}
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    write_manifest_array(root, "x", FIELD, FIELD.shape, manifest, dimension_names=("y", "x"))
    return f"{elsewhere.as_uri()}/"


def by_zarr(path: Path) -> Any:
    return zarr.open_group(path, mode="r")["x"][:]


def by_xarray(path: Path) -> Any:
    import xarray as xr

    return xr.open_zarr(path, consolidated=False, chunks=None, mask_and_scale=False)["x"].values


@pytest.mark.slow
def test_variables_enable_the_workers_of_a_cluster(tmp_path: Path, archive: str) -> None:
    """This process is not enabled."""
    variables = {
        "DASK_DISTRIBUTED__WORKER__PRELOAD": f'["{PRELOAD}"]',
        "ZARR_MANIFEST_ALLOW": archive,
    }
    pytest.importorskip("distributed")  # now: what it adds to the configuration must stay
    key = "distributed.worker.preload"
    preload = dask.config.get(key, config=dask.config.collect_env(variables))
    with dask.config.set({key: preload}), cluster(env=variables) as client:
        for by_path in (by_zarr, by_xarray):
            read = client.submit(by_path, tmp_path / "data.zarr").result(timeout=60)
            np.testing.assert_array_equal(read, FIELD)
    assert opening.make_store is ORIGINAL


@pytest.mark.slow
def test_the_initializer_of_a_pool_enables_its_processes(tmp_path: Path, archive: str) -> None:
    initializer = partial(enable, allow=[archive])
    with ProcessPoolExecutor(1, CONTEXT, initializer) as pool:
        read = pool.submit(by_zarr, tmp_path / "data.zarr").result(timeout=60)
    np.testing.assert_array_equal(read, FIELD)


KEPT: list[Any] = []


def keep_enabled(prefix: str) -> None:
    KEPT.append(enable(allow=[prefix]))


@pytest.mark.slow
def test_callbacks_enable_workers_that_run_already(tmp_path: Path, archive: str) -> None:
    """Here, they are threads of this process."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_worker_callbacks(partial(keep_enabled, archive))
        read = client.submit(by_zarr, tmp_path / "data.zarr").result(timeout=60)
    for activation in KEPT:
        activation.disable()
    np.testing.assert_array_equal(read, FIELD)


async def start_worker() -> None:
    import distributed

    async with (
        distributed.Scheduler(dashboard_address=":0", port=0) as scheduler,
        distributed.Worker(scheduler.address, preload=[PRELOAD]),
    ):
        assert opening.make_store is not ORIGINAL


@pytest.mark.slow
def test_a_worker_in_this_process_leaves_nothing_behind() -> None:
    asyncio.run(start_worker())
    assert opening.make_store is ORIGINAL


@pytest.mark.slow
def test_a_worker_that_cannot_be_enabled_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZARR_MANIFEST_ALLOW", "data")
    monkeypatch.delitem(sys.modules, PRELOAD)
    with pytest.raises(ValueError, match="cannot be a prefix"):
        asyncio.run(start_worker())
    assert opening.make_store is ORIGINAL


def test_variables_name_what_may_be_read(
    tmp_path: Path, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask_preload.dask_setup(None)
    with pytest.raises(LocationNotAllowedError):
        by_zarr(tmp_path / "data.zarr")
    monkeypatch.setenv("ZARR_MANIFEST_ALLOW", f" s3://a/ {archive}\n")
    monkeypatch.setenv("ZARR_MANIFEST_ALLOW_ENVIRONMENT", "s3://ours/")
    dask_preload.dask_setup(None)
    store: Any = zarr.open_group(tmp_path / "data.zarr", mode="r").store
    assert {prefix: repr(access) for prefix, access in store._allow.items()} == {
        "s3://a/": "anonymous()",
        archive: "anonymous()",
        "s3://ours/": "environment()",
    }
    np.testing.assert_array_equal(by_zarr(tmp_path / "data.zarr"), FIELD)
    dask_preload.dask_teardown(None)
    dask_preload.dask_teardown(None)
    assert opening.make_store is ORIGINAL
