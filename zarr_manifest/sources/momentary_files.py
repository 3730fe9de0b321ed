"""Files that exist for a moment beside one that changes: its lock, and its next content.

A process that is killed leaves them; the system takes its locks away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.sources.directories import NO_LINK, regular_file, why_not_opened
from zarr_manifest.sources.openat2 import FILE_FLAGS

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


class FilePlace(Struct, frozen=True):
    """Where a file is: its name in an open directory, or its path and None."""

    name: str
    above: int | None
    path: str

    @property
    def location(self) -> str:
        """Its URL."""
        return Path(self.path).as_uri()

    def beside(self, ending: str) -> FilePlace:
        """Return the place of a file whose name has one more ending."""
        return FilePlace(f"{self.name}{ending}", self.above, f"{self.path}{ending}")

    def become(self, other: FilePlace) -> None:
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


@contextmanager
def written(place: FilePlace, body: bytes | memoryview) -> Generator[FilePlace]:
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
        with holding(partial, needs_lock=False) as descriptor:
            _write(descriptor, body)
            yield partial


def _write(descriptor: int, body: bytes | memoryview) -> None:
    left = memoryview(body)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def holding(place: FilePlace, *, needs_lock: bool = True) -> Generator[int]:
    """Open and lock an empty file, and remove it in the end."""
    deadline = time.monotonic() + _PATIENCE
    while (held := try_lock(place, needs_lock=needs_lock)) is None:
        if time.monotonic() > deadline:
            raise _locked_by_another(place)
        time.sleep(0.005)
    with releasing(place, held):
        yield held


@contextmanager
def releasing(place: FilePlace, held: int) -> Generator[None]:
    """Remove and unlock a file in the end."""
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


def _unlink_same(place: FilePlace, held: int) -> None:
    """Remove a file unless it has got its final name, and another writer uses this one."""
    status = place.status()
    if status is not None and os.path.samestat(os.fstat(held), status):
        place.unlink()


if sys.platform == "win32":

    def try_lock(place: FilePlace, *, needs_lock: bool = True) -> int | None:
        """Create the file, or return None if it exists."""
        try:
            return place.open(_MOMENTARY_FLAGS | os.O_EXCL)
        except FileExistsError:
            return None

else:
    import fcntl

    def try_lock(place: FilePlace, *, needs_lock: bool = True) -> int | None:
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


def _locked_by_another(place: FilePlace) -> WriteConflictError:
    remedy = "Try again when it has finished."
    if sys.platform == "win32":
        remedy += " If it was interrupted, remove the lock file."
    return WriteConflictError(
        f"another writer has held the lock for more than {_PATIENCE:g} seconds: {_owner(place)}",
        location=place.location,
        remedy=remedy,
    )


def _owner(place: FilePlace) -> str:
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
