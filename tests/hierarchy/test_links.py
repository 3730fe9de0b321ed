"""Symbolic links and special files: what a hierarchy's own store may read, whatever its type."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore.store
import pytest
import zarr
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.cached import SimpleCacheFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from zarr.abc.store import RangeByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

import zarr_manifest as zm
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused
from zarr_manifest import errors
from zarr_manifest.stores import OwnStore, directory_of, inside_store
from zarr_manifest.zarr_internals import StoreOnStore

PRIVATE = b"private!"


class Subclass(LocalStore):
    """A LocalStore that may do anything."""


class SubclassOfObjectStore(ObjectStore[Any]):
    """Likewise."""


class Inverting(LocalStore):
    """Files whose bytes are stored inverted."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        prototype = prototype or default_buffer_prototype()
        found = await super().get(key, prototype, byte_range)
        return None if found is None else self._inverted(found, prototype)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        prototype = prototype or default_buffer_prototype()
        found = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        return None if found is None else self._inverted(found, prototype)

    @staticmethod
    def _inverted(found: Any, prototype: Any) -> Any:
        return prototype.buffer.from_bytes(bytes(255 - byte for byte in found.to_bytes()))


def local_file_system() -> AsyncFileSystemWrapper:
    return AsyncFileSystemWrapper(LocalFileSystem(), asynchronous=True)


def cached(root: Path) -> Store:
    storage = str(root.parent / "cache")
    cache = SimpleCacheFileSystem(
        fs=LocalFileSystem(), cache_storage=storage, skip_instance_cache=True
    )
    return FsspecStore(AsyncFileSystemWrapper(cache, asynchronous=True), path=str(root))


def obstore_fsspec(root: Path) -> Store:
    from obstore.fsspec import FsspecStore as ObstoreFileSystem

    return FsspecStore(ObstoreFileSystem("file", asynchronous=True), path=str(root))


PLAIN: dict[str, Callable[[Path], Any]] = {
    "path": lambda root: root,
    "LocalStore": LocalStore,
    "obstore": obstore.store.LocalStore,
    "ObjectStore": lambda root: ObjectStore(obstore.store.LocalStore(root)),
    "fsspec": lambda root: FsspecStore(local_file_system(), path=str(root)),
    "fsspec URL": lambda root: FsspecStore.from_url(root.as_uri()),
    "fsspec mapper": lambda root: FsspecStore.from_mapper(fsspec.get_mapper(str(root))),
    "fsspec dir": lambda root: FsspecStore(
        DirFileSystem(str(root.parent), local_file_system(), asynchronous=True), path=root.name
    ),
}
OTHERS: dict[str, Callable[[Path], Any]] = {
    "subclass": Subclass,
    "subclass of ObjectStore": lambda root: SubclassOfObjectStore(obstore.store.LocalStore(root)),
    "wrapper": lambda root: WrapperStore(LocalStore(root)),
    "wrappers": lambda root: WrapperStore(LoggingStore(WrapperStore(LocalStore(root)))),
    "wrapped fsspec": lambda root: WrapperStore(FsspecStore(local_file_system(), path=str(root))),
    "fsspec simple cache": cached,
    "obstore's fsspec": obstore_fsspec,
}
STORES = {**PLAIN, **OTHERS}


@pytest.fixture
def make() -> Callable[[Path], Any]:
    """Opens a directory through a store that may transform what it reads.

    What is refused of a plain directory, is stated by the conformance corpus.
    """
    return OTHERS["wrapper"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hierarchy with a native array."""
    root = tmp_path_factory.mktemp("original") / "data.zarr"
    zarr.create_group(root)
    data = np.frombuffer(RAW[:8], "u1")
    zarr.create_array(root / "native", data=data, chunks=4, compressors=None)
    return root


@pytest.fixture
def root(tmp_path: Path, original: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "data.zarr"))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory that nobody authorised."""
    directory = tmp_path / "private"
    (directory / "c").mkdir(parents=True)
    (directory / "f.bin").write_bytes(RAW)
    (directory / "c/0").write_bytes(PRIVATE[:4])
    return directory


def moved(path: Path, to: Path) -> None:
    """Move a file or a directory, and leave a link to it."""
    path.rename(to)
    path.symlink_to(to)


def native(store: Any, **options: Any) -> list[int]:
    group = zarr.open_group(zm.ManifestStore(store, **options), mode="r")
    values: list[int] = group["native"][...].tolist()  # type: ignore[union-attr,index]
    return values


def check_refused(call: Callable[[], Any], private: Path) -> None:
    with pytest.raises(errors.LocationNotAllowedError, match="symbolic link leads out") as raised:
        call()
    assert str(private) not in str(raised.value)
    assert raised.value.location
    assert "allow=" in str(raised.value.remedy)


# Sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["f.bin", "."])
def test_sources_behind_links(
    make: Callable[[Path], Any], root: Path, private: Path, link: str
) -> None:
    (root / "link").symlink_to(private / link)
    declare(root, "../link" if link == "f.bin" else "../link/f.bin")
    error = refused(make(root))
    assert str(private) not in str(error)
    assert read(make(root), allow=[private]) == VALUES


def test_documents_behind_links(make: Callable[[Path], Any], root: Path, private: Path) -> None:
    (root / "f.bin").write_bytes(RAW)
    declare(root, "../f.bin")
    moved(root / "a/manifest.json", private / "manifest.json")
    refused(make(root))
    assert read(make(root), allow=[private]) == VALUES


def test_links_that_stay_inside(make: Callable[[Path], Any], root: Path) -> None:
    (root / "f.bin").write_bytes(RAW)
    (root / "link").symlink_to(root / "f.bin")
    declare(root, "../link")
    moved(root / "native/c/0", root / "native/moved")
    assert read(make(root)) == VALUES
    assert native(make(root)) == list(RAW[:8])


@pytest.mark.parametrize("kind", ["sub", "whole"])
def test_a_directory_that_stands_in_for_a_bucket(root: Path, private: Path, kind: str) -> None:
    stand_in = root.parent / "copy"
    stand_in.mkdir()
    (stand_in / "f.bin").symlink_to(private / "f.bin")
    declare(root, "s3://bucket/d/f.bin" if kind == "sub" else "s3://bucket/f.bin")
    prefix = "s3://bucket/d/" if kind == "sub" else "s3://bucket"
    allow: dict[str, Any] = {prefix: obstore.store.LocalStore(stand_in)}
    refused(root, allow=allow)
    assert read(root, allow={**allow, private.as_uri(): None}) == VALUES


def test_a_prefix_for_which_a_copy_stands_in_is_not_read(root: Path, private: Path) -> None:
    """Links lead to the original, and the reader authorised the copy only."""
    copy = root.parent / "copy"
    copy.mkdir()
    (copy / "f.bin").write_bytes(RAW)
    (root / "link").symlink_to(private / "f.bin")
    declare(root, "../link")
    refused(root, allow={private.as_uri(): obstore.store.LocalStore(copy)})


# Native arrays ---------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["native/c/1", "native/c"])
def test_native_chunks_behind_links(
    make: Callable[[Path], Any], root: Path, private: Path, what: str
) -> None:
    moved(root / what, private / "moved")
    check_refused(lambda: native(make(root)), private)
    assert native(make(root), allow=[private]) == list(RAW[:8])


@pytest.mark.parametrize("what", ["native/zarr.json", "native", "zarr.json"])
def test_metadata_behind_links(
    make: Callable[[Path], Any], root: Path, private: Path, what: str
) -> None:
    moved(root / what, private / "moved")
    check_refused(lambda: native(make(root)), private)
    assert native(make(root), allow=[private]) == list(RAW[:8])


@pytest.mark.parametrize("target", ["f.bin", "nothing"])
@pytest.mark.parametrize("kind", ["path", "wrapper"])
def test_every_way_to_read(root: Path, private: Path, kind: str, target: str) -> None:
    (root / "native/c/1").unlink()
    (root / "native/c/1").symlink_to(private / target)
    (root / "d").symlink_to(private)
    store = zm.ManifestStore(STORES[kind](root))
    prototype, part = default_buffer_prototype(), RangeByteRequest(0, 2)

    async def ranges(key: str) -> list[Any]:
        return [group async for group in store.get_ranges(key, [part], prototype=prototype)]

    async def listed(names: Any) -> list[str]:
        return [name async for name in names]

    calls: list[Callable[[str], Any]] = [
        lambda key: sync(store.get(key, prototype)),
        lambda key: sync(store.get(key, prototype, part)),
        lambda key: sync(store.get_partial_values(prototype, [(key, part)])),
        lambda key: sync(store.exists(key)),
        lambda key: sync(store.getsize(key)),
    ]
    if hasattr(store._store, "get_sync"):
        calls += [lambda key: store.get_sync(key, prototype=prototype, byte_range=part)]
    if hasattr(Store, "get_ranges_sync") and hasattr(store._store, "get_sync"):
        calls += [lambda key: store.get_ranges_sync(key, [part], prototype=prototype)]
    for key in ("native/c/1", f"d/{target}"):
        for call in calls:
            check_refused(lambda call=call, key=key: call(key), private)
        if not hasattr(Store, "get_ranges"):  # an older zarr
            continue
        with pytest.raises((errors.LocationNotAllowedError, BaseExceptionGroup)) as raised:
            sync(ranges(key))
        assert isinstance(raised.value, errors.LocationNotAllowedError) or raised.group_contains(
            errors.LocationNotAllowedError
        )
    for prefix in ("d", "d/c"):
        check_refused(lambda prefix=prefix: sync(listed(store.list_dir(prefix))), private)
        check_refused(lambda prefix=prefix: sync(listed(store.list_prefix(f"{prefix}/"))), private)
        check_refused(lambda prefix=prefix: sync(store.is_empty(prefix)), private)
        check_refused(lambda prefix=prefix: sync(store.getsize_prefix(prefix)), private)
    # The name of a link that is in the hierarchy is no secret, but not if its target decides.
    keys = sync(listed(store.list()))
    assert "native/c/0" in keys
    assert not [key for key in keys if key.startswith(("d/", "native/c/1"))]


def test_a_pickled_store_refuses_too(root: Path, private: Path) -> None:
    moved(root / "native/c/1", private / "moved")
    check_refused(lambda: native(pickle.loads(pickle.dumps(zm.ManifestStore(root)))), private)
    allowed = pickle.loads(pickle.dumps(zm.ManifestStore(root, allow=[private])))
    assert native(allowed) == list(RAW[:8])


# Special files ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["f.bin", "a/manifest.json", "a/zarr.json"])
def test_a_fifo_does_not_hang(make: Callable[[Path], Any], root: Path, name: str) -> None:
    (root / "f.bin").write_bytes(RAW)
    declare(root, "../f.bin")
    (root / name).unlink()
    os.mkfifo(root / name)
    with pytest.raises(errors.SourceError, match="not a regular file"):
        read(make(root))


@pytest.mark.parametrize("kind", ["path", "fsspec simple cache", "obstore's fsspec"])
@pytest.mark.parametrize("what", ["source", "document", "directory"])
def test_names_that_no_file_can_have(root: Path, kind: str, what: str) -> None:
    """What has one does not exist."""
    make = STORES[kind]
    long = "n" * 300
    declare(root, f"../{long}")
    if what != "source":
        document = f"./{long}.json" if what == "document" else f"./{long}/manifest.json"
        path = root / "a/zarr.json"
        path.write_text(path.read_text().replace("./manifest.json", document))
    with pytest.raises(errors.ManifestError) as raised:
        read(make(root))
    # obstore has no error of its own for them.
    codes = {"source_not_found" if what == "source" else "manifest_not_found", "source_error"}
    assert raised.value.code in codes
    assert raised.value.location is not None
    assert what == "source" or {found.code for found in zm.validate(make(root))} <= codes


def test_nodes_with_names_that_no_file_can_have(root: Path) -> None:
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    assert "n" * 300 not in group


@pytest.mark.parametrize("what", ["source", "document", "block"])
def test_a_directory_in_place_of_a_file(root: Path, make: Callable[[Path], Any], what: str) -> None:
    """It is neither a source that does not exist nor a block without entries."""
    (root / "f.bin").write_bytes(RAW)
    declare(root, "../f.bin")
    if what == "block":
        path = root / "a/zarr.json"
        metadata = json.loads(path.read_text())
        configuration = metadata["storage_transformers"][0]["configuration"]
        configuration |= {"manifest": "./{partition}.json", "partition_shape": [1]}
        path.write_text(json.dumps(metadata))
    name = {"source": "f.bin", "document": "a/manifest.json", "block": "a/0.json"}[what]
    (root / name).unlink(missing_ok=True)
    (root / name).mkdir()
    with pytest.raises(errors.SourceError, match="found a directory"):
        read(make(root))


# Stores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES)
def test_the_directory_is_found(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    if isinstance(store, Path):
        store = LocalStore(store)
    elif not isinstance(store, Store):
        store = ObjectStore(store)
    found = directory_of(store)
    assert found is not None
    assert (found.path, found.is_untransformed) == (str(tmp_path), kind in PLAIN)


def test_other_stores_are_read_as_they_are(tmp_path: Path) -> None:
    for store in (
        MemoryStore(),
        ZipStore(tmp_path / "h.zip", mode="w"),
        FsspecStore.from_url("memory://h"),
        WrapperStore(MemoryStore()),
    ):
        assert directory_of(store) is None
        assert inside_store(store) is store


@pytest.mark.slow
@pytest.mark.usefixtures("pipeline")
def test_bytes_come_through_stores_that_transform_them(root: Path, private: Path) -> None:
    (root / "f.bin").write_bytes(RAW)
    declare(root, "../f.bin")
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))
    for store in (Inverting(root), WrapperStore(Inverting(root))):
        assert read(store) == VALUES
        assert native(store) == list(RAW[:8])
    moved(root / "f.bin", private / "moved")
    refused(Inverting(root))
    assert read(Inverting(root), allow=[private]) == VALUES


def test_no_method_that_reads_or_writes_is_passed_on() -> None:
    """zarr's WrapperStore would pass those on, unchecked, that are not overridden."""
    reading_or_writing = {
        name for name in vars(StoreOnStore) if not name.startswith("_") and "supports" not in name
    }
    assert reading_or_writing == {"close", "read_only", "get_partial_values", "list"}
    assert not issubclass(OwnStore, WrapperStore)


# What a manifest array says --------------------------------------------------------------


def test_the_error_of_a_native_chunk_says_what_to_do(root: Path, private: Path) -> None:
    moved(root / "native/c/1", private / "moved")
    with pytest.raises(errors.LocationNotAllowedError) as raised:
        native(root)
    assert raised.value.location == f"{root.as_uri()}/native/c/1"
    assert "authorise that, by its own path: allow=['" in str(raised.value)
