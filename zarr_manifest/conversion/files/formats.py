"""File formats: how to recognise them by their first bytes, and their readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zarr_manifest.conversion.files.dmrpp import read_dmrpp
from zarr_manifest.conversion.files.fits import read_fits
from zarr_manifest.conversion.files.grib import read_grib
from zarr_manifest.conversion.files.hdf5 import read_hdf5
from zarr_manifest.conversion.files.netcdf3 import read_netcdf3
from zarr_manifest.conversion.files.sources import READ_ERRORS, FileSources
from zarr_manifest.conversion.files.tiff import read_tiff
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, explained
from zarr_manifest.errors import (
    Advice,
    ManifestError,
    NotConvertibleError,
    Setting,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.locations import redact

_READERS: dict[str, Callable[..., FileTree]] = {
    "hdf5": read_hdf5,
    "netcdf3": read_netcdf3,
    "fits": read_fits,
    "tiff": read_tiff,
    "grib": read_grib,
    "dmrpp": read_dmrpp,
}
ZARR_FORMATS = ("zarr2", "zarr3")
FORMATS = (*_READERS, *ZARR_FORMATS)

_HDF5 = b"\x89HDF\r\n\x1a\n"
_BEGINNINGS = (
    (b"CDF\x01", "netcdf3"),
    (b"CDF\x02", "netcdf3"),
    (b"CDF\x05", "netcdf3"),
    (b"SIMPLE  =", "fits"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),
    (b"MM\0+", "tiff"),
    (b"GRIB", "grib"),
)

_READ_REFERENCES = Advice(
    "kerchunk references are read with ", Setting("read_kerchunk", python="read_kerchunk")
)
# Recognised only to refuse them by name.
_OTHERS = (
    (b"\x0e\x03\x13\x01", "HDF4"),
    (b"\0\0\x01\0", "a Met Office PP file (or another file of Fortran records)"),
    (b"PAR1", Advice("Parquet: ", _READ_REFERENCES)),
    (b"\x1f\x8b", "compressed with gzip: references cannot point inside it"),
    (b"PK\x03\x04", "a zip archive"),
    (b"BUFR", "BUFR"),
)

_ZARR_FILES = (
    ("zarr.json", "zarr3"),
    (".zgroup", "zarr2"),
    (".zarray", "zarr2"),
    (".zmetadata", "zarr2"),
)

# An HDF5 file may begin with a user block, of 512 bytes or a larger power of two.
_HEAD = 64 * 1024 + len(_HDF5)


def detect_format(url: str, sources: FileSources, known: str | None = None) -> str:
    """Return the format of a file, by its first bytes, or of a Zarr hierarchy, by its files.

    Parameters
    ----------
    url : str
        The file.
    sources : FileSources
        Reads it.
    known : str, optional
        The format, if users have said so.

    Raises
    ------
    NotConvertibleError
        The format is unknown, or there are no bytes.
    SourceNotFoundError
        There is nothing at the URL.
    SourceError
        The file is truncated.
    """
    if known in ZARR_FORMATS:
        return known
    problem: SourceNotFoundError | None = None
    head = b""
    try:
        head = sources.head(url, _HEAD)
    except SourceNotFoundError as error:
        # The root of a hierarchy is not an object.
        problem = error
        if known is not None:
            raise
    found = known or _by_head(head)
    if head and found is not None:
        if found == "hdf5":
            _require_whole(url, head, sources.state(url)[0])
        return found
    for name, zarr_format in _ZARR_FILES:
        if sources.exists(f"{url}/{name}"):
            return zarr_format
    if problem is not None:
        raise problem
    if not head:
        raise NotConvertibleError("the file is empty", location=redact(url))
    what = next((what for mark, what in _OTHERS if head.startswith(mark)), None)
    if head.lstrip().startswith(b"{"):
        what = Advice("JSON: ", _READ_REFERENCES)
    raise NotConvertibleError(
        Advice("the file is ", what) if what else "the file's first bytes match no known format",
        location=redact(url),
        remedy=f"Supported formats: {', '.join(FORMATS)}.",
    )


def _by_head(head: bytes) -> str | None:
    for mark, found in _BEGINNINGS:
        if head.startswith(mark):
            return found
    if _superblock(head) is not None:
        return "hdf5"
    if head.lstrip().startswith(b"<") and b"dap/dmrpp" in head:
        return "dmrpp"
    return None


def _superblock(head: bytes) -> int | None:
    """Return where the superblock of an HDF5 file is."""
    at = 0
    while at < len(head):
        if head[at : at + len(_HDF5)] == _HDF5:
            return at
        at = 512 if at == 0 else 2 * at
    return None


def _require_whole(url: str, head: bytes, size: int) -> None:
    """Refuse an HDF5 file that ends before the end that its superblock states."""
    at = _superblock(head)
    # By version, where the size of addresses is, and how many bytes are before the first.
    places = {0: (13, 24), 1: (13, 28), 2: (9, 12), 3: (9, 12)}
    if at is None or len(head) < at + 64 or head[at + 8] not in places:
        return  # HDF5 says what is wrong
    place, first = places[head[at + 8]]
    length = head[at + place]
    # After the base address and another one.
    start = at + first + 2 * length
    end = int.from_bytes(head[start : start + length], "little")
    if size < end:
        raise SourceError(
            f"the file is truncated: it has {size:,} of {end:,} bytes", location=redact(url)
        )


def read_tree(url: str, sources: Any, file_format: str, *, inline_limit: int) -> FileTree:
    """Parse a file in a format other than Zarr.

    Raises
    ------
    NotConvertibleError
        Nothing of the file can be expressed.
    SourceError
        The file cannot be read, or is damaged.
    ImportError
        The library that reads the format is not installed.
    """
    try:
        return _READERS[file_format](url, sources, inline_limit=inline_limit)
    except ManifestError as error:
        raise error.in_context(location=redact(url)) from error
    except ImportError:
        raise
    except (*READ_ERRORS, *FOREIGN_ERRORS, MemoryError) as error:
        raise SourceError(
            f"the file cannot be read: {explained(error)}", location=redact(url)
        ) from error
