"""Writers change nothing outside a hierarchy: no file's bytes, name or time."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchy.test_links import STORES
from tests.properties import examples
from zarr_manifest import conversion
from zarr_manifest.conversion import ArrayNode, GroupNode
from zarr_manifest.errors import InvalidPathError, LocationNotAllowedError, ManifestError
from zarr_manifest.format import ancestors, document_checksum

CREATION: dict[str, Any] = {"shape": 4, "chunks": 2, "dtype": "u1", "compressors": None}
ENTRIES = {"0": {"data": b"12"}, "1": {"data": b"34"}}
BUFFER = default_buffer_prototype().buffer


# A hierarchy, with the same behind its links -----------------------------------------------


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hierarchy with everything that writers touch; a link may stand for any part of it."""
    root = tmp_path_factory.mktemp("original") / "h"
    zarr.create_group(root)
    for path in ("a", "g/a", "g/g/a"):
        zm.create_array(root, path, ENTRIES, partition_shape=[1], **CREATION)
        values = np.arange(4, dtype="u1")
        zarr.create_array(root, name=f"{path[:-1]}n", data=values, chunks=2, compressors=None)
    return root


@pytest.fixture(scope="module")
def natives(original: Path) -> Path:
    """The same without manifests, so that zarr may change all of it."""
    root = Path(shutil.copytree(original, original.with_name("natives")))
    for document in root.rglob("zarr.json"):
        node = json.loads(document.read_text())
        for name in ("storage_transformers", "chunk-manifest-json"):
            node.pop(name, None)
        document.write_text(json.dumps(node))
    return root


LINKS = [
    *("a", "n", "g", "g/a", "g/n", "g/g", "g/g/a", "g/g/n"),
    *("n/c", "g/n/c", "a/manifest", "g/g/a/manifest"),
    *("zarr.json", "a/zarr.json", "g/zarr.json", "g/g/a/zarr.json", "n/c/0"),
    *("zarr.json.lock", "zarr.json.partial", "a/zarr.json.lock", "a/zarr.json.partial"),
    *("n/c/0.partial", "new", "g/new"),
]


def linked(original: Path, work: Path, link: str, how: str) -> tuple[Path, Path]:
    """Return a copy in which a link leads out, and the directory of what is outside."""
    root, outside = work / "h", work / "outside"
    shutil.copytree(original, root)
    if not outside.exists():
        shutil.copytree(original, outside / "twin")
    place, target = root / link, outside / "twin" / link
    if not target.exists():
        target.write_text("private")
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    if how == "hard" and target.is_file():
        place.hardlink_to(target)
    else:
        place.symlink_to(target)
    return root, outside


def state(directory: Path) -> dict[str, Any]:
    """Return the bytes and the time of all files, and the names in all directories."""
    found: dict[str, Any] = {}
    for path in [directory, *directory.rglob("*")]:
        status = path.stat()
        body = path.read_bytes() if path.is_file() else sorted(p.name for p in path.iterdir())
        found[str(path)] = (body, status.st_mtime_ns)
    return found


def bodies(directory: Path) -> dict[str, Any]:
    """Return the bytes of all files, and the names in all directories."""
    return {path: body for path, (body, _) in state(directory).items()}


# Whatever writes ---------------------------------------------------------------------------


def store_of(root: Path, kind: str) -> zm.ManifestStore:
    return zm.ManifestStore(STORES[kind](root))


def stranger(root: Path, path: str, *, new: bool) -> None:
    """Let a stranger's metadata say that a change of a node, and of nodes below it, is pending."""
    place = root / "zarr.json"
    node = json.loads(place.read_text())
    own = None
    with contextlib.suppress(OSError, ValueError):
        own = document_checksum((root / path / "zarr.json").read_bytes())
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"new": True}}
    paths = {path: own, f"{path}/new": None}
    node["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": dict.fromkeys(paths, group) if new else {},
        "pending": paths,
    }
    if not place.is_symlink():
        place.unlink()  # it may have another name outside
        place.write_text(json.dumps(node))


def nodes(path: str) -> list[Any]:
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
    manifest = zm.Manifest.from_columns((2,), paths="x.bin", offsets=[0, 2], lengths=2)
    return [GroupNode("", {"new": True}), ArrayNode(path, metadata, manifest)]


def written(path: str) -> dict[str, Callable[[Path, str], object]]:
    """Return what writes to an array, or beside it, or removes it, in a directory or a store."""
    group = path.rpartition("/")[0]
    value = BUFFER.from_bytes(b"new")
    prefix = f"{path}/" if path else ""
    both = {"partition_shape": [1]}
    calls: dict[str, Callable[[Path, str], object]] = {
        "write_manifest": lambda root, _: zm.write_manifest(root, path, ENTRIES, inline=True),
        "write documents": lambda root, _: zm.write_manifest(
            root, path, ENTRIES, **{"inline": False, **both}
        ),
        "sole writer": lambda root, _: zm.write_manifest(
            root, path, {}, sole_writer=True, inline=False
        ),
        "create_array": lambda root, _: zm.create_array(
            root, f"{prefix}new", ENTRIES, **CREATION, inline=False
        ),
        "create below": lambda root, _: zm.create_array(
            root, f"{group}/new/x", {}, **CREATION, inline=False
        ),
        "overwrite": lambda root, _: conversion.write_hierarchy(
            root, nodes(path), overwrite=True, inline_below=0
        ),
        "overwrite all": lambda root, _: conversion.write_hierarchy(
            root, [], overwrite=True, inline_below=0
        ),
        "upgrade": lambda root, _: conversion.upgrade(root),
        "accept": lambda root, _: conversion.accept(root, [path], allow=[root.parent]),
        "clean": lambda root, _: zm.clean(root, older_than=0, allow=[root.parent]),
    }
    for name in ("zarr.json", "c/0", "c/1", "manifest/0.json", "manifest.json", "zarr.json.lock"):
        key = f"{prefix}{name}"
        calls |= {
            f"set {name}": lambda root, kind, key=key: sync(store_of(root, kind).set(key, value)),
            f"set_if_not_exists {name}": lambda root, kind, key=key: sync(
                store_of(root, kind).set_if_not_exists(key, value)
            ),
            f"delete {name}": lambda root, kind, key=key: sync(store_of(root, kind).delete(key)),
        }
    calls |= {
        "set_sync": lambda root, _: store_of(root, "LocalStore").set_sync(f"{prefix}c/0", value),
        "delete_sync": lambda root, _: store_of(root, "LocalStore").delete_sync(f"{prefix}c/0"),
        "delete_dir": lambda root, kind: sync(store_of(root, kind).delete_dir(path)),
        "delete chunks": lambda root, kind: sync(store_of(root, kind).delete_dir(f"{prefix}c")),
        "clear": lambda root, kind: sync(store_of(root, kind).clear()),
        "del": lambda root, kind: zarr.open_group(store_of(root, kind)).__delitem__(path),
        "create_group": lambda root, kind: zarr.open_group(store_of(root, kind)).create_group(
            path, overwrite=True
        ),
        "values": lambda root, kind: zarr.open_array(
            store_of(root, kind), path=path, mode="r+"
        ).__setitem__(slice(None), 7),
        "attributes": lambda root, kind: zarr.open(
            store_of(root, kind), path=path, mode="r+"
        ).attrs.update(x=1),
        "consolidate": lambda root, kind: zarr.consolidate_metadata(store_of(root, kind)),
    }
    for new in (False, True):

        def recover(root: Path, _: str, new: bool = new) -> object:
            stranger(root, path, new=new)
            return zm.recover(root)

        def write_another(root: Path, _: str, new: bool = new) -> object:
            stranger(root, path, new=new)
            return zm.create_array(root, "another", {}, **CREATION)

        calls |= {f"recover, {new}": recover, f"write what is pending, {new}": write_another}
    return calls


CALLS = list(written("a"))
KINDS = ["path", "LocalStore", "ObjectStore", "fsspec", "subclass", "wrapper", "obstore's fsspec"]


def behind(link: str) -> st.SearchStrategy[str]:
    """Choose a node that lies behind a link, or has something behind it, or a group above."""
    node = link.split("/zarr.json")[0].split("/c")[0].split("/manifest")[0]
    nodes = {node, *ancestors(node), *(f"{node}/{name}" for name in ("a", "n", "g/a"))}
    return st.sampled_from(sorted(path for path in nodes if "zarr.json" not in path and path))


@pytest.mark.slow
# Where one of zarr's calls fails, it drops the others, which are coroutines by then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@examples(0.5)
@given(data=st.data())
def test_nothing_outside_changes(
    data: st.DataObject, original: Path, natives: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before_all = data.draw(st.sampled_from([original, natives]))
    link = data.draw(st.sampled_from(LINKS))
    how = data.draw(st.sampled_from(["symbolic", "symbolic", "hard"]))
    work = tmp_path_factory.mktemp("work")
    before: dict[str, Any] = {}
    try:
        for name in data.draw(st.lists(st.sampled_from(CALLS), min_size=6, max_size=6)):
            root, outside = linked(before_all, work, link, how)
            path = data.draw(behind(link) if "/" in link or link in "agn" else behind("g"))
            kind = data.draw(st.sampled_from(KINDS))
            before = before or state(outside)
            with contextlib.suppress(Exception):  # most calls are refused
                written(path)[name](root, kind)
            assert state(outside) == before, name
            shutil.rmtree(root)
    finally:
        gc.collect()
        shutil.rmtree(work)


# What is refused, by name --------------------------------------------------------------------


REFUSED: dict[str, Callable[[Path], object]] = {
    "del": lambda root: zarr.open_group(zm.ManifestStore(root)).__delitem__("g"),
    "create_group": lambda root: zarr.open_group(zm.ManifestStore(root)).create_group(
        "g", overwrite=True
    ),
    "write_manifest": lambda root: zm.write_manifest(root, "g/a", ENTRIES, inline=False),
    "create_array": lambda root: zm.create_array(root, "g/new", ENTRIES, **CREATION, inline=False),
    "native array": lambda root: zarr.create_array(
        zm.ManifestStore(root), name="g/new", data=np.arange(4), overwrite=True
    ),
    "overwrite": lambda root: conversion.write_hierarchy(root, [], overwrite=True, inline_below=0),
    "recover": lambda root: (stranger(root, "g/a", new=True), zm.recover(root)),
}


@pytest.mark.parametrize("call", REFUSED)
def test_a_node_behind_a_link_is_refused_by_name(
    call: str, original: Path, natives: Path, tmp_path: Path
) -> None:
    by_zarr = call in ("del", "create_group", "native array")
    root, outside = linked(natives if by_zarr else original, tmp_path, "g", "symbolic")
    before, before_inside = state(outside), bodies(root)
    with pytest.raises(LocationNotAllowedError, match="symbolic link") as raised:
        REFUSED[call](root)
    assert raised.value.location is not None
    assert raised.value.location.startswith(f"{root.as_uri()}/g")
    assert state(outside) == before
    if call != "recover":
        assert bodies(root) == before_inside


def test_links_that_lead_to_no_node_are_left_alone(original: Path, tmp_path: Path) -> None:
    """Such as to a directory of sources."""
    root = Path(shutil.copytree(original, tmp_path / "h"))
    (tmp_path / "archive").mkdir()
    (root / "sources").symlink_to(tmp_path / "archive")
    conversion.write_hierarchy(root, [], overwrite=True, inline_below=0)
    assert (root / "sources").is_symlink()
    assert not (root / "a/zarr.json").exists()


def test_the_root_may_be_a_link(original: Path, natives: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "h")
    root = tmp_path / "link"
    root.symlink_to(tmp_path / "h")
    zm.write_manifest(root, "a", {"0": {"data": b"56"}}, inline=False)
    array: Any = zarr.open_array(zm.ManifestStore(root), path="a")
    assert array[:].tolist() == [53, 54, 0, 0]
    native: Any = zarr.open_array(zm.ManifestStore(root), path="n")
    native[:] = 7
    conversion.write_hierarchy(root, nodes("a"), overwrite=True, inline_below=0)
    root.unlink()
    shutil.copytree(natives, tmp_path / "natives")
    root.symlink_to(tmp_path / "natives")
    sync(zm.ManifestStore(root).clear())
    assert not list(root.iterdir())


DEEP = (pytest.mark.slow, pytest.mark.combinations)


@pytest.mark.parametrize(
    "name",
    ["x" * 5000, pytest.param("a/" * 2500 + "b", marks=DEEP), "x\0y"],
    ids=["long", "deep", "NUL"],
)
@pytest.mark.parametrize(
    "call",
    combinations(
        ["write_manifest", "create_array", "set", "delete", "recover"],
        besides=["write_manifest", "delete"],
    ),
)
def test_impossible_names(name: str, call: str, original: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(original, tmp_path / "h"))
    calls: dict[str, Callable[[], object]] = {
        "write_manifest": lambda: zm.write_manifest(root, name, ENTRIES, inline=False),
        "create_array": lambda: zm.create_array(root, name, ENTRIES, **CREATION, inline=False),
        "set": lambda: sync(zm.ManifestStore(root).set(name, BUFFER.from_bytes(b"1"))),
        "delete": lambda: sync(zm.ManifestStore(root).delete(name)),
        "recover": lambda: (stranger(root, name, new=True), zm.recover(root)),
    }
    with pytest.raises(ManifestError) as raised:
        calls[call]()
    assert len(str(raised.value)) < 4000


@pytest.mark.parametrize("location", ["x" * 5000, "a\0b", "file:///a%00b"])
def test_impossible_locations(location: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: zm.ManifestStore(location),
        lambda: zm.contents(location),
        lambda: zm.create_array(location, "a", {}, **CREATION, inline=False),
        lambda: conversion.write_hierarchy(location, [], inline_below=0),
        lambda: zm.recover(location),
    ]
    for call in calls:
        with pytest.raises(InvalidPathError, match="no directory can have this path"):
            call()


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_reading_impossible_names(name: str, original: Path) -> None:
    group = zarr.open_group(zm.ManifestStore(original), mode="r")
    assert name not in group
    with pytest.raises(KeyError):
        group[name]
