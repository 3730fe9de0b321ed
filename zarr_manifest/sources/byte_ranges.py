"""Zarr byte request x entry -> range of the source object.

Pure arithmetic (specification, "Reading"). Zarr requests part of a chunk, the entry
says where the chunk lies in an object, and the result is the range of the object to
read. It never leaves the entry's own range.
"""

from __future__ import annotations

from msgspec import Struct, structs

from zarr_manifest.errors import LimitExceededError, RangeOutOfBoundsError
from zarr_manifest.showing import counted

__all__ = [
    "Bounded",
    "ByteRequest",
    "From",
    "Last",
    "SourceRange",
    "Whole",
    "needs_size",
    "out_of_bounds",
    "slice_bounds",
    "source_range",
]


class Whole(Struct, frozen=True):
    """All bytes of a chunk.

    Examples
    --------
    >>> slice_bounds(10, Whole())
    (0, 10)
    """


class Bounded(Struct, frozen=True):
    """The bytes of a chunk from `start` up to, but not including, `stop`.

    Raises
    ------
    ValueError
        Unless ``0 <= start <= stop``.

    Examples
    --------
    >>> slice_bounds(10, Bounded(4, 12))
    (4, 10)
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"invalid byte range from {self.start} to {self.stop}")


class From(Struct, frozen=True):
    """The bytes of a chunk from `start` to its end.

    Raises
    ------
    ValueError
        If `start` is negative.

    Examples
    --------
    >>> slice_bounds(10, From(4))
    (4, 10)
    """

    start: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ValueError(f"invalid byte range from {self.start}")


class Last(Struct, frozen=True):
    """The last `count` bytes of a chunk, or all if it has fewer.

    Raises
    ------
    ValueError
        If `count` is negative.

    Examples
    --------
    >>> slice_bounds(10, Last(4))
    (6, 10)
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"invalid byte range: the last {self.count} bytes")


type ByteRequest = Whole | Bounded | From | Last


class SourceRange(Struct, frozen=True):
    """Bytes of a source object.

    Attributes
    ----------
    start : int
        First byte; if negative, the last ``-start`` bytes of the object.
    stop : int or None
        One past the last byte; None for the object's end. Equal to `start` if no
        bytes are requested.
    exact : bool
        Whether the object must hold every requested byte. If not, the object's end
        may cut the range short, because the length of the entry is unknown.
    most : int or None
        Largest number of bytes that are accepted; None for any.

    Examples
    --------
    >>> SourceRange(100, 200, True).stop
    200
    """

    start: int
    stop: int | None
    exact: bool
    most: int | None = None

    @property
    def is_too_long(self) -> bool:
        """Whether it will not be accepted, provided that the object is long enough."""
        if self.most is None or self.stop is None:
            return False
        return self.stop - self.start > self.most

    def exceeds(self, size: int) -> bool:
        """Whether an object of `size` bytes does not hold the range.

        Examples
        --------
        >>> SourceRange(4, 8, True).exceeds(7), SourceRange(4, 8, False).exceeds(7)
        (True, False)
        """
        if self.exact:
            return size < (self.stop or 0)
        is_whole = self.start == 0 and self.stop is None
        return size <= self.start and not is_whole

    def require_acceptable(self, size: int) -> None:
        """Reject an answer of more than `most` bytes, before they are read.

        Raises
        ------
        LimitExceededError
            If it has more.
        """
        if self.most is not None and size > self.most:
            raise LimitExceededError(f"{counted(size, 'byte')} would be read")


def source_range(
    offset: int,
    length: int | None,
    request: ByteRequest,
    *,
    size: int | None = None,
    most: int | None = None,
) -> SourceRange:
    """Return the bytes of the source that answer a request for bytes of a chunk.

    Parameters
    ----------
    offset : int
        Where the entry begins in the source object, in bytes.
    length : int or None
        Size of the entry in bytes; None if it runs to the end of the object.
    request : ByteRequest
        The requested bytes of the chunk.
    size : int, optional
        Size of the whole object in bytes, if known. Used only if `length` is None.
    most : int, optional
        More bytes are not accepted.

    Returns
    -------
    SourceRange
        Within ``[offset, offset + length)`` if the length is known.

    Raises
    ------
    RangeOutOfBoundsError
        If `length` is None and the object has no bytes from `offset` on.
    ValueError
        If the object's size is needed (see `needs_size`) but not given, or if
        `offset` or `length` is negative.

    Examples
    --------
    >>> source_range(100, 50, Bounded(10, 20))
    SourceRange(start=110, stop=120, exact=True, most=None)
    >>> source_range(100, 50, Last(80))
    SourceRange(start=100, stop=150, exact=True, most=None)
    >>> source_range(100, None, From(10))
    SourceRange(start=110, stop=None, exact=False, most=None)
    >>> source_range(100, None, Last(8), size=300)
    SourceRange(start=292, stop=300, exact=True, most=None)
    """
    # A negative offset would become a suffix of the object: wrong bytes, and no error.
    if offset < 0 or (length is not None and length < 0):
        raise ValueError(f"an entry cannot have offset {offset} and length {length}")
    if length is None and size is not None:
        if size <= offset:
            raise RangeOutOfBoundsError(
                f"the entry begins at byte {offset}, "
                f"but the object has only {counted(size, 'byte')}",
                remedy="It is incomplete, or the manifest was written for another object.",
            )
        length = size - offset
    if length is None:
        return structs.replace(_open_ended(offset, request), most=most)
    if type(request) is Whole:
        return SourceRange(offset, offset + length, True, most)
    start, stop = slice_bounds(length, request)
    return SourceRange(offset + start, offset + stop, True, most)


def needs_size(offset: int, length: int | None, request: ByteRequest) -> bool:
    """Whether `source_range` needs the size of the object.

    Parameters
    ----------
    offset, length, request
        As for `source_range`.

    Returns
    -------
    bool
        True for the last bytes of an entry that begins inside the object and
        runs to its end: a suffix of the object could reach back before the entry.

    Examples
    --------
    >>> needs_size(100, None, Last(8))
    True
    >>> needs_size(0, None, Last(8)) or needs_size(100, 50, Last(8))
    False
    """
    return length is None and offset > 0 and isinstance(request, Last)


def out_of_bounds(span: SourceRange, size: int) -> RangeOutOfBoundsError:
    """Return the error for a range that an object of `size` bytes does not hold."""
    stop = "the end" if span.stop is None else span.stop
    return RangeOutOfBoundsError(
        f"bytes {span.start} to {stop} are out of bounds: the object has {counted(size, 'byte')}",
        remedy="The object is incomplete, or the manifest was written for another one.",
    )


def slice_bounds(n: int, request: ByteRequest) -> tuple[int, int]:
    """Return where the requested bytes lie in a value of `n` bytes.

    Parameters
    ----------
    n : int
        Size of the whole value in bytes.
    request : ByteRequest
        The requested bytes.

    Returns
    -------
    start, stop : int
        ``0 <= start <= stop <= n``.

    Examples
    --------
    >>> start, stop = slice_bounds(6, Last(4))
    >>> b"abcdef"[start:stop]
    b'cdef'
    """
    match request:
        case Whole():
            return 0, n
        case Bounded():
            return min(request.start, n), min(request.stop, n)
        case From():
            return min(request.start, n), n
        case _:
            return n - min(request.count, n), n


def _open_ended(offset: int, request: ByteRequest) -> SourceRange:
    match request:
        case Whole():
            return SourceRange(offset, None, False)
        case Bounded():
            return SourceRange(offset + request.start, offset + request.stop, False)
        case From():
            return SourceRange(offset + request.start, None, False)
        case _:
            if offset > 0:
                raise ValueError("the last bytes of an open-ended entry need the object's size")
            # -0 is not negative: it would mean the whole object.
            if request.count == 0:
                return SourceRange(0, 0, True)
            return SourceRange(-request.count, None, False)
