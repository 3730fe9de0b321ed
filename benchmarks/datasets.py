"""The same chunks twice: inside one object that a manifest refers to, and as native chunks.

A directory contains `manifest.zarr/data` (with `manifest.json` and `../source.bin`) and
`native.zarr/data`. The values are the same, and so are the encoded bytes of every chunk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

DECLARATION = {"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}


@dataclass(frozen=True)
class Dataset:
    """The location of both hierarchies (a directory, or a URL without a trailing slash)."""

    base: str
    chunks: int
    chunk_bytes: int

    @property
    def manifest(self) -> str:
        return f"{self.base}/manifest.zarr"

    @property
    def native(self) -> str:
        return f"{self.base}/native.zarr"

    @property
    def is_url(self) -> bool:
        return "://" in self.base

    def at(self, base: str) -> Dataset:
        return Dataset(base, self.chunks, self.chunk_bytes)


def create_array(path: Path, chunks: int, chunk_bytes: int) -> zarr.Array[Any]:
    """Create a group with an array `data` of uncompressed int32 chunks."""
    group = zarr.create_group(path, overwrite=True)
    length = chunk_bytes // 4
    return group.create_array(
        "data", shape=(chunks * length,), chunks=(length,), dtype="int32", compressors=None
    )


def declare(array: Path, manifest: dict[str, dict[str, Any]]) -> None:
    """Declare a manifest on the array at a path."""
    metadata = json.loads((array / "zarr.json").read_text())
    metadata["storage_transformers"] = [DECLARATION]
    (array / "zarr.json").write_text(json.dumps(metadata))
    (array / "manifest.json").write_text(json.dumps(manifest))


def write_dataset(directory: Path, chunks: int, chunk_bytes: int, largest_gap: int = 0) -> Dataset:
    """Write both hierarchies; other variables' data lies between the chunks of the source.

    Gaps are spread evenly over orders of magnitude, from 1 KiB to the largest.
    """
    random = np.random.default_rng(0)
    values = random.integers(0, 2**31, size=chunks * chunk_bytes // 4, dtype=np.int32)
    create_array(directory / "native.zarr", chunks, chunk_bytes)[:] = values
    create_array(directory / "manifest.zarr", chunks, chunk_bytes)
    gaps = np.zeros(chunks, int)
    if largest_gap:
        gaps = np.exp(random.uniform(np.log(1024), np.log(largest_gap), chunks)).astype(int)
    manifest: dict[str, dict[str, Any]] = {}
    with (directory / "manifest.zarr/source.bin").open("wb") as source:
        for number, chunk in enumerate(values.astype("<i4").reshape(chunks, -1)):
            offset = source.tell() + int(gaps[number])
            source.write(bytes(gaps[number]) + chunk.tobytes())
            entry = {"path": "../source.bin", "offset": offset, "length": chunk_bytes}
            manifest[str(number)] = entry
    declare(directory / "manifest.zarr/data", manifest)
    return Dataset(str(directory), chunks, chunk_bytes)
