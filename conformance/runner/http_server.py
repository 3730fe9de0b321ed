"""A loopback HTTP/1.1 server: sockets, keep-alive, CORS, a record of requests.

A function from request to reply decides the responses. Each case has its own server, on
a new port, so that no request of an earlier case can reach it. The server is drained before
its record is read, so that every request sent before the last answer is recorded.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from conformance.runner.exchanges import (
    Reply,
    Request,
    Rules,
    answer,
    empty_reply,
    find,
    served,
)

__all__ = ["LoopbackServer", "file_server"]

# How long a client may take to receive outstanding responses after its case has ended.
_DRAINING_SECONDS = 2.0
_MAX_REQUEST_BODY = 1 << 20


def file_server(root: Path, rules: Rules) -> Callable[[Request], Reply]:
    """Serve the files below a directory."""

    def respond(request: Request) -> Reply:
        effects = rules.effects(request)
        return answer(request, find(root, served(request, request.path, effects)), effects)

    return respond


def _nothing(request: Request) -> Reply:
    return empty_reply(404, {})


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together; the base class flushes
    server: LoopbackServer

    def _handle(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            # If left unread, it would be taken for the next request, or reset the connection.
            self.close_connection = True
            length = headers.get("content-length", "")
            self.rfile.read(min(int(length) if length.isdecimal() else 0, _MAX_REQUEST_BODY))
        self._send(self.server.respond(Request(self.command, self.path, headers)))

    do_GET = do_HEAD = do_OPTIONS = do_PUT = do_POST = do_DELETE = do_PATCH = _handle  # noqa: N815

    def _send(self, reply: Reply) -> None:
        headers = reply.head()
        lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
        if lengths != [str(len(reply.body))] and reply.status not in (204, 304):
            self.close_connection = True
        if reply.sent is not None:
            self.close_connection = True
        if self.close_connection:
            headers["Connection"] = "close"
        self.send_response_only(reply.status)
        self.send_header("Date", self.date_time_string())
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: reply.sent])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the requests are recorded."""


class LoopbackServer(ThreadingMixIn, TCPServer):
    """A server on a new port of 127.0.0.1, listening at once; `respond` may be set until `start`.

    Not `http.server.HTTPServer`, which looks up the host name: slow on some systems.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[Request], Reply] = _nothing
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._requests: list[Request] = []
        self._failures: list[BaseException] = []
        self._stopping = False
        self._drained = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def origin(self) -> str:
        """Scheme, address and port."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Accept connections, until `stop`."""
        self._thread.start()

    def stop(self) -> list[Request]:
        """Serve what has arrived, close, and return the record of all requests."""
        self._stopping = True
        if self._thread.is_alive():
            # Wakes the thread, and is itself the last connection that it waits for.
            socket.create_connection(self.server_address, timeout=_DRAINING_SECONDS).close()  # type: ignore[arg-type]
            self._thread.join()
        self.server_close()
        self._drain()
        if self._failures:
            raise self._failures[0]
        with self._changed:
            return list(self._requests)

    def _accept(self) -> None:
        while not self._stopping:
            self.handle_request()
        self.timeout = 0
        while not self._drained:
            self.handle_request()

    def handle_timeout(self) -> None:
        """Record that no more connections are waiting to be accepted."""
        self._drained = True

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAINING_SECONDS
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            # First accept no further requests, then disconnect clients that do not read.
            with self._changed:
                for connection in self._connections:
                    _shut(connection, how)
                self._changed.wait_for(
                    lambda: not self._connections, max(0.1, deadline - time.monotonic())
                )

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connection before its thread starts."""
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and decrement the count."""
        with self._changed:
            self._connections.discard(request)
            super().shutdown_request(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep errors of the server itself; clients may disconnect at any time."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            with self._changed:
                self._failures.append(error)

    def respond(self, request: Request) -> Reply:
        """Record a request and respond to it; a browser's preflight request is not recorded."""
        if request.method == "OPTIONS":
            return Reply(204, _preflight(request.headers))
        with self._changed:
            self._requests.append(request)
        return self.answer(request)


def _preflight(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
        # The wildcard would not cover Authorization.
        "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "*"),
    }


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        # The client has already closed it, which is fine.
        return
