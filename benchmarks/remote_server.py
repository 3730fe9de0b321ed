"""The tests' HTTP server in its own process, so that it takes no time from the reader.

Any process can ask it for what was requested.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tests.servers.http_files import FileServer, Recorded

_KEY = b"benchmarks"


@dataclass(frozen=True)
class RemoteServer:
    """A server that runs elsewhere: its origin, and where it takes commands."""

    url: str
    commands: tuple[str, int]

    def serve(self, directory: Path) -> None:
        """Serve copies of the files below a directory."""
        self._ask("serve", directory)

    def clear(self) -> None:
        """Forget what was requested so far."""
        self._ask("clear", None)

    @property
    def requests(self) -> list[Recorded]:
        recorded: list[Recorded] = self._ask("requests", None)
        return recorded

    def _ask(self, command: str, argument: object) -> Any:
        with Client(self.commands, authkey=_KEY) as connection:
            connection.send((command, argument))
            return connection.recv()


@contextmanager
def running(latency: float, bandwidth: float = math.inf) -> Iterator[RemoteServer]:
    """Run a server that waits before every answer, and sends so many bytes in a second."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(latency, bandwidth, there), daemon=True)
    process.start()
    server: RemoteServer = here.recv()
    try:
        yield server
    finally:
        server._ask("stop", None)
        process.join()


def _run(latency: float, bandwidth: float, there: Connection) -> None:
    with (
        FileServer(latency=latency, bandwidth=bandwidth) as files,
        Listener(authkey=_KEY) as listener,
    ):
        address: Any = listener.address
        there.send(RemoteServer(files.url, address))
        command = ""
        while command != "stop":
            with listener.accept() as connection:
                command, argument = connection.recv()
                connection.send(_obey(files, command, argument))


def _obey(files: FileServer, command: str, argument: Any) -> object:
    if command == "clear":
        files.clear()
    elif command == "serve":
        for file in argument.rglob("*"):
            if file.is_file():
                files.put(file.relative_to(argument).as_posix(), file.read_bytes())
    return files.requests if command == "requests" else None
