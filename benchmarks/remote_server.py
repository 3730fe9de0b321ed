"""The tests' HTTP server in its own process, so that it takes no time from the reader."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.servers.http_files import FileServer, Recorded


@dataclass(frozen=True)
class RemoteServer:
    """A server that runs elsewhere; `connection` answers commands."""

    url: str
    connection: Connection

    def clear(self) -> None:
        self.connection.send("clear")
        self.connection.recv()

    @property
    def requests(self) -> list[Recorded]:
        self.connection.send("requests")
        recorded: list[Recorded] = self.connection.recv()
        return recorded


@contextmanager
def serving(directory: Path, latency: float) -> Iterator[RemoteServer]:
    """Serve copies of the files below a directory."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(directory, latency, there), daemon=True)
    process.start()
    try:
        yield RemoteServer(here.recv(), here)
    finally:
        here.send("stop")
        process.join()


def _serve(directory: Path, latency: float, connection: Connection) -> None:
    with FileServer(latency=latency) as server:
        for file in directory.rglob("*"):
            if file.is_file():
                server.put(file.relative_to(directory).as_posix(), file.read_bytes())
        connection.send(server.url)
        while (command := connection.recv()) != "stop":
            if command == "clear":
                server.clear()
            connection.send(server.requests)
