"""The participants: each reader opens the array `data` of a dataset.

To add a peer, write a function that opens the dataset its way (and creates its references
beforehand, outside the measured time), decorate it, and name the packages that it imports:

    @reader("kerchunk", requires=("kerchunk", "fsspec"), files=True, http=True)
    def _(dataset): ...
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import zarr
from obstore.store import HTTPStore
from obstore.store import LocalStore as ObstoreLocalStore
from zarr.storage import LocalStore, ObjectStore

from benchmarks.datasets import Dataset
from zarr_manifest import ManifestStore


class ReadableArray(Protocol):
    """What every reader returns: something that can be sliced."""

    def __getitem__(self, selection: Any, /) -> Any: ...


@dataclass(frozen=True)
class Reader:
    """How to open a dataset, and which datasets it can open."""

    name: str
    open: Callable[[Dataset], ReadableArray]
    requires: tuple[str, ...]
    files: bool
    http: bool

    def can_read(self, dataset: Dataset) -> bool:
        there = all(importlib.util.find_spec(name) is not None for name in self.requires)
        return there and (self.http if dataset.is_url else self.files)


READERS: dict[str, Reader] = {}


def reader(
    name: str, *, requires: tuple[str, ...] = (), files: bool = False, http: bool = False
) -> Callable[[Callable[[Dataset], ReadableArray]], Callable[[Dataset], ReadableArray]]:
    def register(
        function: Callable[[Dataset], ReadableArray],
    ) -> Callable[[Dataset], ReadableArray]:
        READERS[name] = Reader(name, function, requires, files, http)
        return function

    return register


def readers_for(dataset: Dataset) -> list[Reader]:
    return [reader for reader in READERS.values() if reader.can_read(dataset)]


@reader("ManifestStore", files=True, http=True)
def open_manifest(dataset: Dataset) -> ReadableArray:
    return zarr.open_array(ManifestStore(dataset.manifest), path="data", mode="r")


@reader("zarr LocalStore", files=True)
def open_local(dataset: Dataset) -> ReadableArray:
    return zarr.open_array(LocalStore(dataset.native, read_only=True), path="data", mode="r")


@reader("zarr ObjectStore", files=True, http=True)
def open_object(dataset: Dataset) -> ReadableArray:
    store: ObstoreLocalStore | HTTPStore
    if dataset.is_url:
        store = HTTPStore.from_url(dataset.native, client_options={"allow_http": True})
    else:
        store = ObstoreLocalStore(dataset.native)
    return zarr.open_array(ObjectStore(store, read_only=True), path="data", mode="r")
