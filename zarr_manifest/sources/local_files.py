"""Local files below a directory: what was checked is what is read.

A file is opened by the system, if it can do that, or else one segment after the other, each in
the directory that was opened before it, and never through a symbolic link: whatever is swapped for
a link meanwhile, what was opened lies in the directory. Where there are links, the real path is
looked up, checked, and then opened in the same way. Sizes, conditions and bytes are those of the
file that was opened.

Where segments cannot be opened in a directory (on Windows), the real path is checked before the
file is opened by its name, and a link that is made in between is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import stat
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from zarr_manifest.errors import (
    Advice,
    LocationNotAllowedError,
    Setting,
    SourceAccessDeniedError,
    SourceError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.sources.byte_ranges import SourceRange, out_of_bounds
from zarr_manifest.sources.missing_objects import missing_object
from zarr_manifest.sources.open_file import OpenFile
from zarr_manifest.sources.opening_at_once import (
    DIRECTORY_FLAGS,
    FILE_FLAGS,
    OPENS_AT_ONCE,
    open_at_once,
)

__all__ = [
    "HIERARCHY",
    "LONGEST_PATH",
    "NO_LINK",
    "OPENS_IN_DIRECTORIES",
    "Directory",
    "FileReader",
    "LinkMetError",
    "bounds_in",
    "file_errors",
    "link_outside",
    "open_directory",
    "real_path",
    "regular_file",
    "why_not_opened",
]

# What messages call the directory of a hierarchy.
HIERARCHY = "hierarchy's directory"

# On Linux; elsewhere the limit is lower.
LONGEST_PATH = 4096

# A link met on a path that had none a moment ago means that the path is being changed.
_MOST_CHANGES = 40

OPENS_IN_DIRECTORIES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

NO_LINK = getattr(os, "O_NOFOLLOW", 0)

# What opening a link that must not be followed ends with; EMLINK on FreeBSD.
_IS_A_LINK = (errno.ELOOP, errno.EMLINK)


class LinkMetError(Exception):
    """A segment of a path is a symbolic link, or is being changed."""


def real_path(path: str) -> str:
    """Return the real path of what a path names, also while that changes."""
    for _ in range(_MOST_CHANGES):
        try:
            return os.path.realpath(path)
        except OSError as error:
            # What was a link is none any more, or has gone.
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            _fall_out_of_step()
    raise _ever_changing()


def _impossible() -> FileNotFoundError:
    """Return the error for a path that no file can have."""
    return FileNotFoundError(errno.ENAMETOOLONG, "no file can have this path")


def _fall_out_of_step() -> None:
    """Wait a moment, lest another process changes the path each time at the same point."""
    time.sleep(random.uniform(0, 0.001))


def _ever_changing() -> OSError:
    return OSError(errno.ELOOP, "its symbolic links lead round in a circle, or keep changing")


def _within(root: str, real: str) -> str | None:
    """Return a real path if it lies in a directory given by its real path, or is that."""
    return real if f"{real}{os.sep}".startswith(f"{root.rstrip(os.sep)}{os.sep}") else None


def link_outside(name: str) -> LocationNotAllowedError:
    """Return the error for a link that leads out of a directory, given what messages call that."""
    # Where it leads is not the business of whoever sees the error.
    return LocationNotAllowedError(
        f"a symbolic link leads out of the {name}",
        remedy=Advice(
            "If you trust what it leads to, authorise that, by its own path: ",
            Setting("allow", ["/where/the/link/leads/"]),
            ".",
        ),
    )


class Directory(Struct, frozen=True):
    """A directory whose files may be read, but not what links lead to outside it.

    Parameters
    ----------
    path : str
        Any name of the directory; it may be a link itself.
    others : tuple of str
        Files and directories that links may lead into: the reader authorised them.
    name : str
        What messages call the directory.
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
        # What is not there is for the reader to report.
        with contextlib.suppress(OSError):
            status = real.stat()
            if stat.S_ISDIR(status.st_mode) and not may_be_directory:
                raise _directory_found()
            _require_regular(status)

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
        return self._open_at_once(key) or self._reach(key, _open_file)

    def _open_at_once(self, key: str) -> OpenFile | None:
        """Open a file that no links lead to; None if only looking more closely can tell."""
        if not OPENS_AT_ONCE or not key or ".." in key:
            return None
        try:
            directory = os.open(self.path, DIRECTORY_FLAGS)
        except OSError:
            return None
        try:
            descriptor = open_at_once(directory, key, FILE_FLAGS)
        finally:
            os.close(directory)
        return None if descriptor is None else regular_file(descriptor)

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
        # Each directory of an endless path would be looked at, in quadratic time.
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
    descriptor = os.open(directory, DIRECTORY_FLAGS)
    try:
        for segment in segments[:-1]:
            inner = open_directory(segment, descriptor)
            os.close(descriptor)
            descriptor = inner
        return act(segments[-1], descriptor)
    finally:
        os.close(descriptor)


def open_directory(name: str, above: int) -> int:
    """Open a directory in another, without following a link."""
    try:
        return os.open(name, DIRECTORY_FLAGS | NO_LINK, dir_fd=above)
    except OSError as error:
        raise why_not_opened(error, name, above) from None


def why_not_opened(error: OSError, name: str, directory: int | None) -> Exception:
    """Return what an error of opening a segment of a path means, without following a link."""
    if isinstance(error, NotADirectoryError):
        # Also what a link is answered with. A link that has become a directory again must not
        # look like something that is not there.
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
            _require_regular(status)
        return OpenFile(descriptor, status)
    except BaseException:
        os.close(descriptor)
        raise


def _status_of(name: str, directory: int | None) -> os.stat_result:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise LinkMetError
    return status


def _require_regular(status: os.stat_result) -> os.stat_result:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular()
    return status


def _directory_found() -> SourceError:
    return SourceError(
        "there is a directory in its place", remedy="Name a file, or restore the one that was here."
    )


def _not_regular() -> SourceError:
    return SourceError(
        "it is not a regular file, but a FIFO, a socket or a device",
        remedy="Only regular files can be read.",
    )


class FileReader(Struct, frozen=True):
    """Reads files below a directory, as an :class:`ObjectReader`."""

    directory: Directory
    on_disk: bool = True

    async def read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of a file."""
        return await asyncio.to_thread(self.read_sync, key, span, conditions)

    def read_sync(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of a file, without an event loop."""
        # Not with `opened`, which takes longer than to read a small chunk.
        try:
            file = self.directory.open(key)
            try:
                if conditions is not NO_CONDITIONS:
                    _require_unchanged(file.status, conditions)
                return memoryview(file.read(*bounds_in(span, file.status.st_size)))
            finally:
                os.close(file.descriptor)
        except OSError as error:
            _raise_translated(error, conditions)

    @contextlib.contextmanager
    def opened(self, key: str, conditions: Conditions) -> Generator[OpenFile]:
        """Open a file for several ranges, without an event loop; errors are those of reading."""
        with file_errors(conditions):
            file = self.directory.open(key)
            try:
                _require_unchanged(file.status, conditions)
                yield file
            finally:
                file.close()

    async def size(self, key: str) -> int:
        """Return the size of a file in bytes."""
        return await asyncio.to_thread(self.size_sync, key)

    def size_sync(self, key: str) -> int:
        """Return the size of a file in bytes, without an event loop."""
        with file_errors(NO_CONDITIONS):
            return _require_regular(self.directory.status(key)).st_size

    def state_sync(self, key: str, version: str | None) -> Conditions:
        """Return the conditions that a file satisfies now; files have no versions."""
        stated = Conditions(version=version)
        with file_errors(stated):
            status = _require_regular(self.directory.status(key))
        stated.require(etag=None, last_modified=None, version=None)
        return Conditions(last_modified=_last_modified(status), size=status.st_size)


@contextlib.contextmanager
def file_errors(conditions: Conditions) -> Generator[None]:
    """Translate what reading a file under these conditions may raise."""
    try:
        yield
    except OSError as error:
        _raise_translated(error, conditions)


def bounds_in(span: SourceRange, size: int) -> tuple[int, int]:
    """Return where a range of a file begins and ends."""
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


def _last_modified(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=status.st_mtime_ns // 1000)


def _require_unchanged(status: os.stat_result, conditions: Conditions) -> None:
    if conditions:
        micros = status.st_mtime_ns // 1000
        conditions.require(
            # As obstore, with which manifests are written, makes it.
            etag=f'"{status.st_ino:x}-{max(0, micros):x}-{status.st_size:x}"',
            last_modified=_last_modified(status),
            version=None,
            size=status.st_size,
        )


def _raise_translated(error: OSError, conditions: Conditions = NO_CONDITIONS) -> NoReturn:
    """Raise the :class:`ManifestError` for an error of the operating system."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        raise missing_object(conditions) from None
    if isinstance(error, IsADirectoryError):
        raise _directory_found() from None
    if isinstance(error, PermissionError):
        raise SourceAccessDeniedError(
            f"reading was refused: {error.strerror}",
            remedy="The file belongs to another user; ask them for access.",
        ) from None
    raise SourceError(f"reading failed: {error.strerror}") from None
