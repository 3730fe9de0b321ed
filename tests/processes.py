"""Processes that start at once: forks of one that has imported what the tests' functions need.

There is one server of forks in a process, and the last list of what it imports counts.
"""

from __future__ import annotations

from multiprocessing import get_context

__all__ = ["CONTEXT"]

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["zarr_manifest.conversion", "dask.array", "h5py", "pytest", "virtualizarr", "xarray"]
)
