"""Opening a file below a directory with one call of the system, if no links are on its way.

Linux, since 5.6, looks at all segments of a path itself, in a fraction of the time that opening
one after the other takes. Python has no function for that call.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable

__all__ = ["DIRECTORY_FLAGS", "FILE_FLAGS", "OPENS_AT_ONCE", "open_at_once", "open_if_cached"]

# openat2, and the processors on which that is its number.
_NUMBER = ctypes.c_long(437)
_PROCESSORS = ("x86_64", "aarch64", "ppc64le", "riscv64", "s390x")

_WITHOUT_LINKS = 0x04
_BENEATH = 0x08
_CACHED = 0x20

# Instead of a descriptor of a directory: the current one.
_HERE = -100

_INHERITED_BY_NONE = getattr(os, "O_CLOEXEC", 0)

# Directories need permission to search only, where the system can tell that apart.
DIRECTORY_FLAGS = (
    getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
    | getattr(os, "O_DIRECTORY", 0)
    | _INHERITED_BY_NONE
)

# Without waiting for the writer of a FIFO, or for a device.
FILE_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
    | _INHERITED_BY_NONE
)


class _How(ctypes.Structure):
    """``struct open_how`` of Linux."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_SIZE = ctypes.c_size_t(ctypes.sizeof(_How))


def open_at_once(
    directory: int, key: str, flags: int, *, resolve: int = _WITHOUT_LINKS | _BENEATH
) -> int | None:
    """Open a file below a directory, without following links, or leaving the directory.

    Parameters
    ----------
    directory : int
        Descriptor of the directory.
    key : str
        Path of the file below it; not empty, and without ``..``.
    flags : int
        As of :func:`os.open`.
    resolve : int
        What else the system is to refuse, or not to.

    Returns
    -------
    int or None
        A descriptor; None if the file cannot be opened like this, for whatever reason.

    Raises
    ------
    FileNotFoundError
        There is nothing.

    Examples
    --------
    >>> here = os.open("/", os.O_RDONLY)
    >>> if OPENS_AT_ONCE:
    ...     os.close(open_at_once(here, "etc/passwd", os.O_RDONLY))
    >>> os.close(here)
    """
    path = os.fsencode(key)
    if b"\0" in path:
        return None  # the system would read up to it
    sys.audit("open", key, None, flags)  # as os.open
    descriptor = _call(_NUMBER, directory, path, _how(flags, resolve), _SIZE)
    if descriptor >= 0:
        return descriptor
    if ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
    return None


def open_if_cached(directory: str, key: str, flags: int) -> int | None:
    """Open a file below a directory, if the system knows of both without looking at a disk.

    Linux can tell since 5.12.

    Parameters
    ----------
    directory : str
        Path of the directory: it may be a link itself.
    key, flags
        As of :func:`open_at_once`.

    Returns
    -------
    int or None
        A descriptor; None if the file cannot be opened like this, for whatever reason.
    """
    try:
        above = open_at_once(_HERE, directory, DIRECTORY_FLAGS, resolve=_CACHED)
        if above is None:
            return None
        try:
            return open_at_once(above, key, flags, resolve=_CACHED | _WITHOUT_LINKS | _BENEATH)
        finally:
            os.close(above)
    except FileNotFoundError:
        return None


@functools.cache
def _how(flags: int, resolve: int) -> object:
    large = getattr(os, "O_LARGEFILE", 0)
    return ctypes.byref(_How(flags | large, 0, resolve))


def _system_call() -> Callable[..., int]:
    if sys.platform == "linux" and os.uname().machine in _PROCESSORS:
        return ctypes.CDLL(None, use_errno=True).syscall
    return lambda *_: -1


_call = _system_call()


def _opens_at_once() -> bool:
    """Whether the system has the call, and allows it: some containers do not."""
    try:
        root = os.open("/", os.O_RDONLY)
        try:
            found = open_at_once(root, ".", os.O_RDONLY)
        finally:
            os.close(root)
    except OSError:
        return False
    if found is not None:
        os.close(found)
    return found is not None


OPENS_AT_ONCE = _opens_at_once()
