"""Ranges of objects, and of entries within them; and what is checked of an object that is read.

Pure arithmetic (specification, "Reading"). Zarr requests part of a chunk, the entry says where the
chunk lies in an object, and the result is the range of the object to read. It never leaves the
entry's own range.
"""

from __future__ import annotations

from msgspec import Struct

from zarr_manifest.errors import (
    LimitExceededError,
    ManifestError,
    RangeOutOfBoundsError,
    ShortReadError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.showing import counted


class SourceRange(Struct, frozen=True, repr_omit_defaults=True):
    """Bytes of a source object, or of an entry.

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
    past_caches : bool
        Whether caches in between must ask the server whether their copy is up to date.

    Examples
    --------
    >>> SourceRange(100, 200, True).stop
    200
    """

    start: int
    stop: int | None
    exact: bool
    most: int | None = None
    past_caches: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are requested, however many there are."""
        return self.start == 0 and self.stop is None

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
        return size <= self.start and not self.is_whole

    def require_sent(self, start: int, stop: int, size: int | None) -> None:
        """Reject an answer, before its body is read, that holds other bytes than were requested.

        Parameters
        ----------
        start, stop : int
            First byte, and one past the last, of those that are sent.
        size : int or None
            Of the whole object, in bytes; None if the server does not say.

        Raises
        ------
        RangeOutOfBoundsError, ShortReadError, SourceError, LimitExceededError
            The object ends before the range; only its first bytes, or other bytes, are sent; or
            they are too many.

        Examples
        --------
        >>> SourceRange(4, 8, True).require_sent(4, 8, None)
        >>> SourceRange(4, 8, True).require_sent(0, 4, 10)
        Traceback (most recent call last):
            ...
        zarr_manifest.errors.SourceError: ...
        """
        if size is None:
            if self.start < 0 or self.stop is None:
                raise unknown_size()
            wanted = (self.start, self.stop)
        elif self.exceeds(size):
            raise out_of_bounds(self, size)
        else:
            wanted = slice_bounds(size, self)
        if (start, stop) != wanted:
            first, last = wanted
            is_short = start == first and stop < last
            raise (ShortReadError if is_short else SourceError)(
                f"bytes {first} to {last} were requested, but {start} to {stop} were sent"
            )
        self.require_acceptable(stop - start)

    def require_acceptable(self, size: int) -> None:
        """Reject an answer of more than `most` bytes, before they are read.

        Raises
        ------
        LimitExceededError
            If it has more.
        """
        if self.most is not None and size > self.most:
            raise LimitExceededError(f"{counted(size, 'byte')} would be read")


WHOLE = SourceRange(0, None, False)
"""All bytes of an object or an entry."""


def source_range(
    offset: int,
    length: int | None,
    request: SourceRange,
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
    request : SourceRange
        The requested bytes of the entry.
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
        If the object's size is needed but not given: for the last bytes of an entry that begins
        inside the object and runs to its end. A suffix of the object could reach back before it.
        Or if `offset` or `length` is negative.

    Examples
    --------
    >>> source_range(100, 50, SourceRange(10, 20, False))
    SourceRange(start=110, stop=120, exact=True)
    >>> source_range(100, 50, SourceRange(-80, None, False))
    SourceRange(start=100, stop=150, exact=True)
    >>> source_range(100, None, SourceRange(10, None, False))
    SourceRange(start=110, stop=None, exact=False)
    >>> source_range(100, None, SourceRange(-8, None, False), size=300)
    SourceRange(start=292, stop=300, exact=True)
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
        if request.start >= 0:
            end = None if request.stop is None else offset + request.stop
            return SourceRange(offset + request.start, end, False, most)
        if offset > 0:
            raise ValueError("the last bytes of an open-ended entry need the object's size")
        return SourceRange(request.start, None, False, most)
    start, stop = slice_bounds(length, request)
    return SourceRange(offset + start, offset + stop, True, most)


def out_of_bounds(span: SourceRange, size: int) -> RangeOutOfBoundsError:
    """Return the error for a range that an object of `size` bytes does not hold."""
    stop = "the end" if span.stop is None else span.stop
    return RangeOutOfBoundsError(
        f"bytes {span.start} to {stop} are out of bounds: the object has {counted(size, 'byte')}",
        remedy="The object is incomplete, or the manifest was written for another one.",
    )


def unknown_size() -> SourceError:
    """Return the error for an object of which the server does not say how large it is."""
    return SourceError(
        "the server does not say how large the object is",
        remedy="Serve the object from a server that states sizes in Content-Range.",
    )


def bounds_in(span: SourceRange, size: int) -> tuple[int, int]:
    """Return where a range of an object of `size` bytes begins and ends.

    Raises
    ------
    RangeOutOfBoundsError
        The object does not hold it.
    LimitExceededError
        It has more bytes than are accepted.

    Examples
    --------
    >>> bounds_in(SourceRange(-4, None, False), 10), bounds_in(SourceRange(8, 12, False), 10)
    ((6, 10), (8, 10))
    """
    start, stop, most = span.start, span.stop, span.most
    if span.exact and stop is not None and start >= 0 and stop <= size:
        if most is None or stop - start <= most:
            return start, stop
    elif start < 0:
        return max(0, size + start), size
    if span.exceeds(size):
        raise out_of_bounds(span, size)
    stop = size if stop is None else min(stop, size)
    span.require_acceptable(stop - start)
    return start, stop


def slice_bounds(n: int, request: SourceRange) -> tuple[int, int]:
    """Return where the requested bytes lie in a value of `n` bytes.

    Parameters
    ----------
    n : int
        Size of the whole value in bytes.
    request : SourceRange
        The requested bytes.

    Returns
    -------
    start, stop : int
        ``0 <= start <= stop <= n``.

    Examples
    --------
    >>> start, stop = slice_bounds(6, SourceRange(-4, None, False))
    >>> b"abcdef"[start:stop]
    b'cdef'
    """
    if request.start < 0:
        return max(0, n + request.start), n
    return min(request.start, n), n if request.stop is None else min(request.stop, n)


# Objects -----------------------------------------------------------------------


def missing_object(conditions: Conditions = NO_CONDITIONS, *, detail: str = "") -> ManifestError:
    """Return the error for an object that does not exist, or not in the version that is required.

    Examples
    --------
    >>> missing_object().code, missing_object(Conditions(version="7")).code
    ('source_not_found', 'source_changed')
    """
    if conditions.version is not None:
        return SourceChangedError(
            f"the object has no version {conditions.version}",
            remedy="If it was moved, or its version removed, make the manifest again.",
        )
    return SourceNotFoundError(
        f"the object does not exist{detail}",
        remedy="If it was moved, a different 'base' may find it.",
    )


def reject_encoded(encoding: object) -> None:
    """Reject bytes that a server has encoded (specification, "Content encodings").

    Offsets, lengths, sizes and checksums count the bytes of an object as it is.

    Raises
    ------
    SourceError
        If the value of ``Content-Encoding`` names an encoding.
    """
    if encoding is not None and str(encoding).strip().lower() not in ("", "identity"):
        raise SourceError(
            f"the server sends the object encoded: Content-Encoding is {encoding}",
            remedy="Serve it as it is.",
        )


def known_size(state: Conditions) -> int:
    """Return the size of an object, given its state.

    Raises
    ------
    SourceError
        The server does not say how large it is.
    """
    if state.size is None:
        raise unknown_size()
    return state.size


def short_body(announced: int, arrived: int) -> ShortReadError:
    """Return the error for a body of fewer bytes than the source announced, or of more."""
    return ShortReadError(
        f"the source announced {counted(announced, 'byte')}, but {arrived:,} arrived"
    )


def no_such_host() -> SourceError:
    """Return the error for a host whose name is unknown."""
    return SourceError(
        "the host is unknown",
        remedy="Check the name of the host in the URL and the endpoint, and the network.",
    )
