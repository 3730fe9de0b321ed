"""A regular file that is open for reading: what is read of it is what was checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec import Struct

from zarr_manifest.errors import ShortReadError

__all__ = ["OpenFile"]


def _seek_and_read(descriptor: int, most: int, start: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, most)


_READ: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)


class OpenFile(Struct, frozen=True):
    """A regular file, open for reading.

    Attributes
    ----------
    descriptor : int
        To be closed with :meth:`close`.
    status : os.stat_result
        Of the file when it was opened.
    """

    descriptor: int
    status: os.stat_result

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes of the file.

        Raises
        ------
        ShortReadError
            The file has become shorter.
        """
        wanted = stop - start
        body = _READ(self.descriptor, wanted, start)
        if len(body) == wanted:
            return body
        parts, missing = [body], wanted - len(body)  # Linux reads 2 GiB at once at most
        while missing:
            part = _READ(self.descriptor, missing, stop - missing)
            if not part:
                raise _cut_short(wanted, wanted - missing)
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    @property
    def size(self) -> int:
        """Size of the file when it was opened, in bytes."""
        return self.status.st_size

    def read_into(self, start: int, views: Sequence[memoryview]) -> None:
        """Fill views of memory, one after the other, with bytes of the file from `start` on.

        Parameters
        ----------
        start : int
            First byte to read.
        views : sequence of memoryview
            Of bytes, writable; 1024 at most, which is what Linux takes.

        Raises
        ------
        ShortReadError
            The file has become shorter.
        """
        if not hasattr(os, "preadv"):
            for view in views:
                view[:] = self.read(start, start + len(view))
                start += len(view)
            return
        wanted = sum(map(len, views))
        left: Sequence[memoryview] = views
        done = 0
        while done < wanted:
            count = os.preadv(self.descriptor, left, start + done)
            if not count:
                raise _cut_short(wanted, done)
            done += count
            left = _after(left, count) if done < wanted else ()

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def _cut_short(wanted: int, arrived: int) -> ShortReadError:
    return ShortReadError(
        f"{wanted:,} bytes were requested, but {arrived:,} arrived: the file was cut short while "
        "it was read"
    )


def _after(views: Sequence[memoryview], count: int) -> Sequence[memoryview]:
    """Return what is left of views when their first bytes have been filled."""
    for i, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[i + 1 :]]
        count -= len(view)
    return ()
