"""Small files that the system has in memory, read at once: nobody has to wait for them.

To read one in a thread, so that an event loop need not wait, takes ten times as long as reading
does. Linux reads, if asked to, only what it has.
"""

from __future__ import annotations

import errno
import os
import stat

from zarr_manifest.sources.opening_at_once import FILE_FLAGS, OPENS_AT_ONCE, open_if_cached

__all__ = ["CachedFiles"]

_DOES_NOT_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)

# Larger ones are worth a thread.
_MOST_BYTES = 2**16


class CachedFiles:
    """Small files below a directory.

    Parameters
    ----------
    directory : str
        Path of the directory: it may be a link itself.

    Examples
    --------
    >>> CachedFiles("/").read("no/such/file") is None
    True
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._can_tell = OPENS_AT_ONCE and _DOES_NOT_WAIT is not None

    def read(self, key: str) -> bytes | None:
        """Return a file, if that takes no waiting.

        Returns
        -------
        bytes or None
            None if it has to be read otherwise: there is no such file, it is large, a link leads
            to it, or the system has not all of it in memory, or cannot tell.
        """
        if not self._can_tell or not key or ".." in key:
            return None
        descriptor = open_if_cached(self._directory, key, FILE_FLAGS)
        if descriptor is None:
            return None
        try:
            return self._content(descriptor)
        except OSError as error:
            # File systems in memory, and some on a network, never can.
            self._can_tell = error.errno != errno.EOPNOTSUPP
            return None  # whoever reads it otherwise finds out what is wrong
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int) -> bytes | None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        body = bytearray(status.st_size)
        count = os.preadv(descriptor, [body], 0, _DOES_NOT_WAIT or 0)
        return bytes(body) if count == len(body) else None
