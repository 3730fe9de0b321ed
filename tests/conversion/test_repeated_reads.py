"""Exports and repairs read each zarr.json once or twice, not once for each partition."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.counting_store import Counting
from tests.hierarchies import without_partitions
from zarr_manifest.conversion import (
    export_kerchunk_json,
    export_kerchunk_parquet,
    to_virtual_dataset,
    upgrade,
)

N = 12
ENTRIES = {"0": {"path": "s3://b/f", "offset": 0, "length": 1}}
OPTIONS: dict[str, Any] = {"shape": N, "chunks": 1, "dtype": "u1", "dimension_names": ["x"]}
EXPORTS = [
    lambda store, _: to_virtual_dataset(store),
    lambda store, root: refused_by(export_kerchunk_json(store, root / "refs.json")),
    lambda store, root: refused_by(export_kerchunk_parquet(store, root / "refs.parq")),
]


def refused_by(report: Any) -> None:
    for node in report.refused:
        raise AssertionError(node.reason)


@pytest.fixture
def memory() -> MemoryStore:
    """An array whose declaration does not say which partitions have a document."""
    store = MemoryStore()
    zarr.create_group(store)
    plain = {"partition_shape": [1], "manifest_url": "./{partition}.json"}
    zm.create_array(store, "t", ENTRIES, sole_writer=True, **plain, **OPTIONS)
    older = without_partitions(store._store_dict["t/zarr.json"].to_bytes())
    store._store_dict["t/zarr.json"] = default_buffer_prototype().buffer.from_bytes(older)
    return store


class Replacing(Counting):
    """Another writer replaces the manifest after the metadata was read for the first time."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        found = await super().get(key, prototype, byte_range)
        if key == "t/zarr.json" and self.asked.count(key) == 1:
            metadata = json.loads(found.to_bytes())
            metadata["storage_transformers"][0]["configuration"]["manifest"] = "./{partition}.new"
            body = json.dumps(metadata).encode()
            await self._store.set(key, default_buffer_prototype().buffer.from_bytes(body))
        return found


@pytest.mark.parametrize("export", EXPORTS)
def test_the_declaration_is_checked_once(
    memory: MemoryStore, tmp_path: Path, export: Callable[..., object]
) -> None:
    counting = Counting(memory)
    export(counting, tmp_path)
    counts = Counter(counting.asked)
    assert counts.pop("t/zarr.json") == 2  # by the walk, and after the last partition
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("export", EXPORTS)
def test_a_manifest_that_is_replaced_meanwhile_is_refused(
    memory: MemoryStore, tmp_path: Path, export: Callable[..., object]
) -> None:
    with pytest.raises((zm.ManifestError, AssertionError), match="has been replaced since"):
        export(Replacing(memory), tmp_path)


def test_a_walk_that_failed_leaves_no_missing_chunks_behind(memory: MemoryStore) -> None:
    store = zm.ManifestStore(Replacing(memory))

    async def read() -> None:
        prototype = default_buffer_prototype()
        assert await store.get("t/zarr.json", prototype) is not None
        for _ in range(2):
            with pytest.raises(zm.ManifestError, match="has been replaced since"):
                _ = [key async for key in store.list_prefix("t/")]
            with pytest.raises(zm.ManifestError, match="has been replaced since"):
                await store.get("t/c/5", prototype)

    asyncio.run(read())


def test_upgrade_reads_native_arrays_once() -> None:
    memory = MemoryStore()
    root = zarr.create_group(memory)
    for number in range(5):
        root.create_array(f"a{number}", data=np.arange(3))
    counting = Counting(memory)
    upgrade(counting, dry_run=True)
    counts = Counter(key for key in counting.asked if key != "zarr.json")
    assert counts == {f"a{number}/zarr.json": 1 for number in range(5)}
