"""The file that HDF5 reads, and what it raises: for a damaged file, or for a failure to read."""

from __future__ import annotations

from typing import Any

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS

__all__ = ["HDF5_ERRORS", "WatchedReader"]

# What h5py raises for objects that it cannot express, and HDF5 for damaged ones.
HDF5_ERRORS = (*FOREIGN_ERRORS, OSError, MemoryError)


class WatchedReader:
    """The file that HDF5 reads. Remembers a failure to read, which HDF5 may hide or rephrase.

    Parameters
    ----------
    reader : object
        Reads it in blocks.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._failure: Exception | None = None

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Set the position, and return it."""
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._reader.tell())

    def read(self, size: int = -1, /) -> bytes:
        """Return `size` bytes.

        Raises
        ------
        OSError
            There are fewer. h5py would take what is in memory for the others.
        """
        try:
            found = bytes(self._reader.read(size))
            if len(found) < size:
                raise OSError(f"{size} bytes were requested, but only {len(found)} were received")
        except Exception as error:
            self._failure = error
            raise
        return found

    def require_no_failure(self) -> None:
        """Raise the failure to read, if there was one: then nothing in the file is to blame."""
        if self._failure is not None:
            raise self._failure
