"""Writers that are killed, or find no space: trying again works, and nothing is left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.conversion.inline_nodes import read, streamed, vector
from tests.hierarchies import files_below
from tests.interrupted_stores import changes_below
from zarr_manifest.conversion import recover, write_hierarchy
from zarr_manifest.conversion.nodes import GroupNode
from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError

pytestmark = pytest.mark.slow

CREATION: dict[str, Any] = {"shape": 3, "chunks": 1, "dtype": "u1", "compressors": None}
# A server that has imported everything: its children start at once.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def entries(shift: int) -> dict[Any, Any]:
    return {(i,): {"data": bytes([shift + i])} for i in range(3)}


def create(root: Path) -> None:
    zm.create_array(root, "g/a", entries(10), partition_shape=[2], **CREATION)


def replace(root: Path) -> None:
    zm.write_manifest(root, "a", entries(10), codecs=["zstd"])


def replace_hierarchy(root: Path) -> None:
    nodes = [GroupNode("", {"old": False}), vector("a", [10, 11, 12]), streamed("g/b", [13])]
    write_hierarchy(root, nodes, overwrite=True, inline_below=0)


def edit(root: Path) -> None:
    zarr.open_array(zm.ManifestStore(root), path="a").attrs["x"] = 1


def earlier(root: Path) -> None:
    write_hierarchy(root, [vector("a", [0, 1, 2]), vector("g/b", [3])], partition_shape=[1])


def run_killed(write: Callable[[Path], None], root: Path, left: int) -> None:
    """Write, and end at once before the change after `left` others."""
    remaining = left

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal remaining
        if changes_below(event, arguments, str(root)):
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            remaining -= 1

    sys.addaudithook(watch)
    write(root)


def killed(write: Callable[[Path], None], root: Path, left: int) -> bool:
    process = CONTEXT.Process(target=run_killed, args=(write, root, left))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def remaining(root: Path) -> list[str]:
    """What nobody declares, and no node has."""
    endings = (".lock", ".partial", ".unfinished")
    return [key for key in files_below(root) if key.endswith(endings)]


@pytest.mark.parametrize("left", range(0, 40, 5))
def test_creating_is_killed(tmp_path: Path, left: int) -> None:
    if not killed(create, tmp_path, left):
        assert left > 10
        return
    try:
        create(tmp_path)
    except WriteConflictError:  # all that was left was to remove the lock
        assert (tmp_path / "zarr.json").exists()
    assert read(tmp_path, "g/a") == [10, 11, 12]
    assert not remaining(tmp_path)
    assert zm.validate(tmp_path) == []
    assert len(files_below(tmp_path)) == 5


@pytest.mark.parametrize("left", range(0, 40, 5))
def test_replacing_is_killed(tmp_path: Path, left: int) -> None:
    zm.create_array(tmp_path, "a", entries(0), **CREATION, inline=False)
    was_killed = killed(replace, tmp_path, left)
    assert read(tmp_path, "a") in ([0, 1, 2], [10, 11, 12])
    replace(tmp_path)
    assert read(tmp_path, "a") == [10, 11, 12]
    assert not remaining(tmp_path)
    assert len(files_below(tmp_path)) == 3
    assert was_killed or left > 6


@pytest.mark.parametrize("left", range(0, 120, 11))
def test_replacing_a_hierarchy_is_killed(tmp_path: Path, left: int) -> None:
    earlier(tmp_path)
    killed(replace_hierarchy, tmp_path, left)
    try:
        zarr.open_group(zm.ManifestStore(tmp_path))
    except WriteConflictError:
        with pytest.raises(WriteConflictError, match="interrupted"):
            zarr.open(zm.ManifestStore(tmp_path), mode="a")
    else:
        found = (read(tmp_path, "a"), read(tmp_path, "g/b"))
        assert found in (([0, 1, 2], [3]), ([10, 11, 12], [13]))
    if left % 3 == 1:
        recover(tmp_path, "finish")
    replace_hierarchy(tmp_path)
    assert (read(tmp_path, "a"), read(tmp_path, "g/b")) == ([10, 11, 12], [13])
    assert not remaining(tmp_path)
    assert len(files_below(tmp_path)) == 6
    assert zm.validate(tmp_path) == []


def write_values(root: Path) -> None:
    array: Any = zarr.open_array(zm.ManifestStore(root), path="n")
    array[:] = 7


@pytest.mark.parametrize("left", range(0, 10, 3))
def test_writing_native_chunks_is_killed(tmp_path: Path, left: int) -> None:
    """The next writer of a chunk writes under the same name, and so leaves nothing."""
    zarr.create_array(tmp_path, name="n", data=np.arange(4, dtype="u1"), chunks=2)
    was_killed = killed(write_values, tmp_path, left)
    array: Any = zarr.open_array(zm.ManifestStore(tmp_path), path="n", mode="r")
    assert set(array[:].tolist()) <= {0, 1, 2, 3, 7}
    assert was_killed or left > 3
    write_values(tmp_path)
    assert array[:].tolist() == [7] * 4
    assert not remaining(tmp_path)


def test_what_killed_writers_left_is_nobody_elses(tmp_path: Path) -> None:
    """Linked elsewhere when a writer was killed, it is not written into."""
    zarr.create_array(tmp_path, name="n", data=np.arange(4, dtype="u1"), chunks=2)
    chunk = tmp_path / "n/c/0"
    before = chunk.read_bytes()
    (tmp_path / "copy").hardlink_to(chunk)
    (tmp_path / "n/c/0.partial").hardlink_to(chunk)
    write_values(tmp_path)
    assert (tmp_path / "copy").read_bytes() == before
    assert not remaining(tmp_path)


def consolidate(root: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(zm.ManifestStore(root))


@pytest.mark.parametrize("left", range(6))
@pytest.mark.parametrize("write", [edit, consolidate])
def test_zarr_is_killed(tmp_path: Path, write: Callable[[Path], None], left: int) -> None:
    zm.create_array(tmp_path, "a", entries(0), **CREATION, inline=False)
    assert killed(write, tmp_path, left) or left > 2
    for again in (False, True):
        if again:
            write(tmp_path)
        assert read(tmp_path, "a") == [0, 1, 2]
        root = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")
        copied = root.metadata.consolidated_metadata is not None
        assert (dict(root["a"].attrs), copied) in (({}, False), ({"x": 1}, False), ({}, True))
    assert copied or root["a"].attrs["x"] == 1


# No space ---------------------------------------------------------------------------------


def run_without_space(write: Callable[[Path], None], root: Path, size: int) -> None:
    """Write, and fail as soon as a file has more than so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        write(root)
    except OSError as error:
        os._exit(50 if "File too large" in str(error) else 51)
    os._exit(0)


@pytest.mark.parametrize("size", [20, 100, 900, 10_000])
@pytest.mark.parametrize("write", [create, replace, replace_hierarchy])
def test_no_space(tmp_path: Path, write: Callable[[Path], None], size: int) -> None:
    if write is not create:
        earlier(tmp_path)
    before = files_below(tmp_path)
    process = CONTEXT.Process(target=run_without_space, args=(write, tmp_path, size))
    process.start()
    process.join()
    assert process.exitcode in (0, 50)
    if process.exitcode:
        assert size < 10_000
        assert not remaining(tmp_path)
        if write is replace_hierarchy:
            assert files_below(tmp_path) == before
    if write is not create or process.exitcode:
        write(tmp_path)
    path = "g/a" if write is create else "a"
    assert read(tmp_path, path) == [10, 11, 12]
    assert not remaining(tmp_path)
    assert zm.validate(tmp_path) == []


# What others leave ------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{", b'{"zarr_format": 3, "node_type": "arr'])
@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_incomplete_metadata(tmp_path: Path, body: bytes, mode: Any) -> None:
    zm.create_array(tmp_path, "g/a", entries(0), **CREATION, inline=False)
    for path in ("g/a", "g", ""):
        document = tmp_path / path / "zarr.json"
        document.write_bytes(body)
        for function in (zarr.open, zarr.open_group, zarr.open_array):
            with pytest.raises(InvalidConfigurationError, match="may be incomplete") as raised:
                function(zm.ManifestStore(tmp_path), path=path, mode=mode)
            assert raised.value.array == path
        assert document.read_bytes() == body


# Data is not taken for documents --------------------------------------------------------------


def declare(root: Path, reference: str, path: str) -> None:
    array = zarr.create_array(root, name="a", overwrite=True, **CREATION)
    del array
    document = root / "a" / "zarr.json"
    metadata = json.loads(document.read_text())
    configuration = {"manifest": reference, "base": path}
    metadata["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": configuration}
    ]
    document.write_text(json.dumps(metadata))


@pytest.mark.parametrize("data", [b"\x01\x02\x03", b'{"0": {"path": "data.bin"}}', b"{}"])
@pytest.mark.parametrize("name", ["data.bin", "manifest.json", "f.0123456789ab"])
def test_what_the_new_entries_refer_to_stays(tmp_path: Path, name: str, data: bytes) -> None:
    declare(tmp_path, f"./{name}", "./")
    (tmp_path / "a" / name).write_bytes(data)
    new = {(i,): {"path": name, "offset": i, "length": 1} for i in range(2)}
    for options in ({}, {"inline": True}, {"partition_shape": [1]}):
        zm.write_manifest(tmp_path, "a", new, **{"inline": False, **options})
        assert (tmp_path / "a" / name).read_bytes() == data
        assert read(tmp_path, "a")[:2] == list(data[:2])


def test_data_of_others_stays(tmp_path: Path) -> None:
    """A declared document that is no manifest may be what another array refers to."""
    declare(tmp_path, "./data.bin", "./")
    (tmp_path / "a" / "data.bin").write_bytes(b"\x01\x02\x03")
    other = {(i,): {"path": "../a/data.bin", "offset": i, "length": 1} for i in range(3)}
    zm.create_array(tmp_path, "b", other, **CREATION, inline=False)
    zm.write_manifest(tmp_path, "a", entries(5), inline=False)
    assert read(tmp_path, "a") == [5, 6, 7]
    write_hierarchy(tmp_path / "h", [], inline_below=0)
    assert read(tmp_path, "b") == [1, 2, 3]


def test_data_of_the_earlier_manifest_stays(tmp_path: Path) -> None:
    """One partition is both a document and what another one refers to."""
    declare(tmp_path, "./parts/{partition}.json", "./")
    document = tmp_path / "a" / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["storage_transformers"][0]["configuration"]["partition_shape"] = [1]
    document.write_text(json.dumps(metadata))
    parts = tmp_path / "a" / "parts"
    parts.mkdir()
    (parts / "0.json").write_text("{}")
    (parts / "1.json").write_text('{"1": {"path": "parts/0.json", "length": 1}}')
    zm.write_manifest(tmp_path, "a", entries(5), inline=False)
    assert [path.name for path in parts.glob("*")] == ["0.json"]
    assert np.array_equal(read(tmp_path, "a"), [5, 6, 7])
