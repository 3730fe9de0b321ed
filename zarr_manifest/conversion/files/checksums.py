"""Checksums of chunks, computed by reading them at their source."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import Manifest, Reference

# Number of chunks that are read, and held in memory, at a time.
_CONCURRENT_CALLS = 8
_BATCH_SIZE = 1024


def checksums_of(
    manifest: Manifest, sources: FileSources, algorithm: str
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

    Raises
    ------
    ManifestError
        A chunk cannot be read.
    """

    def one(chunk: tuple[tuple[int, ...], Reference]) -> tuple[tuple[int, ...], str]:
        index, reference = chunk
        assert reference.path is not None
        assert reference.length is not None
        stop = reference.offset + reference.length
        body = sources.read(reference.path, reference.offset, stop)
        return index, compute_checksum(algorithm, body)

    chunks = (chunk for chunk in manifest.items() if chunk[1].path is not None)
    found: dict[tuple[int, ...], str] = {}
    with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
        # Not all at once: each has a future.
        for batch in itertools.batched(chunks, _BATCH_SIZE):
            found.update(pool.map(one, batch))
    return found
