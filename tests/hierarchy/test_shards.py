"""Parts of chunks: shards read through entries, and the byte-range table of the specification.

Whatever is asked of a chunk, the answer equals slicing the whole chunk's bytes, and no byte
beside the entry is ever part of it: the sources are padded with poison.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs
import zarr.core.codec_pipeline
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.buffer import default_buffer_prototype

import zarr_manifest as zm
from tests.combinations import crossed
from tests.hierarchies import encode_chunks, write_manifest_array
from tests.properties import examples

PROTOTYPE = default_buffer_prototype()
POISON = b"\xee"
PIPELINES = [
    name
    for name in ("BatchedCodecPipeline", "FusedCodecPipeline")
    if hasattr(zarr.core.codec_pipeline, name)
]


# Shards ---------------------------------------------------------------------


@st.composite
def sharded_arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Shape, chunks, shards and codecs of a sharded array."""
    ndim = draw(st.integers(1, 3))
    chunks = [draw(st.integers(1, 3)) for _ in range(ndim)]
    per_shard = [draw(st.integers(1, 3)) for _ in range(ndim)]
    shards = tuple(c * n for c, n in zip(chunks, per_shard, strict=True))
    shape = tuple(draw(st.integers(1, 2 * n)) for n in shards)
    return {
        "shape": shape,
        "chunks": tuple(chunks),
        "shards": {"shape": shards, "index_location": draw(st.sampled_from(["start", "end"]))},
        "compressors": draw(st.sampled_from([None, zarr.codecs.ZstdCodec(level=1)])),
    }


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[slice | int, ...]:
    selection: list[slice | int] = []
    for n in shape:
        if draw(st.integers(0, 4)) == 0:
            selection.append(draw(st.integers(0, n - 1)))
        else:
            start = draw(st.integers(0, n - 1))
            selection.append(slice(start, draw(st.integers(start + 1, n))))
    return tuple(selection)


def serializer(chunks: tuple[int, ...], compressors: Any, index_location: str) -> Any:
    """The sharding codec itself: create_array cannot place the index on all zarr versions."""
    inner: list[Any] = [zarr.codecs.BytesCodec()]
    if compressors is not None:
        inner.append(compressors)
    return zarr.codecs.ShardingCodec(
        chunk_shape=chunks,
        codecs=inner,
        index_location=index_location,  # type: ignore[arg-type]
    )


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
@given(data=st.data())
@examples(0.25)
def test_selections_of_shards_equal_numpy(pipeline: str, data: st.DataObject) -> None:
    case = data.draw(sharded_arrays())
    shape, shards = case["shape"], case["shards"]["shape"]
    options = {
        "serializer": serializer(
            case["chunks"], case["compressors"], case["shards"]["index_location"]
        ),
        "fill_value": -1,
    }
    # Some inner chunks are missing from their shards.
    values = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    values[data.draw(selections(shape))] = data.draw(st.sampled_from([-1, 5]))

    manifest: dict[str, dict[str, Any]] = {}
    source = bytearray()
    encoded = encode_chunks(values, shards, **options)
    for position, (key, body) in enumerate(encoded.items()):
        source += POISON * data.draw(st.integers(0, 40))
        manifest[key] = {"path": "../source.bin", "offset": len(source)}
        source += body
        if position + 1 < len(encoded) or data.draw(st.booleans()):
            manifest[key]["length"] = len(body)
            source += POISON * data.draw(st.integers(0, 40))

    with (
        tempfile.TemporaryDirectory() as directory,
        zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}),
    ):
        root = Path(directory)
        (root / "source.bin").write_bytes(source)
        write_manifest_array(root, "x", values, shards, manifest, **options)
        array = zarr.open_array(zm.ManifestStore(root), path="x", mode="r")
        for _ in range(3):
            selection = data.draw(selections(shape))
            np.testing.assert_array_equal(array[selection], values[selection])
        np.testing.assert_array_equal(array[...], values)


# The byte-range table -------------------------------------------------------

BODY = bytes(range(1, 41))
N = len(BODY)
# In the order of their chunks: 0, 1, …
FORMS = ("range", "tail", "head", "whole", "data", "url")
# Past the end by a little and by a lot; zarr's own requests never end before they start.
POSITIONS = st.integers(0, N + 3) | st.sampled_from([0, 1, N - 1, N, N + 1, 10**6, 2**53])
REQUESTS = (
    st.none()
    | st.tuples(POSITIONS, POSITIONS).map(lambda ends: RangeByteRequest(*sorted(ends)))
    | POSITIONS.map(OffsetByteRequest)
    | POSITIONS.map(SuffixByteRequest)
)


def part_of(body: bytes, request: Any) -> bytes:
    """What plain Python says the answer is."""
    match request:
        case None:
            return body
        case RangeByteRequest(start, end):
            return body[start:end]
        case OffsetByteRequest(offset):
            return body[offset:]
        case SuffixByteRequest(suffix):
            return body[max(0, len(body) - suffix) :]
    raise AssertionError(request)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> zm.ManifestStore:
    """One array whose six chunks hold the same bytes, each in another form of entry."""
    root = tmp_path_factory.mktemp("table")
    (root / "whole.bin").write_bytes(BODY)
    (root / "middle.bin").write_bytes(POISON * 100 + BODY + POISON * 100)
    (root / "tail.bin").write_bytes(POISON * 100 + BODY)
    (root / "head.bin").write_bytes(BODY + POISON * 100)
    outside = tmp_path_factory.mktemp("outside") / "middle.bin"
    outside.write_bytes(POISON * 7 + BODY + POISON * 7)
    entries: dict[str, dict[str, Any]] = {
        "range": {"path": "../middle.bin", "offset": 100, "length": N},
        "tail": {"path": "../tail.bin", "offset": 100},
        "head": {"path": "../head.bin", "length": N},
        "whole": {"path": "../whole.bin"},
        "data": {"data": base64.b64encode(BODY).decode()},
        "url": {"path": outside.as_uri(), "offset": 7, "length": N},
    }
    manifest = {str(i): entries[form] for i, form in enumerate(FORMS)}
    values = np.zeros(N * (len(FORMS) + 2), "u1")
    manifest[str(len(FORMS))] = {}
    write_manifest_array(root, "x", values, (N,), manifest)
    return zm.ManifestStore(root, allow=[f"{outside.parent.as_uri()}/"])


def by_get(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    async def get_all() -> list[Any]:
        return await asyncio.gather(*(store.get(key, PROTOTYPE, part) for part in requests))

    return asyncio.run(get_all())


def by_get_one_by_one(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    async def get_all() -> list[Any]:
        return [await store.get(key, PROTOTYPE, part) for part in requests]

    return asyncio.run(get_all())


def by_get_sync(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    return [store.get_sync(key, prototype=PROTOTYPE, byte_range=part) for part in requests]


def by_get_partial_values(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    return asyncio.run(store.get_partial_values(PROTOTYPE, [(key, part) for part in requests]))


def by_get_ranges(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    async def get_all() -> list[Any]:
        found: dict[int, Any] = {}
        async for group in store.get_ranges(key, requests, prototype=PROTOTYPE):
            found |= dict(group)
        return [found[i] for i in range(len(requests))]

    return asyncio.run(get_all())


def by_get_ranges_sync(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    found = dict(store.get_ranges_sync(key, requests, prototype=PROTOTYPE))
    return [found[i] for i in range(len(requests))]


def by_get_many(store: zm.ManifestStore, key: str, requests: list[Any]) -> list[Any]:
    async def get_all() -> list[Any]:
        # Answers carry only their keys, in any order: one request at a time tells them apart.
        found = []
        for part in requests:
            answers = [a async for a in store._get_many([(key, PROTOTYPE, part)])]
            assert [name for name, _ in answers] == [key]
            found.append(answers[0][1])
        return found

    return asyncio.run(get_all())


READERS: list[Callable[[zm.ManifestStore, str, list[Any]], list[Any]]] = [
    by_get,
    by_get_one_by_one,
    by_get_sync,
    by_get_partial_values,
    by_get_many,
]
if hasattr(zarr.abc.store.Store, "get_ranges"):
    READERS.append(by_get_ranges)
if hasattr(zarr.abc.store.Store, "get_ranges_sync"):
    READERS.append(by_get_ranges_sync)


@pytest.mark.slow
@pytest.mark.parametrize("read", READERS)
@given(form=st.sampled_from(FORMS), requests=st.lists(REQUESTS, min_size=1, max_size=5))
def test_answers_equal_slices_of_the_chunk(
    read: Callable[[zm.ManifestStore, str, list[Any]], list[Any]],
    form: str,
    requests: list[Any],
    table: zm.ManifestStore,
) -> None:
    answers = read(table, f"x/c/{FORMS.index(form)}", requests)
    assert [answer.to_bytes() for answer in answers] == [part_of(BODY, part) for part in requests]


@pytest.mark.parametrize(("chunk", "read"), crossed([len(FORMS) + n for n in range(3)], READERS))
@given(request=REQUESTS)
@examples(0.1)
def test_no_bytes_for_empty_absent_and_impossible_chunks(
    read: Callable[[zm.ManifestStore, str, list[Any]], list[Any]],
    chunk: int,
    request: Any,
    table: zm.ManifestStore,
) -> None:
    if read is by_get_ranges:
        with pytest.raises(BaseExceptionGroup) as group:
            read(table, f"x/c/{chunk}", [request])
        assert group.group_contains(FileNotFoundError)
    elif read is by_get_ranges_sync:
        with pytest.raises((FileNotFoundError, BaseExceptionGroup)):
            read(table, f"x/c/{chunk}", [request])
    else:
        assert read(table, f"x/c/{chunk}", [request]) == [None]


def test_many_keys_at_once(table: zm.ManifestStore) -> None:
    keys = [f"x/c/{i}" for i in range(len(FORMS))]
    part = RangeByteRequest(3, 9)

    async def get_many() -> dict[str, Any]:
        requests = [(key, PROTOTYPE, part) for key in keys]
        return {key: value async for key, value in table._get_many(requests)}

    answers = asyncio.run(get_many())
    assert {key: answer.to_bytes() for key, answer in answers.items()} == dict.fromkeys(
        keys, BODY[3:9]
    )


@pytest.mark.parametrize(
    "request_", [RangeByteRequest(-2, 3), OffsetByteRequest(-1), SuffixByteRequest(-1)], ids=str
)
def test_negative_requests(request_: Any, table: zm.ManifestStore) -> None:
    """They are no ranges counted from the end."""
    with pytest.raises(ValueError, match="invalid byte range"):
        asyncio.run(table.get("x/c/0", PROTOTYPE, request_))


def test_unknown_kind_of_request(table: zm.ManifestStore) -> None:
    with pytest.raises(TypeError, match="Unexpected byte_range"):
        asyncio.run(table.get("x/c/0", PROTOTYPE, (0, 5)))  # type: ignore[arg-type]
