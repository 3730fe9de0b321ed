"""Manifests as VirtualiZarr 1.0 to 1.3 wrote them: their paths, and what they show. Pure.

Up to 1.1, paths may be relative to the writer's working directory, which is not recorded. All of
these releases concatenated arrays without checking whether one ends within a chunk or lacks its
last chunks, lost all chunks of some arrays, and unpacked fill values in the wrong byte order. None
of this can be undone without the sources.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

import msgspec
import numpy as np

from zarr_manifest.errors import InvalidJSONError, InvalidManifestError
from zarr_manifest.stores import base_directory

__all__ = ["base_of", "doubt", "has_files", "is_relative", "read_entries"]

type Index = tuple[int, ...]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# As in canonical URLs: S3 reads "+" as a space.
_SAFE = "!$&'()*,;=:@/"


class _Entry(msgspec.Struct):
    """All entries have these members; others are left to the readers' checks."""

    path: str
    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]


def read_entries(body: bytes) -> dict[str, dict[str, Any]]:
    """Return the entries of a manifest document by key.

    Raises
    ------
    InvalidJSONError, InvalidManifestError
        It is not JSON, or none that these releases wrote.
    """
    try:
        document: dict[str, dict[str, Any]] = json.loads(body)
        msgspec.convert(document, dict[str, _Entry])
    except msgspec.ValidationError as error:
        raise InvalidManifestError(
            f"VirtualiZarr 1.0 to 1.3 did not write this manifest: {error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"the manifest is not JSON: {error}") from error
    return document


def is_relative(path: str) -> bool:
    """Whether a URL reference resolves against the base.

    Examples
    --------
    >>> [is_relative(path) for path in ("data/f.nc", "/data/f.nc", "s3://b/f.nc")]
    [True, False, False]
    """
    return not path.startswith("/") and _URL.match(path) is None


def has_files(directory: Path, paths: Iterable[str]) -> bool:
    """Whether relative URL references lead from a directory to files."""
    return all((directory / unquote(path)).is_file() for path in paths)


def base_of(directory: str | Path, array_path: str) -> str:
    """Return the ``base`` against which an array's paths resolve relative to a directory.

    Parameters
    ----------
    directory : str or Path
        A URL, an absolute file path, or relative to the root of the hierarchy.
    array_path : str
        Path of the array in the hierarchy.

    Examples
    --------
    >>> base_of("/data/my work", "a/b"), base_of("raw", "a/b"), base_of("s3://b", "a")
    ('file:///data/my%20work/', '../../raw/', 's3://b/')
    """
    if isinstance(directory, Path) and not directory.is_absolute():
        directory = quote(directory.as_posix(), safe=_SAFE)
    if str(directory).startswith("/"):
        return f"{Path(directory).as_uri().rstrip('/')}/"
    reference = base_directory(directory)
    assert reference is not None  # the directory is not None
    if not is_relative(reference):
        return reference
    up = "../" * len([name for name in array_path.split("/") if name])
    return (up + reference.removeprefix("./")) or "./"


# Wrong values -------------------------------------------------------------------------


def doubt(
    metadata: Mapping[str, Any], paths: Mapping[Index, str], chunk_shape: Sequence[int]
) -> str | None:
    """Return why the values of an array may be wrong although its metadata is valid, or None.

    Parameters
    ----------
    metadata : mapping
        Valid metadata.
    paths : mapping of index to path
        Locations of chunks, by grid index; all within the chunk grid.
    chunk_shape : sequence of int

    Examples
    --------
    >>> doubt({"shape": [4], "codecs": []}, {(0,): "a.nc", (1,): "a.nc"}, [2])
    >>> doubt({"shape": [4], "codecs": []}, {}, [2])  # doctest: +ELLIPSIS
    'the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for ...'
    """
    shape: list[int] = metadata["shape"]
    pairs = zip(shape, chunk_shape, strict=True)
    missing = math.prod(-(-length // chunk) for length, chunk in pairs) - len(paths)
    if missing and not paths:
        return (
            "the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for data that "
            "they failed to read (such as with a NaN attribute), and all of it would be the fill "
            "value"
        )
    join = _doubtful_join(paths, shape, chunk_shape)
    return join or (_doubtful_fill_value(metadata) if missing else None)


def _doubtful_join(
    paths: Mapping[Index, str], shape: Sequence[int], chunk_shape: Sequence[int]
) -> str | None:
    """Return why chunks of concatenated sources may be in the wrong place, or None.

    Notes
    -----
    If the length is a multiple of the chunk length, every source ends at a chunk boundary:
    otherwise there would be one chunk too many. If not, it may be the last source that
    does not, which is fine, or another one. Most of these releases' readers took a source
    to end with its last existing chunk: if there is a chunk at the very end, that was true
    for all. (A source may hide both faults: one chunk too many, and one too few.)

    Examples
    --------
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [4], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "a.nc"}, [3], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [3], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and its length 3 is not a multiple ...'
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [6], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and chunks are missing at its end: ...'
    """
    for axis, (length, chunk) in enumerate(zip(shape, chunk_shape, strict=True)):
        ranges: dict[str, tuple[int, int]] = {}  # positions of each source's first and last chunk
        for index, path in paths.items():
            first, last = ranges.get(path, (index[axis], index[axis]))
            ranges[path] = min(first, index[axis]), max(last, index[axis])
        ends = [last for _, last in ranges.values()]
        if not ends or max(first for first, _ in ranges.values()) <= min(ends):
            continue
        what = f"dimension {axis} was concatenated from several sources, and"
        if length % chunk:
            return (
                f"{what} its length {length} is not a multiple of the chunk length {chunk}: if a "
                "source other than the last ends within a chunk, which these releases did not "
                "check, the elements after it are in the wrong place"
            )
        if max(ends) + 1 < length // chunk:
            return (
                f"{what} chunks are missing at its end: if they are missing in a source other "
                "than the last, these releases put the chunks after it in the wrong place"
            )
    return None


def _doubtful_fill_value(metadata: Mapping[str, Any]) -> str | None:
    """Return a warning if missing chunks read as a fill value whose bytes may be swapped."""
    for codec in metadata["codecs"]:
        value = metadata["fill_value"]
        if codec["name"] == "numcodecs.fixedscaleoffset" and not _is_symmetric(
            value, codec["configuration"]
        ):
            return (
                f"chunks are missing, and the bytes of their fill value {value!r} may be "
                "swapped: VirtualiZarr 1.2 and 1.3 misread fill values of big-endian elements"
            )
    return None


def _is_symmetric(value: object, packing: Mapping[str, Any]) -> bool:
    """Whether a fill value is the same in both byte orders of the packed elements."""
    packed = np.dtype(packing.get("astype") or packing["dtype"])
    if packed.str[0] != ">":
        return True
    if not isinstance(value, int | float):
        return False
    number = (value - packing["offset"]) * packing["scale"]
    with np.errstate(invalid="ignore", over="ignore"):
        content = np.asarray(number if packed.kind == "f" else np.rint(number)).astype(packed)
    return content.tobytes() == content.byteswap().tobytes()
