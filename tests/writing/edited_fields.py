"""An array over files, each with one chunk, whose manifest has any form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import zarr_manifest as zm
from tests.hierarchies import consolidate

# How a manifest is written, and how its chunks are encoded.
FORMS: dict[str, dict[str, Any]] = {
    "inline": {"inline": True},
    "document": {"inline": False},
    "plain": {"manifest_url": "./manifest.json"},
    "partitions": {"partition_shape": (2, 1)},
    "plain partitions": {"manifest_url": "m/{partition}.json", "partition_shape": (2, 2)},
    "encoded": {"codecs": ["gzip"], "partition_shape": (1, 2)},
}
BASES = ["./", "../", "../../src/", "absolute"]


def sources(root: Path, values: np.ndarray[Any, Any], chunks: tuple[int, ...]) -> dict[str, Any]:
    """Write each chunk of an array as a file below ``src``, and return entries by key."""
    found: dict[str, Any] = {}
    counts = [-(-n // c) for n, c in zip(values.shape, chunks, strict=True)]
    (root / "src").mkdir(exist_ok=True)
    for index in np.ndindex(*counts):
        chunk = np.full(chunks, -1, values.dtype)
        part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
        chunk[tuple(map(slice, part.shape))] = part
        key = ".".join(map(str, index))
        (root / "src" / key).write_bytes(chunk.tobytes())
        found[key] = {"path": key}
    return found


def with_field(
    root: Path,
    values: np.ndarray[Any, Any],
    *,
    chunks: tuple[int, ...] = (2, 3),
    base: str = "absolute",
    consolidated: bool = True,
    **form: Any,
) -> str:
    """Write a hierarchy with the manifest array ``field``; return what readers must allow."""
    allow = f"{(root / 'src').as_uri()}/"
    entries = sources(root, values, chunks)
    declared = allow if base == "absolute" else base
    prefix = {"./": "../../src/", "../": "../src/"}.get(base, "")
    entries = {key: {"path": f"{prefix}{entry['path']}"} for key, entry in entries.items()}
    zm.create_array(
        root / "h",
        "field",
        entries,
        base=declared,
        shape=values.shape,
        chunks=chunks,
        dtype=values.dtype,
        fill_value=-1,
        dimension_names=["t", "x"],
        **form,
    )
    if consolidated:
        consolidate(root / "h")
    return allow
