"""Nodes whose chunks are held inline, one byte each: what can be written without any source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import zarr

import zarr_manifest as zm
from zarr_manifest.conversion import ArrayNode, StreamedManifest

type Index = tuple[int, ...]


def metadata(shape: Iterable[int], chunks: Iterable[int], **more: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 255,
        "codecs": [{"name": "bytes"}],
        "attributes": {},
        **more,
    }


def inline_manifest(values: dict[Index, int], grid_shape: Index) -> zm.Manifest:
    return zm.Manifest.from_columns(
        grid_shape, paths="", data={index: bytes([value]) for index, value in values.items()}
    )


def vector(path: str, values: list[int], **more: Any) -> ArrayNode:
    """One chunk per value; a negative one is missing."""
    stated = {(i,): value for i, value in enumerate(values) if value >= 0}
    manifest = inline_manifest(stated, (len(values),))
    return ArrayNode(path, metadata([len(values)], [1]), manifest, **more)


def streamed(path: str, values: list[int], partition: int = 1) -> ArrayNode:
    def parts() -> Iterator[zm.Manifest]:
        for start in range(0, len(values), partition):
            block = {(i,): v for i, v in enumerate(values) if start <= i < start + partition}
            yield inline_manifest(block, (len(values),))

    manifest = StreamedManifest((partition,), parts())
    return ArrayNode(path, metadata([len(values)], [1]), manifest)


def read(store: Any, path: str) -> list[int]:
    array = zarr.open_array(zm.ManifestStore(store), path=path, mode="r")
    found: list[int] = np.asarray(array[...]).tolist()
    return found
