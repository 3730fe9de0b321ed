"""Consolidated metadata and an array's own say different things: an error, and no fill values."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync
from zarr.storage import LocalStore

import zarr_manifest as zm
from tests.counting_store import Counting
from tests.hierarchies import (
    FIELD,
    consolidate,
    split_into_source,
    write_manifest_array,
)
from tests.hierarchy.chunk_reads import PROTOTYPE, READS, Read

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
KEY = "g/x/c/0/0"
CHUNK = FIELD[:3, :4].tobytes()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Consolidated metadata in the root; a group "g" with a manifest array "x"."""
    root = tmp_path_factory.mktemp("original") / "h.zarr"
    for path in ("", "g"):
        zarr.create_group(root / path)
    manifest, source = split_into_source(FIELD, (3, 4), path="raw.bin")
    write_manifest_array(root, "g/x", FIELD, (3, 4), manifest, fill_value=-1)
    (root / "g/x/raw.bin").write_bytes(source)
    consolidate(root)
    return root


@pytest.fixture
def root(tmp_path: Path, original: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "h.zarr"))


def change(document: Path, change_it: Callable[[dict[str, Any]], None]) -> None:
    metadata = json.loads(document.read_text())
    change_it(metadata)
    document.write_text(json.dumps(metadata))


def without_declaration(metadata: dict[str, Any]) -> None:
    metadata.pop("storage_transformers")


def in_consolidated(change_it: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    return lambda node: change_it(node["consolidated_metadata"]["metadata"]["g/x"])


@pytest.fixture
def lacking(root: Path) -> Path:
    """The declaration is missing in the consolidated metadata."""
    change(root / "zarr.json", in_consolidated(without_declaration))
    return root


@pytest.fixture
def lacking_own(root: Path) -> Path:
    """The declaration is missing in the array's own metadata."""
    change(root / "g/x/zarr.json", without_declaration)
    return root


def consolidated(store: zm.ManifestStore) -> Any:
    group = zarr.open_group(store, mode="r")
    assert group.metadata.consolidated_metadata is not None
    return group["g/x"]


def contradicts(act: Callable[[], object]) -> zm.errors.InvalidConfigurationError:
    with pytest.raises(zm.errors.InvalidConfigurationError, match="contradict") as caught:
        act()
    error = caught.value
    assert error.array == "g/x"
    for named in ("'g/x/zarr.json'", "'zarr.json'", "recover(location, trust="):
        assert named in str(error)
    return error


@READS
def test_consolidated_metadata_lack_the_declaration(lacking: Path, chunk: Read) -> None:
    store = zm.ManifestStore(lacking, read_only=True)
    array = consolidated(store)
    sent = pickle.dumps(array)
    error = contradicts(lambda: chunk(store, KEY))
    assert "in 'g/x/zarr.json', the array declares a manifest" in str(error)
    contradicts(lambda: array[:])
    worker = pickle.loads(sent)  # of an array that was native when it was opened
    for action in (lambda: chunk(worker.store, KEY), lambda: worker[:]):
        with pytest.raises(zm.errors.SourceNotFoundError, match="was native when"):
            action()
    assert chunk(pickle.loads(pickle.dumps(zm.ManifestStore(lacking))), KEY)


@READS
def test_own_metadata_lack_the_declaration(lacking_own: Path, chunk: Read) -> None:
    store = zm.ManifestStore(lacking_own, read_only=True)
    array = consolidated(store)
    np.testing.assert_array_equal(array[:], FIELD)
    sent = pickle.dumps(store)
    own = zarr.open_array(store, path="g/x", mode="r")
    error = contradicts(lambda: chunk(store, KEY))
    assert "in 'zarr.json', the array declares a manifest" in str(error)
    for each in (array, own):
        contradicts(lambda each=each: each[:])
    with pytest.raises(zm.errors.ManifestNotFoundError):
        chunk(pickle.loads(sent), KEY)


@READS
@pytest.mark.parametrize("first", ["own", "consolidated"])
def test_both_were_seen(lacking: Path, chunk: Read, first: str) -> None:
    store = zm.ManifestStore(lacking, read_only=True)
    steps = [lambda: zarr.open_array(store, path="g/x", mode="r"), lambda: consolidated(store)]
    arrays: list[Any] = [step() for step in (steps if first == "own" else reversed(steps))]
    contradicts(lambda: chunk(store, KEY))
    for array in arrays:
        contradicts(lambda array=array: array[:])


def test_chunks_that_are_there_are_read(lacking: Path) -> None:
    """As zarr does, whoever wrote them: only what is not there would be made up."""
    (lacking / "g/x/c/0").mkdir(parents=True)
    (lacking / KEY).write_bytes(CHUNK)
    array = consolidated(zm.ManifestStore(lacking, read_only=True))
    np.testing.assert_array_equal(array[:3, :4], FIELD[:3, :4])
    contradicts(lambda: array[:])


# What it costs ---------------------------------------------------------------------------


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    """Native arrays "full" and "half" of a hundred chunks, of which the latter has 50."""
    group = zarr.create_group(tmp_path)
    for name, chunks in (("full", 100), ("half", 50)):
        array = group.create_array(name, shape=100, chunks=1, dtype="i4", fill_value=-1)
        array[:chunks] = np.arange(chunks)
    zarr.consolidate_metadata(tmp_path)
    return Counting(LocalStore(tmp_path, read_only=True))


def asked(counting: Counting) -> list[str]:
    return [key for key in counting.asked if key.endswith(("zarr.json", ".zarray"))]


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", [False, True])
def test_own_metadata_are_read_after_chunks_that_are_missing(
    counting: Counting, synchronous: bool
) -> None:
    store = zm.ManifestStore(counting)
    zarr.open_group(store, mode="r")
    counting.asked.clear()

    async def read_all(name: str) -> list[Any]:
        return await asyncio.gather(*(store.get(f"{name}/c/{i}", PROTOTYPE) for i in range(100)))

    def found(name: str) -> int:
        if synchronous:
            values = [store.get_sync(f"{name}/c/{i}") for i in range(100)]
        else:
            values = sync(read_all(name))
        return sum(value is not None for value in values)

    assert found("full") == 100
    assert asked(counting) == []
    assert found("half") == found("half") == 50
    # One after the other, each asks; together, they share what is asked after them.
    assert set(asked(counting)) == {"half/zarr.json"}
    assert len(asked(counting)) == 100 if synchronous else 2 <= len(asked(counting)) <= 6


# What is no contradiction ----------------------------------------------------------------


def test_other_differences(root: Path) -> None:
    change(root / "g/x/zarr.json", lambda node: node["attributes"].update(units="K"))
    change(root / "zarr.json", in_consolidated(lambda node: node.update(shape=[3, 8])))
    store = zm.ManifestStore(root, read_only=True)
    old, new = consolidated(store), zarr.open_array(store, path="g/x", mode="r")
    assert (old.shape, new.shape) == ((3, 8), (6, 8))
    np.testing.assert_array_equal(old[:], FIELD[:3])
    np.testing.assert_array_equal(new[:], FIELD)


@pytest.mark.parametrize("writer", ["path", "store"])
def test_a_native_array_that_was_given_a_manifest(tmp_path: Path, writer: str) -> None:
    zarr.create_group(tmp_path).create_array("x", data=FIELD, chunks=(6, 8), compressors=None)
    zarr.consolidate_metadata(tmp_path)
    store = zm.ManifestStore(tmp_path)
    group: Any = zarr.open_group(store, mode="r+")
    np.testing.assert_array_equal(group["x"][:], FIELD)
    entries = {"0.0": {"data": (FIELD + 1).tobytes()}}
    zm.write_manifest(tmp_path if writer == "path" else store, "x", entries, inline=True)
    np.testing.assert_array_equal(zarr.open_array(store, path="x", mode="r+")[:], FIELD + 1)
    again: Any = zarr.open_group(store, mode="r+")
    np.testing.assert_array_equal(again["x"][:], FIELD + 1)


@READS
def test_a_native_array_that_another_process_deletes(tmp_path: Path, chunk: Read) -> None:
    zarr.create_group(tmp_path).create_array("x", data=FIELD, chunks=(3, 4))
    zarr.consolidate_metadata(tmp_path)
    store = zm.ManifestStore(tmp_path, read_only=True)
    array: Any = zarr.open_group(store, mode="r")["x"]
    (tmp_path / "x/zarr.json").unlink()
    (tmp_path / "x/c/0/0").unlink()
    for act in (lambda: chunk(store, "x/c/0/0"), lambda: array[:]):
        with pytest.raises(zm.errors.InvalidConfigurationError, match="only the consolidated"):
            act()
