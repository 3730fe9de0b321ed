"""What a bulk read costs, in numbers that no machine changes: calls, requests, opened files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.hierarchies import encode_chunks, write_manifest_array
from tests.opened_files import opened_files
from tests.read_path import calls_of

pytestmark = pytest.mark.slow

CHUNKS = 1000


def declare(root: Path, data: Any, chunks: int, **options: Any) -> None:
    """Ten local files of adjacent chunks."""
    encoded = encode_chunks(data, chunks, **options)
    each = -(-len(encoded) // 10)
    root.mkdir()
    files = [bytearray() for _ in range(10)]
    manifest = {}
    for number, (key, body) in enumerate(encoded.items()):
        file = files[number // each]
        path = f"../{number // each}.bin"
        manifest[key] = {"path": path, "offset": len(file), "length": len(body)}
        file += body
    for number, body in enumerate(files):
        (root / f"{number}.bin").write_bytes(body)
    write_manifest_array(root, "a", data, chunks, manifest, **options)


def opened(root: Path) -> Any:
    with zm.enable():
        return zarr.open_array(root, path="a", mode="r")


@pytest.mark.parametrize(
    ("options", "most"), [({}, 3), ({"compressors": ZstdCodec()}, 5)], ids=["verbatim", "zstd"]
)
def test_calls_per_chunk(options: dict[str, Any], most: int, root: Path) -> None:
    """Of a warm read of small chunks."""
    data = np.arange(CHUNKS * 8, dtype="<i4")
    declare(root, data, 8, **options)
    array = opened(root)
    np.testing.assert_array_equal(array[...], data)
    counts = calls_of(lambda: array[...])
    assert counts.total() / CHUNKS < most, counts.most_common(12)


def test_each_file_is_opened_once(root: Path) -> None:
    data = np.arange(CHUNKS * 8, dtype="<i4")
    declare(root, data, 8)
    array = opened(root)
    array[...]
    with opened_files() as names:
        np.testing.assert_array_equal(array[...], data)
    assert sorted(name for name in names if name.endswith(".bin")) == [
        f"{i}.bin" for i in range(10)
    ]


def test_chunks_are_not_located_one_by_one(root: Path) -> None:
    """Locating 1,000 chunks takes a number of calls that does not depend on how many they are."""
    data = np.arange(CHUNKS * 8, dtype="<i4")
    declare(root, data, 8)
    array = opened(root)
    array[...]

    async def locate() -> None:
        transformer = await array.store.owner_of_chunk("a/c/0")
        await transformer.locate(np.arange(CHUNKS).reshape(-1, 1))

    assert calls_of(lambda: sync(locate())).total() < 100
