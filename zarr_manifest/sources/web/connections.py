"""Connections that are kept open between questions, and that no server can keep waiting."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from zarr_manifest.errors import SourceError

__all__ = ["WRITTEN_URL", "Trust", "connections", "deadline"]

# A header that is not sent: the URL to be requested, exactly as it is written.
WRITTEN_URL = "x-zarr-manifest-url"

_CONNECTIONS_PER_HOST = 32


class Trust(NamedTuple):
    """Which certificates are trusted.

    Attributes
    ----------
    certificate : str or None
        PEM of certificates that are trusted besides those of the system.
    proxy_certificate : str or None
        Likewise, for a proxy.
    invalid_too : bool
        Whether all are.
    """

    certificate: str | None
    proxy_certificate: str | None
    invalid_too: bool


@contextmanager
def deadline(connection: object, seconds: float) -> Generator[None]:
    """Cut a connection off when its time has passed, even if bytes trickle in.

    Parameters
    ----------
    connection : object
        One of those that :func:`connections` makes.
    seconds : float
        After which it is cut off.

    Raises
    ------
    SourceError
        If the process is ending.
    """

    def cut() -> None:
        open_socket: Any = connection.open_socket if isinstance(connection, _Connection) else None
        if open_socket is not None:
            with suppress(OSError):
                # Of the plain socket: TLS would wait for the server to agree.
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as error:
        # No thread can be started any more.
        raise SourceError("reading was abandoned: the process is ending") from error
    try:
        yield
    finally:
        timer.cancel()


def _as_written(
    url: str, body: Any, headers: Mapping[str, str] | None
) -> tuple[str, Any, dict[str, str]]:
    """Restore a URL, whose escapes urllib3 has changed: a signature may cover them."""
    kept = dict(headers or {})
    written = kept.pop(WRITTEN_URL, None)
    if written is not None:
        # A proxy is asked for the whole URL, a server for what follows its name.
        url = f"/{written.split('/', 3)[3]}" if url.startswith("/") else written
    return url, body, kept


class _Connection(HTTPConnection):
    _answering: object = None

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        **options: Any,
    ) -> None:
        super().request(method, *_as_written(url, body, headers), **options)

    def connect(self) -> None:
        with deadline(self, self._seconds):
            super().connect()

    def getresponse(self) -> Any:
        # The server may announce its last answer, and the connection then forgets its socket.
        self._answering = self.sock
        with deadline(self, self._seconds):
            return super().getresponse()

    @property
    def open_socket(self) -> object:
        """The socket to the server, also of its last answer."""
        return self.sock or self._answering

    @property
    def _seconds(self) -> float:
        stated: Any = self.timeout
        return float(stated)


class _SecureConnection(_Connection, HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        # Lest urllib3 warn: if certificates are not verified, the reader asked for that.
        self.is_verified = True


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]

    def urlopen(self, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        with _without_queries_in_logs():
            return super().urlopen(*args, **options)


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection  # pyright: ignore[reportAssignmentType]

    def urlopen(self, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        with _without_queries_in_logs():
            return super().urlopen(*args, **options)


_asking = threading.local()


@contextmanager
def _without_queries_in_logs() -> Generator[None]:
    """Let urllib3 log no query, which may be a signature, in this thread."""
    _asking.is_ours = True
    try:
        yield
    finally:
        _asking.is_ours = False


def _cut_queries(record: logging.LogRecord) -> bool:
    if getattr(_asking, "is_ours", False) and isinstance(record.args, tuple):
        record.args = tuple(
            f"{argument.partition('?')[0]}?…"
            if isinstance(argument, str) and "?" in argument
            else argument
            for argument in record.args
        )
    return True


for _name in ("urllib3.connectionpool", "urllib3.connection"):
    logging.getLogger(_name).addFilter(_cut_queries)


@lru_cache(maxsize=32)
def connections(proxy: str | None, trust: Trust) -> urllib3.PoolManager:
    """Return the connections through a proxy, or none; shared by all that ask the same way.

    Raises
    ------
    SourceError
        If the proxy is of an unknown kind.
    """
    settings: dict[str, Any] = {
        "num_pools": 32,
        "maxsize": _CONNECTIONS_PER_HOST,
        "ssl_context": _context(trust.certificate, trust.invalid_too),
    }
    manager = _through(proxy, trust, settings) if proxy else urllib3.PoolManager(**settings)
    by_scheme: dict[str, Any] = {"http": _Pool, "https": _SecurePool}
    manager.pool_classes_by_scheme = by_scheme
    return manager


def _through(proxy: str, trust: Trust, settings: dict[str, Any]) -> urllib3.ProxyManager:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    account, _, server = parts.netloc.rpartition("@")
    headers = (
        urllib3.make_headers(proxy_basic_auth=unquote(account), disable_cache=None)
        if account
        else None
    )
    try:
        return urllib3.ProxyManager(
            f"{parts.scheme}://{server}",
            proxy_headers=headers,
            proxy_ssl_context=_context(trust.proxy_certificate, trust.invalid_too),
            **settings,
        )
    except urllib3.exceptions.HTTPError as error:
        raise SourceError(
            f"the proxy is of a kind that is not supported: {parts.scheme}",
            remedy="Use one whose URL begins with http:// or https://.",
        ) from error


@lru_cache(maxsize=32)
def _context(certificate: str | None, invalid_too: bool) -> ssl.SSLContext:
    # Loading all the certificates takes longer than many a request.
    context = ssl.create_default_context()
    if certificate is not None:
        context.load_verify_locations(cadata=certificate)
    if invalid_too:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# Two processes must not write to one connection.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connections.cache_clear)
