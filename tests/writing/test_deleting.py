"""What is deleted, what is kept because a manifest refers to it, and in which order."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import S3Store
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import FIELD, files_below, split_into_source, write_manifest_array
from tests.servers.s3 import S3Server

BUFFER = default_buffer_prototype().buffer
SOURCE = split_into_source(FIELD, (3, 4), path="")[1]

# However it is named ---------------------------------------------------------------------


def relative(root: Path) -> str:
    return "raw/f%20g.bin"


def file_url(root: Path) -> str:
    return (root / "g/x/raw/f g.bin").as_uri()


def bare_path(root: Path) -> str:
    return f"{root}/g/x/raw/f%20g.bin"


def localhost(root: Path) -> str:
    return file_url(root).replace("file:///", "file://LOCALHOST/")


def with_dots(root: Path) -> str:
    return f"{root.as_uri()}/g/../g/x/./raw/f%20g.bin"


def link_to_the_root(root: Path) -> str:
    link = root.parent / "link"
    link.symlink_to(root)
    return f"{link.as_uri()}/g/x/raw/f%20g.bin"


def link_to_the_file(root: Path) -> str:
    link = root.parent / "link.bin"
    link.symlink_to(root / "g/x/raw/f g.bin")
    return link.as_uri()


def link_inside(root: Path) -> str:
    (root / "other").symlink_to(root / "g/x/raw")
    return "../../other/f%20g.bin"


NAMES = [
    relative,
    file_url,
    bare_path,
    localhost,
    with_dots,
    link_to_the_root,
    link_to_the_file,
    link_inside,
]


def delete_dir(store: zm.ManifestStore) -> None:
    sync(store.delete_dir("g/x"))


def delete_node(store: zm.ManifestStore) -> None:
    del zarr.open_group(store, path="g", mode="r+")["x"]


def delete_group(store: zm.ManifestStore) -> None:
    del zarr.open_group(store, mode="r+")["g"]


def clear(store: zm.ManifestStore) -> None:
    sync(store.clear())


def overwrite_array(store: zm.ManifestStore) -> None:
    zarr.create_array(store, name="g/x", shape=3, dtype="u1", overwrite=True)


def overwrite_group(store: zm.ManifestStore) -> None:
    zarr.create_group(store, overwrite=True)


def open_to_write(store: zm.ManifestStore) -> None:
    zarr.open_group(store, mode="w")


DELETIONS = [
    delete_dir,
    delete_node,
    delete_group,
    clear,
    overwrite_array,
    overwrite_group,
    open_to_write,
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "h.zarr"
    zarr.create_group(root)
    zarr.create_group(root / "g")
    (root / "g/x/raw").mkdir(parents=True)
    (root / "g/x/raw/f g.bin").write_bytes(SOURCE)
    (root / "g/x/left over").write_bytes(b"")
    return root


def refer(root: Path, array: str, path: str, **options: Any) -> None:
    manifest, _ = split_into_source(FIELD, (3, 4), path=path)
    write_manifest_array(root, array, FIELD, (3, 4), manifest, **options)


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("name", combinations(NAMES, besides=[relative, link_inside]))
def test_a_source_is_kept(
    root: Path, name: Callable[[Path], str], delete: Callable[[zm.ManifestStore], None]
) -> None:
    refer(root, "g/x", name(root))
    store = zm.ManifestStore(root, allow=[root.parent.as_uri()])
    np.testing.assert_array_equal(zarr.open_array(store, path="g/x", mode="r")[:], FIELD)
    delete(store)
    left = files_below(root)
    assert left["g/x/raw/f g.bin"] == SOURCE
    assert "g/x/manifest.json" not in left
    assert "g/x/left over" not in left


def test_a_source_is_kept_when_a_directory_is_deleted_twice(root: Path) -> None:
    """As older versions of zarr do to open with mode "w"."""
    refer(root, "g/x", relative(root))
    store = zm.ManifestStore(root)
    for _ in range(3):
        sync(store.clear())
        assert set(files_below(root)) == {"g/x/raw/f g.bin"}
    sync(store.set("g/x/raw/f g.bin", BUFFER.from_bytes(b"new")))
    sync(store.clear())
    assert files_below(root) == {}


@pytest.mark.parametrize(
    "kind",
    [
        lambda root: FsspecStore.from_url(root.as_uri()),
        lambda root: WrapperStore(LocalStore(root)),
    ],
)
def test_a_source_is_kept_by_other_stores(root: Path, kind: Callable[[Path], Store]) -> None:
    refer(root, "g/x", file_url(root))
    sync(zm.ManifestStore(kind(root)).delete_dir("g"))
    assert set(files_below(root)) == {"zarr.json", "g/x/raw/f g.bin"}


def test_a_source_in_the_same_bucket(s3_server: S3Server, s3_bucket: str) -> None:
    objects = S3Store(s3_bucket, prefix="h", **s3_server.options)
    store = zm.ManifestStore(objects)
    zarr.create_group(store)
    url = f"s3://{s3_bucket}/h"
    entries: Any = {"0": {"path": f"{url}/x/raw.bin"}, "1": {"path": f"{url}2/f"}}
    zm.create_array(objects, "x", entries, shape=2, chunks=1, dtype="u1", inline=False)
    for key in ("h/x/raw.bin", "h/x/other.bin", "h2/f"):
        s3_server.put(s3_bucket, key, b"1")
    sync(store.delete_dir("x"))
    keys = {
        meta["path"] for batch in S3Store(s3_bucket, **s3_server.options).list() for meta in batch
    }
    assert keys == {"h/zarr.json", "h/x/raw.bin", "h2/f"}


# Through arrays elsewhere ----------------------------------------------------------------


@pytest.mark.parametrize("name", [file_url, lambda _: "../g/x/raw/f%20g.bin"])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.filterwarnings("ignore:Object at")
def test_a_source_of_an_array_elsewhere_is_kept(
    root: Path, name: Callable[[Path], str], consolidated: bool
) -> None:
    zarr.create_array(root / "g/x", data=FIELD, chunks=(3, 4))
    refer(root, "a", name(root))
    if consolidated:
        zarr.consolidate_metadata(zm.ManifestStore(root))
        (root / "a/zarr.json").unlink()
    store = zm.ManifestStore(root, allow=[root.as_uri()])
    sync(store.delete_dir("g"))
    assert {key for key in files_below(root) if key.startswith("g/")} == {"g/x/raw/f g.bin"}
    array: Any = zarr.open_group(zm.ManifestStore(root, allow=[root.as_uri()]), mode="r")["a"]
    np.testing.assert_array_equal(array[:], FIELD)


def test_chunks_of_a_native_array_that_another_refers_to_are_kept(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    zarr.create_array(tmp_path / "n", data=FIELD, chunks=(3, 8), compressors=None)
    refer_to = {"0.0": {"path": "../n/c/0/0"}}
    write_manifest_array(tmp_path, "a", FIELD[:3], (3, 8), refer_to)
    store = zm.ManifestStore(tmp_path)
    del zarr.open_group(store, mode="r+")["n"]
    assert [key for key in files_below(tmp_path) if key.startswith("n/")] == ["n/c/0/0"]
    np.testing.assert_array_equal(zarr.open_array(store, path="a", mode="r")[:], FIELD[:3])


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_document_of_an_array_elsewhere_is_kept(tmp_path: Path, partitioned: bool) -> None:
    zarr.create_group(tmp_path)
    zarr.create_group(tmp_path / "shared")
    (tmp_path / "shared/other").write_bytes(b"")
    name = "../shared/{partition}.json" if partitioned else "../shared/m.json"
    options: Any = {"partition_shape": [1]} if partitioned else {}
    entries = {(i,): {"data": bytes([i])} for i in range(2)}
    zm.create_array(
        tmp_path, "a", entries, shape=2, chunks=1, dtype="u1", manifest_url=name, **options
    )
    sync(zm.ManifestStore(tmp_path).delete_dir("shared"))
    documents = {key for key in files_below(tmp_path) if key.startswith("shared/")}
    assert documents == ({f"shared/{i}.json" for i in "01"} if partitioned else {"shared/m.json"})
    array: Any = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    assert array[:].tolist() == [0, 1]


def test_nothing_is_deleted_if_a_manifest_cannot_be_read(root: Path) -> None:
    refer(root, "a", "x")
    (root / "a/manifest.json").write_text("{")
    before = files_below(root)
    with pytest.raises(zm.errors.InvalidJSONError) as caught:
        sync(zm.ManifestStore(root).delete_dir("g"))
    assert caught.value.array == "a"
    assert files_below(root) == before


def test_what_lost_its_manifest_can_be_deleted(root: Path) -> None:
    refer(root, "g/x", "raw/f%20g.bin")
    (root / "g/x/manifest.json").unlink()
    sync(zm.ManifestStore(root).delete_dir("g/x"))
    assert not (root / "g/x/zarr.json").exists()


def test_manifests_elsewhere_are_read_only_if_there_is_something_to_keep(tmp_path: Path) -> None:
    """Arrays that consist of references are replaced one after the other: not quadratic."""
    zarr.create_group(tmp_path)
    for name in "ab":
        zm.create_array(
            tmp_path, name, {"0": {"data": b"1"}}, shape=1, chunks=1, dtype="u1", inline=False
        )
    (tmp_path / "b/manifest.json").write_text("{")
    sync(zm.ManifestStore(tmp_path).delete_dir("a"))
    sync(zm.ManifestStore(tmp_path).delete_dir("nothing"))
    assert {key.split("/")[0] for key in files_below(tmp_path)} == {"zarr.json", "b"}


def test_links_are_not_followed(root: Path) -> None:
    refer(root, "b", "../g/x/raw/f%20g.bin")
    (root / "g/link").symlink_to(root / "b")
    sync(zm.ManifestStore(root).delete_dir("g"))
    array: Any = zarr.open_array(zm.ManifestStore(root), path="b", mode="r")
    np.testing.assert_array_equal(array[:], FIELD)


def test_the_view_that_was_pickled(root: Path) -> None:
    refer(root, "g/x", file_url(root))
    store = pickle.loads(pickle.dumps(zm.ManifestStore(root, allow=[root.as_uri()])))
    sync(store.delete_dir("g"))
    assert set(files_below(root)) == {"zarr.json", "g/x/raw/f g.bin"}


def test_memory() -> None:
    store = zm.ManifestStore(MemoryStore())
    zarr.create_group(store)
    zm.create_array(
        store, "x", {"0": {"path": "raw/f"}}, shape=1, chunks=1, dtype="u1", inline=False
    )
    sync(store._store.set("x/raw/f", BUFFER.from_bytes(b"1")))
    sync(store.delete_dir("x"))

    async def keys() -> list[str]:
        return [key async for key in store._store.list()]

    assert sorted(sync(keys())) == ["x/raw/f", "zarr.json"]
