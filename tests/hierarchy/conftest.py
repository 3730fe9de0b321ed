"""Fixtures of the tests of hierarchies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.combinations import combinations
from tests.hierarchies import in_memory, in_memory_of_obstore
from tests.servers.http_files import FileServer


@pytest.fixture(
    params=[
        *combinations(["path", "memory", "obstore"], besides=["path", "memory"]),
        pytest.param("http", marks=pytest.mark.servers),
    ]
)
def stored(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Any]]:
    """Return what makes a directory a hierarchy that can be opened, in a store of each kind."""
    servers: list[FileServer] = []

    def serve(root: Path) -> str:
        servers.append(FileServer(root).__enter__())
        return servers[-1].url

    yield {
        "path": lambda root: root,
        "memory": in_memory,
        "obstore": in_memory_of_obstore,
        "http": serve,
    }[request.param]
    for server in servers:
        server.__exit__(None, None, None)
