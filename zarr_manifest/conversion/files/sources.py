"""The source files: their URLs, the stores that read them, and their current state."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError

from zarr_manifest.errors import ManifestError, SourceNotFoundError
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import AllowList, Base, UrlLocation
from zarr_manifest.sources import (
    Access,
    SourceRange,
    access_to,
    key_within,
    open_object_store,
    reader_of,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["READ_ERRORS", "FileSources", "Listed", "file_url"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BASE = Base.parse("./")

# What obstore raises for a store that cannot be read.
READ_ERRORS = (BaseError, OSError)

# The overloads of its `list` name types of an optional library.
_untyped_obstore: Any = obstore


def file_url(name: str | Path) -> str:
    """Return the URL of a file, percent-encoded.

    Parameters
    ----------
    name : str or Path
        A URL, or the path of a local file, relative to the working directory.

    Raises
    ------
    InvalidPathError
        It is not a usable URL.

    Examples
    --------
    >>> file_url("/data/a b.nc"), file_url("s3://b/a%20b.nc")
    ('file:///data/a%20b.nc', 's3://b/a%20b.nc')
    """
    if isinstance(name, Path) or not _SCHEME.match(name):
        name = "file://" + quote(str(Path(name).absolute()))
    return str(_location(name).url)


def _location(url: str) -> UrlLocation:
    found = _BASE.resolve(url.rstrip("/"))
    assert isinstance(found, UrlLocation)  # it has a scheme
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in the listing of a store.

    Parameters
    ----------
    name : str
        Relative to the listed directory.
    url : str
        Percent-encoded.
    size : int
        In bytes.
    conditions : dict of str to str or int
        Its current state.
    """

    name: str
    url: str
    size: int
    conditions: dict[str, str | int]


class FileSources:
    """Reads the files, each with the access that its prefix was given.

    Takes the place of an ``ObjectStoreRegistry``, which does not undo
    percent-encoding, in VirtualiZarr's parsers.

    Parameters
    ----------
    allow : mapping of str to Access, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. Everything else is
        read without credentials, and local files as they are.

    Examples
    --------
    >>> store, key = FileSources().resolve("file:///data/a%20b.nc")
    >>> key
    'data/a b.nc'
    """

    def __init__(self, allow: Mapping[str, Access] | None = None) -> None:
        self.allow = dict(allow or {})
        self._prefixes = AllowList(self.allow)
        self._stores: dict[tuple[str, str], ObjectStore] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Clients are not pickled: workers make their own.
        return FileSources, (self.allow,)

    @property
    def map(self) -> Mapping[str, Access]:
        """The mapping that VirtualiZarr checks to see whether there are any stores."""
        return self.allow

    def resolve(self, url: str) -> tuple[ObjectStore, str]:
        """Return the obstore store of an object, and its key there."""
        location = _location(url)
        prefix, access = access_to(location, self._prefixes, self.allow)
        known = (prefix.url, location.origin + "?" + location.query)
        store = self._stores.get(known)
        if store is None:
            store = open_object_store(prefix, access, query=location.query)
            self._stores[known] = store
        return store, key_within(store, prefix, location)

    def state(self, url: str) -> tuple[int, dict[str, str | int]]:
        """Return the size of an object, and the conditions that it satisfies now.

        Raises
        ------
        ManifestError
            There is no such object, or it cannot be accessed.
        """
        store, key = self.resolve(url)
        location = _location(url)
        if location.scheme == "file" and Path(f"/{location.path}").is_dir():
            raise SourceNotFoundError(
                "it is a directory",
                location=location.redacted,
                remedy=f"Name the files in it: {_files_in(Path(f'/{location.path}'))}.",
            )
        try:
            meta = obstore.head(store, key)
        except FileNotFoundError as error:
            raise SourceNotFoundError(
                "there is no such file", location=location.redacted
            ) from error
        except (BaseError, OSError, ValueError):
            # Retry through the reader that translates errors.
            try:
                reader_of(store).size_sync(key)
            except ManifestError as error:
                raise error.in_context(location=location.redacted) from error.__cause__
            raise
        return meta["size"], _conditions(meta, is_local=url.startswith("file:"))

    def head(self, url: str, length: int) -> bytes:
        """Return the first `length` bytes of an object, or all if it has fewer."""
        size, _ = self.state(url)
        if size == 0:
            return b""
        return bytes(self.read(url, 0, min(size, length)))

    def read(self, url: str, start: int, stop: int) -> memoryview:
        """Return a range of an object.

        Raises
        ------
        ManifestError
            It cannot be read, or is too short.
        """
        store, key = self.resolve(url)
        return reader_of(store).read_sync(key, SourceRange(start, stop, True), NO_CONDITIONS)

    def exists(self, url: str) -> bool:
        """Whether there is an object of this name."""
        location = _location(url)
        if location.scheme == "file":
            return Path(f"/{location.path}").is_file()
        store, key = self.resolve(url)
        try:
            obstore.head(store, key)
        except FileNotFoundError:
            return False
        return True

    def list(self, url: str) -> Iterator[Listed]:
        """Yield the objects below a directory.

        For a store that cannot list (a web server), obstore's exception is raised.
        """
        store, key = self.resolve(url)
        directory = key.rstrip("/")
        root = _location(url)
        batches: Iterable[Any] = _untyped_obstore.list(store, prefix=directory or None)
        for batch in batches:
            for meta in batch:
                name = str(meta["path"])
                name = name[len(directory) + 1 :] if directory else name
                at = UrlLocation(root.scheme, root.authority, f"{root.path}/{name}")
                conditions = _conditions(meta, is_local=root.scheme == "file")
                yield Listed(name, at.url, int(meta["size"]), conditions)


def _files_in(directory: Path) -> str:
    """Return a pattern for the files of a directory: those with the commonest suffix."""
    suffixes = Counter(path.suffix for path in directory.iterdir() if path.is_file())
    suffix = suffixes.most_common(1)[0][0] if suffixes else ".nc"
    return shlex.quote(str(directory)) + f"/*{suffix}"


def _conditions(meta: Any, *, is_local: bool) -> dict[str, str | int]:
    conditions: dict[str, str | int] = {"size": int(meta["size"])}
    # Local entity tags contain inode numbers: those of a copy differ.
    etag: str | None = None if is_local else meta["e_tag"]
    if etag is not None:
        conditions["etag"] = etag
    # Beside a strong tag, the time would not count. obstore reports the epoch for servers that
    # do not report a time.
    is_weak = etag is None or etag.startswith("W/")
    if is_weak and meta["last_modified"].timestamp() > 0:
        when = meta["last_modified"].astimezone(UTC)
        conditions["last_modified"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    return conditions
