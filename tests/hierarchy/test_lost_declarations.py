"""An array that declared a manifest is never read as a native one, whatever became of it."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import (
    FIELD,
    consolidate,
    files_below,
    read,
    split_into_source,
    write_manifest_array,
)
from tests.hierarchy.chunk_reads import READS, Read

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at raw.bin is not recognized"),
]
KEY = "g/x/c/0/0"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group "g" with a manifest array "x" and a native one, "n"."""
    root = tmp_path_factory.mktemp("original") / "h.zarr"
    zarr.create_group(root)
    group = zarr.create_group(root / "g")
    group.create_array("n", data=FIELD, chunks=(3, 4), compressors=None)
    manifest, source = split_into_source(FIELD, (3, 4), path="../../raw.bin")
    (root / "raw.bin").write_bytes(source)
    write_manifest_array(root, "g/x", FIELD, (3, 4), manifest, fill_value=-1)
    return root


@pytest.fixture
def root(tmp_path: Path, original: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "h.zarr"))


def opened(store: Store) -> Any:
    return zarr.open_array(store, path="g/x", mode="r")


def removed(document: Path) -> None:
    document.unlink()


def renamed(document: Path) -> None:
    document.parent.rename(document.parent.with_name("y"))


def emptied(document: Path) -> None:
    document.write_bytes(b"")


def truncated(document: Path) -> None:
    document.write_bytes(document.read_bytes()[:-20])


def a_list(document: Path) -> None:
    document.write_bytes(b"[]")


def a_group(document: Path) -> None:
    document.write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))


def a_native_array(document: Path) -> None:
    metadata = json.loads(document.read_text())
    del metadata["storage_transformers"]
    document.write_text(json.dumps(metadata))


type Loss = Callable[[Path], None]
LOSSES = pytest.mark.parametrize(
    "lose", [removed, renamed, emptied, truncated, a_list, a_group, a_native_array]
)


@LOSSES
@READS
def test_a_worker(root: Path, lose: Loss, chunk: Read) -> None:
    store = zm.ManifestStore(root)
    array = opened(store)
    sent = pickle.dumps((store, array))
    assert len(sent) < 5000
    lose(root / "g/x/zarr.json")
    worker, its_array = pickle.loads(sent)
    with pytest.raises(zm.errors.ManifestNotFoundError, match="open the hierarchy again") as caught:
        chunk(worker, KEY)
    assert caught.value.array == "g/x"
    with pytest.raises(zm.errors.ManifestNotFoundError):
        its_array[:]
    np.testing.assert_array_equal(read(worker, "g/n"), FIELD)


@LOSSES
@READS
def test_the_same_store_after_it_was_opened_again(root: Path, lose: Loss, chunk: Read) -> None:
    store = zm.ManifestStore(root, read_only=True)
    array = opened(store)
    lose(root / "g/x/zarr.json")
    with contextlib.suppress(Exception):
        opened(store)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        chunk(store, KEY)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        array[:]


@LOSSES
def test_what_a_read_only_view_has_seen_is_known_to_the_store(root: Path, lose: Loss) -> None:
    store = zm.ManifestStore(root)
    zarr.open_group(store, path="g", mode="r")["x"]
    worker = pickle.loads(pickle.dumps(store))
    lose(root / "g/x/zarr.json")
    with pytest.raises(zm.errors.ManifestNotFoundError):
        worker.get_sync(KEY)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        pickle.loads(pickle.dumps(worker.with_read_only(True))).get_sync(KEY)


@READS
def test_a_declaration_in_consolidated_metadata_only(root: Path, chunk: Read) -> None:
    consolidate(root)
    (root / "g/x/zarr.json").unlink()
    store = zm.ManifestStore(root, read_only=True)
    array: Any = zarr.open_group(store, mode="r")["g/x"]
    np.testing.assert_array_equal(array[:], FIELD)
    assert chunk(store, KEY)
    with pytest.raises(zm.errors.ManifestNotFoundError, match=r"there is no 'g/x/zarr\.json'"):
        chunk(pickle.loads(pickle.dumps(store)), KEY)
    # zarr looks for the array's own metadata in vain: those of the group still hold.
    with pytest.raises(FileNotFoundError):
        opened(store)
    assert chunk(store, KEY)
    np.testing.assert_array_equal(array[:], FIELD)


def test_a_declaration_that_cannot_be_honoured_counts(root: Path) -> None:
    document = root / "g/x/zarr.json"
    document.write_text(document.read_text().replace("chunk-manifest-json", "unknown"))
    store = zm.ManifestStore(root)
    with pytest.raises(zm.errors.UnsupportedTransformerError):
        opened(store)
    worker = pickle.loads(pickle.dumps(store))
    document.unlink()
    for each in (store, worker):
        with pytest.raises(zm.errors.ManifestError):
            each.get_sync(KEY)


def test_a_worker_reads_again_what_was_restored(root: Path) -> None:
    store = zm.ManifestStore(root, read_only=True)
    array = opened(store)
    worker = pickle.loads(pickle.dumps(array))
    body = (root / "g/x/zarr.json").read_bytes()
    (root / "g/x/zarr.json").unlink()
    for each in (array, worker):
        with contextlib.suppress(FileNotFoundError):
            opened(each.store)
        with pytest.raises(zm.errors.ManifestNotFoundError):
            each[:]
    (root / "g/x/zarr.json").write_bytes(body)
    for each in (array, worker):
        np.testing.assert_array_equal(each[:], FIELD)


def test_what_another_store_made_anew_is_read_by_one_that_is_opened_again(root: Path) -> None:
    old = zm.ManifestStore(root, read_only=True)
    array = opened(old)
    shutil.rmtree(root / "g/x")
    zarr.create_array(root / "g/x", data=FIELD + 1, chunks=(3, 4))
    np.testing.assert_array_equal(read(zm.ManifestStore(root), "g/x"), FIELD + 1)
    opened(old)
    with pytest.raises(zm.errors.ManifestNotFoundError, match="an array without a manifest"):
        array[:]


def test_a_manifest_array_at_the_root_is_not_the_owner_of_lost_ones(tmp_path: Path) -> None:
    write_manifest_array(tmp_path, "", FIELD, (6, 8), {}, inline=True, fill_value=-1)
    manifest = {"0.0": {"data": ""}}
    write_manifest_array(tmp_path, "c", FIELD, (6, 8), manifest, inline=True, fill_value=-1)
    store = zm.ManifestStore(tmp_path)
    zarr.open_array(store, path="c", mode="r")
    worker = pickle.loads(pickle.dumps(store))
    (tmp_path / "c" / "zarr.json").unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError) as caught:
        worker.get_sync("c/c/0/0")
    assert caught.value.array == "c"


def test_in_memory(root: Path) -> None:
    memory = MemoryStore()
    for key, body in files_below(root).items():
        sync(memory.set(key, zarr.buffer.default_buffer_prototype().buffer.from_bytes(body)))
    store = zm.ManifestStore(memory, read_only=True)
    array = opened(store)
    sync(memory.delete("g/x/zarr.json"))
    worker = pickle.loads(pickle.dumps(array))
    with contextlib.suppress(FileNotFoundError):
        opened(store)
    for each in (array, worker):
        with pytest.raises(zm.errors.ManifestNotFoundError):
            each[:]
