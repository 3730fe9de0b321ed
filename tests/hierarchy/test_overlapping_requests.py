"""Chunks of remote sources are requested several at a time, whichever way zarr reads."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import zarr
import zarr.codecs
from zarr.core import codec_pipeline

import zarr_manifest as zm
from tests.hierarchies import FIELD, encode_chunks, read, split_into_source, write_manifest_array
from tests.servers.http_files import Exchange, Fault, FileServer, Reply

pytestmark = pytest.mark.skipif(
    not hasattr(codec_pipeline, "FusedCodecPipeline"),
    reason=f"zarr {zarr.__version__} has no FusedCodecPipeline",
)


@pytest.fixture(autouse=True)
def fused() -> Iterator[None]:
    """The pipeline that reads without an event loop where it may."""
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        yield


class Crowd:
    """How many requests were being answered at the same time, at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present = 0
        self.most = 0

    @property
    def fault(self) -> Fault:
        return Fault(self._answer)

    def _answer(self, exchange: Exchange) -> Reply:
        with self._lock:
            self._present += 1
            self.most = max(self.most, self._present)
        exchange.files.wait(0.03)
        with self._lock:
            self._present -= 1
        return exchange.normal()


def write_remote_array(root: Path, server: FileServer, crowd: Crowd) -> None:
    """Each chunk is an object of its own: nothing can be merged."""
    manifest, source = split_into_source(FIELD, (1, 2), path="")
    for key, entry in manifest.items():
        name = f"chunks/{key}.bin"
        server.put(name, source[entry["offset"] : entry["offset"] + entry["length"]])
        server.script(name, crowd.fault, sticky=True)
        manifest[key] = {"path": f"{server.url}/{name}"}
    write_manifest_array(root, "remote", FIELD, (1, 2), manifest, fill_value=-1)


def synchronous(store: zm.ManifestStore) -> bool:
    return store._supports_sync_io


def test_requests_overlap(tmp_path: Path, http_server: FileServer) -> None:
    crowd = Crowd()
    write_remote_array(tmp_path, http_server, crowd)
    array: Any = zarr.open_array(
        zm.ManifestStore(tmp_path, allow=[http_server.url]), path="remote", mode="r"
    )
    np.testing.assert_array_equal(array[:], FIELD)
    # Without an event loop, there are as many as there are processors at most.
    assert crowd.most > 4
    worker = pickle.loads(pickle.dumps(array))
    crowd.most = 0
    np.testing.assert_array_equal(worker[:], FIELD)
    assert crowd.most > 4


def test_requests_for_parts_of_shards_overlap(tmp_path: Path, http_server: FileServer) -> None:
    crowd = Crowd()
    serializer = zarr.codecs.ShardingCodec(chunk_shape=(1, 4))
    chunks = encode_chunks(FIELD, (1, 8), serializer=serializer)
    manifest: dict[str, Any] = {}
    for key, body in chunks.items():
        http_server.put(f"{key}.bin", body)
        http_server.script(f"{key}.bin", crowd.fault, sticky=True)
        manifest[key] = {"path": f"{http_server.url}/{key}.bin", "offset": 0, "length": len(body)}
    write_manifest_array(
        tmp_path, "shards", FIELD, (1, 8), manifest, serializer=serializer, fill_value=-1
    )
    store = zm.ManifestStore(tmp_path, allow=[http_server.url])
    array: Any = zarr.open_array(store, path="shards", mode="r")
    np.testing.assert_array_equal(array[:, 1:3], FIELD[:, 1:3])
    assert crowd.most > 2


# When ------------------------------------------------------------------------------------


def test_local_sources_are_read_without_an_event_loop(tmp_path: Path) -> None:
    root, source = tmp_path / "h.zarr", tmp_path / "raw.bin"
    manifest, body = split_into_source(FIELD, (1, 2), path=source.as_uri())
    source.write_bytes(body)
    write_manifest_array(root, "local", FIELD, (1, 2), manifest, fill_value=-1)
    for allow in (
        [tmp_path],
        {tmp_path.as_uri(): zm.anonymous()},
        {tmp_path.as_uri(): obstore.store.LocalStore(tmp_path)},
        {"s3://elsewhere/": obstore.store.LocalStore(tmp_path), tmp_path.as_uri(): None},
        {"s3://elsewhere/": obstore.store.MemoryStore(), tmp_path.as_uri(): None},
    ):
        store = zm.ManifestStore(root, allow=allow)
        np.testing.assert_array_equal(read(store, "local"), FIELD)
        assert synchronous(store)


def test_native_arrays_are_read_without_an_event_loop(tmp_path: Path) -> None:
    """Until an array is met that may have remote sources."""
    zarr.create_array(tmp_path / "native", data=FIELD, chunks=(3, 4))
    write_manifest_array(tmp_path, "remote", FIELD, (6, 8), {}, fill_value=-1)
    store = zm.ManifestStore(tmp_path, allow=["https://example.com/"])
    np.testing.assert_array_equal(read(store, "native"), FIELD)
    assert synchronous(store)
    read(store, "remote")
    assert not synchronous(store)
    assert not synchronous(pickle.loads(pickle.dumps(store)))
    np.testing.assert_array_equal(read(store, "native"), FIELD)


@pytest.mark.parametrize(
    "allow",
    [
        ["/data/", "https://example.com/"],
        {"s3://bucket/": zm.anonymous(region="eu-central-1")},
        {"s3://bucket/": zm.environment()},
        {"s3://bucket/": {"region": "eu-central-1"}},
        {"s3://bucket/": obstore.store.S3Store("bucket", region="eu-central-1")},
        {"file:///mirror/": obstore.store.HTTPStore("https://example.com/")},
    ],
)
def test_what_may_be_remote(tmp_path: Path, allow: Any) -> None:
    write_manifest_array(tmp_path, "remote", FIELD, (6, 8), {}, fill_value=-1)
    store = zm.ManifestStore(tmp_path, allow=allow)
    zarr.open_array(store, path="remote", mode="r")
    assert not synchronous(store)
