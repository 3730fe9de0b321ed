"""Proxies: the one for a request, and one that refuses all connections.

obstore follows redirects by itself, to any host. A proxy that cannot exist stops it: every
request goes there, except those to the host that the reader authorised.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zarr_manifest.locations import Cloud
from zarr_manifest.sources.access import (
    UNREACHABLE,
    client_options_of,
    cloud_of,
    with_client_options,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_NOWHERE = f"http://{UNREACHABLE}"


def within_host(store: ObjectStore) -> ObjectStore:
    """Return the same store of a cloud, but unable to reach other hosts than its own.

    Those that serve its credentials are its own, too. A store that uses a proxy is returned
    as it is: where its requests go is the proxy's decision.

    Parameters
    ----------
    store : ObjectStore
        Any obstore store.

    Examples
    --------
    >>> import obstore.store
    >>> store = obstore.store.S3Store("b", endpoint="https://s3.example.com", skip_signature=True)
    >>> within_host(store).client_options["proxy_excludes"]
    's3.example.com'
    """
    cloud = cloud_of(store)
    if cloud is None:
        return store
    pickled: Any = store
    _, named = pickled.__getnewargs_ex__()
    options = client_options_of(store, cloud)
    urls = list(_service_urls(named, cloud))
    hosts = [host for host in map(_host, urls) if host]
    if not _goes_nowhere(options) and any(
        proxy_for(url, options) for url in urls or ["https://s3"]
    ):
        return store
    if not (hosts and _asks_for_no_credentials(named)):
        hosts += cloud.hosts
    options |= {"proxy_url": _NOWHERE, "proxy_excludes": ",".join(hosts)}
    return with_client_options(store, options)


def _goes_nowhere(options: Mapping[str, Any]) -> bool:
    return options.get("proxy_url") == _NOWHERE


def _asks_for_no_credentials(named: Mapping[str, Any]) -> bool:
    config: Mapping[str, Any] = named.get("config") or {}
    unsigned = str(config.get("skip_signature", "")).lower() == "true"
    return unsigned or named.get("credential_provider") is not None


def _service_urls(named: Mapping[str, Any], cloud: Cloud) -> Iterator[str]:
    """Yield the URLs in a cloud's options, and in its environment variables."""
    stated = dict(named.get("config") or {})
    for name, value in os.environ.items():
        if name.startswith(cloud.variables) or name in cloud.other_variables:
            stated.setdefault(name, value)
    for value in stated.values():
        if re.match(r"https?://", str(value)):
            yield str(value)


def proxy_for(url: str, options: Mapping[str, Any]) -> str | None:
    """Return the proxy through which obstore requests a URL; None if there is none.

    Parameters
    ----------
    url : str
        The requested URL.
    options : mapping
        obstore's ``client_options``; if they state no proxy, the environment may.

    Examples
    --------
    >>> options = {"proxy_url": "http://proxy:3128", "proxy_excludes": "intern.example,10.0.0.0/8"}
    >>> proxy_for("https://example.com/f", options)
    'http://proxy:3128'
    >>> proxy_for("http://a.intern.example/f", options), proxy_for("http://10.1.2.3/f", options)
    (None, None)
    """
    host = _host(url)
    stated = options.get("proxy_url")
    if stated is not None:
        return None if _is_excluded(host, str(options.get("proxy_excludes", ""))) else str(stated)
    import urllib.request  # with http.client and more, for those who read from web servers

    proxies = urllib.request.getproxies()
    proxy = proxies.get(urlsplit(url).scheme) or proxies.get("all")
    return None if proxy is None or urllib.request.proxy_bypass(host) else proxy


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _is_excluded(host: str, excludes: str) -> bool:
    """Whether a host is in a list of those that are requested directly, as reqwest reads it."""
    for entry in map(str.strip, excludes.split(",")):
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            domain = entry.removeprefix(".").lower()
            if entry == "*" or (domain and f".{host}".endswith(f".{domain}")):
                return True
    return False
