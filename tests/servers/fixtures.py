"""Loopback servers as fixtures for every test of the repository; `conftest.py` loads this."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.http_files import FileServer

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

_bucket_numbers = itertools.count()
_SERVERS = {"http_server", "second_http_server", "other_host_server", "s3_server"}


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a server, and what tests the servers."""
    here = Path(__file__).parent
    for item in items:
        asks = isinstance(item, pytest.Function) and not _SERVERS.isdisjoint(item.fixturenames)
        if asks or item.path.parent == here:
            item.add_marker(pytest.mark.servers)


@pytest.fixture
def http_server() -> Iterator[FileServer]:
    """A fresh HTTP file server."""
    with FileServer() as server:
        yield server


@pytest.fixture
def second_http_server() -> Iterator[FileServer]:
    """Another origin on the same host, for redirects and locations that were not authorised."""
    with FileServer() as server:
        yield server


@pytest.fixture
def other_host_server() -> Iterator[FileServer]:
    """A server on another host."""
    with FileServer(host="127.0.0.2") as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The S3 server of the session; moto is imported only if a test asks for it."""
    from tests.servers.s3 import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    """The name of a private, empty bucket; what the server recorded before is forgotten."""
    name = f"test-bucket-{next(_bucket_numbers)}"
    s3_server.create_bucket(name)
    s3_server.clear()
    return name


@pytest.fixture
def public_s3_bucket(s3_server: S3Server) -> str:
    """The name of an empty bucket that anybody can read."""
    name = f"test-public-{next(_bucket_numbers)}"
    s3_server.create_bucket(name, public=True)
    s3_server.clear()
    return name
