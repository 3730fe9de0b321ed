"""Directories whose files may be read: what was checked is what is read.

A file is opened by the system, if it can do that, or else one segment after the other, each in
the directory that was opened before it, and never through a symbolic link: whatever is swapped for
a link meanwhile, the opened file lies in the directory. Where there are links, the real path is
looked up, checked, and then opened in the same way.

Where segments cannot be opened in a directory (on Windows), the real path is checked before the
file is opened by its name, and a link that is made in between is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from zarr_manifest.errors import (
    Advice,
    LocationNotAllowedError,
    Setting,
    ShortReadError,
    SourceError,
)
from zarr_manifest.sources.openat2 import DIRECTORY_FLAGS, FILE_FLAGS, HAS_OPENAT2, open_below

# Placeholder for the hierarchy's directory in messages.
HIERARCHY = "hierarchy's directory"

# On Linux; elsewhere the limit is lower.
LONGEST_PATH = 4096

# A link met on a path that had none a moment ago means that the path is being changed.
_MOST_CHANGES = 40

OPENS_IN_DIRECTORIES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

NO_LINK = getattr(os, "O_NOFOLLOW", 0)

# Errors for opening a link that must not be followed; EMLINK on FreeBSD.
_IS_A_LINK = (errno.ELOOP, errno.EMLINK)


class LinkMetError(Exception):
    """A segment of a path is a symbolic link, or is being changed."""


def real_path(path: str) -> str:
    """Return the real path of what a path names, also while that changes."""
    for _ in range(_MOST_CHANGES):
        try:
            return os.path.realpath(path)
        except OSError as error:
            # The link has been replaced or removed.
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            _fall_out_of_step()
    raise _ever_changing()


def _impossible() -> FileNotFoundError:
    """Return the error for a path that no file can have."""
    return FileNotFoundError(errno.ENAMETOOLONG, "no file can have this path")


def _fall_out_of_step() -> None:
    """Wait a moment, so that retries do not coincide with another process's changes."""
    time.sleep(random.uniform(0, 0.001))


def _ever_changing() -> OSError:
    return OSError(errno.ELOOP, "its symbolic links lead round in a circle, or keep changing")


def _within(root: str, real: str) -> str | None:
    """Return a real path if it lies in a directory given by its real path, or is that."""
    return real if f"{real}{os.sep}".startswith(f"{root.rstrip(os.sep)}{os.sep}") else None


def link_outside(name: str = HIERARCHY) -> LocationNotAllowedError:
    """Return the error for a link that leads out of a directory, given its name in messages."""
    # Readers of the error must not learn where it leads.
    return LocationNotAllowedError(
        f"a symbolic link leads out of the {name}",
        remedy=Advice(
            "If you trust what it leads to, authorise that, by its own path: ",
            Setting("allow", ["/where/the/link/leads/"]),
            ".",
        ),
    )


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
        parts, missing = [body], wanted - len(body)  # Linux reads at most 2 GiB per call
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


class Directory(Struct, frozen=True):
    """A directory whose files may be read, but not what links lead to outside it.

    Parameters
    ----------
    path : str
        Any name of the directory; it may be a link itself.
    others : tuple of str
        Files and directories that links may lead into: the reader authorised them.
    name : str
        Placeholder for the directory in messages.
    """

    path: str
    others: tuple[str, ...] = ()
    name: str = HIERARCHY

    def real_path(self, key: str) -> str | None:
        """Return the real path of what a key names; None if that may not be read."""
        found = self._locate(key)
        return None if found is None else str(Path(*found))

    def require(self, key: str, *, may_be_directory: bool = False) -> None:
        """Reject a key that may not be read, before somebody else opens it by name.

        Raises
        ------
        LocationNotAllowedError
            It is, or lies behind, a symbolic link that leads out of the directory.
        SourceError
            It is a FIFO, or a device: to open it may take forever. Or it is a directory, and
            may not be one.
        """
        real = Path(*self._require_located(key))
        # The reader reports missing files.
        with contextlib.suppress(OSError):
            status = real.stat()
            if stat.S_ISDIR(status.st_mode) and not may_be_directory:
                raise directory_found()
            require_regular(status)

    def open(self, key: str) -> OpenFile:
        """Open a regular file.

        Raises
        ------
        OSError
            As :func:`os.open` does: ``FileNotFoundError``, ``PermissionError``, …
        LocationNotAllowedError
            A symbolic link leads out of the directory.
        SourceError
            It is neither a file nor a directory.
        """
        if not HAS_OPENAT2 or not key or ".." in key:
            return self._reach(key, _open_file)
        try:
            directory = os.open(self.path, DIRECTORY_FLAGS)
        except OSError:
            return self._reach(key, _open_file)
        try:
            descriptor = open_below(directory, key, FILE_FLAGS)
        finally:
            os.close(directory)
        # Behind a link, it needs a closer check.
        return self._reach(key, _open_file) if descriptor is None else regular_file(descriptor)

    def status(self, key: str) -> os.stat_result:
        """Return the status of what a key names, which need not be a regular file.

        Raises
        ------
        OSError, LocationNotAllowedError, SourceError
            As of :meth:`open`.
        """
        return self._reach(key, _status_of)

    def _reach[T](self, key: str, act: _Act[T]) -> T:
        if len(key) > LONGEST_PATH or "\0" in key:
            raise _impossible()
        place = self.path, key
        for attempt in range(_MOST_CHANGES):
            try:
                if OPENS_IN_DIRECTORIES:
                    return _reach_in(*place, act)
                return act(str(Path(*self._require_located(key))), None)
            except LinkMetError:
                place = self._require_located(key)
                if attempt:
                    _fall_out_of_step()
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise _impossible() from None
                raise
        raise _ever_changing()

    def _require_located(self, key: str) -> tuple[str, str]:
        found = self._locate(key)
        if found is None:
            raise link_outside(self.name)
        return found

    def _locate(self, key: str) -> tuple[str, str] | None:
        """Return the real path of what a key names, below a directory that may be read."""
        # Checking each directory of an endless path would take quadratic time.
        real = real_path(str(Path(self.path, key[: LONGEST_PATH + 1])))
        for directory in (self.path, *self.others):
            root = real_path(directory)
            if real == root:
                return os.path.split(real)
            if _within(root, real) is not None:
                return root, os.path.relpath(real, root)
        return None


# Acts on a name in an open directory, or on a path, without following a link.
type _Act[T] = Callable[[str, int | None], T]


def _reach_in[T](directory: str, key: str, act: _Act[T]) -> T:
    """Act on a file in a directory, without following links below that.

    Raises
    ------
    OSError
        As :func:`os.open` does.
    LinkMetError
        There is a link.
    """
    segments = [segment for segment in key.split("/") if segment not in ("", ".")]
    if not segments or ".." in segments:
        raise LinkMetError
    above = open_above(directory, segments)
    try:
        return act(segments[-1], above)
    finally:
        os.close(above)


def open_above(directory: str, segments: list[str], *, make: bool = False) -> int:
    """Open the directory of a file below another, one segment after the other.

    Directories that do not exist are made if asked for.

    Raises
    ------
    OSError, LinkMetError
        As of :func:`_reach_in`.
    """
    try:
        descriptor = os.open(directory, DIRECTORY_FLAGS)
    except FileNotFoundError:
        if not make:
            raise
        Path(directory).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, DIRECTORY_FLAGS)
    try:
        for segment in segments[:-1]:
            inner = _open_directory(segment, descriptor, make=make)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_directory(name: str, above: int, *, make: bool) -> int:
    """Open a directory in another, without following a link; make it if asked for."""
    try:
        return os.open(name, DIRECTORY_FLAGS | NO_LINK, dir_fd=above)
    except OSError as error:
        if not make or not isinstance(error, FileNotFoundError):
            raise why_not_opened(error, name, above) from None
    with contextlib.suppress(FileExistsError):  # made meanwhile
        os.mkdir(name, dir_fd=above)
    return _open_directory(name, above, make=False)


def why_not_opened(error: OSError, name: str, directory: int | None) -> Exception:
    """Return what an error of opening a segment of a path means, without following a link."""
    if isinstance(error, NotADirectoryError):
        # Also what a link is answered with. A link that has become a directory again must not
        # be reported as missing.
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        return LinkMetError() if stat.S_ISLNK(mode) or stat.S_ISDIR(mode) else error
    if error.errno in _IS_A_LINK:
        return LinkMetError()
    return _not_regular() if error.errno == errno.ENXIO else error


def _open_file(name: str, directory: int | None) -> OpenFile:
    try:
        descriptor = os.open(name, FILE_FLAGS | NO_LINK, dir_fd=directory)
    except OSError as error:
        raise why_not_opened(error, name, directory) from None
    return regular_file(descriptor)


def regular_file(descriptor: int) -> OpenFile:
    """Return the file that a descriptor opens, if it is a regular one."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            require_regular(status)
        return OpenFile(descriptor, status)
    except BaseException:
        os.close(descriptor)
        raise


def _status_of(name: str, directory: int | None) -> os.stat_result:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise LinkMetError
    return status


def require_regular(status: os.stat_result) -> os.stat_result:
    """Return the status of a regular file; refuse another one."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular()
    return status


def directory_found() -> SourceError:
    """Return the error for a directory where a file must be."""
    return SourceError(
        "expected a file, found a directory",
        remedy="Name a file, or restore the one that was here.",
    )


def _not_regular() -> SourceError:
    return SourceError(
        "it is not a regular file, but a FIFO, a socket or a device",
        remedy="Only regular files can be read.",
    )
