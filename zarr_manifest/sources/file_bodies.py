"""Large local files that are read piece by piece, by who would not hold all of it in memory."""

from __future__ import annotations

import contextlib

from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.local_files import FileReader, bounds_in, file_errors
from zarr_manifest.sources.open_file import OpenFile

__all__ = ["FileBody", "open_body"]

# Smaller files are read at once.
_LEAST_BYTES = 2**22


class FileBody:
    """Bytes of a file, which are read as they are looked at. To be closed.

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
    """Return bytes of a file; if they are many, they are read as they are looked at."""
    with contextlib.ExitStack() as closing:
        file = closing.enter_context(reader.opened(key, NO_CONDITIONS))
        start, stop = bounds_in(span, file.size)
        if stop - start < _LEAST_BYTES:
            return memoryview(file.read(start, stop))
        return FileBody(file, start, stop, closing.pop_all())
