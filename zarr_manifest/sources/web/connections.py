"""Connections to web servers: requests in threads, each ended in bounded time.

urllib3 makes the requests, one at a time on each connection. A :class:`Transfer` is one of them
until the last byte of its answer: it can be cut off, because its time has passed or because
nobody waits for it any more. Its thread then finds the connection closed.

The threads are daemons: the end of the process does not wait for servers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from zarr_manifest.errors import SourceError

__all__ = ["Transfer", "Trust", "in_request_thread", "request"]

# A read in bulk makes up to 32 requests at a time.
_MOST_THREADS = 64

# Seconds for which a thread waits for the next request.
_IDLE = 10.0


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


# Transfers ---------------------------------------------------------------


class TransferCancelledError(Exception):
    """Nobody waits for a transfer any more."""


class Transfer:
    """Requests of one thread, one after the other, that another thread can cut off.

    Examples
    --------
    >>> transfer = Transfer()
    >>> transfer.cancel()
    >>> with transfer.limited_to(1.0, "https://example.com/f"):
    ...     pass
    Traceback (most recent call last):
        ...
    zarr_manifest.sources.web.connections.TransferCancelledError
    """

    def __init__(self) -> None:
        self.url = ""
        self.until = 0.0
        self.is_late = False
        self.connection: _Connection | None = None
        self._cancelled = threading.Event()
        self._lock = threading.Lock()

    @contextmanager
    def limited_to(self, seconds: float, url: str) -> Generator[None]:
        """Make a request for a URL within this block, which is cut off after some seconds."""
        self.url, self.until, self.is_late = url, time.monotonic() + seconds, False
        _current.transfer = self
        _deadlines.add(self)
        try:
            self.require_wanted()
            yield
        finally:
            _deadlines.remove(self)
            _current.transfer = self.connection = None

    def require_wanted(self) -> None:
        """Raise :class:`TransferCancelledError` if nobody waits any more."""
        if self._cancelled.is_set():
            raise TransferCancelledError

    def pause(self, seconds: float) -> None:
        """Wait, unless nobody waits any more."""
        self._cancelled.wait(seconds)
        self.require_wanted()

    @contextmanager
    def handing_over(self) -> Generator[None]:
        """Let :meth:`cancel` return only before this block begins, or after its end."""
        with self._lock:
            self.require_wanted()
            yield

    def cancel(self) -> None:
        """End it: nothing is handed over once this returns."""
        self._cancelled.set()
        self.cut()
        with self._lock:
            pass

    def cut(self) -> None:
        """Close its connection, while its thread may be waiting for the server."""
        connection = self.connection
        # A connection whose answer has ended may belong to another transfer by now.
        is_own = connection is not None and connection.transfer is self
        open_socket: Any = connection.open_socket if connection and is_own else None
        if open_socket is not None:
            with suppress(OSError):
                # Of the socket below TLS, which would wait for the server to agree.
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)


class _Deadlines:
    """Cuts transfers off whose time has passed, even if bytes trickle in; in one thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._changed = threading.Condition()
        self._transfers = set[Transfer]()
        self._wakes_at = float("-inf")

    def add(self, transfer: Transfer) -> None:
        with self._changed:
            self._transfers.add(transfer)
            if self._wakes_at == float("-inf"):
                _start(self._watch, "zarr-manifest-deadlines")
                self._wakes_at = transfer.until
            elif transfer.until < self._wakes_at:
                self._changed.notify()

    def remove(self, transfer: Transfer) -> None:
        with self._changed:
            self._transfers.discard(transfer)

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for transfer in [each for each in self._transfers if each.until <= now]:
                    transfer.is_late = True
                    transfer.cut()
                    transfer.until = now + 1.0  # if it was just about to connect
                self._wakes_at = min((each.until for each in self._transfers), default=now + 3600)
                self._changed.wait(self._wakes_at - now)


# Threads -----------------------------------------------------------------


async def in_request_thread[T](call: Callable[[Transfer], T]) -> T:
    """Return what a function returns that makes requests, in a thread.

    If this is cancelled, so is the transfer that the function was given.

    Raises
    ------
    SourceError
        If the process is ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    transfer = Transfer()

    def settle(found: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(found)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        found, failure = None, None
        try:
            transfer.require_wanted()
            found = call(transfer)
        except BaseException as error:  # whoever awaits raises it
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, found, failure)
        found = failure = None  # the error refers to this frame

    _threads.submit(run)
    try:
        return await done
    except asyncio.CancelledError:
        transfer.cancel()
        raise


class _RequestThreads:
    """Threads in which requests are made; the one that was busy last is the next."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._waiting = deque[Callable[[], None]]()
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._count = 0

    def submit(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle.pop().put(call)
            elif self._count < _MOST_THREADS:
                _start(lambda: self._work(call), "zarr-manifest-web")
                self._count += 1
            else:
                self._waiting.append(call)

    def _work(self, call: Callable[[], None] | None) -> None:
        inbox = SimpleQueue[Callable[[], None]]()
        while call is not None:
            call()
            call = self._next(inbox)

    def _next(self, inbox: SimpleQueue[Callable[[], None]]) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(inbox)
        try:
            return inbox.get(timeout=_IDLE)
        except Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    self._count -= 1
                    return None
            return inbox.get()


def _start(run: Callable[[], None], name: str) -> None:
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise SourceError("reading was abandoned: the process is ending") from error


_deadlines = _Deadlines()
_threads = _RequestThreads()


class _Current(threading.local):
    """The transfer of each thread."""

    transfer: Transfer | None = None


_current = _Current()

# Connections -------------------------------------------------------------


class _Connection(HTTPConnection):
    """A connection that its transfer knows, and that requests URLs as they are written."""

    transfer: Transfer | None = None
    _answering: object = None

    def connect(self) -> None:
        self._belong()
        super().connect()

    def request(self, method: str, url: str, *args: Any, **options: Any) -> None:
        transfer = self._belong()
        if transfer is not None:
            # urllib3 has changed its escapes, which a signature may cover. A proxy is asked for
            # the whole URL, a server for what follows its name.
            url = _target(transfer.url) if url.startswith("/") else transfer.url
        super().request(method, url, *args, **options)

    def getresponse(self) -> Any:
        # The server may announce its last answer, and the connection then forgets its socket.
        self._answering = self.sock
        return super().getresponse()

    def _belong(self) -> Transfer | None:
        self.transfer = transfer = _current.transfer
        if transfer is not None:
            transfer.connection = self
            transfer.require_wanted()
        return transfer

    @property
    def open_socket(self) -> object:
        """The socket to the server, also of its last answer."""
        return self.sock or self._answering


class _SecureConnection(_Connection, HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        # Lest urllib3 warn: if certificates are not verified, the reader asked for that.
        self.is_verified = True


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection  # pyright: ignore[reportAssignmentType]


def _cut_queries(record: logging.LogRecord) -> bool:
    """Let urllib3 log no query, which may be a signature, of our requests."""
    if _current.transfer is not None and isinstance(record.args, tuple):
        record.args = tuple(
            f"{argument.partition('?')[0]}?…"
            if isinstance(argument, str) and "?" in argument
            else argument
            for argument in record.args
        )
    return True


for _name in ("urllib3.connectionpool", "urllib3.connection"):
    logging.getLogger(_name).addFilter(_cut_queries)


def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    timeout: urllib3.Timeout,
    proxy: str | None,
    trust: Trust,
) -> urllib3.BaseHTTPResponse:
    """Request a URL once, and return the head of the answer; its body must be read or closed.

    Raises
    ------
    urllib3.exceptions.HTTPError
        If there is no answer.
    SourceError
        If the proxy is of an unknown kind.
    """
    options: dict[str, Any] = {
        "headers": headers,
        "timeout": timeout,
        "retries": _NO_RETRIES,
        "redirect": False,
        "preload_content": False,
    }
    # One at a time: requests that begin together share connections, and load certificates once.
    with _making[0]:
        if proxy is not None:
            pool: urllib3.ProxyManager | urllib3.HTTPConnectionPool = _through(proxy, trust)
        else:
            # Without a pool manager, which takes as long as all the rest of urllib3 to find it.
            pool = _pool(url.removesuffix(_target(url)), trust)
    return pool.urlopen(method, url if proxy is not None else _target(url), **options)


_making = [threading.Lock()]

_NO_RETRIES = urllib3.Retry.from_int(False, redirect=False)


def _target(url: str) -> str:
    """Return what follows the name of the server."""
    return f"/{url.split('/', 3)[3]}"


@lru_cache(maxsize=64)
def _pool(origin: str, trust: Trust) -> urllib3.HTTPConnectionPool:
    """Return the connections to a server; shared by all that request it the same way."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = _context(trust.certificate, trust.invalid_too)
        return _SecurePool(host, parts.port, maxsize=_MOST_THREADS, ssl_context=context)
    return _Pool(host, parts.port, maxsize=_MOST_THREADS)


@lru_cache(maxsize=32)
def _through(proxy: str, trust: Trust) -> urllib3.ProxyManager:
    """Return the connections through a proxy; shared by all that request the same way."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    account, _, server = parts.netloc.rpartition("@")
    headers = (
        urllib3.make_headers(proxy_basic_auth=unquote(account), disable_cache=None)
        if account
        else None
    )
    try:
        manager = urllib3.ProxyManager(
            f"{parts.scheme}://{server}",
            proxy_headers=headers,
            proxy_ssl_context=_context(trust.proxy_certificate, trust.invalid_too),
            ssl_context=_context(trust.certificate, trust.invalid_too),
            num_pools=32,
            maxsize=_MOST_THREADS,
        )
    except urllib3.exceptions.HTTPError as error:
        raise SourceError(
            f"the proxy is of a kind that is not supported: {parts.scheme}",
            remedy="Use one whose URL begins with http:// or https://.",
        ) from error
    by_scheme: dict[str, Any] = {"http": _Pool, "https": _SecurePool}
    manager.pool_classes_by_scheme = by_scheme
    return manager


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


def _forked() -> None:
    """Begin anew: threads are not there, and two processes must not write to one connection."""
    _making[0] = threading.Lock()
    _pool.cache_clear()
    _through.cache_clear()
    _deadlines.forget()
    _threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
