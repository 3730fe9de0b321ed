"""Byte requests: zarr's at the edge, ranges of the package inside.

Pure.
"""

from __future__ import annotations

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from zarr_manifest.sources import WHOLE, SourceRange, slice_bounds


def requested_range(byte_range: ByteRequest | None) -> SourceRange:
    """Return what a zarr byte request selects of a value.

    Raises
    ------
    ValueError
        If it is negative.

    Examples
    --------
    >>> requested_range(SuffixByteRequest(3))
    SourceRange(start=-3, stop=None, exact=False)
    """
    match byte_range:
        case None:
            return WHOLE
        case RangeByteRequest(start, end):
            span = SourceRange(start, max(start, end), False)
        case OffsetByteRequest(start):
            span = SourceRange(start, None, False)
        case SuffixByteRequest(start):
            # -0 is not negative: it would mean the whole value.
            span = SourceRange(-start, None if start else 0, False)
        case _:
            raise TypeError(f"Unexpected byte_range, got {byte_range}.")
    if start < 0:
        raise ValueError(f"invalid byte range: {byte_range}")
    return span


def slice_of(byte_range: ByteRequest, size: int) -> slice:
    """Return the slice of a value of `size` bytes that a zarr byte request selects."""
    return slice(*slice_bounds(size, requested_range(byte_range)))


def zarr_request(span: SourceRange) -> ByteRequest | None:
    """Return a range of an object as a zarr byte request."""
    if span.start < 0:
        return SuffixByteRequest(-span.start)
    if span.stop is not None:
        return RangeByteRequest(span.start, span.stop)
    if span.most is not None:
        # One more, to see that there are more.
        return RangeByteRequest(span.start, span.start + span.most + 1)
    return OffsetByteRequest(span.start) if span.start else None
