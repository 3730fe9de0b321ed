"""Checksums of chunks, computed by reading them at their source."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import Manifest, Reference

__all__ = ["checksums_of", "require_checksum"]

# Number of chunks that are read, and held in memory, at a time.
_CONCURRENT_CALLS = 8


def require_checksum(algorithm: str) -> None:
    """Check that an algorithm is known.

    Raises
    ------
        It is unknown.
    """
    compute_checksum(algorithm, b"")


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
    found: dict[tuple[int, ...], str] = {}
    running: dict[Future[str], tuple[int, ...]] = {}

    def one(reference: Reference) -> str:
        assert reference.path is not None
        assert reference.length is not None
        stop = reference.offset + reference.length
        return compute_checksum(algorithm, sources.read(reference.path, reference.offset, stop))

    with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
        for index, reference in _elsewhere(manifest):
            if len(running) == _CONCURRENT_CALLS:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    found[running.pop(future)] = future.result()
            running[pool.submit(one, reference)] = index
        for future, index in running.items():
            found[index] = future.result()
    return found


def _elsewhere(manifest: Manifest) -> Iterator[tuple[tuple[int, ...], Reference]]:
    for index, reference in manifest.items():
        if reference.path is not None:
            yield index, reference
