"""Which files the sources name; and what can be said of all of them before the first is parsed."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from zarr_manifest.conversion.files.formats import ZARR_FORMATS, detect_format
from zarr_manifest.conversion.files.sources import (
    FileSources,
    ObjectState,
    file_url,
    translated,
)
from zarr_manifest.conversion.renewal import RefusedSource
from zarr_manifest.errors import Advice, ManifestError, Setting, SourceError, SourceNotFoundError
from zarr_manifest.format import NODE_METADATA
from zarr_manifest.locations import is_url, path_of_file_url, redact
from zarr_manifest.writing import Call, in_threads

# Characters of a name, not of a pattern.
_QUOTED = re.compile(r"%(2A|3F|5B)", re.IGNORECASE)


@dataclass(frozen=True)
class FoundFile:
    """A file that can be parsed. Sent to the workers.

    Parameters
    ----------
    url : str
        Percent-encoded.
    format : str
        One of ``FORMATS``.
    state : State or None
        Its size and conditions; None for a Zarr hierarchy.
    """

    url: str
    format: str
    state: ObjectState | None


@dataclass(frozen=True)
class Unusable:
    """A file that cannot be read or converted, and why."""

    url: str
    error: ManifestError

    @property
    def refused(self) -> RefusedSource:
        """What reports say of it."""
        return RefusedSource(redact(self.url), self.error.code, self.error.problem)


# Which files there are ------------------------------------------------------------------


def files_named(
    names: Iterable[str | Path], sources: FileSources, *, recursive: bool = False
) -> list[str]:
    """Return the URLs of the files that sources name, those of a pattern or directory sorted.

    Parameters
    ----------
    names : iterable of str or Path
        URLs and paths. As in a shell, ``*`` and ``[...]`` stand for characters of a name, ``**``
        for directories, and in the path of a local file ``?`` for a character. A file of that
        very name comes first; a `Path` is never a pattern.
    sources : FileSources
        Lists them.
    recursive : bool
        Whether a directory, or a prefix, stands for all files below it, but for hidden ones
        and Zarr hierarchies.

    Raises
    ------
    SourceNotFoundError
        No file matches.
    SourceError, SourceAccessDeniedError
        They cannot be listed.
    """
    found: list[str] = []
    for name in names:
        if isinstance(name, Path) or not is_url(name):
            found += _local_files(name, recursive=recursive)
        elif name.lower().startswith("file:"):
            found += _local_files(Path(path_of_file_url(name)), recursive=recursive)
        else:
            found += _objects(name, sources, recursive=recursive)
    return found


def _local_files(name: str | Path, *, recursive: bool) -> list[str]:
    path = Path(name)
    if recursive and path.is_dir():
        below = (each.relative_to(path) for each in path.rglob("*") if each.is_file())
        found = [path / name for name in _files_among([each.as_posix() for each in below])]
    elif isinstance(name, Path) or path.exists() or not glob.has_magic(name):
        return [file_url(name)]
    else:
        # As in a shell, hidden files do not match.
        found = [Path(each) for each in glob.glob(name, recursive=True)]  # noqa: PTH207
    if not found:
        raise _no_match(Path(name).absolute().as_uri() if path.is_dir() else str(path.absolute()))
    return [file_url(each) for each in sorted(found)]


def _objects(name: str, sources: FileSources, *, recursive: bool) -> list[str]:
    directory, pattern = _split(name)
    if not pattern and not recursive:
        return [file_url(name)]
    url = directory.rstrip("/")
    if url.lower().startswith(("http:", "https:")):
        if not pattern and not name.endswith("/"):
            return [file_url(name)]
        raise SourceError(
            "a web server cannot be asked which files it has",
            location=redact(name),
            remedy=Advice(
                "List the URLs of the files: ", Setting("from_file", python="urls=[...]"), "."
            ),
        )
    with translated(url):
        if pattern:
            inside = sources.list(url, recursive="/" in pattern)
            segments = _segments(pattern)
            listed = [each for each in inside if _matches(each.name.split("/"), segments)]
        else:
            # Buckets have empty objects in place of directories.
            below = {each.name: each for each in sources.list(url) if each.size}
            listed = [below[name] for name in _files_among(below)]
    for each in listed:
        sources.know(each.url, (each.size, each.conditions))
    if listed:
        return sorted(each.url for each in listed)
    if pattern or url.count("/") < 3 or not sources.exists(file_url(url)):
        raise _no_match(redact(name))
    return [file_url(url)]


def _split(url: str) -> tuple[str, str]:
    """Return a URL up to its last directory without a pattern, and the pattern.

    Examples
    --------
    >>> _split("s3://bucket/a/*/b.nc"), _split("s3://bucket/a.nc")
    (('s3://bucket/a', '*/b.nc'), ('s3://bucket/a.nc', ''))
    """
    path, _, _ = url.partition("?")
    at = min((n for n in map(path.find, "*[") if n >= 0), default=-1)
    if at < 0:
        return url, ""
    start = path.rfind("/", 0, at) + 1
    return path[: start - 1], path[start:]


def _segments(pattern: str) -> list[str]:
    """Return the segments of a pattern in a URL; percent-encoded characters belong to names.

    Examples
    --------
    >>> _segments("a%20b/f%2A*.nc")
    ['a b', 'f[*]*.nc']
    """
    unquoted = _QUOTED.sub(lambda quoted: f"[{unquote(quoted[0])}]", pattern)
    return unquote(unquoted).split("/")


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the segments of a name match those of a pattern.

    Examples
    --------
    >>> [_matches(name.split("/"), ["**", "*.nc"]) for name in ("a.nc", "b/c/a.nc", "a.nc/b")]
    [True, True, False]
    """
    if not pattern or not name:
        return not pattern and not name
    if pattern[0] == "**":
        rest = pattern[1:]
        return not rest or any(_matches(name[start:], rest) for start in range(len(name)))
    return fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


def _files_among(names: Collection[str]) -> list[str]:
    """Return names but those of hidden files, and of what belongs to a Zarr hierarchy.

    Examples
    --------
    >>> _files_among(["a.nc", ".b.nc", "h.zarr/zarr.json", "h.zarr/sst/c/0", "c/d.nc"])
    ['a.nc', 'c/d.nc']
    """
    paths = [PurePosixPath(name) for name in names]
    nodes = {path.parent for path in paths if path.name in NODE_METADATA}
    return [
        str(path)
        for path in paths
        if nodes.isdisjoint(path.parents) and not any(part[0] == "." for part in path.parts)
    ]


def _no_match(place: str) -> SourceNotFoundError:
    return SourceNotFoundError("no file matches", location=place)


def group_names(urls: Iterable[str]) -> list[str]:
    """Return a group name for each file: the name of the file without its suffix.

    Raises
    ------
    ValueError
        Two files have the same name.

    Examples
    --------
    >>> group_names(["file:///data/sst%202024.nc", "s3://bucket/ice%20edge.v2.h5"])
    ['sst 2024', 'ice edge.v2']
    """
    found: dict[str, str] = {}
    for url in urls:
        name = PurePosixPath(unquote(urlsplit(url).path)).stem
        if name in found:
            raise ValueError(
                f"{redact(found[name])} and {redact(url)} would both be the group {name!r}"
            )
        found[name] = url
    return list(found)


# What can be said of all ----------------------------------------------------------------


def check_files(
    urls: Sequence[str], known: str | None, sources: FileSources
) -> list[FoundFile | Unusable]:
    """Return of each file, with one request, whether it is there, and what its format is.

    Parameters
    ----------
    urls : sequence of str
        The files.
    known : str or None
        Their format, if users have said so.
    sources : FileSources
        Reads them.
    """
    return list(in_threads(Call(0, partial(_checked, url, known, sources)) for url in urls))


def _checked(url: str, known: str | None, sources: FileSources) -> FoundFile | Unusable:
    try:
        found = detect_format(url, sources, known)
        return FoundFile(url, found, None if found in ZARR_FORMATS else sources.state(url))
    except ManifestError as error:
        return Unusable(url, error)


def unusable_files(found: Sequence[Unusable], total: int) -> ManifestError:
    """Return the error that names all files that cannot be converted; each has a note."""
    if len(found) == 1:
        return found[0].error
    kinds: set[Callable[..., Any]] = {type(each.error) for each in found}
    kind = kinds.pop() if len(kinds) == 1 else SourceError
    error: ManifestError = kind(
        f"{len(found):,} of {total:,} files cannot be converted",
        remedy=Advice("Repair or omit them; or leave them out: ", Setting("keep_going", True), "."),
    )
    for each in found:
        error.add_note(f"{redact(each.url)}: {each.error.code}: {each.error.problem}")
    return error
