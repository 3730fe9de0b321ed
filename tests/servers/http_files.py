"""A loopback HTTP/1.1 file server that fails on demand.

One rule: what the server says is true (ranges, validators, conditions, as in RFC 9110)
unless a `Fault` was scripted for the path. Each fault is a function from an `Exchange`
to a `Reply`, so a new one needs no change to the handler.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

from tests.servers.http_answers import Reply, StoredObject, correct_answer

__all__ = [
    "Exchange",
    "Fault",
    "FileServer",
    "Recorded",
    "Reply",
    "cached",
    "change",
    "delay",
    "drop_header",
    "ignore_conditions",
    "ignore_range",
    "redirect",
    "reset",
    "short_body",
    "short_content_range",
    "status",
    "truncate",
    "wrong_body_longer",
]


class Recorded(NamedTuple):
    """A request as it arrived: `target` undecoded with its query, header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def is_question(self) -> bool:
        """Whether it only asks where an object is, and in which state."""
        return self.headers.get("range") == "bytes=0-0"


@dataclass(frozen=True)
class Exchange:
    """One request, as a fault sees it."""

    files: FileServer
    method: str
    path: str
    headers: Mapping[str, str]

    def normal(self) -> Reply:
        """Answer as a correct server would."""
        return correct_answer(self.files.find(self.path), self.headers)


@dataclass(frozen=True)
class Fault:
    """A scripted misbehaviour: applied to GET, and to HEAD too if `heads`."""

    answer: Callable[[Exchange], Reply]
    heads: bool = False


# ------------------------------------------------------------------ faults


def ignore_range(*, heads: bool = False) -> Fault:
    """Answer 200 and the whole object, whatever range was asked for."""

    def answer(exchange: Exchange) -> Reply:
        headers = {k: v for k, v in exchange.headers.items() if k != "range"}
        return replace(exchange, headers=headers).normal()

    return Fault(answer, heads)


def ignore_conditions(*, heads: bool = False) -> Fault:
    """Answer as if no If-Match and its like had been sent, as many servers do."""

    def answer(exchange: Exchange) -> Reply:
        headers = {k: v for k, v in exchange.headers.items() if not k.startswith("if-")}
        return replace(exchange, headers=headers).normal()

    return Fault(answer, heads)


def drop_header(name: str, *, heads: bool = False) -> Fault:
    """Leave a header such as ETag, Last-Modified or Content-Range out of the answer."""

    def answer(exchange: Exchange) -> Reply:
        reply = exchange.normal()
        kept = {k: v for k, v in reply.headers.items() if k.lower() != name.lower()}
        return replace(reply, headers=kept)

    return Fault(answer, heads)


def truncate(n: int, *, heads: bool = False) -> Fault:
    """Declare the full Content-Length, send `n` bytes of the body, close."""
    return Fault(lambda exchange: replace(exchange.normal(), sent=n), heads)


def short_content_range(n: int, *, heads: bool = False) -> Fault:
    """Answer 206 with `n` bytes fewer than asked for, and say so in the headers."""

    def answer(exchange: Exchange) -> Reply:
        reply = exchange.normal()
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", reply.headers.get("Content-Range", ""))
        if match is None:
            return reply
        start, last, size = map(int, match.groups())
        headers = {**reply.headers, "Content-Range": f"bytes {start}-{last - n}/{size}"}
        return replace(reply, headers=headers, body=reply.body[: len(reply.body) - n])

    return Fault(answer, heads)


def short_body(n: int, *, heads: bool = False) -> Fault:
    """Send `n` bytes fewer, counted in Content-Length; Content-Range claims them all."""

    def answer(exchange: Exchange) -> Reply:
        reply = exchange.normal()
        return replace(reply, body=reply.body[: len(reply.body) - n])

    return Fault(answer, heads)


def wrong_body_longer(n: int = 1, *, heads: bool = False) -> Fault:
    """Send `n` zero bytes after the body, counted in Content-Length but not in Content-Range."""

    def answer(exchange: Exchange) -> Reply:
        reply = exchange.normal()
        return replace(reply, body=bytes(reply.body) + bytes(n))

    return Fault(answer, heads)


def status(code: int, *, retry_after: int | None = None, heads: bool = False) -> Fault:
    """Answer with a bare status such as 401, 403, 404, 416, 500 or 503."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Fault(lambda _: Reply(code, headers, f"scripted {code}".encode()), heads)


def redirect(url: str | None, code: int = 302, *, heads: bool = False) -> Fault:
    """Redirect to `url`; `None` leaves the Location header out."""
    headers = {} if url is None else {"Location": url}
    return Fault(lambda _: Reply(code, headers), heads)


def reset(*, heads: bool = False) -> Fault:
    """Close the connection with a TCP reset, without an answer."""
    return Fault(lambda _: Reply(0, abort=True), heads)


def change(data: bytes, *, heads: bool = False) -> Fault:
    """Replace the object (and so its ETag) as the request arrives, then answer normally."""

    def answer(exchange: Exchange) -> Reply:
        exchange.files.put(exchange.path, data)
        return exchange.normal()

    return Fault(answer, heads)


def cached(data: bytes | None, *, is_obedient: bool = True, heads: bool = False) -> Fault:
    """Answer as a cache that has an earlier object, or knows of none (`None`), and serves it.

    An obedient one asks its server again if the request wants it to (RFC 9111, 5.2.1.4).
    """

    def answer(exchange: Exchange) -> Reply:
        if is_obedient and exchange.headers.get("cache-control") == "no-cache":
            return exchange.normal()
        earlier = None
        if data is not None:
            etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            earlier = StoredObject(data, etag, datetime.fromtimestamp(0, UTC), {"Age": "86400"})
        return correct_answer(earlier, exchange.headers)

    return Fault(answer, heads)


def delay(seconds: float, *, heads: bool = False) -> Fault:
    """Wait, then answer normally."""

    def answer(exchange: Exchange) -> Reply:
        exchange.files.wait(seconds)
        return exchange.normal()

    return Fault(answer, heads)


# ------------------------------------------------------------------ the server


@dataclass
class _Script:
    faults: deque[Fault]
    sticky: bool


# Bytes that wait for their turn on the line at once; what it may catch up, in seconds.
_PIECE = 256 * 1024
_BURST = 0.005

# Seconds between looks at whether the server is to end: most live for one short test.
_POLL = 0.002


class FileServer:
    """Serve objects put in memory, and optionally a directory, on a free loopback port.

    Parameters
    ----------
    directory
        Files to serve where no object was put.
    latency
        Seconds to wait before every answer; may be changed at any time.
    bandwidth
        Bytes that all connections together carry in a second; may be changed at any time.
    host
        An address of the loopback interface: each is a host of its own.

    Examples
    --------
    >>> with FileServer() as files:
    ...     _ = files.put("a.nc", b"0123")
    ...     files.script("a.nc", status(503), truncate(2))
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        latency: float = 0.0,
        bandwidth: float = math.inf,
        host: str = "127.0.0.1",
    ) -> None:
        self.latency = latency
        self.bandwidth = bandwidth
        self.sent = 0  # bytes of bodies
        self._sent_at = 0.0
        self._host = host
        self._directory = None if directory is None else directory.resolve()
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}
        self._requests: list[Recorded] = []
        self._scripts: dict[str, _Script] = {}
        self._closing = threading.Event()
        self._server = _Server(self, host)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The origin, without a trailing slash."""
        return f"http://{self._host}:{self._server.server_port}"

    @property
    def connections(self) -> int:
        """Number of connections so far."""
        return self._server.accepted

    @property
    def requests(self) -> list[Recorded]:
        """A copy of the requests so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        """Forget the recorded requests, and what was sent."""
        with self._lock:
            self._requests.clear()
            self.sent = 0

    def put(
        self,
        path: str,
        data: bytes,
        *,
        etag: str | None = None,
        last_modified: datetime | None = None,
        **headers: str,
    ) -> str:
        """Store an object under its decoded path and return its ETag.

        `etag=""` serves none. Further keywords are response headers (`content_type="…"`).
        """
        if etag is None:
            etag = hashlib.sha256(data).hexdigest()[:32]
        if etag and not etag.endswith('"'):
            etag = f'"{etag}"'
        modified = last_modified or datetime.now(UTC)
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        found = StoredObject(data, etag, modified.astimezone(UTC).replace(microsecond=0), named)
        with self._lock:
            self._objects[path.lstrip("/")] = found
        return etag

    def remove(self, path: str) -> None:
        """Remove an object that was put."""
        with self._lock:
            del self._objects[path.lstrip("/")]

    def script(self, path: str, *faults: Fault, sticky: bool = False) -> None:
        """Queue faults for a path, one per request; `sticky` repeats the last for ever."""
        with self._lock:
            self._scripts[path.lstrip("/")] = _Script(deque(faults), sticky)

    def find(self, path: str) -> StoredObject | None:
        """Look an object up by its decoded path."""
        with self._lock:
            found = self._objects.get(path)
        return found or self._find_in_directory(path)

    def wait(self, seconds: float) -> None:
        """Sleep, unless the server closes."""
        self._closing.wait(seconds)

    def _send(self, body: bytes | memoryview, file: BufferedIOBase) -> None:
        """Send a body, at the pace of the line that all connections share."""
        if math.isinf(self.bandwidth):
            file.write(body)
            with self._lock:
                self.sent += len(body)
            return
        view = memoryview(body)
        for first in range(0, len(view), _PIECE):
            piece = view[first : first + _PIECE]
            with self._lock:
                now = time.monotonic()
                begin = max(self._sent_at, now - _BURST)
                self._sent_at = begin + len(piece) / self.bandwidth
            if begin > now:
                self.wait(begin - now)
            file.write(piece)
            with self._lock:
                self.sent += len(piece)

    def _find_in_directory(self, path: str) -> StoredObject | None:
        if self._directory is None:
            return None
        file = (self._directory / path).resolve()
        if not file.is_relative_to(self._directory) or not file.is_file():
            return None
        data = file.read_bytes()
        modified = datetime.fromtimestamp(int(file.stat().st_mtime), UTC)
        return StoredObject(data, f'"{hashlib.sha256(data).hexdigest()[:32]}"', modified)

    def _next_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            script = self._scripts.get(path)
            if script is None or not script.faults:
                return None
            if method == "HEAD" and not script.faults[0].heads:
                return None
            if script.sticky and len(script.faults) == 1:
                return script.faults[0]
            return script.faults.popleft()

    def _respond(self, recorded: Recorded) -> Reply:
        with self._lock:
            self._requests.append(recorded)
        if self.latency:
            self.wait(self.latency)
        path = unquote(recorded.target.split("?", 1)[0]).lstrip("/")
        exchange = Exchange(self, recorded.method, path, recorded.headers)
        fault = self._next_fault(recorded.method, path)
        return exchange.normal() if fault is None else fault.answer(exchange)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        reply = self._reply()
        if reply.abort:
            self._abort()
            return
        self._send_head(reply)
        if reply.sent is not None:
            self.close_connection = True
        self.server.files._send(reply.body[: reply.sent], self.wfile)

    def do_HEAD(self) -> None:
        reply = self._reply()
        if reply.abort:
            self._abort()
        else:
            self._send_head(reply)

    def do_PROPFIND(self) -> None:
        # As most servers of static files do; reading the body keeps the connection usable.
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._reply()
        self._send_head(Reply(404))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the requests are recorded."""

    def _reply(self) -> Reply:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.server.files._respond(Recorded(self.command, self.path, headers))

    def _send_head(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status != 304:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()

    def _abort(self) -> None:
        """Close with linger 0, which the kernel turns into a reset."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.server.release(self.connection))


class _Server(ThreadingHTTPServer):
    # Joined on close, so that no thread or socket outlives the fixture.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, files: FileServer, host: str) -> None:
        self.files = files
        self._live: set[socket.socket] = set()
        self._live_lock = threading.Lock()
        self.accepted = 0
        super().__init__((host, 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._live_lock:
            self._live.add(request)
            self.accepted += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._live_lock:
            self._live.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle of things; say nothing."""

    def release(self, connection: socket.socket) -> int:
        """Give up a connection and return its file descriptor."""
        with self._live_lock:
            self._live.discard(connection)
            return connection.detach()

    def hang_up(self) -> None:
        """End the connections that clients keep alive, at most a moment after their last answer."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            with self._live_lock:
                if not self._live:
                    return
                for connection in self._live:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
            time.sleep(0.005)
