"""zarr's byte requests <-> ours."""

from __future__ import annotations

from zarr.abc.store import (
    ByteRequest as ZarrByteRequest,
)
from zarr.abc.store import (
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)

from zarr_manifest.sources.byte_ranges import (
    Bounded,
    ByteRequest,
    From,
    Last,
    SourceRange,
    Whole,
    slice_bounds,
)

__all__ = ["pure_request", "slice_of", "zarr_request"]


def pure_request(byte_range: ZarrByteRequest | None) -> ByteRequest:
    """Return a request of zarr's as one of ours.

    Examples
    --------
    >>> pure_request(OffsetByteRequest(3))
    From(start=3)
    """
    match byte_range:
        case None:
            return Whole()
        case RangeByteRequest(start, end):
            return Bounded(start, max(start, end))
        case OffsetByteRequest(offset):
            return From(offset)
        case SuffixByteRequest(suffix):
            return Last(suffix)
        case _:
            raise TypeError(f"Unexpected byte_range, got {byte_range}.")


def slice_of(byte_range: ZarrByteRequest, size: int) -> slice:
    """Return which part of a value of so many bytes a request of zarr's asks for."""
    return slice(*slice_bounds(size, pure_request(byte_range)))


def zarr_request(span: SourceRange) -> ZarrByteRequest | None:
    """Return the request of zarr's that asks for a range of an object."""
    if span.start < 0:
        return SuffixByteRequest(-span.start)
    if span.stop is not None:
        return RangeByteRequest(span.start, span.stop)
    return OffsetByteRequest(span.start) if span.start else None
