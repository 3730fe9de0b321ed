"""Checksums of chunks, computed by reading them at their source."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import Manifest, Reference

# Number of chunks that are read, and held in memory, at a time.
_CONCURRENT_CALLS = 8
_BATCH_SIZE = 1024


type Chunk = tuple[str, int, int]
"""The path, offset and length of a chunk."""


def checksums_of(
    manifest: Manifest,
    sources: FileSources,
    algorithm: str,
    known: Mapping[Chunk, str] | None = None,
) -> dict[tuple[int, ...], str]:
    """Return the checksums of the chunks that are not inline, by grid index.

    Parameters
    ----------
    manifest : Manifest
        All paths are URLs.
    sources : FileSources
        Reads them.
    algorithm : str
        ``"crc32c"``, ``"sha256"``, …
    known : mapping of Chunk to str, optional
        Checksums of chunks that need not be read.

    Raises
    ------
    ManifestError
        A chunk cannot be read.
    """

    def one(item: tuple[tuple[int, ...], Reference]) -> tuple[tuple[int, ...], str]:
        index, reference = item
        assert reference.path is not None
        assert reference.length is not None
        chunk = (reference.path, reference.offset, reference.length)
        if known is not None and chunk in known:
            return index, known[chunk]
        stop = reference.offset + reference.length
        body = sources.read(reference.path, reference.offset, stop)
        return index, compute_checksum(algorithm, body)

    chunks = (item for item in manifest.items() if item[1].path is not None)
    found: dict[tuple[int, ...], str] = {}
    with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
        # Not all at once: each has a future.
        for batch in itertools.batched(chunks, _BATCH_SIZE):
            found.update(pool.map(one, batch))
    return found
