"""A session of Icechunk as the hierarchy: it keeps metadata and chunks, and no other objects."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.hierarchies import FIELD
from zarr_manifest.errors import SourceError

icechunk: Any = pytest.importorskip("icechunk")

PROTOTYPE = default_buffer_prototype()


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "raw.bin").write_bytes(FIELD.tobytes())
    return (tmp_path / "raw.bin").as_uri()


@pytest.fixture
def repository(source: str, tmp_path: Path) -> Any:
    """A group of a native array, and of arrays whose manifests are inline and beside them."""
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    zarr.create_group(session.store)
    zarr.create_array(session.store, name="native", data=FIELD, chunks=(3, 4))
    for name, manifest in (("inline", {"0.0": {"path": source}}), ("beside", "./manifest.json")):
        shape: Any = {"shape": FIELD.shape, "chunks": FIELD.shape, "dtype": FIELD.dtype}
        zarr.create_array(session.store, name=name, compressors=None, **shape)
        document = json.loads(sync(session.store.get(f"{name}/zarr.json", PROTOTYPE)).to_bytes())
        configuration = {"manifest": manifest}
        document["storage_transformers"] = [
            {"name": "chunk-manifest-json", "configuration": configuration}
        ]
        body = PROTOTYPE.buffer.from_bytes(json.dumps(document).encode())
        sync(session.store.set(f"{name}/zarr.json", body))
    session.commit("arrays")
    return repository


def test_inline_manifests_are_read(repository: Any, source: str) -> None:
    store = zm.ManifestStore(repository.readonly_session("main").store, allow=[source])
    for each in (store, pickle.loads(pickle.dumps(store))):
        group = zarr.open_group(each, mode="r")
        for name in ("inline", "native"):
            np.testing.assert_array_equal(group[name][:], FIELD)


KEPT = "keeps nothing but the metadata and chunks of Zarr nodes"


def test_other_manifests_are_refused_with_the_reason(repository: Any, source: str) -> None:
    session = repository.readonly_session("main").store
    group = zarr.open_group(zm.ManifestStore(session, allow=[source]), mode="r")
    with pytest.raises(SourceError, match=KEPT) as caught:
        group["beside"][:]
    assert caught.value.array == "beside"
    (problem,) = zm.validate(session)
    assert (problem.code, problem.array) == ("source_error", "beside")
    assert KEPT in problem.message
    assert "icechunk::" not in problem.message


def test_manifests_are_written_inline(repository: Any, source: str) -> None:
    session = repository.writable_session("main").store
    entries = {"0.0": {"path": source}}
    shape: Any = {"shape": FIELD.shape, "chunks": FIELD.shape, "dtype": FIELD.dtype}
    options: Any = {"allow": [source], "sole_writer": True, "compressors": None, **shape}
    with pytest.raises(SourceError, match=KEPT) as caught:
        zm.create_array(session, "new", entries, inline=False, **options)
    assert "inline=True" in str(caught.value)
    assert str(caught.value.location).startswith("new/manifest-")
    zm.create_array(session, "new", entries, inline=True, **options)
    store = zm.ManifestStore(session, allow=[source])
    np.testing.assert_array_equal(zarr.open_array(store, path="new", mode="r")[:], FIELD)
