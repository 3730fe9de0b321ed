"""The files of a hierarchy's own directory: the only module that changes them.

A hierarchy may be untrusted, so nothing is written, locked or removed through a symbolic link,
wherever that leads, except that the directory itself may be one. Segments of a path are opened
one in the other, as for reading; on Windows, the real path is checked first.

A file is written under another name first, so that nobody ever sees part of it. The system
decides when it reaches the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from zarr_manifest.errors import (
    Advice,
    InvalidPathError,
    LocationNotAllowedError,
    Setting,
    WriteConflictError,
)
from zarr_manifest.sources.directories import (
    LONGEST_PATH,
    NO_LINK,
    OPENS_IN_DIRECTORIES,
    LinkMetError,
    open_directory,
    real_path,
    regular_file,
    why_not_opened,
)
from zarr_manifest.sources.openat2 import DIRECTORY_FLAGS, FILE_FLAGS

__all__ = ["MOMENTARY", "OwnFiles", "undetectable_writers"]

# What the names of files that exist for a moment end with; a process that is killed leaves them.
MOMENTARY = LOCK, PARTIAL = ".lock", ".partial"

# How long another process may hold a lock, in seconds; it only writes one small file.
_PATIENCE = 5.0

_MOMENTARY_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | NO_LINK
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class _Place(Struct, frozen=True):
    """Where a file is: its name in an open directory, or its path and None."""

    name: str
    above: int | None
    path: str

    @property
    def location(self) -> str:
        """Its URL."""
        return Path(self.path).as_uri()

    def beside(self, ending: str) -> _Place:
        """Return the place of a file whose name has one more ending."""
        return _Place(f"{self.name}{ending}", self.above, f"{self.path}{ending}")

    def become(self, other: _Place) -> None:
        """Give a file another name in the same directory, in place of what has that."""
        os.replace(self.name, other.name, src_dir_fd=self.above, dst_dir_fd=other.above)

    def status(self) -> os.stat_result | None:
        """Return the status of what is there, which may be a link; None if nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.above, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def unlink(self) -> None:
        """Remove a file or a link, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.above)

    def open(self, flags: int) -> int:
        """Open a file, without following a link."""
        try:
            return os.open(self.name, flags, 0o666, dir_fd=self.above)
        except OSError as error:
            raise why_not_opened(error, self.name, self.above) from None


class OwnFiles(Struct, frozen=True):
    """The files of a directory, to be changed.

    Parameters
    ----------
    directory : str
        Its path; it may be a link itself, and need not exist.

    Examples
    --------
    >>> import tempfile
    >>> files = OwnFiles(tempfile.mkdtemp())
    >>> files.create("a/f", b"1"), files.create("a/f", b"2"), files.read("a/f")
    (True, False, b'1')
    """

    directory: str

    # Reading what is to be replaced ---------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        """Return a file; None if there is none.

        Raises
        ------
        LocationNotAllowedError
            It is a symbolic link, or lies behind one.
        InvalidPathError
            No file can have this name.
        """
        try:
            with self._place(key) as place:
                file = regular_file(place.open(FILE_FLAGS | NO_LINK))
                try:
                    return file.read(0, file.size)
                finally:
                    file.close()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def size(self, key: str) -> int | None:
        """Return the size of a regular file, in bytes; None if there is none of our own."""
        try:
            with self._place(key) as place:
                status = place.status()
        except (LocationNotAllowedError, FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def require_own(self, key: str) -> None:
        """Refuse what is a symbolic link, or lies behind one. Raises as :meth:`read`."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._place(key) as place,
        ):
            _require_no_link(place)

    def names(self, key: str) -> list[str]:
        """Return the names in a directory; nothing if there is none. Raises as :meth:`read`."""
        # The name of what is not there does not matter: it has to be in the directory.
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._place(f"{key}/{PARTIAL}") as place,
        ):
            if place.above is None:
                return [path.name for path in Path(place.name).parent.iterdir()]
            descriptor = os.open(".", FILE_FLAGS, dir_fd=place.above)
            try:
                with os.scandir(descriptor) as entries:
                    return [entry.name for entry in entries]
            finally:
                os.close(descriptor)
        return []

    # Changing files -------------------------------------------------------------------------

    def put(self, key: str, body: bytes | memoryview) -> None:
        """Write a file, whether or not it exists.

        Raises
        ------
        LocationNotAllowedError, InvalidPathError
            As of :meth:`read`.
        WriteConflictError
            Another process is writing it, and does not finish.
        """
        with self._place(key, make=True) as place:
            _require_no_link(place)
            with _written(place, body) as partial:
                partial.become(place)

    def create(self, key: str, body: bytes | memoryview) -> bool:
        """Write a file unless there is one; return whether it was. Raises as :meth:`put`.

        Takes no lock: the system gives a name only once.
        """
        # On Windows, two writers might write the same partial file.
        locked = self.locked(key) if sys.platform == "win32" else contextlib.nullcontext()
        with locked, self._place(key, make=True) as place:
            if _require_no_link(place) is not None:
                return False
            with _written(place, body) as partial:
                try:
                    os.link(
                        partial.name,
                        place.name,
                        src_dir_fd=partial.above,
                        dst_dir_fd=place.above,
                        follow_symlinks=False,
                    )
                except FileExistsError:
                    return False
                except OSError:  # a file system without hard links
                    if place.status() is not None:
                        return False
                    partial.become(place)
        return True

    def remove(self, key: str) -> None:
        """Remove a file, a link, or a directory with all that is in it, if there is one.

        A link is removed, and what it leads to stays.

        Raises
        ------
        LocationNotAllowedError, InvalidPathError
            It lies behind a symbolic link; or as of :meth:`read`.
        """
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._place(key) as place,
        ):
            status = place.status()
            if status is not None and stat.S_ISDIR(status.st_mode):
                shutil.rmtree(place.name, dir_fd=place.above)
            else:
                place.unlink()

    def remove_below(self, key: str) -> None:
        """Remove a directory with all that is in it; of the whole, only what is in it."""
        if key:
            self.require_own(key)
            self.remove(key)
            return
        for name in self.names(""):
            self.remove(name)

    @contextmanager
    def locked(self, key: str) -> Generator[None]:
        """Keep other processes from changing a file, by a lock file beside it.

        Raises
        ------
        LocationNotAllowedError, InvalidPathError
            As of :meth:`read`.
        WriteConflictError
            Another process has held the lock for long.
        """
        with self._place(key, make=True) as place:
            _require_no_link(place)
            with _holding(place.beside(LOCK)) as lock:
                os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                yield

    def remove_left_behind(self, key: str) -> None:
        """Remove what a killed writer of a file left beside it, unless one is at work."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._place(key) as place,
        ):
            lock, partial = place.beside(LOCK), place.beside(PARTIAL)
            if lock.status() is None and partial.status() is None:
                return
            held = _try_lock(lock)
            if held is not None:
                with _releasing(lock, held):
                    partial.unlink()

    # Where they are -------------------------------------------------------------------------

    @contextmanager
    def _place(self, key: str, *, make: bool = False) -> Generator[_Place]:
        """Open the directory of a file, and those above it first, without following a link.

        Directories that do not exist are made if asked for.
        """
        path = f"{self.directory}/{key}"
        segments = [segment for segment in key.split("/") if segment not in ("", ".")]
        if not segments or ".." in segments or "\0" in key:
            raise _impossible("no file can have this name", path)
        if len(path) > LONGEST_PATH:
            raise _impossible(_TOO_LONG, path)
        try:
            if not OPENS_IN_DIRECTORIES:
                yield _Place(_checked_path(self.directory, segments, make), None, path)
                return
            above = _open_above(self.directory, segments, make)
            try:
                yield _Place(segments[-1], above, path)
            finally:
                os.close(above)
        except LinkMetError:
            raise _behind_link(path) from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _impossible(_TOO_LONG, path) from None
            raise


def _open_above(directory: str, segments: list[str], make: bool) -> int:
    if make and not Path(directory).is_dir():
        Path(directory).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, DIRECTORY_FLAGS)
    try:
        for segment in segments[:-1]:
            try:
                inner = open_directory(segment, descriptor)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(segment, dir_fd=descriptor)
                inner = open_directory(segment, descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _checked_path(directory: str, segments: list[str], make: bool) -> str:
    """Return the path of a file where segments cannot be opened in a directory."""
    path = Path(real_path(directory), *segments)
    if real_path(str(path.parent)) != str(path.parent):
        raise LinkMetError
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def _require_no_link(place: _Place) -> os.stat_result | None:
    """Return the status of what is there, which must be no link; None if nothing is."""
    status = place.status()
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise LinkMetError
    return status


def _behind_link(path: str) -> LocationNotAllowedError:
    return LocationNotAllowedError(
        "it lies behind a symbolic link, and nothing is written or removed through links",
        location=Path(path).as_uri(),
        remedy="Name what the link leads to by its own path; or remove the link.",
    )


_TOO_LONG = "its path is too long for a file"


def _impossible(problem: str, path: str) -> InvalidPathError:
    location = Path(path).as_uri()
    return InvalidPathError(problem, location=location, remedy="Choose shorter or other names.")


# Files that exist for a moment ------------------------------------------------------------


@contextmanager
def _written(place: _Place, body: bytes | memoryview) -> Generator[_Place]:
    """Yield a complete file beside a place, under the one name that a later writer overwrites."""
    partial = place.beside(PARTIAL)
    if sys.platform == "win32":  # which does not rename an open file
        try:
            _write(descriptor := partial.open(_MOMENTARY_FLAGS | os.O_TRUNC), body)
            os.close(descriptor)
            yield partial
        finally:
            partial.unlink()
    else:
        with _holding(partial, needs_lock=False) as descriptor:
            _write(descriptor, body)
            yield partial


def _write(descriptor: int, body: bytes | memoryview) -> None:
    left = memoryview(body)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _holding(place: _Place, *, needs_lock: bool = True) -> Generator[int]:
    """Open and lock an empty file, and remove it in the end."""
    deadline = time.monotonic() + _PATIENCE
    while (held := _try_lock(place, needs_lock=needs_lock)) is None:
        if time.monotonic() > deadline:
            raise _locked_by_another(place)
        time.sleep(0.005)
    with _releasing(place, held):
        yield held


@contextmanager
def _releasing(place: _Place, held: int) -> Generator[None]:
    try:
        yield
    finally:
        if sys.platform == "win32":  # which does not remove an open file
            os.close(held)
            place.unlink()
        else:
            try:
                _unlink_same(place, held)
            finally:
                os.close(held)


def _unlink_same(place: _Place, held: int) -> None:
    """Remove a file unless it has got its final name, and another writer uses this one."""
    status = place.status()
    if status is not None and os.path.samestat(os.fstat(held), status):
        place.unlink()


if sys.platform == "win32":

    def _try_lock(place: _Place, *, needs_lock: bool = True) -> int | None:
        """Create the file, or return None if it exists."""
        try:
            return place.open(_MOMENTARY_FLAGS | os.O_EXCL)
        except FileExistsError:
            return None

else:
    import fcntl

    def _try_lock(place: _Place, *, needs_lock: bool = True) -> int | None:
        """Lock a file, or return None if another writer has locked it.

        The system takes the lock away from a process that ends, so that a file that it left
        behind is no obstacle.
        """
        file = place.open(_MOMENTARY_FLAGS)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
                    raise
                if needs_lock:
                    raise undetectable_writers("file system") from error
            status, there = os.fstat(file), place.status()
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                # Also named elsewhere, perhaps outside: its bytes are not ours to change.
                place.unlink()
            elif there is not None and os.path.samestat(status, there):
                os.truncate(file, 0)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # just removed, or renamed, by the writer that held it
        return None


def _locked_by_another(place: _Place) -> WriteConflictError:
    remedy = "Try again when it has finished."
    if sys.platform == "win32":
        remedy += " If it was interrupted, remove the lock file."
    return WriteConflictError(
        f"another writer has held the lock for more than {_PATIENCE:g} seconds: {_owner(place)}",
        location=place.location,
        remedy=remedy,
    )


def _owner(place: _Place) -> str:
    unnamed = "an unnamed process"
    if not place.name.endswith(LOCK):
        return unnamed
    with contextlib.suppress(FileNotFoundError):
        file = regular_file(place.open(FILE_FLAGS | NO_LINK))
        try:
            return file.read(0, min(file.size, 200)).decode(errors="replace").strip() or unnamed
        finally:
            file.close()
    return unnamed


def undetectable_writers(kind: str) -> WriteConflictError:
    """Return the error for storage in which writers do not see each other."""
    return WriteConflictError(
        f"this {kind} cannot detect whether somebody else is writing at the same time",
        remedy=Advice("If nobody is, pass ", Setting("sole_writer", True), "."),
    )
