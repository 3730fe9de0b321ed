"""Area ``sharding``: entries that are shards, which are read in parts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from conformance.generator.area_checksums import checksum
from conformance.generator.arrays import Array, bytes_codec
from conformance.generator.case import Case
from conformance.generator.frames import gzip_member, shard
from conformance.generator.standard import ARRAY

AREA = "sharding"
_SECTION = "sharding"


def _sharded(index_at: str = "end", checksum: bool = True, gzip: bool = False) -> Array:
    """Eight numbers in two shards of two inner chunks of two numbers."""
    index_codecs: list[Any] = [bytes_codec("little")]
    if checksum:
        index_codecs.append({"name": "crc32c"})
    codecs: list[Any] = [bytes_codec("little")]
    if gzip:
        codecs.append({"name": "gzip", "configuration": {"level": 1}})
    configuration = {
        "chunk_shape": [2],
        "codecs": codecs,
        "index_codecs": index_codecs,
        "index_location": index_at,
    }
    codec = {"name": "sharding_indexed", "configuration": configuration}
    return Array(shape=(8,), chunks=(4,), codecs=(codec,))


def _shards(
    index_at: str = "end", with_checksum: bool = True, encode: Callable[[bytes], bytes] = bytes
) -> list[bytes]:
    chunks = [Array(shape=(8,)).chunk((i,)) for i in range(4)]
    return [
        shard([encode(c) for c in chunks[i : i + 2]], index_at=index_at, checksum=with_checksum)
        for i in (0, 2)
    ]


def _case(name: str, description: str, array: Array, entries: list[Any], source: bytes) -> Case:
    manifest = {str(i): entry for i, entry in enumerate(entries)}
    case = Case(f"{AREA}/{name}", _SECTION, description, needs=["sharding"])
    return case.array(array=array, manifest=manifest).put("a/data.bin", source)


def _within(parts: list[bytes], **members: Any) -> tuple[list[dict[str, Any]], bytes]:
    source, entries = b"HEAD", []
    for part in parts:
        entries.append({"path": "data.bin", "offset": len(source), "length": len(part), **members})
        source += part + b"\xff" * 20
    return entries, source


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for index_at in ("end", "start"):
        entries, source = _within(_shards(index_at))
        yield (
            _case(
                f"index-at-the-{index_at}",
                f"Shards within a larger object, with their index at the {index_at}: the index is "
                "looked for within the entry, not within the object. Parts of shards read as well "
                "as all of them.",
                _sharded(index_at),
                entries,
                source,
            )
            .reads()
            .reads(selection=[[5, 6]])
            .reads(selection=[[3, 7]])
        )
    entries, source = _within(_shards(with_checksum=False))
    yield _case(
        "index-without-checksum",
        "A shard index need not have a checksum: it is then four bytes shorter.",
        _sharded(checksum=False),
        entries,
        source,
    ).reads()
    yield from _encoded_inner_chunks()
    yield from _kinds_of_entries()
    yield from _absent()
    yield from _failures()


def _encoded_inner_chunks() -> Iterator[Case]:
    entries, source = _within(_shards(encode=gzip_member))
    case = Case(
        f"{AREA}/encoded-inner-chunks",
        _SECTION,
        "Inner chunks have codecs of their own, which decode what the shard's index points at.",
        needs=["sharding", "gzip"],
    )
    manifest = {str(i): entry for i, entry in enumerate(entries)}
    yield case.array(array=_sharded(gzip=True), manifest=manifest).put("a/data.bin", source).reads()


def _kinds_of_entries() -> Iterator[Case]:
    first, second = _shards()
    yield (
        _case(
            "open-ended",
            "A shard that runs to the end of its object: its index is the object's suffix.",
            _sharded(),
            [{"path": "data.bin", "offset": 6}, {"path": "other.bin"}],
            b"HEADER" + first,
        )
        .put("a/other.bin", second)
        .reads()
        .reads(selection=[[2, 6]])
    )
    yield (
        _case(
            "inline",
            "Shards may lie in the manifest; their index and parts are found within the data.",
            _sharded(),
            [{"data": base64.b64encode(part).decode()} for part in (first, second)],
            b"",
        )
        .reads()
        .reads(selection=[[3, 5]])
    )
    entries, source = _within([first, second])
    for entry, part in zip(entries, (first, second), strict=True):
        entry["checksum"] = checksum("crc32c", part)
    yield (
        _case(
            "with-checksums",
            "Checksums of shards do not get in the way of reading parts of them.",
            _sharded(),
            entries,
            source,
        )
        .reads()
        .reads(selection=[[7, 8]])
    )


def _absent() -> Iterator[Case]:
    entries, source = _within([_shards()[1]])
    for name in ("missing", "explicitly-empty"):
        manifest = {"1": entries[0], **({} if name == "missing" else {"0": {}})}
        yield (
            Case(
                f"{AREA}/{name}-shard",
                _SECTION,
                f"A shard that is {name.replace('-', ' ')} reads as fill values, the other one "
                "does not.",
                needs=["sharding"],
            )
            .array(array=_sharded(), manifest=manifest)
            .put("a/data.bin", source)
            .reads(missing=[(0,)])
            .reads(missing=[(0,)], selection=[[2, 6]])
        )
    partial = shard([None, ARRAY.chunk((0,))])
    array = Array(shape=(4,), chunks=(4,), values=(-1, -1, 101, 102), codecs=_sharded().codecs)
    yield (
        Case(
            f"{AREA}/missing-inner-chunk",
            _SECTION,
            "An inner chunk that its shard says is missing reads as the fill value: that is Zarr's "
            "own rule, within bytes that are all there.",
            needs=["sharding"],
        )
        .array(
            array=array, manifest={"0": {"path": "data.bin", "offset": 3, "length": len(partial)}}
        )
        .put("a/data.bin", b"XYZ" + partial + b"END")
        .reads()
    )


def _failures() -> Iterator[Case]:
    first, second = _shards()
    entries, source = _within([first, second])
    yield (
        _case(
            "truncated-source",
            "A shard whose end (and so its index) is beyond the end of its source is an error, and "
            "not a shard of missing chunks.",
            _sharded(),
            entries,
            source[: entries[1]["offset"] + 10],
        )
        .refuses("range_out_of_bounds", "chunk")
        .reads(selection=[[0, 3]])
    )
    yield (
        _case(
            "source-does-not-exist",
            "A shard whose source does not exist is an error: readers of shards take a missing "
            "index for a missing shard.",
            _sharded(),
            [entries[0], {"path": "gone.bin"}],
            source,
        )
        .refuses("source_not_found", "chunk")
        .reads(selection=[[0, 4]])
    )
    damaged = bytes([first[0] ^ 1]) + first[1:]
    yield _case(
        "damaged-shard",
        "A read of a whole shard's bytes verifies the checksum of its entry.",
        _sharded(),
        [{"path": "data.bin", "checksum": checksum("sha256", first)}, {}],
        damaged,
    ).refuses("checksum_mismatch", "chunk", op="get_chunk", chunk=[0], range=None)
