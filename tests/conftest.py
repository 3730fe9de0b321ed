"""Fixtures for every test: loopback servers, no cloud credentials, hypothesis profiles."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zarr
from hypothesis import settings
from zarr.core import codec_pipeline

import zarr_manifest as zm
from tests.hierarchies import Values, write_hierarchy
from tests.servers.http_files import FileServer

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("dev", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))

_CLOUD_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
_bucket_numbers = itertools.count()


def _strip_cloud_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_CLOUD_PREFIXES):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_cloud_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own credentials out of every test."""
    _strip_cloud_environment(monkeypatch)


_PIPELINES = ["BatchedCodecPipeline"]
if hasattr(codec_pipeline, "FusedCodecPipeline"):
    _PIPELINES.append("FusedCodecPipeline")


@pytest.fixture(params=_PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Reads go through each of zarr's pipelines; the second calls ``get_sync``."""
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{request.param}"}):
        yield request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a hierarchy is written."""
    return tmp_path / "data.zarr"


@pytest.fixture
def values(root: Path) -> Values:
    """Values by path of a hierarchy with every kind of node, which is written."""
    return write_hierarchy(root)


@pytest.fixture
def store(root: Path, values: Values) -> zm.ManifestStore:
    """A reader of the hierarchy with every kind of node."""
    return zm.ManifestStore(root, read_only=True)


@pytest.fixture
def http_server() -> Iterator[FileServer]:
    """A fresh HTTP file server."""
    with FileServer() as server:
        yield server


@pytest.fixture
def second_http_server() -> Iterator[FileServer]:
    """Another origin, for redirects and for locations that were not authorised."""
    with FileServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The S3 server of the session; moto is imported only if a test asks for it."""
    from tests.servers.s3 import S3Server

    # Fixtures of the session come before those of a test, and boto3 would read AWS_PROFILE.
    with pytest.MonkeyPatch.context() as monkeypatch:
        _strip_cloud_environment(monkeypatch)
        server = S3Server()
    with server:
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
