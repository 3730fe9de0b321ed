"""A manifest of 10^8 chunks opens like one of 10^4: guards that do not depend on the machine."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

from tests.counting_store import Counting
from zarr_manifest import Manifest, ManifestStore, write_manifest

SIDE = 1000  # chunks in a partition
WRITTEN = 3


def write(root: Path, chunks: int, *, named: bool) -> None:
    """Write an array of single bytes, a few partitions of which have a document."""
    (root / "raw.bin").write_bytes(bytes(range(256)))
    zarr.create_array(
        root / "h", name="a", shape=(chunks,), chunks=(1,), dtype="u1", compressors=None
    )
    at = [chunks // SIDE * part // WRITTEN * SIDE for part in range(WRITTEN)]
    numbers = np.concatenate([np.arange(start, start + SIDE) for start in at])
    manifest = Manifest.from_columns(
        (chunks,),
        paths=f"file://{root}/raw.bin",
        offsets=numbers % 200,
        lengths=1,
        indices=numbers[:, np.newaxis],
    )
    names = None if named else "./manifest/{partition}.json"
    write_manifest(root / "h", "a", manifest, partition_shape=(SIDE,), manifest_url=names)
    if not named:  # as declared by others: which partitions have a document is not said
        document = root / "h/a/zarr.json"
        text = document.read_text()
        start = text.index('"partitions"')
        without = text[:start].rstrip().removesuffix(",") + text[text.index("]", start) + 1 :]
        document.write_text(without)


def first_chunk(root: Path) -> tuple[list[str], int]:
    """Open the array and read a chunk; return what was asked for, and the peak of memory."""
    store = Counting(LocalStore(root / "h"))
    tracemalloc.start()
    try:
        opened = ManifestStore(store, allow=[f"file://{root}/"])
        array: Any = zarr.open_array(opened, path="a", mode="r")
        assert array[7] == 7
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return store.asked, peak


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_the_first_chunk_costs_the_same(tmp_path: Path, named: bool) -> None:
    found: dict[int, tuple[list[str], int]] = {}
    for chunks in (10 * SIDE, 10**8):
        root = tmp_path / str(chunks)
        root.mkdir()
        write(root, chunks, named=named)
        first_chunk(root)  # what is imported, and cached once
        found[chunks] = first_chunk(root)
    (small_asked, small_peak), (asked, peak) = found.values()
    assert asked == small_asked
    assert len(asked) <= 4
    assert peak < small_peak + 200_000
