"""Shards read in bulk: what comes of it is the same as one by one, with fewer requests."""

from __future__ import annotations

import re
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.core.codec_pipeline
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, TransposeCodec

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import write_manifest_array
from tests.pipeline.sharded_arrays import (
    DAMAGES,
    POISON,
    ShardedArray,
    both_ways,
    encode_shards,
    outcome_of,
    selections,
    sharded_arrays,
    sharding,
    write_sharded,
)
from tests.properties import examples
from tests.servers.http_files import FileServer

PIPELINES = [
    name
    for name in ("BatchedCodecPipeline", "FusedCodecPipeline")
    if hasattr(zarr.core.codec_pipeline, name)
]
FORMS = ["entry", "entry", "checked", "open", "data", "empty", "absent"]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", combinations(PIPELINES, besides=PIPELINES[:1]))
@pytest.mark.parametrize("verify", combinations(["auto", "always", "never"], besides=["auto"]))
@given(data=st.data())
@examples(0.6)
def test_values_and_errors_are_those_of_single_reads(
    verify: Any, pipeline: str, data: st.DataObject
) -> None:
    array = data.draw(sharded_arrays())
    keys = sorted(encode_shards(array))
    forms = {key: data.draw(st.sampled_from(FORMS)) for key in keys}
    damage = None
    if keys and data.draw(st.booleans()):
        # One thing is wrong at a time: which of several errors is raised is left open.
        key = data.draw(st.sampled_from(keys))
        forms[key] = data.draw(st.sampled_from(["entry", "open", "data", "wrong", "beyond"]))
        if forms[key] not in ("wrong", "beyond"):
            damage = key, DAMAGES[data.draw(st.sampled_from(list(DAMAGES)))]
    select = data.draw(selections(array.values.shape))
    filling = data.draw(st.booleans())
    in_parts, together = data.draw(st.booleans()), data.draw(st.sampled_from([1, 5, 1000]))
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as sizes,
        zarr.config.set(
            {
                "array.read_missing_chunks": filling,
                "codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}",
            }
        ),
    ):
        if in_parts:
            sizes.setattr("zarr_manifest.pipeline.sharding._LARGEST_WHOLE_ON_DISK", 0)
        sizes.setattr("zarr_manifest.pipeline.sharding._MOST_INNER_CHUNKS", together)
        root = Path(directory)
        write_sharded(root, array, lambda key: forms[key], damage=damage)
        single, bulk = both_ways(root, verify=verify)
        expected = outcome_of(lambda: select(single))
        assert outcome_of(lambda: select(bulk)) == expected
        if (
            damage is None
            and not {"empty", "absent", "wrong", "beyond"} & set(forms.values())
            and filling
        ):
            np.testing.assert_array_equal(np.asanyarray(select(bulk)), select(array.values))


# What zarr reads itself --------------------------------------------------------


@pytest.mark.parametrize("nested", [True, False])
def test_unusual_shards_are_left_to_zarr(nested: bool, tmp_path: Path) -> None:
    codecs: list[Any] = [BytesCodec()]
    index_codecs: list[Any] = [BytesCodec(), Crc32cCodec()]
    if nested:
        codecs = [ShardingCodec(chunk_shape=(2,), codecs=codecs)]
    else:
        index_codecs = [TransposeCodec(order=(1, 0)), *index_codecs]
    serializer = ShardingCodec(chunk_shape=(4,), codecs=codecs, index_codecs=index_codecs)
    array = ShardedArray(np.arange(40), (8,), {"serializer": serializer})
    write_sharded(tmp_path, array, lambda _: "entry")
    for opened in both_ways(tmp_path):
        np.testing.assert_array_equal(opened[3:31], array.values[3:31])


# Requests ----------------------------------------------------------------------


@pytest.fixture
def remote(http_server: FileServer, tmp_path: Path) -> Callable[..., Any]:
    """Write 10 shards of 100 inner chunks to a web server, each in its own object; open them."""

    def write(damage: Callable[[bytes], bytes] = bytes, **options: Any) -> Any:
        values = np.arange(10 * 100 * 1024, dtype="<i8")
        array = ShardedArray(values, (100 * 1024,), sharding((1024,), **options))
        manifest: dict[str, Any] = {}
        for key, encoded in encode_shards(array).items():
            body = damage(encoded)
            http_server.put(f"{key}.bin", POISON * 1000 + body + POISON * 1000)
            url = f"{http_server.url}/{key}.bin"
            manifest[key] = {"path": url, "offset": 1000, "length": len(body)}
        write_manifest_array(tmp_path, "x", values, array.shards, manifest, **array.options)
        store = zm.ManifestStore(tmp_path, allow=[f"{http_server.url}/"])
        return values, zarr.open_array(store, path="x", mode="r")

    return write


def ranges_of(server: FileServer) -> list[tuple[int, int]]:
    """Return the ranges that were requested: first byte, and one past the last byte."""
    asked = [r for r in server.requests if not r.is_question]
    found = [re.fullmatch(r"bytes=(\d+)-(\d+)", r.headers["range"]) for r in asked]
    return [(int(match[1]), int(match[2]) + 1) for match in found if match]


def test_a_whole_shard_is_one_request(remote: Callable[..., Any], http_server: FileServer) -> None:
    values, opened = remote(inner="zstd")
    np.testing.assert_array_equal(opened[:], values)
    assert len(ranges_of(http_server)) == 10


def test_parts_of_shards_are_two_requests(
    remote: Callable[..., Any], http_server: FileServer
) -> None:
    values, opened = remote(index_location="start")
    part = slice(60 * 1024, -60 * 1024)
    np.testing.assert_array_equal(opened[part], values[part])
    # The first and the last in parts.
    assert len(ranges_of(http_server)) == 8 + 2 * 2
    http_server.clear()
    np.testing.assert_array_equal(opened[::100_000], values[::100_000])
    assert len(ranges_of(http_server)) <= 2 * 10 + 2


def test_little_of_a_large_shard_is_read(
    remote: Callable[..., Any], http_server: FileServer
) -> None:
    values, opened = remote()
    np.testing.assert_array_equal(opened[5000:8010], values[5000:8010])
    read = sum(stop - start for start, stop in ranges_of(http_server))
    assert read == 4 * 1024 * 8 + 100 * 16 + 4


@pytest.mark.parametrize("whole", [True, False])
def test_an_index_cannot_point_outside_of_its_shard(
    whole: bool, remote: Callable[..., Any], http_server: FileServer
) -> None:
    size = 100 * 1024 * 8

    def damage(body: bytes) -> bytes:
        index = np.frombuffer(body[size:], "<u8").copy()
        # The last inner chunk, and one that would be reached by wrapping around.
        index[2 * 99 + 1] = 2**63 + 5
        index[2 * 98 : 2 * 99] = 2**64 - 900, 1800
        return body[:size] + index.tobytes()

    _, opened = remote(damage, index_checksum=False)
    part = slice(None) if whole else slice(97 * 1024, 100 * 1024)
    assert outcome_of(lambda: opened[part])[0] != "values"
    spans = ranges_of(http_server)
    assert spans
    assert min(start for start, _ in spans) >= 1000
    assert max(stop for _, stop in spans) <= 1000 + size + 1600


# Memory ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_large_shard_is_read_in_little_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 2**62, 3 * 2**20)
    array = ShardedArray(values, (3 * 2**20,), sharding((2**15,), inner="zstd"))
    write_sharded(tmp_path, array, lambda _: "entry")
    _, bulk = both_ways(tmp_path)
    assert bulk[:10].tolist() == values[:10].tolist()
    tracemalloc.start()
    try:
        read = bulk[:]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(read, values)
    assert peak - values.nbytes < 6 * 2**20
