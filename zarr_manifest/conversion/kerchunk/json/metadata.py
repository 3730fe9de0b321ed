"""Metadata documents that are references to other files, read where the caller allows it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from zarr.storage import MemoryStore

from zarr_manifest.conversion.kerchunk.json.references import byte_range
from zarr_manifest.conversion.kerchunk.urls import SourceUrls
from zarr_manifest.conversion.values import as_array
from zarr_manifest.errors import LimitExceededError, LocationNotAllowedError, ManifestError
from zarr_manifest.format import Conditions
from zarr_manifest.hierarchy import (
    hierarchy_reader,
    sync,
)
from zarr_manifest.locations import Base
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    Access,
    SourceRange,
    Sources,
)

__all__ = ["with_fetched"]

_BASE = Base.parse("./")

# Number of documents that are read at a time.
_AT_ONCE = 256


def with_fetched(
    documents: Mapping[str, Any], urls: SourceUrls, allow: Mapping[str, Access], max_bytes: int
) -> dict[str, Any]:
    """Return metadata documents, with the bytes of those that are references.

    Parameters
    ----------
    documents : mapping
        By key. A list is a reference.
    urls : SourceUrls
        Turns URLs into URL references.
    allow : mapping of str to Access
        What may be read.
    max_bytes : int
        Maximum size of a document.

    Returns
    -------
    dict
        In place of a document that cannot be read, the error.
    """
    references = [(key, parts) for key, value in documents.items() if (parts := as_array(value))]
    if not references:
        return dict(documents)
    # All locations have a scheme: nothing is read from a hierarchy.
    sources = Sources(allow, hierarchy_reader(MemoryStore()))

    async def fetched() -> dict[str, bytes | ManifestError]:
        found: dict[str, bytes | ManifestError] = {}
        for batch in itertools.batched(references, _AT_ONCE):
            reading = (_document(parts, urls, sources, max_bytes) for _, parts in batch)
            bodies = await asyncio.gather(*reading)
            found |= {key: body for (key, _), body in zip(batch, bodies, strict=True)}
        return found

    return {**documents, **sync(fetched())}


async def _document(
    parts: Sequence[object], urls: SourceUrls, sources: Sources, max_bytes: int
) -> bytes | ManifestError:
    try:
        url, offset, length = byte_range(parts)
        reference = urls.reference(url)
        # One more than allowed, to see whether there is more.
        size = max_bytes + 1 if length < 0 else length
        if size > max_bytes and length >= 0:
            raise _too_large(max_bytes, reference.path)
        span = SourceRange(offset, offset + size, length >= 0)
        conditions = Conditions(version=reference.version)
        body = bytes(await sources.fetch(_BASE.resolve(reference.path), span, conditions))
    except LocationNotAllowedError as error:
        return LocationNotAllowedError(
            "its metadata lies in a file that is not authorised",
            location=error.location,
            remedy=error.remedy,
        )
    except ManifestError as error:
        return error
    return body if len(body) <= max_bytes else _too_large(max_bytes, reference.path)


def _too_large(max_bytes: int, location: str) -> LimitExceededError:
    return LimitExceededError(
        f"a metadata document is larger than {counted(max_bytes, 'byte')}", location=location
    )
