"""The source files: their URLs, the stores that read them, and their current state."""

from __future__ import annotations

import copy
import itertools
import shlex
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.errors import (
    Advice,
    LimitExceededError,
    LocationNotAllowedError,
    RangeOutOfBoundsError,
    Setting,
    ShortReadError,
    SourceError,
    SourceNotFoundError,
    in_context,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions, format_last_modified, parse_conditions
from zarr_manifest.locations import AllowList, Base, UrlLocation, is_url, redact, suggest_prefixes
from zarr_manifest.sources import (
    DEFAULT_MAX_GAP,
    Access,
    NamedStores,
    SourceRange,
    Sources,
    is_web_reader,
    known_size,
    plan_requests,
)
from zarr_manifest.stores import store_failure

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from zarr_manifest.sources.object_reader import ObstoreReader
    from zarr_manifest.sources.web import WebReader

type ObjectState = tuple[int, dict[str, str | int]]
"""The size of an object, and the conditions that it satisfies."""

_BASE = Base.parse("./")

# Buckets have no location of their own, but what is in them has.
_MEMBER = "x"

# What obstore raises for a store that cannot be read.
READ_ERRORS = (BaseError, OSError)

# Within this time, two changes of an object may have the same time: some file systems, and HTTP,
# have whole seconds, and clocks differ.
_SHORTEST_NS = 2_000_000_000

# The overloads of its `list` name types of an optional library.
_untyped_obstore: Any = obstore


@contextmanager
def translated(url: str) -> Generator[None]:
    """Raise obstore's errors about a URL as those of this package."""
    try:
        yield
    except READ_ERRORS as error:
        raise store_failure(error).in_context(location=redact(url)) from error


@contextmanager
def _of_a_file(url: str) -> Generator[None]:
    """Name the URL in errors about it, and what to do if it is that of a directory."""
    location = _location(url)
    if location.scheme == "file" and Path(f"/{location.path}").is_dir():
        raise SourceNotFoundError(
            "it is a directory",
            location=location.redacted,
            remedy=Advice(
                f"Name the files in it: {_files_in(Path(f'/{location.path}'))}; or add ",
                Setting("recursive", True),
                ".",
            ),
        )
    try:
        with in_context(location=redact(url)):
            yield
    except SourceNotFoundError as error:
        raise SourceNotFoundError("there is no such file", location=location.redacted) from error


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
    if isinstance(name, Path) or not is_url(name):
        name = "file://" + quote(str(Path(name).absolute()))
    return str(_location(str(name)).url)


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
    >>> FileSources({"s3://b": None}).map
    {'s3://b': None}
    """

    # Only what these cover is read.
    readable: AllowList | None = None

    def __init__(self, allow: Mapping[str, Access] | None = None) -> None:
        self.allow = dict(allow or {})
        self._states: dict[str, ObjectState] = {}
        self._stores = NamedStores(self.allow)

    def of_files(self, urls: Iterable[str]) -> FileSources:
        """Return the same sources, for what files say: they may refer to themselves.

        A hierarchy may refer to what is below it, and DMR++ to the file that it describes; other
        objects can be read if `allow` names them.
        """
        found = copy.copy(self)
        named = [url.partition("?")[0] for url in urls]
        described = [url.removesuffix(".dmrpp") for url in named]
        found.readable = AllowList([*self.allow, *named, *described])
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # Clients are not pickled: workers make their own.
        return FileSources, (self.allow,)

    @property
    def map(self) -> Mapping[str, Access]:
        """The mapping that VirtualiZarr checks to see whether there are any stores."""
        return self.allow

    def resolve(self, url: str) -> tuple[_StoreOfOne, str]:
        """Return what parsers read an object from, and a path for it there."""
        return _StoreOfOne(self, url), _location(url).path

    def find(self, url: str) -> tuple[ObstoreReader | WebReader, str]:
        """Return the reader of an object, and its key there.

        Raises
        ------
        LocationNotAllowedError
            Nobody has named it.
        """
        (location,) = self.require([url])
        return self._stores.find(location)

    def require(self, urls: Iterable[str]) -> list[UrlLocation]:
        """Return locations that may be read.

        Raises
        ------
        LocationNotAllowedError
            Nobody has named one of them.
        """
        locations = [_location(url) for url in urls]
        for location in locations:
            if self.readable is not None and self.readable.match(location) is None:
                raise LocationNotAllowedError(
                    "what is converted refers to an object that is not below it",
                    location=location.redacted,
                    remedy=Advice(
                        "If you trust it, add: ",
                        Setting("allow", suggest_prefixes([location])),
                        ".",
                    ),
                )
        return locations

    def readable_by_stores(self, urls: Iterable[str]) -> dict[str, Access]:
        """Return what a :class:`ManifestStore` is to allow, to read objects as this does.

        Raises
        ------
        LocationNotAllowedError
            Nobody has named one of them.
        """
        found, allowed = dict(self.allow), AllowList(self.allow)
        for location in self.require(urls):
            if location.scheme == "file":
                found.setdefault("file:///", None)  # links are followed wherever they lead
            elif allowed.match(location) is None:
                # No others: redirects must not lead there.
                found[UrlLocation(location.scheme, location.authority, location.path).url] = None
        return found

    def together(self, urls: Iterable[str]) -> tuple[Sources, list[UrlLocation]]:
        """Return what reads objects by few requests, and their locations."""
        locations = self.require(urls)
        return self._stores.sources_of(locations), locations

    def _stored(self, url: str) -> tuple[ObjectStore, str]:
        """Return the obstore store of an object, and its key there.

        Raises
        ------
        SourceError
            It is on a web server.
        """
        reader, key = self.find(url)
        if is_web_reader(reader):
            raise SourceError(
                "objects on a web server can neither be listed nor written", location=redact(url)
            )
        return reader.store, key

    def know(self, url: str, state: ObjectState) -> None:
        """Take the state of an object as known."""
        self._states[url] = state

    def state(self, url: str) -> ObjectState:
        """Return the size of an object, and the conditions that it satisfied when first read.

        Raises
        ------
        ManifestError
            There is no such object, or it cannot be accessed.
        """
        if url not in self._states:
            reader, key = self.find(url)
            with _of_a_file(url):
                self._states[url] = _state(url, reader.state_sync(key))
        return self._states[url]

    def identity(self, url: str) -> dict[str, str | int] | None:
        """Return what tells the present state of an object from all others, or None.

        Parameters
        ----------
        url : str
            Its state, if it is known, is not asked for again; that of a local file always is.

        Returns
        -------
        dict of str to str or int
            None if the time of the last change is all that is known, and so recent that the
            next change could have the same; or if even that is unknown.

        Raises
        ------
        ManifestError
            As `state`.
        """
        size, conditions = self.state(url)
        reader, key = self.find(url)
        if not is_web_reader(reader) and isinstance(reader.store, LocalStore):
            found = (Path(reader.store.prefix or "/") / key).stat()
            changed = found.st_mtime_ns
            stated: dict[str, str | int] = {"size": found.st_size, "modified_ns": changed}
            return stated if changed < time.time_ns() - _SHORTEST_NS else None
        stated = {"size": size, **conditions}
        when = parse_conditions(None, stated.get("last_modified"), None).last_modified  # type: ignore[arg-type]
        if when is not None:
            return stated if when.timestamp() * 1e9 < time.time_ns() - _SHORTEST_NS else None
        return stated if "etag" in stated else None

    def forget(self, url: str) -> None:
        """Ask anew for the state of an object, when it is wanted next."""
        self._states.pop(url, None)

    def head(self, url: str, length: int) -> bytes:
        """Return the first `length` bytes of an object, or all if it has fewer."""
        reader, key = self.find(url)
        with _of_a_file(url):
            try:
                # One request tells the state as well.
                found, state = reader.read_sync(key, SourceRange(0, length, False))
            except (SourceError, RangeOutOfBoundsError, ShortReadError):
                if self.state(url)[0]:
                    raise
                return b""  # which has no such range
        self._states[url] = _state(url, state)
        return bytes(found)

    def reader(self, url: str) -> Any:
        """Return a file to read an object as, in blocks."""
        readers: Any = library("obspec_utils.readers")
        return readers.BlockStoreReader(*self.resolve(url))

    def read(
        self, url: str, start: int, stop: int, conditions: Conditions = NO_CONDITIONS
    ) -> memoryview:
        """Return a range of an object, which must have a state.

        Raises
        ------
        ManifestError
            It cannot be read, or is too short.
        """
        reader, key = self.find(url)
        with in_context(location=redact(url)):
            return reader.read_sync(key, SourceRange(start, stop, True), conditions)[0]

    def get(self, url: str, most: int) -> bytes | None:
        """Return a whole object; nothing of one that is larger than `most`; None if absent.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be read.
        """
        reader, key = self.find(url)
        try:
            with in_context(location=redact(url)):
                return bytes(reader.read_sync(key, SourceRange(0, None, False, most))[0])
        except LimitExceededError:
            return b""
        except SourceNotFoundError:
            return None

    def put(self, url: str, body: bytes) -> None:
        """Write an object, as a whole.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be written.
        """
        store, key = self._stored(url)
        with translated(url):
            obstore.put(store, key, body)

    def exists(self, url: str) -> bool:
        """Whether there is an object of this name."""
        location = _location(url)
        if location.scheme == "file":
            return Path(f"/{location.path}").is_file()
        try:
            self.state(url)
        except SourceNotFoundError:
            return False
        return True

    def list(self, url: str, *, recursive: bool = True) -> Iterator[Listed]:
        """Yield the objects below a directory, or those in it.

        Raises
        ------
        SourceError
            They are on a web server.
        """
        store, directory = self._directory(url)
        if recursive:
            batches: Iterable[Any] = _untyped_obstore.list(store, prefix=directory or None)
        else:
            batches = [_untyped_obstore.list_with_delimiter(store, directory or None)["objects"]]
        yield from _listed(url, directory, itertools.chain.from_iterable(batches))

    def _directory(self, url: str) -> tuple[ObjectStore, str]:
        """Return the store of a directory, and its key; empty for a whole bucket."""
        store, key = self._stored(f"{url}/{_MEMBER}")
        return store, key.removesuffix(_MEMBER).rstrip("/")


@dataclass(frozen=True, slots=True)
class _StoreOfOne:
    """An object, as libraries read it from a store, whatever path they make of its URL."""

    sources: FileSources
    url: str

    def head(self, path: str) -> dict[str, int]:
        """Return what is known of the object."""
        return {"size": self.sources.state(self.url)[0]}

    def get(self, path: str) -> SimpleNamespace:
        """Return the whole object."""
        body = self.sources.read(self.url, 0, self.sources.state(self.url)[0])
        return SimpleNamespace(buffer=lambda: body)

    def get_ranges(self, path: str, *, starts: Sequence[int], lengths: Sequence[int]) -> Any:
        """Return several ranges."""
        reader, key = self.sources.find(self.url)
        if not is_web_reader(reader):
            return reader.store.get_ranges(key, starts=starts, lengths=lengths)
        ranges = [(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        found = [memoryview(b"")] * len(ranges)
        # Readers ask for what they hold in memory.
        for each in plan_requests(ranges, max_gap=DEFAULT_MAX_GAP, max_size=2**63):
            body = self.sources.read(self.url, each.start, each.stop)
            for number in each.members:
                first, last = ranges[number]
                found[number] = body[first - each.start : last - each.start]
        return found

    async def get_range_async(self, path: str, *, start: int, end: int) -> memoryview:
        """Return a range; shorter at the end of the object."""
        reader, key = self.sources.find(self.url)
        with in_context(location=redact(self.url)):
            return await reader.read(key, SourceRange(start, end, False), NO_CONDITIONS)


def _listed(url: str, directory: str, objects: Iterable[Any]) -> Iterator[Listed]:
    root = _location(f"{url}/{_MEMBER}")
    above = root.path.removesuffix(_MEMBER)
    for meta in objects:
        name = str(meta["path"])
        name = name[len(directory) + 1 :] if directory else name
        at = UrlLocation(root.scheme, root.authority, above + name)
        state = Conditions(meta["e_tag"], meta["last_modified"], size=meta["size"])
        yield Listed(name, at.url, *_state(url, state))


def _state(url: str, state: Conditions) -> ObjectState:
    # Local entity tags contain inode numbers: those of a copy differ.
    etag = None if url.startswith("file:") else state.etag
    size = known_size(state)
    kept = Conditions(etag, state.last_modified, None, size).recordable()
    stated = {"size": size, "etag": kept.etag, "last_modified": format_last_modified(kept)}
    return size, {name: value for name, value in stated.items() if value is not None}


def _files_in(directory: Path) -> str:
    """Return a pattern for the files of a directory: those with the commonest suffix."""
    suffixes = Counter(path.suffix for path in directory.iterdir() if path.is_file())
    suffix = suffixes.most_common(1)[0][0] if suffixes else ".nc"
    return shlex.quote(str(directory)) + f"/*{suffix}"
