"""Where chunks are put that are named by their digest: equal ones become one object."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.sources import Access, anonymous
from zarr_manifest.stores import store_urls
from zarr_manifest.writing.conditional_put import GuardedStore, guarded_store

# Chunks of at most so many bytes are written into the manifest: an object takes a request.
SMALL_CHUNK = 512


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where chunks are put that hierarchies share.

    Parameters
    ----------
    store : GuardedStore
        The place.
    url : str
        Its URL, without a slash at the end.
    """

    store: GuardedStore
    url: str


def chunk_checksum(body: bytes | memoryview) -> str:
    """Return the checksum by which a chunk is named.

    Examples
    --------
    >>> chunk_name(chunk_checksum(b"12"))
    'sha256/6b/6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918'
    """
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def chunk_name(checksum: str) -> str:
    """Return the name of the chunk with a checksum, in the place for chunks."""
    digest = checksum.removeprefix("sha256:")
    return f"sha256/{digest[:2]}/{digest}"


def chunk_place(
    location: Any, access: Mapping[str, Access], *, sole_writer: bool
) -> tuple[ChunkPlace, Any]:
    """Return where chunks are put, and how they are read there."""
    guarded = guarded_store(location, access, sole_writer=sole_writer)
    urls = store_urls(guarded.store)
    if not urls:
        raise InvalidConfigurationError(
            "chunks that hierarchies share need a URL, and this store has none",
            remedy="Name a directory or a bucket.",
        )
    place = ChunkPlace(guarded, urls[0].url.rstrip("/"))
    if isinstance(location, str | Path):
        return place, anonymous()
    return place, getattr(guarded.store, "store", anonymous())
