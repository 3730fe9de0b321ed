"""Read ranges of local files, and check the files' state.

Sizes, conditions and bytes are those of the file that was opened: see :class:`Directory`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from zarr_manifest.errors import SourceAccessDeniedError, SourceError
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.sources.byte_ranges import SourceRange, bounds_in, missing_object
from zarr_manifest.sources.concurrency import in_decoding_thread
from zarr_manifest.sources.directories import Directory, OpenFile, directory_found, require_regular

if TYPE_CHECKING:
    from zarr_manifest.sources.arrival import Arrival


class FileReader(Struct, frozen=True):
    """Reads files below a directory, as an :class:`ObjectReader`."""

    directory: Directory
    on_disk: bool = True

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        """Return the bytes of a range of a file."""
        # In few threads: each that has read a large file keeps as much memory for the next.
        return await in_decoding_thread(self._read, key, span, conditions)

    def _read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
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

    async def state(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that a file satisfies now; files have no versions."""
        return await asyncio.to_thread(self.state_sync, key, version)

    def state_sync(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that a file satisfies now, without an event loop."""
        stated = Conditions(version=version)
        with file_errors(stated):
            status = require_regular(self.directory.status(key))
        stated.require(NO_CONDITIONS)
        return Conditions(last_modified=_last_modified(status), size=status.st_size)


@contextlib.contextmanager
def file_errors(conditions: Conditions) -> Generator[None]:
    """Translate the errors of reading a file under these conditions."""
    try:
        yield
    except OSError as error:
        _raise_translated(error, conditions)


def _last_modified(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=status.st_mtime_ns // 1000)


def _require_unchanged(status: os.stat_result, conditions: Conditions) -> None:
    if conditions:
        micros = status.st_mtime_ns // 1000
        # As obstore, with which manifests are written, makes it.
        etag = f'"{status.st_ino:x}-{max(0, micros):x}-{status.st_size:x}"'
        conditions.require(Conditions(etag, _last_modified(status), size=status.st_size))


def _raise_translated(error: OSError, conditions: Conditions = NO_CONDITIONS) -> NoReturn:
    """Raise the :class:`ManifestError` for an error of the operating system."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        raise missing_object(conditions) from None
    if isinstance(error, IsADirectoryError):
        raise directory_found() from None
    if isinstance(error, PermissionError):
        raise SourceAccessDeniedError(
            f"reading was refused: {error.strerror}",
            remedy="The file belongs to another user; ask them for access.",
        ) from None
    raise SourceError(f"reading failed: {error.strerror}") from None


# Smaller files are read in one call; the memory for larger ones would stay with the thread.
_LEAST_BYTES = 2**17


class FileBody:
    """Bytes of a file, read as they are used. To be closed.

    Parameters
    ----------
    file : OpenFile
        The file.
    start, stop : int
        Where in it the bytes begin and end.
    closing : ExitStack
        Closes the file.

    Raises
    ------
    ManifestError
        Of reading a source, whenever bytes are looked at.
    """

    def __init__(
        self, file: OpenFile, start: int, stop: int, closing: contextlib.ExitStack
    ) -> None:
        self._file = file
        self._start = start
        self._size = stop - start
        self._closing = closing

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, places: slice) -> bytes:
        first, last, _ = places.indices(self._size)
        with file_errors(NO_CONDITIONS):
            return self._file.read(self._start + first, self._start + max(first, last))

    def read_into(self, start: int, view: memoryview) -> None:
        """Fill a view of memory, which ends where these bytes do at the latest."""
        with file_errors(NO_CONDITIONS):
            self._file.read_into(self._start + start, [view])

    def __bytes__(self) -> bytes:
        return self[:]

    def close(self) -> None:
        """Close the file."""
        self._closing.close()


def open_body(reader: FileReader, key: str, span: SourceRange) -> memoryview | FileBody:
    """Return bytes of a file; many bytes are read as they are used."""
    with contextlib.ExitStack() as closing:
        file = closing.enter_context(reader.opened(key, NO_CONDITIONS))
        start, stop = bounds_in(span, file.size)
        if stop - start < _LEAST_BYTES:
            return memoryview(file.read(start, stop))
        return FileBody(file, start, stop, closing.pop_all())
