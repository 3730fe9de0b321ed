"""Web servers: what they are asked, where their redirects may lead, and what they answer."""

from zarr_manifest.sources.web.proxies import within_host
from zarr_manifest.sources.web.web_reader import Follow, WebReader

__all__ = ["Follow", "WebReader", "within_host"]
