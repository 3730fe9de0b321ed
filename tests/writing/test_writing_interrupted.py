"""Processes that are killed, or find no space: trying again works, and no partial file is left."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.conversion.inline_nodes import read, streamed, vector
from tests.hierarchies import declare_manifest, files_below
from tests.interrupted_stores import changes_below
from tests.processes import CONTEXT
from tests.settled import assert_settled
from zarr_manifest.conversion import GroupNode, write_hierarchy
from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError
from zarr_manifest.sources import MOMENTARY

pytestmark = pytest.mark.slow

CREATION: dict[str, Any] = {"shape": 3, "chunks": 1, "dtype": "u1", "compressors": None}


def entries(shift: int) -> dict[Any, Any]:
    return {(i,): {"data": bytes([shift + i])} for i in range(3)}


def create(root: Path) -> None:
    zm.create_array(root, "g/a", entries(10), partition_shape=[2], **CREATION)


def replace(root: Path) -> None:
    zm.write_manifest(root, "a", entries(10), codecs=["zstd"])


def replace_hierarchy(root: Path) -> None:
    nodes = [GroupNode("", {"old": False}), vector("a", [10, 11, 12]), streamed("g/b", [13])]
    write_hierarchy(root, nodes, overwrite=True, inline_below=0)


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
    """Files that exist for a moment."""
    return [key for key in files_below(root) if key.endswith(MOMENTARY)]


def seen(root: Path) -> list[tuple[list[int], list[int]]]:
    """What readers see of both arrays, through consolidated metadata and not."""
    found = []
    for consolidated in (None, False):
        group: Any = zarr.open_group(
            zm.ManifestStore(root), mode="r", use_consolidated=consolidated
        )
        found.append((group["a"][:].tolist(), group["g/b"][:].tolist()))
    return found


@pytest.mark.parametrize("left", range(0, 25, 5))  # the last one is not killed
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


@pytest.mark.parametrize("left", [0, 2, 4, 6, 15])  # the last one is not killed
def test_replacing_is_killed(tmp_path: Path, left: int) -> None:
    zm.create_array(tmp_path, "a", entries(0), **CREATION, inline=False)
    was_killed = killed(replace, tmp_path, left)
    assert read(tmp_path, "a") in ([0, 1, 2], [10, 11, 12])
    replace(tmp_path)
    assert read(tmp_path, "a") == [10, 11, 12]
    assert not remaining(tmp_path)
    assert len(files_below(tmp_path)) == 4  # the replaced document stays
    assert was_killed or left > 6


@pytest.mark.parametrize("left", range(0, 80, 11))  # the last one is not killed
def test_replacing_a_hierarchy_is_killed(tmp_path: Path, left: int) -> None:
    earlier(tmp_path)
    killed(replace_hierarchy, tmp_path, left)
    through, past = seen(tmp_path)
    assert through == past
    assert through in (([0, 1, 2], [3]), ([10, 11, 12], [13]))
    if left % 2:
        zm.recover(tmp_path)
        assert seen(tmp_path) == [through, past]
    replace_hierarchy(tmp_path)
    assert seen(tmp_path) == [([10, 11, 12], [13])] * 2
    assert not remaining(tmp_path)
    assert_settled(files_below(tmp_path))
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
        after = files_below(tmp_path)
        assert {key: after[key] for key in before} == before
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


@pytest.mark.parametrize("data", [b"\x01\x02\x03", b'{"0": {"path": "data.bin"}}', b"{}"])
def test_what_is_declared_as_a_document_stays(tmp_path: Path, data: bytes) -> None:
    """It may be what other entries refer to."""
    zarr.create_array(tmp_path, name="a", **CREATION)
    declare_manifest(tmp_path / "a", "./data.bin", base="./")
    (tmp_path / "a" / "data.bin").write_bytes(data)
    new = {(i,): {"path": "data.bin", "offset": i, "length": 1} for i in range(2)}
    forms: list[dict[str, Any]] = [
        {"inline": False},
        {"inline": True},
        {"partition_shape": [1]},
        {"manifest_url": "./data.bin"},
    ]
    for form in forms:
        zm.write_manifest(tmp_path, "a", new, base="./", **form)
        assert (tmp_path / "a" / "data.bin").read_bytes() == data
        assert read(tmp_path, "a")[:2] == list(data[:2])
