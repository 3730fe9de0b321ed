"""Fixtures for every test of the package: a hierarchy with every kind of node, the pipelines."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
import zarr
from zarr.core import codec_pipeline

import zarr_manifest as zm
from tests.combinations import combinations
from tests.forked import Forked
from tests.hierarchies import Values, write_hierarchy
from tests.interrupted_stores import stop_interrupting
from tests.properties import THOROUGH

# Of zarr.
PIPELINES = ["BatchedCodecPipeline"]
if hasattr(codec_pipeline, "FusedCodecPipeline"):
    PIPELINES.append("FusedCodecPipeline")
_PATHS = {name: f"zarr.core.codec_pipeline.{name}" for name in PIPELINES}
CHUNK_BY_CHUNK = {"zarr_manifest.bulk": False}
# The first is zarr's default.
_USUAL = combinations(PIPELINES, besides=PIPELINES[:1])


@pytest.fixture(params=_USUAL)
def usual_pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Reads go through, or are decoded by, each of zarr's pipelines."""
    with zarr.config.set({"codec_pipeline.path": _PATHS[request.param]}):
        yield request.param


@pytest.fixture(params=[*_USUAL, "BulkCodecPipeline"])
def pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Reads go chunk by chunk through each of zarr's pipelines, and in bulk."""
    path = _PATHS.get(request.param)
    with zarr.config.set(CHUNK_BY_CHUNK | {"codec_pipeline.path": path} if path else {}):
        yield request.param


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """What starts programs that need zarr."""
    with Forked() as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a hierarchy is written."""
    return tmp_path / "data.zarr"


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Values]:
    """A hierarchy with every kind of node, to be copied, and its values by path."""
    root = tmp_path_factory.mktemp("written") / "data.zarr"
    return root, write_hierarchy(root)


@pytest.fixture
def values(root: Path, written: tuple[Path, Values]) -> Values:
    """Values by path of a hierarchy with every kind of node, which is written."""
    shutil.copytree(written[0], root)
    return {path: values.copy() for path, values in written[1].items()}


@pytest.fixture
def store(root: Path, values: Values) -> zm.ManifestStore:
    """A reader of the hierarchy with every kind of node."""
    return zm.ManifestStore(root, read_only=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers wait 50 ms for the lock of another one, instead of five seconds."""
    monkeypatch.setattr("zarr_manifest.sources.momentary_files._PATIENCE", 0.05)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most combinations to the thorough tier: one in three of one rule in many ways is met.

    None of two such ways at the same time, which are each tested.
    """
    if THOROUGH:
        return
    ways = {item: len([*item.iter_markers("combinations")]) for item in items}
    left = {
        item
        for item, count in ways.items()
        if count > 1 or (count and crc32(item.nodeid.encode()) % 3)
    }
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Let the directories of interrupted stores be removed."""
    stop_interrupting()
