"""A directory on a web server: its URL, and how it is requested.

Pure; imports neither obstore nor urllib3, so that opening a hierarchy waits for neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import Base, UrlLocation

if TYPE_CHECKING:
    from obstore.store import HTTPStore

# Characters that are not percent-encoded in the path of a request: S3 takes "+" for a space.
_BARE = "!$&'()*,;=:@/[]^|"


class WebServer(Struct, frozen=True):
    """A directory on a web server, and how its objects are requested.

    Parameters
    ----------
    url : str
        URL of the directory, with the query that is sent with every request, if any.
    client_options : mapping
        Options of the HTTP client, as of obstore.
    retry_config : mapping
        When requests are repeated, as of obstore.

    Examples
    --------
    >>> WebServer("https://example.com/d?token=x").url_of("a b+c.nc")
    'https://example.com/d/a%20b%2Bc.nc?token=x'
    """

    url: str
    client_options: Mapping[str, Any] = {}
    retry_config: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory})"  # the rest may be secret

    @classmethod
    def of(cls, store: HTTPStore) -> WebServer:
        """Return the directory that a store of obstore is for."""
        client: Any = store.client_options
        retries: Any = store.retry_config
        return cls(store.url, client or {}, retries or {})

    def with_query(self, query: str) -> WebServer:
        """Return the same directory, requested with another query; itself if it is none."""
        parts = urlsplit(self.url)
        if query in ("", parts.query):
            return self
        return replace(self, url=parts._replace(query=query).geturl())

    def url_of(self, key: str) -> str:
        """Return the URL that is requested for a key, which has no user information."""
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/')}/{quote(key, safe=_BARE)}"
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path).geturl()

    @property
    def directory(self) -> UrlLocation | None:
        """The directory's location; None if references cannot name it.

        Without user information and query, which may be secret.
        """
        parts = urlsplit(self.url)
        netloc, path = parts.netloc.rpartition("@")[2], f"{parts.path.rstrip('/')}/"
        bare = parts._replace(netloc=netloc, path=path, query="", fragment="")
        try:
            base = Base.parse(bare.geturl())
        except InvalidPathError:
            return None
        return UrlLocation(base.scheme, base.authority, base.path.strip("/"))
