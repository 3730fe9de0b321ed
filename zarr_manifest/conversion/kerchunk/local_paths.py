"""Paths in the local file system, as users name reference sets: a path or a ``file:`` URL."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from zarr_manifest.errors import (
    Advice,
    NotConvertibleError,
    Setting,
    SourceNotFoundError,
    WriteConflictError,
)
from zarr_manifest.locations import is_url, path_of_file_url, redact, split_url


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
    if isinstance(location, Path) or not is_url(location):
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


@contextmanager
def new_target(location: str | Path, *, is_directory: bool, overwrite: bool) -> Generator[Path]:
    """Provide a path to write a reference set to, which then takes its place as a whole.

    Parameters
    ----------
    location : str or Path
        Where the set goes, in a directory that exists.
    is_directory : bool
        Whether it is one in Parquet; an empty directory is then replaced in any case.
    overwrite : bool
        Whether to replace an existing set of the same kind.

    Raises
    ------
    ManifestError
        There is no such directory on this machine, or something that may not be replaced.
    """
    target = require_local_path(location, "reference sets are only written")
    place = target.absolute().as_uri()
    if not target.parent.is_dir():
        raise SourceNotFoundError(
            "there is no directory on this machine for the references",
            location=target.parent.absolute().as_uri(),
            remedy="Name a target in an existing directory.",
        )
    may_fill = is_directory and target.is_dir() and not any(target.iterdir())
    if target.exists() and not may_fill:
        if not overwrite:
            remedy = Advice("Pass ", Setting("overwrite", True), " to replace it, or name another.")
            raise WriteConflictError("the target exists", location=place, remedy=remedy)
        if not _is_set(target, is_directory=is_directory):
            raise WriteConflictError(
                "the target exists, and is not a reference set of this kind",
                location=place,
                remedy="Remove it, or name another one.",
            )
    # Beside the target, so that it can be renamed into place.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as directory:
        made = Path(directory) / "references"
        yield made
        if target.is_dir():
            # A rename replaces only files; this one is removed with the temporary directory.
            target.rename(Path(directory) / "earlier")
        made.rename(target)


def _is_set(target: Path, *, is_directory: bool) -> bool:
    if is_directory or target.is_dir():
        return is_directory and (target / ".zmetadata").exists()
    try:
        members = msgspec.json.decode(target.read_bytes(), type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    # Version 0 consists of nothing but the references themselves.
    return "refs" in members or any(key.endswith((".zarray", ".zgroup")) for key in members)
