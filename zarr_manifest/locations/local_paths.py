"""Paths of this computer, and the ``file:`` URLs that name them. Pure.

Paths of Windows and of POSIX differ in type (``PureWindowsPath``, ``PurePosixPath``), not in
which system this is. Manifests have URLs only, with ``/``, and a drive is their first segment.
"""

from __future__ import annotations

import re
from pathlib import PurePath, PureWindowsPath
from urllib.parse import SplitResult, quote, unquote, urlsplit

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations.redaction import redact
from zarr_manifest.locations.resolving import UrlLocation

_URL = r"(?i:file:/)|[A-Za-z][A-Za-z0-9+.-]*://"
_DRIVE = r"/[A-Za-z]:(?:/|$)"
_THIS_SYSTEM = type(PurePath())


def is_url(text: str) -> bool:
    """Whether this is a URL, and not the path of a local file.

    Examples
    --------
    >>> [is_url(text) for text in ("s3://b/f.nc", "file:/f.nc", "/data/f.nc", "a:b/f.nc")]
    [True, True, False, False]
    """
    return re.match(_URL, text) is not None


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL that a user named.

    Raises
    ------
    InvalidPathError
        It is malformed.
    """
    try:
        return urlsplit(url)
    except ValueError as error:
        raise InvalidPathError(f"this is not a URL: {error}", location=redact(url)) from error


def path_of_file_url(url: str, kind: type[PurePath] = _THIS_SYSTEM) -> PurePath:
    r"""Return the path that a ``file:`` URL names.

    Parameters
    ----------
    url : str
        The URL.
    kind : type
        The kind of path; by default that of this system.

    Raises
    ------
    InvalidPathError
        It names a file on another host, or is malformed.

    Examples
    --------
    >>> print(path_of_file_url("file:///C:/my%20data/h.zarr", PureWindowsPath))
    C:\my data\h.zarr
    """
    parts = split_url(url)
    if parts.netloc.lower() not in ("", "localhost"):
        raise InvalidPathError(
            "the file URL names another host",
            location=redact(url),
            remedy="Write it as file:///path.",
        )
    path = unquote(parts.path)
    if not path.startswith("/"):
        raise InvalidPathError("the file URL has no absolute path", location=redact(url))
    has_drive = issubclass(kind, PureWindowsPath) and re.match(_DRIVE, path) is not None
    return kind(path[1:] if has_drive else path)


def local_location(path: PurePath) -> UrlLocation | None:
    r"""Return the location of an absolute path; None for a share of Windows, which has no URL.

    Examples
    --------
    >>> print(local_location(PureWindowsPath(r"C:\my data")))
    file:///C:/my%20data
    """
    if path.drive.startswith("\\\\"):
        return None
    return UrlLocation("file", "", path.as_posix().lstrip("/"))


def local_reference(path: PurePath) -> str:
    r"""Return the URL reference for a path, absolute or relative.

    Raises
    ------
    InvalidPathError
        It is relative to a drive, or to its root; or on a share of Windows.

    Examples
    --------
    >>> local_reference(PureWindowsPath(r"raw\a b")), local_reference(PureWindowsPath("C:/raw"))
    ('raw/a%20b', 'file:///C:/raw')
    """
    if not path.anchor:
        return quote(path.as_posix())
    location = local_location(path)
    if location is None or not path.is_absolute():
        raise InvalidPathError(
            "the path has no URL: it is on a share, or relative to a drive or its root",
            location=path.as_posix(),
            remedy="Write an absolute path on a drive.",
        )
    return location.url
