"""The same datasets, opened lazily with xarray and dask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.participants import PARTICIPANTS


def open_lazily(column: str, directory: Path, chunks: dict[str, int]) -> Any:
    """Open the variable `data` as a dask array; `{}` makes a task of each chunk."""
    import xarray

    store = PARTICIPANTS[column].store
    if store is None:
        raise ValueError(f"{column} has no zarr store")
    # Native hierarchies are consolidated, because web servers list nothing.
    consolidated = column in (cases.NATIVE, cases.NATIVE_FUSED)
    opened = xarray.open_zarr(store(directory), chunks=chunks, consolidated=consolidated)
    return opened["data"]
