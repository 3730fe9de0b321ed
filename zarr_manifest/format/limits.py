"""How large a manifest may be: the reader's limits, and the error for one that exceeds them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from zarr_manifest.errors import Advice, LimitExceededError, Setting
from zarr_manifest.showing import counted

# Integers that every JSON implementation represents exactly (specification, "Manifest document").
LARGEST_INTEGER = 2**53 - 1


class Limits(Struct, frozen=True):
    """How large a manifest may be before it is rejected.

    A manifest is untrusted input: a small document must not be able to fill the
    memory of its reader, nor keep it busy for hours. The limits apply to each
    document: one per array, or one per partition of its manifest.

    The worst document within the defaults takes 2.5 GB of memory while it is read; an
    ordinary one takes half as much again as its text.

    Parameters
    ----------
    manifest_bytes : int
        Size of the manifest document in bytes, both stored and decoded.
    entries : int
        Number of entries in the manifest document.
    inline_bytes : int
        Total decoded size of inline ``data``, in bytes.
    path_length : int
        Length of a ``path``, an ``etag`` or a ``version``, in characters.
    partitions : int
        Number of partitions whose documents are asked for one by one where all are
        needed (for listing and validation). Where the store can be listed, only
        documents that exist are read, and their number is not limited.
    chunk_bytes : int
        Bytes of a source that are read for one chunk, beyond four times the size of the
        decoded chunk: a manifest may refer to a large object for a small chunk.

    Examples
    --------
    >>> Limits(entries=1000).entries
    1000
    """

    manifest_bytes: int = 2**28
    entries: int = 5_000_000
    inline_bytes: int = 2**27
    path_length: int = 2**13
    partitions: int = 10_000
    chunk_bytes: int = 2**28


def limit_exceeded(
    problem: str, limit: int, member: str, *, chunk: str | None = None
) -> LimitExceededError:
    """Return the error for a manifest that exceeds a member of :class:`Limits`."""
    return LimitExceededError(
        f"{problem}, the limit is {limit:,}",
        chunk=chunk,
        remedy=Advice(
            "Raise ", Setting("limits", member, f"Limits({member}=...)"), " if you trust it."
        ),
    )


def too_much(entries: int, inline_bytes: int, limits: Limits) -> Iterator[LimitExceededError]:
    """Yield the errors for a document with so many entries and bytes of inline data."""
    if entries > limits.entries:
        problem = f"the manifest has {counted(entries, 'entry', 'entries')}"
        yield limit_exceeded(problem, limits.entries, "entries")
    if inline_bytes > limits.inline_bytes:
        problem = f"the manifest has {counted(inline_bytes, 'inline byte')}"
        yield limit_exceeded(problem, limits.inline_bytes, "inline_bytes")
