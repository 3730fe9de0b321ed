"""Processes that start at once: forks of one that has imported what conversion needs."""

from __future__ import annotations

from multiprocessing import get_context

__all__ = ["CONTEXT"]

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["zarr_manifest.conversion", "dask.array", "h5py", "virtualizarr", "xarray"]
)
