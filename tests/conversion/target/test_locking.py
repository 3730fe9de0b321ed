"""The lock: who writes it, who keeps it, and how it is added to what lacks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import streamed, vector
from tests.hierarchies import (
    MANIFEST_ARRAYS,
    assert_same,
    consolidate,
    copy_into,
    files_below,
    read,
    write_hierarchy,
)
from tests.interrupted_stores import InterruptedMemory, every_change
from zarr_manifest import conversion
from zarr_manifest.errors import (
    InvalidConfigurationError,
    SourceNotFoundError,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata", "ignore:Object at .* is not recognized"
)

NAME, LOCK = "chunk-manifest-json", {"must_understand": True}
CREATION: dict[str, Any] = {"shape": (4,), "chunks": (2,), "dtype": "u1"}
ENTRIES = {"0": {"data": b"\x01\x02"}, "1": {"data": b"\x03\x04"}}


def node(root: Path, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / path / "zarr.json").read_text())
    return found


def copies(root: Path) -> dict[str, Any]:
    members: dict[str, Any] = node(root, "")["consolidated_metadata"]["metadata"]
    return members


def unlocked_in(store: Any) -> list[str]:
    """Paths of the arrays of a valid hierarchy that lack the lock."""
    assert zm.validate(store) == []
    notes = zm.validate(store, strict=True)
    return [note.array for note in notes if note.code == "lock_missing"]


@pytest.fixture
def unlocked(tmp_path: Path) -> Path:
    """Every kind of node, written without locks, and consolidated."""
    root = tmp_path / "data.zarr"
    write_hierarchy(root)
    consolidate(root)
    return root


# Writers ------------------------------------------------------------------------------


def by_create_array(root: Path, **lock: bool) -> None:
    zm.create_array(root, "a", ENTRIES, **CREATION, **lock, inline=False)


def by_write_manifest(root: Path, **lock: bool) -> None:
    zarr.create_array(root, name="a", **CREATION)
    zm.write_manifest(root, "a", ENTRIES, **lock, inline=False)


def by_write_hierarchy(root: Path, **lock: bool) -> None:
    conversion.write_hierarchy(root, [vector("a", [1, 2])], **lock, inline_below=0)


def by_write_hierarchy_inline(root: Path, **lock: bool) -> None:
    conversion.write_hierarchy(root, [vector("a", [1, 2])], inline_below=1000, **lock)


def by_write_hierarchy_in_parts(root: Path, **lock: bool) -> None:
    conversion.write_hierarchy(root, [streamed("a", [1, 2])], **lock, inline_below=0)


WRITERS = [
    by_create_array,
    by_write_manifest,
    by_write_hierarchy,
    by_write_hierarchy_inline,
    by_write_hierarchy_in_parts,
]


@pytest.mark.parametrize("write", WRITERS)
def test_writers_lock_unless_told_otherwise(tmp_path: Path, write: Callable[..., None]) -> None:
    for name, options in (("locked", {}), ("not", {"lock": False})):
        root = tmp_path / name
        write(root, **options)
        assert node(root, "a").get(NAME) == (None if options else LOCK)
        assert unlocked_in(root) == (["a"] if options else [])


def test_writing_a_manifest_again_decides_anew(tmp_path: Path) -> None:
    by_create_array(tmp_path)
    zm.write_manifest(tmp_path, "a", ENTRIES, lock=False, inline=False)
    assert NAME not in node(tmp_path, "a")
    zm.write_manifest(tmp_path, "a", ENTRIES, inline=False)
    assert node(tmp_path, "a")[NAME] == LOCK


def test_a_lost_declaration_is_an_error_until_the_manifest_is_written_again(
    tmp_path: Path,
) -> None:
    by_create_array(tmp_path)
    lost = node(tmp_path, "a")
    del lost["storage_transformers"]
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(lost))
    for path in ("", "a"):
        with pytest.raises(InvalidConfigurationError, match="the declaration was lost"):
            zarr.open(zm.ManifestStore(tmp_path), path=path, mode="r")["a" if not path else ...]
    zm.write_manifest(tmp_path, "a", ENTRIES, inline=False)
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, 2, 3, 4]


# What rewrites metadata ---------------------------------------------------------------


def test_whatever_zarr_rewrites_keeps_the_lock(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    by_create_array(root)
    with zm.edit(root) as group:
        array = group["a"]
        array.attrs["units"] = "K"
        array.resize((3,))
    assert (node(root, "a")["attributes"], node(root, "a")["shape"]) == ({"units": "K"}, [3])
    assert node(root, "a")[NAME] == LOCK
    with zm.edit(root) as group:
        zarr.consolidate_metadata(group.store)
    assert copies(root)["a"][NAME] == LOCK
    with zm.edit(root) as group:
        group.attrs["title"] = "x"
    assert copies(root)["a"][NAME] == LOCK
    assert NAME not in (array.metadata.to_dict() | dict(array.attrs))
    assert zm.validate(root, strict=True) == []


# Adding it ----------------------------------------------------------------------------


@pytest.mark.slow
def test_locking_changes_nothing_but_the_lock(unlocked: Path) -> None:
    before = files_below(unlocked)
    assert conversion.lock(unlocked) == sorted(MANIFEST_ARRAYS)
    after = files_below(unlocked)
    assert before.keys() == after.keys()
    changed = {name for name, body in after.items() if body != before[name]}
    assert changed == {"zarr.json", *(f"{path}/zarr.json" for path in MANIFEST_ARRAYS)}
    for path in MANIFEST_ARRAYS:
        metadata = node(unlocked, path)
        assert metadata == copies(unlocked)[path]
        assert metadata.pop(NAME) == LOCK
        assert metadata == json.loads(before[f"{path}/zarr.json"])
    assert unlocked_in(unlocked) == []
    assert conversion.lock(unlocked) == []
    assert files_below(unlocked) == after


@pytest.mark.slow
def test_a_reader_is_not_disturbed(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    values = write_hierarchy(root)
    store = zm.ManifestStore(root)
    opened = {path: zarr.open_array(store, path=path, mode="r") for path in MANIFEST_ARRAYS}
    conversion.lock(root)
    for path in MANIFEST_ARRAYS:
        assert_same(opened[path], values, path)
        assert_same(read(store, path), values, path)
        assert_same(read(zm.ManifestStore(root), path), values, path)


def test_only_the_arrays_that_are_named(unlocked: Path) -> None:
    assert conversion.lock(unlocked, ["/inline/"]) == ["inline"]
    assert NAME in copies(unlocked)["inline"]
    assert NAME not in node(unlocked, "sharded_manifest")
    with pytest.raises(SourceNotFoundError, match="there is no array 'nope'"):
        conversion.lock(unlocked, ["sharded_manifest", "nope"])
    with pytest.raises(InvalidConfigurationError, match="no manifest to lock"):
        conversion.lock(unlocked, ["native"])
    assert NAME not in node(unlocked, "sharded_manifest")


@pytest.mark.slow
def test_a_copy_that_lacks_the_lock_gets_it(unlocked: Path) -> None:
    root = node(unlocked, "")
    conversion.lock(unlocked)
    (unlocked / "zarr.json").write_text(json.dumps(root))
    assert conversion.lock(unlocked) == sorted(MANIFEST_ARRAYS)
    assert all(NAME in copies(unlocked)[path] for path in MANIFEST_ARRAYS)


@pytest.mark.slow
def test_nothing_is_locked_where_metadata_cannot_be_read(unlocked: Path) -> None:
    (unlocked / "inline" / "zarr.json").write_text("{")
    before = files_below(unlocked)
    with pytest.raises(InvalidConfigurationError, match="'inline'"):
        conversion.lock(unlocked)
    assert files_below(unlocked) == before


@pytest.mark.slow
@pytest.mark.parametrize("is_consolidated", [True, False])
def test_all_arrays_are_locked_or_none(tmp_path: Path, is_consolidated: bool) -> None:
    root = tmp_path / "data.zarr"
    values = write_hierarchy(root)
    if is_consolidated:
        consolidate(root)

    def make() -> InterruptedMemory:
        store = InterruptedMemory()
        copy_into(store, root)
        return store

    states = []
    for store, is_last in every_change(make, conversion.lock):
        for path in MANIFEST_ARRAYS:
            assert_same(read(zm.ManifestStore(store), path), values, path)
        states.append(conversion.lock(store))
        assert unlocked_in(store) == []
        assert "pending" not in json.loads(store._store_dict["zarr.json"].to_bytes())
        assert states[-1] == [] or not is_last
    assert states == sorted(states, reverse=True)
    assert states[0] == sorted(MANIFEST_ARRAYS)
    assert all(each in ([], states[0]) for each in states)


@pytest.mark.slow
def test_copies_are_not_added_where_nobody_could_open_them(tmp_path: Path) -> None:
    """zarr parses all of them to open the group, and would refuse it for one array."""
    zarr.create_group(tmp_path)
    for path in ("a", "b"):
        zm.create_array(tmp_path, path, ENTRIES, lock=False, **CREATION)
    zarr.create_array(tmp_path, name="native", **CREATION)
    unknown = node(tmp_path, "native") | {"codecs": [{"name": "nobody-s"}]}
    (tmp_path / "native" / "zarr.json").write_text(json.dumps(unknown))
    before = files_below(tmp_path)
    with pytest.raises(InvalidConfigurationError, match="change one node at a time"):
        conversion.lock(tmp_path)
    assert files_below(tmp_path) == before
    assert [conversion.lock(tmp_path, [path]) for path in ("a", "b")] == [["a"], ["b"]]
    group = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")
    assert np.asarray(group["a"][...]).tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_upgrading_locks(unlocked: Path) -> None:
    report = conversion.upgrade(unlocked, dry_run=True)
    assert report.repaired == sorted(MANIFEST_ARRAYS)
    before = files_below(unlocked)
    assert conversion.upgrade(unlocked, lock=False).repaired == []
    assert files_below(unlocked) == before
    report = conversion.upgrade(unlocked)
    assert {repair for repairs in report.repairs.values() for repair in repairs} == {
        "it lacked the lock, so that readers without this package could read fill values"
    }
    assert unlocked_in(unlocked) == []
    assert conversion.upgrade(unlocked).repaired == []


def test_what_is_exported_has_no_lock(tmp_path: Path) -> None:
    conversion.write_hierarchy(tmp_path / "data.zarr", [vector("a", [1, 2])], inline_below=0)
    conversion.export_kerchunk_json(tmp_path / "data.zarr", tmp_path / "refs.json")
    assert "must_understand" not in (tmp_path / "refs.json").read_text()


def test_in_memory() -> None:
    store = MemoryStore()
    zm.create_array(store, "a", ENTRIES, lock=False, **CREATION, inline=False)
    assert conversion.lock(store) == ["a"]
    np.testing.assert_array_equal(read(zm.ManifestStore(store), "a"), [1, 2, 3, 4])
