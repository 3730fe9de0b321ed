"""Chunk plans: which bytes of which object answer a request, and what is made of them. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from zarr_manifest.errors import ChecksumMismatchError
from zarr_manifest.format import Conditions, verify_checksum
from zarr_manifest.locations import Location
from zarr_manifest.manifest import Row
from zarr_manifest.sources import (
    ByteRequest,
    SourceRange,
    Whole,
    slice_bounds,
    source_range,
)

__all__ = ["ChunkPlan", "ConditionCheck", "Verify", "finish_chunk", "plan_chunk", "to_verify"]

type Verify = Literal["auto", "always", "never"]
type ConditionCheck = Literal["check", "ignore"]

_WHOLE = Whole()


class ChunkPlan(Struct, frozen=True):
    """What to request for part of a chunk, and what to do with the answer.

    Parameters
    ----------
    location : Location
        The object.
    span : SourceRange
        The bytes to request.
    conditions : Conditions
        What the object must still match.
    checksum : str or None
        What the answer must have; None if that is not verified.
    part : ByteRequest or None
        What was asked for, of an answer that is the whole chunk; None for all of the answer.
    """

    location: Location
    span: SourceRange
    conditions: Conditions
    checksum: str | None = None
    part: ByteRequest | None = None


def to_verify(row: Row, request: ByteRequest, verify: Verify) -> str | None:
    """Return the checksum of a chunk if it is to be verified for this request; otherwise None."""
    if row.checksum is None or verify == "never":
        return None
    return row.checksum if verify == "always" or isinstance(request, Whole) else None


def plan_chunk(
    row: Row, location: Location, request: ByteRequest, verify: Verify, most: int
) -> ChunkPlan:
    """Plan the request for part of a chunk whose length is known.

    Parameters
    ----------
    row : Row
        The reference to the chunk.
    location : Location
        Its object.
    request : ByteRequest
        What of the chunk is wanted.
    verify : {"auto", "always", "never"}
        When to verify checksums.
    most : int
        More bytes are not accepted.
    """
    checksum = None if row.checksum is None else to_verify(row, request, verify)
    if checksum is None or isinstance(request, Whole):
        span = source_range(row.offset, row.length, request, most=most)
        return ChunkPlan(location, span, row.conditions, checksum)
    span = source_range(row.offset, row.length, _WHOLE, most=most)
    return ChunkPlan(location, span, row.conditions, checksum, request)


def finish_chunk(
    body: memoryview, checksum: str | None, part: ByteRequest | None, location: Location | None
) -> memoryview:
    """Verify what has arrived, and return what of it was asked for.

    Raises
    ------
    ChecksumMismatchError
        With the location, if there is one.
    """
    if checksum is not None:
        try:
            verify_checksum(checksum, body)
        except ChecksumMismatchError as error:
            raise error.in_context(location=None if location is None else str(location)) from None
    return body if part is None else body[slice(*slice_bounds(len(body), part))]
