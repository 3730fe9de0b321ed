"""The files of a hierarchy's own directory: the only module that changes them.

A hierarchy may be untrusted, so nothing is written, locked or removed through a symbolic link,
wherever it leads; only the directory itself may be a link. Segments of a path are opened
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
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from zarr_manifest.errors import InvalidPathError, LocationNotAllowedError
from zarr_manifest.sources.directories import (
    LONGEST_PATH,
    NO_LINK,
    OPENS_IN_DIRECTORIES,
    LinkMetError,
    OpenFile,
    open_above,
    real_path,
    regular_file,
)
from zarr_manifest.sources.momentary_files import (
    LOCK,
    PARTIAL,
    FilePlace,
    holding,
    releasing,
    try_lock,
    written,
)
from zarr_manifest.sources.openat2 import FILE_FLAGS

# Does nothing in place of what follows it, if there is no such file, or no directory of it.
_IF_THERE = contextlib.suppress(FileNotFoundError, NotADirectoryError)


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
            with self.opened(key) as file:
                return file.read(0, file.size)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    @contextmanager
    def opened(self, key: str) -> Generator[OpenFile]:
        """Open a file for reading.

        Raises
        ------
        OSError
            There is none.
        LocationNotAllowedError, InvalidPathError
            As of :meth:`read`.
        """
        with self._place(key) as place:
            file = regular_file(place.open(FILE_FLAGS | NO_LINK))
        try:
            yield file
        finally:
            file.close()

    def require_own(self, key: str) -> None:
        """Refuse a path that is a symbolic link, or lies behind one. Raises as :meth:`read`."""
        with _IF_THERE, self._place(key) as place:
            _require_no_link(place)

    def names(self, key: str) -> list[str]:
        """Return the names in a directory; nothing if there is none. Raises as :meth:`read`."""
        # The name of what is not there does not matter: it has to be in the directory.
        with _IF_THERE, self._place(f"{key}/{PARTIAL}") as place:
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
            with written(place, body) as partial:
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
            with written(place, body) as partial:
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
        """Remove a file, a link, or a directory with its contents, if it exists.

        A link is removed, and what it leads to stays.

        Raises
        ------
        LocationNotAllowedError, InvalidPathError
            It lies behind a symbolic link; or as of :meth:`read`.
        """
        with _IF_THERE, self._place(key) as place:
            status = place.status()
            if status is not None and stat.S_ISDIR(status.st_mode):
                shutil.rmtree(place.name, dir_fd=place.above)
            else:
                place.unlink()

    def remove_unchanged(self, key: str, before: os.stat_result) -> bool:
        """Remove a file unless it was written since; return whether it was removed.

        A writer that writes it again meanwhile does so after it is removed, or keeps it.
        """
        with _IF_THERE, self._place(key) as place:
            partial = place.beside(PARTIAL)
            held = try_lock(partial, needs_lock=False)
            if held is None:
                return False
            with releasing(partial, held):
                status = place.status()
                if status is not None and _is_same(status, before):
                    place.unlink()
                    return True
        return False

    def remove_momentary(self, key: str) -> bool:
        """Remove a file that a killed writer left; return False if a writer is using it."""
        with _IF_THERE, self._place(key) as place:
            _require_no_link(place)
            held = try_lock(place, needs_lock=False)
            if held is not None:
                with releasing(place, held):
                    return True
        return False

    def remove_below(self, key: str) -> None:
        """Remove a directory with its contents; of the whole, only the contents."""
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
            with holding(place.beside(LOCK)) as lock:
                os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                yield

    def remove_left_behind(self, key: str) -> None:
        """Remove the partial file of a killed writer, unless another writer is at work."""
        with _IF_THERE, self._place(key) as place:
            lock, partial = place.beside(LOCK), place.beside(PARTIAL)
            if lock.status() is None and partial.status() is None:
                return
            held = try_lock(lock)
            if held is not None:
                with releasing(lock, held):
                    if sys.platform == "win32":  # where whoever creates holds the lock
                        partial.unlink()
                    elif (left := try_lock(partial, needs_lock=False)) is not None:
                        with releasing(partial, left):
                            pass

    # Where they are -------------------------------------------------------------------------

    @contextmanager
    def _place(self, key: str, *, make: bool = False) -> Generator[FilePlace]:
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
                yield FilePlace(_checked_path(self.directory, segments, make), None, path)
                return
            above = open_above(self.directory, segments, make=make)
            try:
                yield FilePlace(segments[-1], above, path)
            finally:
                os.close(above)
        except LinkMetError:
            raise _behind_link(path) from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _impossible(_TOO_LONG, path) from None
            raise


def _checked_path(directory: str, segments: list[str], make: bool) -> str:
    """Return the path of a file where segments cannot be opened in a directory."""
    path = Path(real_path(directory), *segments)
    if real_path(str(path.parent)) != str(path.parent):
        raise LinkMetError
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def _require_no_link(place: FilePlace) -> os.stat_result | None:
    """Return the status of what is there, which must be no link; None if nothing is."""
    status = place.status()
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise LinkMetError
    return status


def _is_same(status: os.stat_result, before: os.stat_result) -> bool:
    """Whether a file is the one that it was before, and has not been written."""
    return os.path.samestat(status, before) and (
        (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        == (before.st_size, before.st_mtime_ns, before.st_ctime_ns)
    )


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
