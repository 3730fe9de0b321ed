"""Web servers: requests, answers and redirects.

Imported with the first web server: reading local files does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from obstore.store import HTTPStore

    from zarr_manifest.sources.web.web_reader import Follow as Follow
    from zarr_manifest.sources.web.web_reader import WebReader as WebReader

__all__ = ["is_web_reader", "web_reader_of"]


def web_reader_of(store: HTTPStore, follow: Follow) -> WebReader:
    """Return a reader for the objects on a web server; `follow` says where redirects may lead."""
    from zarr_manifest.sources.web.web_reader import WebReader

    return WebReader(store, follow)


def is_web_reader(reader: object) -> TypeGuard[WebReader]:
    """Return whether a reader is for a web server."""
    from zarr_manifest.sources.web.web_reader import WebReader

    return isinstance(reader, WebReader)
