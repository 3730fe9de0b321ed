"""Web servers: what they are asked, where their redirects may lead, and what they answer.

Most of it is imported with the first web server: who reads files does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from zarr_manifest.sources.web.proxies import within_host

if TYPE_CHECKING:
    from obstore.store import HTTPStore

    from zarr_manifest.sources.web.web_reader import Follow as Follow
    from zarr_manifest.sources.web.web_reader import WebReader as WebReader

__all__ = ["is_web_reader", "web_reader_of", "within_host"]


def web_reader_of(store: HTTPStore, follow: Follow) -> WebReader:
    """Return a reader for the objects on a web server; `follow` says where redirects may lead."""
    from zarr_manifest.sources.web.web_reader import WebReader

    return WebReader(store, follow)


def is_web_reader(reader: object) -> TypeGuard[WebReader]:
    """Return whether a reader is for a web server."""
    from zarr_manifest.sources.web.web_reader import WebReader

    return isinstance(reader, WebReader)
