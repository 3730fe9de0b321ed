"""Tasks that read a chunk each share requests; what they read, and their errors, stay the same."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import shutil
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.quick_retries import QUICK
from tests.servers.http_files import FileServer, delay, status
from zarr_manifest.errors import ManifestError, SourceNotFoundError
from zarr_manifest.format import compute_checksum
from zarr_manifest.pipeline.read_ahead import ReadAhead, block_around

pytestmark = pytest.mark.servers

CHUNKS, EACH, CHUNK = 36, 3, 64
DATA = np.random.default_rng(0).integers(0, 256, CHUNKS * CHUNK, "u1")
# As two of dask's threads take the tasks of one array.
ORDER = [9, 8, 7, 6, 5, 4, 35, 34, 33, 32, 31, 30, 3, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 2]
ORDER += [19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 1, 0]


@pytest.fixture(autouse=True)
def _nothing_held() -> None:
    """Forget what other tests have read ahead."""
    ReadAhead._of_loops.clear()


@pytest.fixture
def array(http_server: FileServer, root: Path) -> Any:
    """36 chunks in 12 objects on a web server, each with bytes between its chunks and others."""
    declare(http_server, root)
    return opened(http_server, root)


def declare(server: FileServer, root: Path, name: str = "a", **members: Any) -> None:
    manifest = {}
    for number in range(CHUNKS // EACH):
        values = DATA[number * EACH * CHUNK : (number + 1) * EACH * CHUNK]
        server.put(f"d/{number}.bin", bytes(50) + values.tobytes())
        for i in range(EACH):
            manifest[str(number * EACH + i)] = {
                "path": f"{server.url}/d/{number}.bin",
                "offset": 50 + i * CHUNK,
                "length": CHUNK,
                **members,
            }
    write_manifest_array(root, name, DATA, CHUNK, manifest, fill_value=7)


def opened(server: FileServer, root: Path, **options: Any) -> Any:
    allow = {f"{server.url}/": zm.anonymous(retry_config=QUICK)}
    return zarr.open_array(
        zm.ManifestStore(root, allow=allow, read_only=True, **options), path="a", mode="r"
    )


def chunk(array: Any, number: int) -> Any:
    found = array[number * CHUNK : (number + 1) * CHUNK]
    np.testing.assert_array_equal(found, DATA[number * CHUNK : (number + 1) * CHUNK])
    return found


def requested(server: FileServer) -> int:
    return sum(not each.is_question for each in server.requests)


def held() -> ReadAhead:
    async def of_loop() -> ReadAhead:
        return ReadAhead.of_running_loop()

    return sync(of_loop())


# What is gained -----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_tasks_share_requests(array: Any, http_server: FileServer, threads: int) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda number: chunk(array, number), ORDER):
            pass
    assert requested(http_server) <= CHUNKS // EACH + 8
    assert held().nbytes == 0


def test_nothing_is_fetched_twice(array: Any, http_server: FileServer) -> None:
    for number in ORDER:
        chunk(array, number)
    before = requested(http_server)
    assert before <= CHUNKS // EACH + 4
    for number in ORDER:
        chunk(array, number)
    assert requested(http_server) <= 2 * before


@pytest.mark.parametrize("part", [CHUNKS, 24, 12])
def test_the_next_array_is_read_like_the_one_before(
    http_server: FileServer, root: Path, part: int
) -> None:
    """As much of it is read ahead at once as was of use, and no more."""
    declare(http_server, root)
    first, second = opened(http_server, root), opened(http_server, root)
    for number in ORDER:
        if number < part:
            chunk(first, number)
    before = requested(http_server)
    for number in ORDER[:2]:
        chunk(second, number)
    assert held().nbytes == (part - 2) * CHUNK
    for number in ORDER[2:]:
        if number < part:
            chunk(second, number)
    assert requested(http_server) <= before + part // EACH + 2
    assert held().nbytes == 0


def test_an_array_is_not_read_like_one_that_was_read_ahead_in_vain(
    http_server: FileServer, root: Path
) -> None:
    declare(http_server, root)
    first, second = opened(http_server, root), opened(http_server, root)
    for number in ORDER[:-1]:
        chunk(first, number)
    left = held().nbytes
    assert left == CHUNK
    for number in ORDER[:2]:
        chunk(second, number)
    assert held().nbytes - left <= 12 * CHUNK


def declare_many(server: FileServer, root: Path, count: int) -> list[str]:
    """Declare arrays whose chunks of the same index are side by side in one object."""
    zarr.create_group(root)
    names = [f"v{number:02}" for number in range(count)]
    for index in range(3):
        server.put(f"d/{index}.bin", b"".join(bytes([n + index]) * CHUNK for n in range(count)))
    for n, name in enumerate(names):
        manifest = {
            str(i): {"path": f"{server.url}/d/{i}.bin", "offset": n * CHUNK, "length": CHUNK}
            for i in range(3)
        }
        values = np.repeat(np.arange(n, n + 3, dtype="u1"), CHUNK)
        write_manifest_array(root, name, values, CHUNK, manifest, fill_value=7)
    return names


def opened_many(server: FileServer, root: Path, names: list[str]) -> list[Any]:
    store = zm.ManifestStore(
        root, allow={f"{server.url}/": zm.anonymous(retry_config=QUICK)}, read_only=True
    )
    group: Any = zarr.open_group(store, mode="r")
    return [group[name] for name in names]


@pytest.mark.parametrize("step", [1, -1])
def test_the_same_chunk_of_many_arrays_takes_few_requests(
    http_server: FileServer, root: Path, step: int
) -> None:
    """Fifty of them: more at once, the more were read in turn before; whatever was read earlier."""
    names = declare_many(http_server, root, 50)
    arrays = opened_many(http_server, root, names)
    http_server.clear()
    for index in range(3):
        for n, array in list(enumerate(arrays))[::step]:
            assert (array[index * CHUNK : (index + 1) * CHUNK] == n + index).all()
    assert requested(http_server) <= 3 * 8
    assert held().nbytes == 0


def test_arrays_that_are_read_side_by_side(http_server: FileServer, root: Path) -> None:
    """As the terms of a sum are: chunks of both are read ahead, and those of others once."""
    zarr.create_group(root)
    for name in "abcd":
        declare(http_server, root, name)
    arrays = opened_many(http_server, root, list("abcd"))
    http_server.clear()
    for number in ORDER:
        for array in arrays[:2]:
            chunk(array, number)
    assert requested(http_server) <= 2 * (CHUNKS // EACH + 8)


def test_two_arrays_of_many_are_read_for_themselves(http_server: FileServer, root: Path) -> None:
    names = declare_many(http_server, root, 50)
    arrays = opened_many(http_server, root, names)
    assert (arrays[7][:CHUNK] == 7).all()
    assert (arrays[7][CHUNK : 2 * CHUNK] == 8).all()
    assert (arrays[30][:CHUNK] == 30).all()
    assert held().nbytes <= CHUNK, "but for the block of the first"


def test_an_array_that_follows_and_cannot_be_read_concerns_nobody_else(
    http_server: FileServer, root: Path
) -> None:
    names = declare_many(http_server, root, 10)
    elsewhere = {"0": {"path": f"{http_server.url}/d/gone.bin", "offset": 0, "length": CHUNK}}
    for name in ("v04", "v07"):
        shutil.rmtree(root / name)
    write_manifest_array(root, "v04", np.zeros(3 * CHUNK, "u1"), CHUNK, elsewhere)
    refused = {"0": {"path": "https://example.org/x", "offset": 0, "length": CHUNK}}
    write_manifest_array(root, "v07", np.zeros(3 * CHUNK, "u1"), CHUNK, refused)
    for n, array in enumerate(opened_many(http_server, root, names)):
        if n in (4, 7):
            with pytest.raises(ManifestError) as raised:
                array[:CHUNK]
            assert raised.value.array == names[n]
        else:
            assert (array[:CHUNK] == n).all()


def test_arrays_are_not_kept_once_they_have_been_read(http_server: FileServer, root: Path) -> None:
    names = declare_many(http_server, root, 3)

    def read() -> weakref.ref[Any]:
        arrays = opened_many(http_server, root, names)
        for array in arrays:
            array[:CHUNK]
        path = f"{names[0]}/c/0"
        return weakref.ref(sync(arrays[0].store.owner_of_chunk(path)))

    array = read()
    latest = time.monotonic() + 10
    while array() is not None and time.monotonic() < latest:
        time.sleep(0.01)  # the task that read them ends after they have been handed over
        gc.collect()
    assert array() is None


def test_a_single_look_reads_one_chunk(array: Any, http_server: FileServer) -> None:
    chunk(array, 20)
    assert requested(http_server) == 1
    assert held().nbytes == 0


def test_looks_that_are_far_apart_read_one_chunk_each(
    array: Any, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk(array, 0)
    chunk(array, 35)
    monkeypatch.setattr("zarr_manifest.pipeline.read_ahead._SECONDS", 0.01)
    time.sleep(0.02)
    chunk(array, 1)
    assert requested(http_server) == 3


def test_an_array_where_it_does_not_pay_is_left_alone(
    array: Any, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarr_manifest.pipeline.read_ahead._TOLERATED", 0)
    monkeypatch.setattr("zarr_manifest.pipeline.read_ahead._LONGEST", 0.05)
    chunk(array, 0)
    chunk(array, 2)
    deadline = time.monotonic() + 5
    while held().nbytes and time.monotonic() < deadline:
        time.sleep(0.02)
    assert held().nbytes == 0, "what nobody asks for is dropped after a while"
    before = requested(http_server)
    for number in (20, 22, 24):
        chunk(array, number)
    assert requested(http_server) == before + 3


def test_memory_is_bounded(
    http_server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 5 * CHUNK
    monkeypatch.setattr("zarr_manifest.pipeline.read_ahead.MOST_BYTES_AHEAD", most)
    declare(http_server, root)
    for _ in range(3):
        array = opened(http_server, root)
        for number in (0, 2, 20, 22, 30, 28):
            chunk(array, number)
            assert held().nbytes <= most


def test_local_files_are_not_read_ahead(tmp_path: Path, root: Path) -> None:
    (tmp_path / "d.bin").write_bytes(DATA.tobytes())
    manifest = {
        str(i): {"path": (tmp_path / "d.bin").as_uri(), "offset": i * CHUNK, "length": CHUNK}
        for i in range(CHUNKS)
    }
    write_manifest_array(root, "a", DATA, CHUNK, manifest)
    # A remote prefix beside it.
    allow = [tmp_path.as_uri(), "https://example.org/"]
    store = zm.ManifestStore(root, allow=allow, read_only=True)
    array = zarr.open_array(store, path="a", mode="r")
    before = held().nbytes
    for number in (0, 2, 4):
        chunk(array, number)
    assert held().nbytes == before


# What stays the same ------------------------------------------------------------------------


def test_an_error_is_raised_by_who_asks_for_the_chunk(array: Any, http_server: FileServer) -> None:
    http_server.remove("d/1.bin")
    for number in range(12):
        if number in (3, 4, 5):
            with pytest.raises(SourceNotFoundError) as raised:
                chunk(array, number)
            assert raised.value.chunk == str(number)
            assert raised.value.location == f"{http_server.url}/d/1.bin"
        else:
            chunk(array, number)


def test_an_error_that_nobody_asks_for_stays_silent(
    array: Any, http_server: FileServer, caplog: pytest.LogCaptureFixture
) -> None:
    http_server.script("d/1.bin", status(403), sticky=True)
    for number in (0, 2, 1, 8, 7):
        chunk(array, number)
    assert not caplog.records


def test_checksums_are_verified(http_server: FileServer, root: Path) -> None:
    wrong = compute_checksum("crc32c", b"something else")
    declare(http_server, root, checksum=wrong)
    array = opened(http_server, root)
    for number in (0, 2, 1):
        with pytest.raises(ManifestError) as raised:
            chunk(array, number)
        assert raised.value.code == "checksum_mismatch"
        assert raised.value.chunk == str(number)
        assert raised.value.location is not None


def test_a_source_that_changes_is_noticed(http_server: FileServer, root: Path) -> None:
    declare(http_server, root)
    etags = {}
    for number in range(CHUNKS // EACH):
        stored = http_server.find(f"d/{number}.bin")
        assert stored is not None
        etags[f"{http_server.url}/d/{number}.bin"] = stored.etag
    manifest_path = root / "a" / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    entries = manifest.get("entries", manifest)
    for entry in entries.values():
        entry["etag"] = etags[entry["path"]]
    manifest_path.write_text(json.dumps(manifest))
    array = opened(http_server, root)
    chunk(array, 0)
    http_server.put("d/1.bin", bytes(50) + bytes(EACH * CHUNK))
    for number in (1, 2, 8, 7):
        chunk(array, number)
    for number in (3, 4, 5):
        with pytest.raises(ManifestError) as raised:
            chunk(array, number)
        assert raised.value.code == "source_changed"


def test_who_is_cancelled_cancels_nobody_else(array: Any, http_server: FileServer) -> None:
    selection = array.async_array

    async def read(number: int) -> Any:
        return await selection.getitem(slice(number * CHUNK, (number + 1) * CHUNK))

    async def run() -> list[Any]:
        await read(0)
        for number in range(CHUNKS // EACH):
            http_server.script(f"d/{number}.bin", delay(0.3))
        first = asyncio.ensure_future(read(1))
        await asyncio.sleep(0.1)
        others = [asyncio.ensure_future(read(number)) for number in (2, 4, 6)]
        await asyncio.sleep(0.05)
        first.cancel()
        return list(await asyncio.gather(*others))

    for number, found in zip((2, 4, 6), sync(run()), strict=True):
        np.testing.assert_array_equal(found, DATA[number * CHUNK : (number + 1) * CHUNK])


def test_each_event_loop_reads_for_itself(array: Any) -> None:
    selection = array.async_array

    async def run() -> None:
        for number in (0, 2, 1):
            found = await selection.getitem(slice(number * CHUNK, (number + 1) * CHUNK))
            np.testing.assert_array_equal(found, DATA[number * CHUNK : (number + 1) * CHUNK])

    for _ in range(2):
        asyncio.run(run())
    chunk(array, 3)


def test_a_loop_may_end_while_chunks_are_read_ahead(array: Any, http_server: FileServer) -> None:
    selection = array.async_array

    async def run() -> None:
        await selection.getitem(slice(0, CHUNK))
        http_server.script("d/3.bin", delay(0.3))
        await selection.getitem(slice(2 * CHUNK, 3 * CHUNK))

    asyncio.run(run())
    chunk(array, 10)


def test_a_pickled_array_reads_on(array: Any) -> None:
    chunk(array, 0)
    chunk(array, 2)
    again = pickle.loads(pickle.dumps(array))
    for number in (1, 2, 3):
        chunk(again, number)


# Blocks -------------------------------------------------------------------------------------

_GRIDS = st.lists(st.integers(1, 30), min_size=1, max_size=4).map(tuple)


@given(data=st.data(), counts=_GRIDS, most=st.integers(1, 50))
def test_blocks(data: st.DataObject, counts: tuple[int, ...], most: int) -> None:
    indices = st.tuples(*(st.integers(0, count - 1) for count in counts))
    index = data.draw(indices)
    recent = data.draw(st.lists(indices, min_size=1, max_size=8))
    block = block_around(index, recent, counts, most=most)
    assert index in block
    assert len(set(block)) == len(block) <= most
    for each in block:
        assert all(0 <= i < count for i, count in zip(each, counts, strict=True))
        # The same block, whichever of its chunks is read.
        assert block_around(each, [*recent, index], counts, most=most) == block
    constant = [d for d in range(len(counts)) if all(r[d] == index[d] for r in recent)]
    assert all(each[d] == index[d] for each in block for d in constant)
