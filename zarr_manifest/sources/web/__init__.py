"""Web servers: requests, answers and redirects.

What reads is imported with the first server: local files do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarr_manifest.sources.web.server import WebServer

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from zarr_manifest.sources.web.web_reader import Follow as Follow
    from zarr_manifest.sources.web.web_reader import WebReader as WebReader

__all__ = ["WebServer", "is_web_reader", "web_reader_of"]


def web_reader_of(server: WebServer, follow: Follow) -> WebReader:
    """Return a reader for the objects on a web server; `follow` says where redirects may lead."""
    from zarr_manifest.sources.web.web_reader import WebReader

    return WebReader(server, follow)


def is_web_reader(reader: object) -> TypeIs[WebReader]:
    """Return whether a reader is for a web server."""
    # Not by its class, which need not be imported for readers of files.
    return isinstance(getattr(reader, "server", None), WebServer)
