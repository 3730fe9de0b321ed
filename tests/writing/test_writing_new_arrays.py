"""Arrays that are made together with their manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import files_below

CREATION: dict[str, Any] = {"shape": (2, 2), "chunks": (1, 2), "dtype": "<u2", "compressors": None}
ENTRIES = {"0.0": {"data": b"\1\0\2\0"}, (1, 0): {"data": b"\3\0\4\0"}}


@pytest.mark.parametrize("path", ["", "a", "deep/down/a", "/a/"])
@pytest.mark.parametrize("options", [{}, {"inline": True}, {"partition_shape": [1, 1]}])
def test_a_new_array(path: str, options: dict[str, Any]) -> None:
    store = MemoryStore()
    zm.create_array(
        store,
        path,
        ENTRIES,
        **CREATION,
        attributes={"units": "K"},
        fill_value=7,
        **{"inline": False, **options},
    )
    opened = zm.ManifestStore(store)
    array = zarr.open_array(opened, path=path, mode="r")
    np.testing.assert_array_equal(array[...], [[1, 2], [3, 4]])
    assert dict(array.attrs) == {"units": "K"}
    if path.strip("/"):
        found = zarr.open_group(opened, mode="r")[path.strip("/")]
        assert isinstance(found, zarr.Array)
    assert zm.validate(store, strict=True) == []


def test_entries_as_columns() -> None:
    store = MemoryStore()
    offsets = np.array([[0], [4]])
    manifest = zm.Manifest.from_columns((2, 1), paths="raw.bin", offsets=offsets, lengths=4)
    zm.create_array(store, "a", manifest, base="../", **CREATION, inline=False)
    body = bytes([1, 0, 2, 0, 3, 0, 4, 0])
    store._store_dict["raw.bin"] = zarr.buffer.default_buffer_prototype().buffer.from_bytes(body)
    array = zarr.open_array(zm.ManifestStore(store), path="a", mode="r")
    np.testing.assert_array_equal(array[...], [[1, 2], [3, 4]])


def test_groups_above_keep_what_they_have() -> None:
    store = MemoryStore()
    zarr.create_group(store, path="g", attributes={"x": 1})
    zm.create_array(store, "g/a", ENTRIES, **CREATION, inline=False)
    assert dict(zarr.open_group(store, path="g", mode="r").attrs) == {"x": 1}


@pytest.mark.parametrize("kind", ["array", "group", "manifest array"])
def test_a_node_that_is_there_is_not_replaced(tmp_path: Path, kind: str) -> None:
    if kind == "array":
        zarr.create_array(tmp_path, name="a", **CREATION)
    elif kind == "group":
        zarr.create_group(tmp_path, path="a")
    else:
        zm.create_array(tmp_path, "a", {}, **CREATION, inline=False)
    before = files_below(tmp_path)
    with pytest.raises(zm.errors.WriteConflictError, match="already"):
        zm.create_array(tmp_path, "a", ENTRIES, **CREATION, inline=False)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("entries", "options", "code"),
    [
        ({"0.9": {}}, {}, "invalid_chunk_key"),
        ({"0.0": {"path": "f", "length": 0}}, {}, "invalid_entry"),
        ({}, {"base": "../" * 64}, "invalid_path"),
        ({}, {"partition_shape": [1]}, "invalid_configuration"),
        (zm.Manifest.from_columns((2, 1), paths="../" * 64 + "f"), {}, "invalid_path"),
        (zm.Manifest.from_columns((3, 1), paths="f"), {}, "invalid_chunk_key"),
    ],
)
def test_nothing_is_written_of_what_is_wrong(
    tmp_path: Path, entries: Any, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(zm.ManifestError) as raised:
        zm.create_array(tmp_path, "a", entries, **CREATION, **{"inline": False, **options})
    assert (raised.value.code, raised.value.array) == (code, "a")
    assert files_below(tmp_path) == {}


IMPOSSIBLE_NAMES = [
    "zarr.json",
    "__hidden",
    ".",
    "..",
    "...",
    "",
    "a\0",
    "a\\b",
    "\x1b[2J",
    "\ud800",
]


@pytest.mark.parametrize("name", IMPOSSIBLE_NAMES)
@pytest.mark.parametrize("path", ["x/{}", "{}/x", "x/{}/x"])
def test_names_that_no_node_has(tmp_path: Path, name: str, path: str) -> None:
    """Reserved by Zarr, or a way out of the hierarchy."""
    array = path.format(name) if name else "x//x"
    root = tmp_path / "deep" / "root"
    root.mkdir(parents=True)
    writers: list[Callable[[], None]] = [
        lambda: zm.create_array(root, array, ENTRIES, **CREATION, inline=False),
        lambda: zm.write_manifest(root, array, ENTRIES, inline=False),
    ]
    for write in writers:
        with pytest.raises(
            zm.errors.InvalidPathError, match=r"cannot have the name .* A name must not"
        ):
            write()
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("name", ["data", "store", "name", "overwrite", "zarr_format"])
def test_arguments_that_make_no_sense(name: str) -> None:
    options: dict[str, Any] = {**CREATION, name: None}
    with pytest.raises(TypeError, match=name):
        zm.create_array(MemoryStore(), "a", {}, **{"inline": False, **options})


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("path", ["g/a", "g/new/a"])
@pytest.mark.parametrize("through_ours", [False, True])
def test_consolidated_metadata_gets_the_new_array(path: str, through_ours: bool) -> None:
    """Else whoever opens the group, which zarr does by its consolidated metadata, misses it."""
    store = MemoryStore()
    zarr.create_group(store, path="g", attributes={"x": 1})
    zarr.consolidate_metadata(store, path="g")
    zarr.consolidate_metadata(store)
    location = zm.ManifestStore(store) if through_ours else store
    zm.create_array(location, path, ENTRIES, **CREATION, inline=False)
    for opened in (zm.ManifestStore(store), location if through_ours else zm.ManifestStore(store)):
        for group in ("", "g"):
            root = zarr.open_group(opened, path=group, mode="r", use_consolidated=True)
            array = root[path.removeprefix(group).strip("/")]
            assert isinstance(array, zarr.Array)
            np.testing.assert_array_equal(array[...], [[1, 2], [3, 4]])
        again = zarr.open_group(opened, mode="r", use_consolidated=False)
        consolidated = zarr.open_group(opened, mode="r", use_consolidated=True)
        names = [dict(each.members(max_depth=None)).keys() for each in (again, consolidated)]
        assert names[0] == names[1]
    plain = zarr.open_group(store, path="g", mode="r", use_consolidated=False)
    assert dict(plain.attrs) == {"x": 1}
    assert zm.validate(store) == []


@pytest.mark.parametrize("above", ["", "g", "g/a"])
def test_an_array_has_no_nodes_below_it(tmp_path: Path, above: str) -> None:
    zarr.create_array(tmp_path, name=above or None, **CREATION)
    before = files_below(tmp_path)
    with pytest.raises(
        zm.errors.WriteConflictError, match="an array, and cannot have nodes below it"
    ):
        zm.create_array(tmp_path, "g/a/new", ENTRIES, **CREATION, inline=False)
    assert files_below(tmp_path) == before
