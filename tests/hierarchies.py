"""Builders of hierarchies for the tests: plain files, written without the package itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import zarr

__all__ = ["declare_manifest", "split_into_source", "write_manifest_array"]


def declare_manifest(
    array: Path, manifest: dict[str, Any] | str, *, base: str | None = None
) -> None:
    """Add the declaration to an array's ``zarr.json``, beside which a dict is written inline."""
    document = array / "zarr.json"
    metadata = json.loads(document.read_text())
    configuration: dict[str, Any] = {"manifest": manifest}
    if base is not None:
        configuration["base"] = base
    metadata["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": configuration}
    ]
    document.write_text(json.dumps(metadata, indent=2))


def write_manifest_array(
    root: Path,
    path: str,
    data: np.ndarray[Any, Any],
    chunks: Any,
    manifest: dict[str, Any] | str,
    *,
    base: str | None = None,
    inline: bool = False,
    **create_array_options: Any,
) -> Path:
    """Make a v3 array that declares a manifest; `data` gives shape and dtype, and is not written.

    A `manifest` that is a dict is written to ``manifest.json``, or with `inline` into the
    declaration; one that is a string is what the declaration says, and nothing is written.
    Returns the array's directory.
    """
    array = root / path if path else root
    zarr.create_array(
        zarr.storage.LocalStore(array),
        shape=data.shape,
        dtype=data.dtype,
        chunks=chunks,
        **{"compressors": None, **create_array_options},
    )
    if isinstance(manifest, dict) and not inline:
        (array / "manifest.json").write_text(json.dumps(manifest))
        manifest = "./manifest.json"
    declare_manifest(array, manifest, base=base)
    return array


def split_into_source(
    data: np.ndarray[Any, Any], chunks: tuple[int, ...], *, path: str, start: int = 0
) -> tuple[dict[str, dict[str, Any]], bytes]:
    """Lay the raw chunks of an array end to end.

    Returns
    -------
    manifest, source
        Entries of `path`, offset and length for every chunk; and the bytes of that object,
        which begin with `start` bytes that belong to none.
    """
    manifest: dict[str, dict[str, Any]] = {}
    source = bytearray(b"\xee" * start)
    counts = tuple(-(-size // chunk) for size, chunk in zip(data.shape, chunks, strict=True))
    for index in np.ndindex(*counts):
        block = np.zeros(chunks, data.dtype)
        part = data[
            tuple(slice(i * chunk, (i + 1) * chunk) for i, chunk in zip(index, chunks, strict=True))
        ]
        block[tuple(slice(0, size) for size in part.shape)] = part
        body = block.tobytes()
        key = ".".join(map(str, index)) or "0"
        manifest[key] = {"path": path, "offset": len(source), "length": len(body)}
        source += body
    return manifest, bytes(source)
