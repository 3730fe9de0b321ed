"""What a directory holds, also behind symbolic links, and where nobody may look."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.conversion.older_writers.older_writer_stores import unpack
from tests.hierarchies import copy_into, files_below, write_hierarchy
from zarr_manifest import conversion
from zarr_manifest.hierarchy import list_nodes
from zarr_manifest.inspection import contents
from zarr_manifest.stores import Listing, list_inside
from zarr_manifest.zarr_internals import sync

V2: dict[str, Any] = {"zarr_format": 2, "chunks": (2, 2), "compressors": None}
VALUES = np.arange(1, 17, dtype="<i2").reshape(4, 4)


def keys_in(store: Any, prefix: str = "") -> list[str]:
    """All keys, wherever links lead."""
    return sync(list_inside(store, prefix, ("/",))).keys


def v2_array(path: Path) -> None:
    zarr.create_array(path, data=VALUES, chunk_key_encoding={"name": "v2", "separator": "/"}, **V2)


def replace_by_link(path: Path, target: Path) -> None:
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.slow
def test_without_links_it_is_what_zarr_lists(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write_hierarchy(root)
    memory = MemoryStore()
    copy_into(memory, root)
    everything = sorted(files_below(root))
    for store in (LocalStore(root), memory):
        assert sorted(keys_in(store)) == everything
        assert sync(list_inside(store)) == Listing(keys_in(store), [], [])
        below = sorted(keys_in(store, "a/b/"))
        assert below == [key for key in everything if key.startswith("a/b/")]
        assert keys_in(store, "missing/") == []


def test_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    for file in (root / "a" / "f", outside / "g"):
        file.write_bytes(b"")
    (root / "inside").symlink_to("a")
    (root / "leaving").symlink_to(outside)
    (root / "a" / "around").symlink_to(root)
    (root / "nothing").symlink_to("missing")
    inside = ["a/f", "inside/f", "nothing"]
    assert sorted(keys_in(LocalStore(root))) == [*inside[:2], "leaving/g", "nothing"]
    assert sync(list_inside(LocalStore(root))) == Listing(inside, ["leaving"], [])
    (outside / ".zgroup").write_text("{}")
    assert sync(list_inside(LocalStore(root))) == Listing(inside, ["leaving"], ["leaving"])


def test_listing_below_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "f").write_bytes(b"")
    root.mkdir()
    (root / "leaving").symlink_to(outside)
    store = LocalStore(root)
    for path in ("leaving", "leaving/deep"):
        assert sync(list_inside(store, f"{path}/")) == Listing([], [path], [])
        assert keys_in(store, f"{path}/") == ["leaving/deep/f"]
    (outside / "deep" / "zarr.json").write_text("{}")
    assert sync(list_inside(store, "leaving/deep/")) == Listing(
        [], ["leaving/deep"], ["leaving/deep"]
    )


# Zarr v2: what is not listed would be read as fill values --------------------------


def test_arrays_and_chunks_behind_links_are_imported(tmp_path: Path) -> None:
    """As on clusters, where some of a hierarchy lies on another disk."""
    old = tmp_path / "old.zarr"
    zarr.create_group(old, zarr_format=2)
    for name in ("array", "chunks"):
        v2_array(old / name)
    replace_by_link(old / "array", tmp_path / "elsewhere")
    replace_by_link(old / "chunks" / "1", tmp_path / "second row")
    conversion.write_hierarchy(tmp_path / "new.zarr", conversion.read_zarr2(old))
    opened = zm.ManifestStore(tmp_path / "new.zarr", allow=[tmp_path.as_uri()])
    group = zarr.open_group(opened, mode="r")
    for name in ("array", "chunks"):
        array = group[name]
        assert isinstance(array, zarr.Array)
        np.testing.assert_array_equal(array[...], VALUES)


# Members only ------------------------------------------------------------------------


class CountingStore(MemoryStore):
    """A store that has to be asked for no more keys than needed."""

    listed = 0

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        async for key in super().list_prefix(prefix):
            self.listed += 1
            yield key


@pytest.mark.slow
def test_what_is_further_down_is_not_listed(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write_hierarchy(root)
    memory = CountingStore()
    copy_into(memory, root)
    for below in ("", "a", "inline"):
        deep = {n.path: n for n in sync(list_nodes(memory, below))}
        memory.listed = 0
        for store in (memory, LocalStore(root)):
            shallow = sync(list_nodes(store, below, deep=False))
            depth = below.count("/") + 1 if below else 0
            assert shallow == [n for n in deep.values() if n.path.count("/") <= depth]
        assert memory.listed == 0


@pytest.mark.slow
def test_own_documents_are_kept_as_stored(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write_hierarchy(root)
    for node in sync(list_nodes(LocalStore(root))):
        assert node.body == (root / node.path / node.name).read_bytes()


def test_members_below_what_may_not_be_listed(locked: Path) -> None:
    """Only chunks are there."""
    nodes = sync(list_nodes(LocalStore(locked), deep=False))
    assert [(node.path, node.kind) for node in nodes] == [("a", "array")]


@pytest.fixture
def locked() -> Iterator[Path]:
    """A v2 array that lacks a row of chunks for those who may not look; root always may."""
    with tempfile.TemporaryDirectory() as name:  # pytest's directories are private
        root = Path(name)
        v2_array(root / "a")
        root.chmod(0o755)
        (root / "a" / "1").chmod(0)
        before = os.geteuid()
        if before == 0:
            os.seteuid(65534)
        yield root
        os.seteuid(before)
        (root / "a" / "1").chmod(0o755)


def test_directories_that_may_not_be_listed(locked: Path) -> None:
    for look in (conversion.read_zarr2, contents, zm.validate):
        with pytest.raises(
            zm.errors.SourceAccessDeniedError, match="no permission to list"
        ) as caught:
            look(locked)
        assert caught.value.location == (locked / "a" / "1").as_uri()


# Hierarchies: links that lead out of them are not followed, and named ---------------


@pytest.mark.slow
def test_a_node_behind_a_link_is_named(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    write_hierarchy(root)
    replace_by_link(root / "inline", tmp_path / "elsewhere")
    (problem,) = zm.validate(root)
    assert (problem.code, problem.array) == ("location_not_allowed", "inline")
    (node,) = (node for node in contents(root).nodes if node.problem is not None)
    assert (node.path, node.kind) == ("inline", "invalid")
    assert isinstance(node.problem, zm.errors.LocationNotAllowedError)


@pytest.mark.slow
def test_an_array_behind_a_link_is_not_upgraded(tmp_path: Path) -> None:
    root = unpack("1.2.0", "types.h5", tmp_path / "writer")
    name = next(path.name for path in sorted(root.iterdir()) if path.is_dir())
    replace_by_link(root / name, tmp_path / "elsewhere")
    before = files_below(tmp_path / "elsewhere")
    report = conversion.upgrade(root)
    assert (name, "location_not_allowed") in [(node.path, node.code) for node in report.refused]
    assert name not in report.repairs
    assert files_below(tmp_path / "elsewhere") == before
