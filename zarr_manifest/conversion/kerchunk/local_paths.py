"""Paths in the local file system, as users name reference sets: a path or a ``file:`` URL."""

from __future__ import annotations

import re
from pathlib import Path

from zarr_manifest.errors import (
    NotConvertibleError,
    SourceNotFoundError,
    WriteConflictError,
)
from zarr_manifest.locations import path_of_file_url, redact, split_url

_URL = re.compile(r"file:/|[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def local_path(location: str | Path) -> Path | None:
    """Return the path that a path or a ``file:`` URL names, or None for another URL.

    Raises
    ------
    InvalidPathError
        The URL is malformed, or that of a file on another host.

    Examples
    --------
    >>> str(local_path("file:///data/a%20b.json")), local_path("https://example.com/refs.json")
    ('/data/a b.json', None)
    """
    if isinstance(location, Path) or _URL.match(location) is None:
        return Path(location)
    if split_url(location).scheme != "file":
        return None
    return Path(path_of_file_url(location))


def require_local_path(location: str | Path, what: str) -> Path:
    """Return the path that a path or a ``file:`` URL names, where no other URL will do.

    Parameters
    ----------
    location : str or Path
        A path or a URL.
    what : str
        What is only possible in the local file system, for the message of the error.

    Raises
    ------
    NotConvertibleError
        It is another URL.
    InvalidPathError
        The URL is malformed, or that of a file on another host.
    """
    path = local_path(location)
    if path is None:
        raise NotConvertibleError(
            f"{what} in the local file system",
            location=redact(str(location)),
            remedy="Use a local path, and copy the reference set.",
        )
    return path


def new_target(location: str | Path, *, is_directory: bool) -> Path:
    """Return the path of a reference set to be written, in a directory that exists.

    Raises
    ------
    ManifestError
        There is no such directory on this machine, or the target exists and is not an
        empty directory, which a set that `is_directory` may fill.
    """
    target = require_local_path(location, "reference sets are only written")
    if not target.parent.is_dir():
        raise SourceNotFoundError(
            "there is no directory on this machine for the references",
            location=target.parent.absolute().as_uri(),
            remedy="Name a target in an existing directory.",
        )
    may_fill = is_directory and target.is_dir() and not any(target.iterdir())
    if target.exists() and not may_fill:
        raise WriteConflictError(
            "the target exists",
            location=target.absolute().as_uri(),
            remedy="Remove it, or name another one.",
        )
    return target
