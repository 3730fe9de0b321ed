"""A directory, or a prefix of a bucket, in which the documents of scans are kept.

A document is written as a whole, under a name that says what it is about, and never replaced by
another, unless it is damaged: any number of processes may write at once.
"""

from __future__ import annotations

from pathlib import Path

from zarr_manifest.conversion.files.scanning.documents import LARGEST
from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.errors import SourceError
from zarr_manifest.locations import redact


class KeptScans:
    """The place in which scans are kept. Sent to the workers.

    Parameters
    ----------
    place : str or Path
        A directory, which need not exist, or a URL.
    sources : FileSources
        How it is accessed.

    Raises
    ------
    SourceError
        It is on a web server, to which nothing can be written.

    Examples
    --------
    >>> import tempfile
    >>> scans = KeptScans(tempfile.mkdtemp(), FileSources())
    >>> scans.write("ab/c", b"scan")
    >>> scans.read("ab/c"), scans.read("ab/d")
    (b'scan', None)
    """

    def __init__(self, place: str | Path, sources: FileSources) -> None:
        # That of a whole bucket is none of an object.
        inside = place / "x" if isinstance(place, Path) else f"{place.rstrip('/')}/x"
        self.url = file_url(inside).removesuffix("/x")
        self._sources = sources
        if self.url.lower().startswith(("http:", "https:")):
            raise SourceError(
                "scans cannot be kept on a web server",
                location=redact(self.url),
                remedy="Name a directory, or a prefix of a bucket.",
            )

    def read(self, name: str) -> bytes | None:
        """Return a document, as stored; None if there is none.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be read.
        """
        # One that is too large is no scan, and not read.
        return self._sources.get(f"{self.url}/{name}", LARGEST)

    def failure(self, name: str | None, reason: str) -> SourceError:
        """Return the error for a scan that cannot be used, although it has just been made."""
        return SourceError(
            f"the scan {name} cannot be used: {reason}",
            location=redact(self.url),
            remedy="All workers must reach this place, and nobody else may write there.",
        )

    def write(self, name: str, document: bytes) -> None:
        """Keep a document.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be written.
        """
        self._sources.put(f"{self.url}/{name}", document)
