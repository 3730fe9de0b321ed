"""Fixtures for every test of the package: a hierarchy with every kind of node, the pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zarr
from zarr.core import codec_pipeline

import zarr_manifest as zm
from tests.hierarchies import Values, write_hierarchy

# Of zarr.
PIPELINES = ["BatchedCodecPipeline"]
if hasattr(codec_pipeline, "FusedCodecPipeline"):
    PIPELINES.append("FusedCodecPipeline")
_PATHS = {name: f"zarr.core.codec_pipeline.{name}" for name in PIPELINES}


@pytest.fixture(params=PIPELINES)
def usual_pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Reads go through each of zarr's pipelines; the second calls ``get_sync``."""
    with zarr.config.set({"codec_pipeline.path": _PATHS[request.param]}):
        yield request.param


@pytest.fixture(params=[*PIPELINES, "BulkCodecPipeline"])
def pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Reads go through each of zarr's pipelines, and in bulk."""
    path = _PATHS.get(request.param, "zarr_manifest.BulkCodecPipeline")
    with zarr.config.set({"codec_pipeline.path": path}):
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
