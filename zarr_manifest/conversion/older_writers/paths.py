"""Paths as VirtualiZarr 1.0 to 1.3 wrote them: raw names, and relative to a working directory.

The writer's working directory is not recorded. For hierarchies on disk it can be found if
there is exactly one directory from which all paths lead to files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from zarr_manifest.locations import WebServers, kind_of
from zarr_manifest.stores import base_directory

__all__ = ["base_of", "directories_with", "has_files", "is_relative", "respelled"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LIKE_A_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^/]*")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# As in canonical URLs: S3 reads "+" as a space.
_SAFE = "!$&'()*,;=:@/"


def respelled(path: str) -> str:
    """Return a path as a URL reference, encoding what can only be part of a name.

    A ``%`` may belong to a name or to an escape. Without digits after it, it belongs to a
    name, and so do ``#``, and ``?`` in a file name.

    Examples
    --------
    >>> respelled("/data/100%.nc"), respelled("run#1.nc"), respelled("a%20b.nc")
    ('/data/100%25.nc', 'run%231.nc', 'a%20b.nc')
    >>> respelled("T12:00.nc")
    './T12:00.nc'
    """
    url = _URL.fullmatch(path)
    scheme, rest = (url[1].lower(), url[2]) if url else ("file", path)
    if isinstance(kind_of(scheme), WebServers):
        return path
    if _BARE_PERCENT.search(rest) or "#" in rest or (scheme == "file" and "?" in rest):
        rest = quote(rest, safe=_SAFE)
    if url:
        return f"{url[1]}://{rest}"
    is_ambiguous = _LIKE_A_SCHEME.fullmatch(rest.partition("/")[0]) is not None
    return f"./{rest}" if is_ambiguous else rest


def is_relative(path: str) -> bool:
    """Whether a URL reference resolves against the base.

    Examples
    --------
    >>> [is_relative(path) for path in ("data/f.nc", "/data/f.nc", "s3://b/f.nc")]
    [True, False, False]
    """
    return not path.startswith("/") and _URL.fullmatch(path) is None


def directories_with(paths: Iterable[str], root: Path) -> Iterator[Path]:
    """Yield the directories with all files, among the hierarchy's own and those above it."""
    names = list(paths)
    for directory in (root, *root.parents):
        if has_files(directory, names):
            yield directory


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
