"""Datasets on a web server, as everybody opens them with xarray."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.participants import icechunk_repository, native_zarr
from benchmarks.references import Places


def _open_ours(directory: Path) -> Any:
    from zarr_manifest import ManifestStore

    url = Places.load(directory).sources
    return ManifestStore(f"{url}ours.zarr", allow=[url])


def _open_reference_set(directory: Path) -> Any:
    from urllib.request import urlopen

    from fsspec.implementations.reference import ReferenceFileSystem
    from zarr.storage import FsspecStore

    with urlopen(f"{Places.load(directory).sources}references.json") as answer:
        references = json.load(answer)
    files = ReferenceFileSystem(
        references,
        asynchronous=True,
        remote_protocol="http",
        remote_options={"asynchronous": True},
    )
    return FsspecStore(files, path="", read_only=True)


#: Native chunks, in the store that zarr itself makes of a URL.
NATIVE_BY_URL = "zarr native, by URL"

_STORES: dict[str, Callable[[Path], Any]] = {
    cases.US: _open_ours,
    cases.NATIVE: native_zarr.store,
    cases.FSSPEC_JSON: _open_reference_set,
    cases.ICECHUNK: icechunk_repository.store,
}


def open_dataset(column: str, directory: Path, chunks: Any) -> Any:
    """Open a dataset as one column does; `chunks` as of xarray."""
    import xarray

    if column == NATIVE_BY_URL:
        return xarray.open_zarr(Places.load(directory).native, chunks=chunks)
    consolidated = column != cases.ICECHUNK
    return xarray.open_zarr(_STORES[column](directory), chunks=chunks, consolidated=consolidated)
