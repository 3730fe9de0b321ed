"""Connections to web servers: requests in threads, each ended in bounded time.

urllib3 makes the requests, one at a time on each connection. The threads are daemons: the end
of the process does not wait for servers.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ProtocolError

from zarr_manifest.errors import SourceError

# A read in bulk makes up to 32 requests at a time.
_MOST_THREADS = 64


class Trust(NamedTuple):
    """Which certificates are trusted.

    Attributes
    ----------
    certificate : str
        PEM of certificates that are trusted besides those of the system; may be empty.
    proxy_certificate : str
        Likewise, for a proxy.
    invalid_too : bool
        Whether all are.
    """

    certificate: str
    proxy_certificate: str
    invalid_too: bool


class TransferCancelledError(Exception):
    """Nobody waits for a transfer any more."""


class Transfer:
    """Requests of one thread, one after the other, that another thread can cancel.

    It holds `handing_over` while others use what has arrived, so that nothing is handed over once
    :meth:`cancel` has returned.

    Examples
    --------
    >>> transfer = Transfer()
    >>> transfer.cancel()
    >>> transfer.pause(60)
    Traceback (most recent call last):
        ...
    zarr_manifest.sources.web.connections.TransferCancelledError
    """

    def __init__(self) -> None:
        self.url = ""
        self.until = 0.0
        self.connection: _Connection | None = None
        self.answer: http.client.HTTPResponse | None = None
        self._cancelled = threading.Event()
        self.handing_over = threading.Lock()

    @contextmanager
    def limited_to(self, seconds: float, url: str) -> Generator[None]:
        """Request a URL within this block, and read the answer for so many seconds at most."""
        self.url, self.until = url, time.monotonic() + seconds
        _current.transfer = self
        try:
            yield
        finally:
            _current.transfer = self.connection = self.answer = None

    def receive_into(self, memory: memoryview, response: urllib3.BaseHTTPResponse) -> int:
        """Receive the next bytes of an answer; return how many, fewer only at its end.

        urllib3 would clear memory for them first, which takes as long as receiving them.

        Raises
        ------
        urllib3.exceptions.ProtocolError
            If the connection fails.
        """
        assert self.answer is not None  # the head of the response has arrived
        try:
            count = self.answer.readinto(memory)
        except OSError as error:
            raise ProtocolError("the connection broke", error) from error
        if self.answer.isclosed():
            response.release_conn()
        return count

    def require_wanted(self) -> None:
        """Raise :class:`TransferCancelledError` if it has been cancelled."""
        if self._cancelled.is_set():
            raise TransferCancelledError

    def pause(self, seconds: float) -> None:
        """Wait, unless it is cancelled."""
        self._cancelled.wait(seconds)
        self.require_wanted()

    def cancel(self) -> None:
        """End it: its connection is closed, and nothing is handed over once this returns."""
        self._cancelled.set()
        if (connection := self.connection) is not None:
            connection.cut(self)
        with self.handing_over:
            pass


class _Current(threading.local):
    """The transfer of each thread."""

    transfer: Transfer | None = None


_current = _Current()

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

    def deliver(outcome: list[tuple[T | None, BaseException | None]]) -> None:
        found, error = outcome.pop()
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
        # The thread keeps none of it while it wakes the loop: the error refers to many frames.
        outcome = [(found, failure)]
        found = failure = None
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, outcome)

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
                thread = threading.Thread(
                    target=self._work, args=(call,), name="zarr-manifest-web", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:
                    raise SourceError("reading was abandoned: the process is ending") from error
                self._count += 1
            else:
                self._waiting.append(call)

    def _work(self, call: Callable[[], None]) -> None:
        inbox = SimpleQueue[Callable[[], None]]()
        while True:
            call()
            del call  # What it refers to must not live until the next one comes.
            call = self._next(inbox)

    def _next(self, inbox: SimpleQueue[Callable[[], None]]) -> Callable[[], None]:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(inbox)
        return inbox.get()


_threads = _RequestThreads()

# Connections -------------------------------------------------------------


class _TimedReader(io.RawIOBase):
    """Reads from a socket, and gives up when the time of a transfer has passed."""

    def __init__(self, connected: socket.socket, until: float) -> None:
        self._socket = connected
        self._raw = connected.makefile("rb", buffering=0)
        self._until = until

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what http.client reads an answer from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, memory: Any) -> int | None:
        # Each time: otherwise, a server that sends a byte now and then could go on for ever.
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        # Not for each part: other threads take a turn after that.
        present = self._socket.gettimeout()
        if present is None or not seconds <= present <= 1.05 * seconds:
            self._socket.settimeout(seconds)
        return self._raw.readinto(memory)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Connection(HTTPConnection):
    """A connection that knows its transfer, and requests URLs as they are written."""

    transfer: Transfer | None = None
    _answering: socket.socket | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._owning = threading.Lock()

    def connect(self) -> None:
        self._belong()
        super().connect()

    @property
    def is_connected(self) -> bool:
        # The pool asks this of what it hands out: from then on, the transfer before cannot cut it.
        with self._owning:
            self.transfer = _current.transfer
        return super().is_connected

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        # urllib3 has changed its escapes, which a signature may cover. A proxy is asked for the
        # whole URL, a server for what follows its name.
        written = self._belong().url
        url = _target(written) if url.startswith("/") else written
        super().putrequest(method, url, *args, **options)

    def response_class(self, connected: socket.socket, **options: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        """Return the answer that arrives at a socket."""
        # The server may announce its last answer, and the connection then forgets its socket.
        self._answering = connected
        transfer = self._belong()
        timed: Any = _TimedReader(connected, transfer.until)
        transfer.answer = answer = http.client.HTTPResponse(timed, **options)
        return answer

    def cut(self, transfer: Transfer) -> None:
        """Close it, while its thread may be waiting for the server; if it is a transfer's still."""
        with self._owning:
            waiting = self.sock or self._answering
            if waiting is not None and self.transfer is transfer:
                with suppress(OSError):
                    # Of the socket below TLS, which would wait for the server to agree.
                    socket.socket.shutdown(waiting, socket.SHUT_RDWR)

    def _belong(self) -> Transfer:
        transfer = _current.transfer
        assert transfer is not None
        with self._owning:
            self.transfer = transfer
        transfer.connection = self
        transfer.require_wanted()
        return transfer


class _SecureConnection(_Connection, HTTPSConnection):  # pyright: ignore[reportIncompatibleVariableOverride]
    def connect(self) -> None:
        super().connect()
        # Lest urllib3 warn: if certificates are not verified, the reader asked for that.
        self.is_verified = True


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # pyright: ignore[reportAssignmentType]


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection  # pyright: ignore[reportAssignmentType]


def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    timeout: urllib3.Timeout,
    proxy: str | None,
    trust: Trust,
) -> urllib3.BaseHTTPResponse:
    """Request the URL of the current transfer, and return the head of the answer.

    Its body must be read, or closed.

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
    # The connection adds the query, which may be a signature: urllib3 logs what it is given.
    shown = url.partition("?")[0]
    target = shown if proxy is not None else _target(shown)
    # One at a time: requests that begin together share connections, and load certificates once.
    with _making[0]:
        if proxy is not None:
            pool: urllib3.ProxyManager | urllib3.HTTPConnectionPool = _through(proxy, trust)
        else:
            # Without a pool manager, which takes as long as all the rest of urllib3 to find it.
            pool = _pool(shown.removesuffix(target), trust)
    return pool.urlopen(method, target, **options)


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
def _context(certificate: str, invalid_too: bool) -> ssl.SSLContext:
    # Loading all the certificates takes longer than many a request.
    context = ssl.create_default_context()
    if certificate:
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
    _threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
