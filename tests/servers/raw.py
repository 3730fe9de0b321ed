"""A server that sends exactly the bytes that a test says, when it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

__all__ = ["RawServer"]


class RawServer:
    """Answer each connection once, as a context manager.

    Parameters
    ----------
    answer
        Given the request as text, yields the parts of the answer: bytes, and seconds to wait.
        While there are more, the connection stays open.

    Examples
    --------
    >>> with RawServer(lambda request: [b"HTTP/1.1 200 OK\\r\\n", 0.1, b"\\r\\n"]) as server:
    ...     url = server.url
    """

    def __init__(self, answer: Callable[[str], Iterable[bytes | float]]) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._serve)]
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """The origin, without a trailing slash."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._respond, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _respond(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                received = connection.recv(65536)
                if not received:
                    return
                request += received
            self.requests.append(request.decode())
            for part in self._answer(request.decode()):
                if isinstance(part, bytes):
                    connection.sendall(part)
                elif self._closing.wait(part):
                    return
