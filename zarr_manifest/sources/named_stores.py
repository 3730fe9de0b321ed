"""Stores and web servers of locations that the caller named.

They need no authorisation, but where a web server redirects to does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from zarr_manifest.locations import AllowList, UrlLocation
from zarr_manifest.sources.access import Access, has_options, open_storage, reader_of
from zarr_manifest.sources.keys_in_stores import key_within
from zarr_manifest.sources.processes import require_obstore_threads
from zarr_manifest.sources.proxies import within_host
from zarr_manifest.sources.sources import Sources
from zarr_manifest.sources.web import WebServer, is_web_reader, web_reader_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from zarr_manifest.sources.object_reader import ObjectReader, ObstoreReader
    from zarr_manifest.sources.web import WebReader


class NamedStores:
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
        self._allow = allow
        self._prefixes = AllowList(allow)
        self._readers: dict[tuple[UrlLocation, str], ObstoreReader | WebReader] = {}

    def _access(self, location: UrlLocation) -> tuple[UrlLocation, Access]:
        prefix = self._prefixes.match(location)
        if prefix is None:
            return UrlLocation(location.scheme, location.authority, ""), None
        return self._prefixes.normalized(prefix), self._allow[prefix]

    def find(self, location: UrlLocation) -> tuple[ObstoreReader | WebReader, str]:
        """Return the reader of an object, and its key there; the same for all below a prefix.

        Raises
        ------
        SourceError
            As of :func:`open_storage` and :func:`key_within`; or obstore does not work here.
        """
        prefix, access = self._access(location)
        reader = self._readers.get((prefix, location.query))
        if reader is None:
            storage = open_storage(prefix, access, query=location.query)
            if isinstance(storage, WebServer):
                reader = web_reader_of(storage, self._follow)
            else:
                reader = reader_of(within_host(storage))
            self._readers[prefix, location.query] = reader
        if is_web_reader(reader):
            return reader, key_within(reader.server, prefix, location)
        require_obstore_threads()
        return reader, key_within(reader.store, prefix, location)

    def _follow(self, asked: str, target: str) -> tuple[ObjectReader, str]:
        return self._sources.follow(asked, target)

    @cached_property
    def _sources(self) -> Sources:
        return self.sources_of([])

    def sources_of(self, locations: Iterable[UrlLocation]) -> Sources:
        """Return what reads locations together, whether `allow` names them or not."""
        from obstore.store import MemoryStore

        others = (at for at in locations if self._prefixes.match(at) is None)
        named = {UrlLocation(at.scheme, at.authority, at.path).url: None for at in others}
        return Sources({**self._allow, **named}, reader_of(MemoryStore()))  # of no hierarchy

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
