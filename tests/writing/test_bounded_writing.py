"""Memory and calls while many references are written: guards that do not depend on the machine."""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

from zarr_manifest import Manifest, write_manifest
from zarr_manifest.conversion import ArrayNode, StreamedManifest, write_hierarchy
from zarr_manifest.manifest import NumberedPaths

PARTITIONS, ROWS = 20, 10_000
GRID = (PARTITIONS * 100, 100)


def columns(start: int, stop: int) -> dict[str, Any]:
    numbers = np.arange(start, stop)
    paths = [f"s3://bucket/a/long/prefix/of/a/file-{n:04}.nc" for n in range(PARTITIONS * 10)]
    return {
        "paths": NumberedPaths((numbers // 1000).astype(np.int32), paths),
        "offsets": numbers * 65_536,
        "lengths": 60_000 + numbers % 5000,
    }


def write_columns(root: Path, options: dict[str, Any]) -> None:
    write_manifest(root, "a", Manifest.from_columns(GRID, **options), partition_shape=(100, 100))


def write_across(root: Path, options: dict[str, Any]) -> None:
    """Partitions whose rows do not follow each other."""
    manifest = Manifest.from_columns(GRID, **options)
    write_manifest(root, "a", manifest, partition_shape=(PARTITIONS * 100, 5))


def write_stream(root: Path, options: dict[str, Any]) -> None:
    def parts() -> Iterator[Manifest]:
        for start in range(0, PARTITIONS * ROWS, ROWS):
            numbers = np.arange(start, start + ROWS)
            indices = np.stack([numbers // 100, numbers % 100], axis=1)
            yield Manifest.from_columns(GRID, indices=indices, **columns(start, start + ROWS))

    metadata: dict[str, Any] = {
        "zarr_format": 3, "node_type": "array", "shape": list(GRID), "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}],
    }  # fmt: skip
    write_hierarchy(
        root, [ArrayNode("a", metadata, StreamedManifest((100, 100), parts()))], inline_below=0
    )


def write_again(root: Path, options: dict[str, Any]) -> None:
    """Beside the earlier documents."""
    write_columns(root, {**options, "lengths": 1})
    write_columns(root, options)


WAYS = [write_columns, write_across, write_stream, write_again]


@pytest.mark.slow
@pytest.mark.parametrize("write", WAYS)
def test_memory_is_that_of_a_few_documents(
    tmp_path: Path, write: Callable[[Path, dict[str, Any]], None]
) -> None:
    if write is not write_stream:
        zarr.create_array(tmp_path, name="a", shape=GRID, chunks=(1, 1), dtype="u1")
    options = columns(0, PARTITIONS * ROWS)
    tracemalloc.start()
    try:
        write(tmp_path, options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    documents = [path.stat().st_size for path in tmp_path.rglob("*.json")]
    assert len(documents) >= PARTITIONS
    assert sum(documents) > PARTITIONS * 800_000
    # At most four documents are under way at the same time, each with what it is made of.
    assert peak < 10 * max(documents)


@pytest.mark.slow
@pytest.mark.parametrize("write", WAYS[:3])
def test_calls_for_each_reference(
    tmp_path: Path, write: Callable[[Path, dict[str, Any]], None]
) -> None:
    if write is not write_stream:
        zarr.create_array(tmp_path, name="a", shape=GRID, chunks=(1, 1), dtype="u1")
    options = columns(0, PARTITIONS * ROWS)
    calls = 0

    def count_calls(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    threading.setprofile(count_calls)
    sys.setprofile(count_calls)
    try:
        write(tmp_path, options)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert calls < PARTITIONS * ROWS / 4


@pytest.mark.slow
def test_an_error_of_the_store_changes_no_metadata() -> None:
    """It is raised when nothing is under way."""

    class Full(MemoryStore):
        async def set(self, key: str, value: Any, byte_range: Any = None) -> None:
            if "/7.0-" in key:
                raise OSError("no space left")
            await super().set(key, value)

    store = Full()
    zarr.create_array(store, name="a", shape=GRID, chunks=(1, 1), dtype="u1")
    manifest = Manifest.from_columns(GRID, **columns(0, PARTITIONS * ROWS))
    before = dict(store._store_dict)
    with pytest.raises(OSError, match="no space left"):
        write_manifest(store, "a", manifest, partition_shape=(100, 100))
    written = {key for key in store._store_dict if key not in before}
    time.sleep(0.05)
    assert {*store._store_dict} == written | {*before}
    assert {key: store._store_dict[key] for key in before} == before
    assert 0 < len(written) < PARTITIONS
    assert all(key.startswith("a/manifest/") for key in written)
