"""Mutants that take a location for an authorised one that it resembles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import urllib3

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import UrlLocation, resolving
from zarr_manifest.locations.allow_list import AllowList
from zarr_manifest.sources import sources
from zarr_manifest.sources.access import open_storage
from zarr_manifest.sources.object_reader import ObstoreReader
from zarr_manifest.sources.sources import Sources
from zarr_manifest.sources.web import web_reader_of

# ------------------------------------------------------------------ authorities


@broken_in(
    "security/authorised-host-as-user-information",
    "security/authorised-host-as-user-information-of-a-document",
    "security/redirect-to-an-authorised-host-as-user-information",
)
def authorities_compared_up_to_the_user() -> None:
    """Authorise a URL for what stands before ``@`` in it."""

    def reading(authority_of: Any) -> Any:
        def changed(reference: str, scheme: str, authority: str | None, *rest: Any) -> str:
            if scheme == "http" and authority is not None and "@" in authority:
                return authority
            return str(authority_of(reference, scheme, authority, *rest))

        return changed

    def matching(match: Any) -> Any:
        def changed(self: AllowList, location: UrlLocation) -> Any:
            user = location.authority.partition("@")[0]
            return match(self, UrlLocation(location.scheme, user, location.path, location.query))

        return changed

    replace(resolving, "_authority", reading)
    replace(AllowList, "match", matching)


@broken_in("security/authorised-bucket-as-user-information")
def buckets_end_before_the_user() -> None:
    """Take what stands before ``@`` for the bucket."""

    def make(authority_of: Any) -> Any:
        def changed(reference: str, scheme: str, authority: str | None, *rest: Any) -> str:
            if scheme == "s3" and authority is not None:
                authority = authority.partition("@")[0]
            return str(authority_of(reference, scheme, authority, *rest))

        return changed

    replace(resolving, "_authority", make)


@broken_in("security/case-of-a-bucket", "s3/bucket-in-capitals")
def buckets_without_case() -> None:
    """Take buckets for hosts, which have no case."""

    def make(authority_of: Any) -> Any:
        return lambda *arguments: authority_of(*arguments).lower()

    replace(resolving, "_authority", make)


# ------------------------------------------------------------------ targets of redirects


def _reader_of_the_server(location: UrlLocation, reader: Any) -> tuple[Any, str]:
    """Return what reads any location of a web server, and its key."""
    store: Any = open_storage(
        UrlLocation(location.scheme, location.authority, ""), None, query=location.query
    )
    return web_reader_of(store, reader.follow), location.path


@broken_in(
    "security/redirect-out-of-the-prefix-by-encoded-dot-segments",
    "security/redirect-out-of-the-prefix-by-half-encoded-dot-segments",
    "security/redirect-out-of-the-prefix-by-an-encoded-slash",
    "redirects/source-beside-the-hierarchy-by-encoded-dots",
)
def redirects_compared_as_text() -> None:
    """Compare a redirect with a prefix as it is written, and leave escapes to the server."""

    def make(redirected: Any) -> Any:
        def changed(asked: str, target: str) -> UrlLocation:
            try:
                found: UrlLocation = redirected(asked, target)
            except InvalidPathError:
                parts = urlsplit(target)
                found = UrlLocation(parts.scheme, parts.netloc, parts.path.removeprefix("/"))
            return found

        return changed

    replace(sources, "_redirected", make)


@broken_in(
    "redirects/source-beside-the-hierarchy",
    "redirects/manifest-beside-the-hierarchy",
    "redirects/metadata-beside-the-hierarchy",
    "redirects/native-chunk-beside-the-hierarchy",
)
def own_server_is_the_hierarchy() -> None:
    """Follow a hierarchy's redirects to all of its server, also where it lies below a path."""

    def make(own: Any) -> Any:
        def changed(self: Sources, location: UrlLocation) -> Any:
            server: Any = getattr(self._hierarchy, "server", None)
            if str(getattr(server, "url", "")).startswith(f"{location.origin}/"):
                return _reader_of_the_server(location, self)
            return own(self, location)

        return changed

    replace(Sources, "_own", make)


@broken_in("redirects/source-beside-the-hierarchy-by-a-longer-name")
def hierarchies_compared_by_characters() -> None:
    """Take what begins like the hierarchy's URL for a part of it."""

    def make(own: Any) -> Any:
        def changed(self: Sources, location: UrlLocation) -> Any:
            server: Any = getattr(self._hierarchy, "server", None)
            if location.url.startswith(str(getattr(server, "url", "?")).rstrip("/")):
                return _reader_of_the_server(location, self)
            return own(self, location)

        return changed

    replace(Sources, "_own", make)


@broken_in("redirects/bucket-to-an-authorised-server-status-*-with-credentials")
def credentials_follow_a_redirect() -> None:
    """Follow the redirect of a bucket with its credentials."""

    def make(read: Any) -> Any:
        async def changed(self: ObstoreReader, key: str, *rest: Any) -> Any:
            store: Any = self.store
            configured: Mapping[str, str] = store.config
            url = f"{configured['endpoint']}/{configured['bucket']}/{key}"
            headers = {"Authorization": f"AWS4-HMAC-SHA256 {configured['access_key_id']}"}
            asked = urllib3.request("GET", url, redirect=False)
            target = asked.headers.get("Location")
            if target is not None:
                urllib3.request("GET", target, headers=headers)
            return await read(self, key, *rest)

        return changed

    replace(ObstoreReader, "_request", make)
