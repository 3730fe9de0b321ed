"""Sources: bytes of authorised locations, and of those that the caller named.

Finds the reader for a location, says where redirects may lead, and which reads of one object make
one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from zarr_manifest.errors import (
    Advice,
    InvalidPathError,
    LocationNotAllowedError,
    ManifestError,
    Setting,
    in_context,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.locations import (
    AllowList,
    Base,
    Location,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
)
from zarr_manifest.showing import counted
from zarr_manifest.sources.access import Access, has_options, open_storage, reader_of
from zarr_manifest.sources.byte_ranges import SourceRange, known_size
from zarr_manifest.sources.directories import Directory
from zarr_manifest.sources.given_readers import GivenReader, is_range_reader, key_below
from zarr_manifest.sources.keys_in_stores import key_within, local_directories, local_place
from zarr_manifest.sources.local_files import FileBody, FileReader, open_body
from zarr_manifest.sources.plan import PlannedRequest, plan_requests
from zarr_manifest.sources.processes import require_obstore_threads
from zarr_manifest.sources.proxies import within_host
from zarr_manifest.sources.web import WebServer, is_web_reader, web_reader_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from zarr_manifest.sources.arrival import Arrival
    from zarr_manifest.sources.object_reader import ObjectReader, ObstoreReader
    from zarr_manifest.sources.web import WebReader

# `python -m benchmarks gaps` shows the effect of other values.
DEFAULT_MAX_GAP = 512 * 1024
DEFAULT_MAX_REQUEST = 16 * 1024 * 1024

# Disks have no round trips to save: larger merged reads only lose parallelism.
_MAX_GAP_ON_DISK = 64 * 1024
_MAX_REQUEST_ON_DISK = 1024 * 1024


# Number of authorised locations to remember; beyond this many, forget them all.
_MOST_TARGETS = 100_000

# Likewise for stores: every signed URL has its own, of about 100 KiB.
_MOST_READERS = 256


class Sources:
    """Authorised prefixes, and the bytes below them (specification, "Authorisation").

    Parameters
    ----------
    allow : mapping of str to Access
        The prefixes that may be read besides the hierarchy's own store, and how.
    hierarchy : ObjectReader or None
        Reads relative locations from the hierarchy's own store, if there is a hierarchy.
    directory : str or None
        The hierarchy's own directory, if it has one: links from authorised places may lead there.
    root : UrlLocation or None
        The URL of the hierarchy's root, if it has one.
    max_gap : int
        Number of bytes that may be read and discarded to save a request.
    """

    def __init__(
        self,
        allow: Mapping[str, Access],
        hierarchy: ObjectReader | None,
        *,
        directory: str | None = None,
        root: UrlLocation | None = None,
        max_gap: int = DEFAULT_MAX_GAP,
    ) -> None:
        self._allow = allow
        self._allow_list = AllowList(allow)
        own = () if directory is None else (directory,)
        self._directories = (*local_directories(allow), *own)
        self._hierarchy = hierarchy
        #: Schemes that the specification does not know, and for which readers were given.
        self.other_schemes = self._allow_list.other_schemes
        self.root = root
        self._max_gap = max_gap
        self._readers: dict[tuple[str, str], _StoreReader] = {}
        self._targets: dict[UrlLocation, tuple[ObjectReader, str]] = {}

    @property
    def hierarchy_is_on_disk(self) -> bool:
        """Whether reading from the hierarchy's own store needs no network round trip."""
        return self._hierarchy is not None and self._hierarchy.on_disk

    def check(self, locations: Iterable[Location]) -> None:
        """Reject unauthorised locations outside the hierarchy's store.

        Raises
        ------
        LocationNotAllowedError
            Lists all missing prefixes, ready to paste.
        """
        missing = [
            location
            for location in locations
            if isinstance(location, UrlLocation) and self._allow_list.match(location) is None
        ]
        if missing:
            prefixes = suggest_prefixes(missing)
            raise LocationNotAllowedError(
                f"the manifest refers to {counted(len(missing), 'unauthorised object')} below "
                + " and ".join(prefixes),
                remedy=_advice(prefixes),
            )

    async def fetch(
        self,
        location: Location,
        span: SourceRange,
        conditions: Conditions = NO_CONDITIONS,
        arrival: Arrival | None = None,
    ) -> memoryview:
        """Return the bytes of a range, which is requested as it is; see :class:`SourceRange`.

        Those that are given to `arrival`, in a thread, are not returned.

        Raises
        ------
        ManifestError
            One of ``location_not_allowed``, ``source_not_found``,
            ``source_access_denied``, ``source_changed``, ``range_out_of_bounds``,
            ``short_read``, ``source_error``.
        """
        if span.start == span.stop:
            return memoryview(b"")
        try:
            reader, key = await self.reader_of(location)
            return await reader.read(key, span, conditions, arrival)
        except ManifestError as error:
            raise error.in_context(location=str(location)) from error.__cause__

    def plan(
        self,
        location: Location,
        ranges: Sequence[tuple[int, int]],
        max_size: int = DEFAULT_MAX_REQUEST,
    ) -> list[PlannedRequest]:
        """Merge ranges of one object into few requests; see :func:`plan_requests`."""
        if self._max_gap < 0 or len(ranges) == 1:
            return [PlannedRequest(*span, (i,)) for i, span in enumerate(ranges)]
        max_gap = self._max_gap
        if self.is_on_disk(location):
            max_gap = min(max_gap, _MAX_GAP_ON_DISK)
            max_size = min(max_size, _MAX_REQUEST_ON_DISK)
        return plan_requests(ranges, max_gap=max_gap, max_size=max_size)

    async def local_files(
        self, locations: Sequence[Location]
    ) -> list[tuple[FileReader, str] | ManifestError | None]:
        """Return the reader and the key of each location that is a local file; else None.

        Return the error for a location that cannot be read.
        """
        if all(map(self._is_at_hand, locations)):
            return list(map(self._local_file, locations))
        return await asyncio.to_thread(lambda: list(map(self._local_file, locations)))

    def _local_file(self, location: Location) -> tuple[FileReader, str] | ManifestError | None:
        try:
            reader, key = self._reader_of(location)
        except ManifestError as error:
            return error.in_context(location=str(location))
        return (reader, key) if isinstance(reader, FileReader) else None

    def is_on_disk(self, location: Location) -> bool:
        """Whether a location is that of a local file, of which small parts are read quickly."""
        if isinstance(location, StoreLocation):
            return self.hierarchy_is_on_disk
        return location.scheme == "file"

    async def fetch_lazily(self, location: Location, span: SourceRange) -> memoryview | FileBody:
        """Return the bytes of a range; of a large local file, they are read as they are used."""
        with in_context(location=location):
            reader, key = await self.reader_of(location)
            if isinstance(reader, FileReader):
                return await asyncio.to_thread(open_body, reader, key, span)
            return await reader.read(key, span, NO_CONDITIONS)

    async def size(self, location: Location) -> int:
        """Return the size of an object in bytes."""
        with in_context(location=location):
            return known_size(await self.state(location))

    async def state(self, location: Location, version: str | None = None) -> Conditions:
        """Return the conditions that an object, or a version of it, satisfies now.

        Raises
        ------
        ManifestError
            As of :meth:`fetch`.
        """
        with in_context(location=location):
            reader, key = await self.reader_of(location)
            return await reader.state(key, version)

    async def reader_of(self, location: Location) -> tuple[ObjectReader, str]:
        """Return the reader of a location, and its key there.

        Raises
        ------
        ManifestError
            It cannot be read.
        """
        if self._is_at_hand(location):
            return self._reader_of(location)
        return await asyncio.to_thread(self._reader_of, location)

    def _is_at_hand(self, location: Location) -> bool:
        """Whether nothing is asked for, such as credentials, to find the reader of a location."""
        if isinstance(location, StoreLocation) or location in self._targets:
            return True
        prefix = self._allow_list.match(location)
        return prefix is None or (location.is_on_web and self._allow[prefix] is None)

    def _reader_of(self, location: Location) -> tuple[ObjectReader, str]:
        if isinstance(location, StoreLocation):
            assert self._hierarchy is not None  # otherwise nothing is relative to it
            return self._hierarchy, location.key
        target = self._targets.get(location)
        if target is None:
            prefix = self._prefix(location)
            target = self._target_in(prefix, self._reader(prefix, location), location)
            if len(self._targets) >= _MOST_TARGETS:
                self._targets.clear()
            self._targets[location] = target
        return target

    def _target_in(
        self, prefix: str, reader: _StoreReader, location: UrlLocation
    ) -> tuple[ObjectReader, str]:
        normalized = self._allow_list.normalized(prefix)
        if isinstance(reader, GivenReader):
            return reader, key_below(normalized, location)
        if is_web_reader(reader):
            return reader, key_within(reader.server, normalized, location)
        place = local_place(reader.store, normalized, location)
        if place is None:
            return reader, key_within(reader.store, normalized, location)
        directory, key = place
        return FileReader(Directory(directory, self._directories, "authorised directory")), key

    def _prefix(self, location: UrlLocation) -> str:
        prefix = self._allow_list.match(location)
        if prefix is None:
            self.check([location])
        assert prefix is not None
        return prefix

    def _reader(self, prefix: str, location: UrlLocation) -> _StoreReader:
        reader_key = (prefix, location.query)
        reader = self._readers.get(reader_key)
        if reader is None:
            reader = self._opened(prefix, location)
            if len(self._readers) >= _MOST_READERS:
                self._readers.clear()
                self._targets.clear()
            self._readers[reader_key] = reader
        return reader

    def _opened(self, prefix: str, location: UrlLocation) -> _StoreReader:
        access = self._allow[prefix]
        if is_range_reader(access):
            return GivenReader(access)
        return self._open(self._allow_list.normalized(prefix), access, location.query)

    def _open(self, prefix: UrlLocation, access: Access, query: str) -> ObstoreReader | WebReader:
        storage = open_storage(prefix, access, query=query)
        if isinstance(storage, WebServer):
            return web_reader_of(storage, self.follow)
        return reader_of(within_host(storage))

    def follow(self, asked: str, target: str) -> tuple[ObjectReader, str]:
        """Return the reader and the key of what a web server redirects to, if that may be read.

        It may if it lies below an authorised prefix, or below the hierarchy's own URL; the
        longer of both says how.

        Parameters
        ----------
        asked, target : str
            The requested URL, and that of the redirect.

        Raises
        ------
        LocationNotAllowedError
            If it is not.
        """
        try:
            location = _redirected(asked, target)
            own = self._own(location)
            if own is not None:
                return own
        except (InvalidPathError, LocationNotAllowedError) as error:
            raise LocationNotAllowedError(
                f"the location redirects to one that cannot be followed: {error.problem}",
                remedy=error.remedy,
            ) from error
        prefix = self._allow_list.match(location)
        if prefix is None:
            prefixes = suggest_prefixes([location])
            raise LocationNotAllowedError(
                f"the location redirects to one below {prefixes[0]}, which is not authorised",
                remedy=_advice(prefixes),
            )
        # Redirects often lead to signed URLs, which expire: their clients are not kept here.
        reader = self._readers.get((prefix, location.query))
        if reader is None:
            signed = bool(location.query)
            reader = self._opened(prefix, location) if signed else self._reader(prefix, location)
        return self._target_in(prefix, reader, location)

    def _own(self, location: UrlLocation) -> tuple[ObjectReader, str] | None:
        """Return what reads a location below the hierarchy's own URL; None if it is not there."""
        hierarchy = self._hierarchy
        if not is_web_reader(hierarchy):
            return None
        root = hierarchy.server.directory
        if root is None or root.origin != location.origin:
            return None
        below = f"{root.path}/" if root.path else ""
        if not location.path.startswith(below):
            return None
        prefix = self._allow_list.match(location)
        if prefix is not None and len(self._allow_list.normalized(prefix).path) > len(root.path):
            return None
        return hierarchy.with_query(location.query), location.path[len(below) :]


def _advice(prefixes: list[str]) -> Advice:
    return Advice("If you trust them, add: ", Setting("allow", prefixes), ".")


def _redirected(asked: str, target: str) -> UrlLocation:
    """Return the location that a web server redirects to.

    Raises
    ------
    InvalidPathError
        If it is not a usable URL.
    LocationNotAllowedError
        If it is not on a web server.

    Examples
    --------
    >>> print(_redirected("http://example.com/d/f.nc", "https://example.com/d/f.nc"))
    https://example.com/d/f.nc
    """
    location = Base.parse(asked).resolve(target)
    if not isinstance(location, UrlLocation) or not location.is_on_web:
        # A web server must not point the reader at its own files and buckets.
        raise LocationNotAllowedError(f"{location} is not an http or https URL")
    return location


type _StoreReader = ObstoreReader | WebReader | GivenReader


class NamedStores(Sources):
    """Readers of locations that the caller named: they need no authorisation.

    They are accessed as `allow` says for the longest prefix that covers them; if there is none,
    without credentials.

    Parameters
    ----------
    allow : mapping of str to Access
        How URLs are accessed, by prefix, and where redirects may lead.

    Examples
    --------
    >>> _, key = NamedStores({"/data": None}).find(UrlLocation("file", "", "data/f.nc"))
    >>> key
    'data/f.nc'
    """

    def __init__(self, allow: Mapping[str, Access]) -> None:
        super().__init__(allow, None)
        self._named: dict[tuple[UrlLocation, str], ObstoreReader | WebReader] = {}

    def _access(self, location: UrlLocation) -> tuple[UrlLocation, Access]:
        prefix = self._allow_list.match(location)
        if prefix is None:
            return UrlLocation(location.scheme, location.authority, ""), None
        return self._allow_list.normalized(prefix), self._allow[prefix]

    def find(self, location: UrlLocation) -> tuple[ObstoreReader | WebReader, str]:
        """Return the reader of an object, and its key there; the same for all below a prefix.

        Raises
        ------
        SourceError
            As of :func:`open_storage` and :func:`key_within`; or obstore does not work here.
        """
        prefix, access = self._access(location)
        reader = self._named.get((prefix, location.query))
        if reader is None:
            reader = self._open(prefix, access, location.query)
            self._named[prefix, location.query] = reader
        if is_web_reader(reader):
            return reader, key_within(reader.server, prefix, location)
        require_obstore_threads()
        return reader, key_within(reader.store, prefix, location)

    def sources_of(self, locations: Iterable[UrlLocation]) -> Sources:
        """Return what reads locations together, whether `allow` names them or not."""
        others = (at for at in locations if self._allow_list.match(at) is None)
        named = {UrlLocation(at.scheme, at.authority, at.path).url: None for at in others}
        return Sources({**self._allow, **named}, None)

    def open_directory(self, directory: UrlLocation, query: str) -> ObjectStore | WebServer:
        """Return a store, or a web server, that is rooted at a directory.

        Raises
        ------
        SourceError
            As of :func:`open_storage`.
        ValueError
            `allow` has a store that is rooted elsewhere.
        """
        prefix, access = self._access(directory)
        store = open_storage(directory, access, query=query, at_prefix=True)
        if not has_options(access) and key_within(store, prefix, directory):
            raise ValueError(
                f"`allow` has a store for {prefix}, which is not rooted at {directory}: pass a "
                "store instead of the URL, such as S3Store(bucket, prefix=...)"
            )
        return store
