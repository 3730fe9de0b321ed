"""Whole selections from real servers: how many requests, how many bytes at a time, what fails."""

from __future__ import annotations

import shutil
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.failing_sources import Bucket
from tests.hierarchies import write_manifest_array
from tests.quick_retries import NO_RETRIES, QUICK
from tests.servers.http_files import Exchange, Fault, FileServer, Reply, reset, status, truncate
from tests.servers.s3 import S3Server

OBJECTS, EACH, CHUNK = 10, 10, 64
DATA = np.random.default_rng(0).integers(0, 256, OBJECTS * EACH * CHUNK, "u1")


def bodies(gap: int = 0) -> list[bytes]:
    """Objects of ten chunks each, with some bytes after each chunk."""
    chunks = DATA.reshape(OBJECTS, EACH, CHUNK)
    return [b"".join(chunk.tobytes() + bytes(gap) for chunk in one) for one in chunks]


def declare(root: Path, prefix: str, gap: int = 0, **members: Any) -> None:
    manifest = {
        str(i): {
            "path": f"{prefix}{i // EACH}.bin",
            "offset": (CHUNK + gap) * (i % EACH),
            "length": CHUNK,
            **members,
        }
        for i in range(OBJECTS * EACH)
    }
    write_manifest_array(root, "a", DATA, CHUNK, manifest, fill_value=7)


def opened(root: Path, allow: Any, **options: Any) -> Any:
    store = zm.ManifestStore(root, allow=allow, read_only=True, **options)
    with zm.enable():
        return zarr.open_array(store, path="a", mode="r")


def quick(server: FileServer) -> dict[str, Any]:
    return {f"{server.url}/": zm.anonymous(retry_config=QUICK)}


def reads(server: FileServer) -> int:
    """How many requests were more than questions where an object is."""
    return sum(not one.is_question for one in server.requests)


# Requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "max_gap", "expected"),
    [(0, -1, 100), (5, 5, 10), (5, 4, 100)],
)
def test_requests_of_http(
    gap: int, max_gap: int, expected: int, usual_pipeline: str, http_server: FileServer, root: Path
) -> None:
    """The same with each of zarr's pipelines; gaps are read over as by one chunk's readers."""
    for i, body in enumerate(bodies(gap)):
        http_server.put(f"d/{i}.bin", body)
    declare(root, f"{http_server.url}/d/", gap)
    array = opened(root, quick(http_server), max_gap=max_gap)
    np.testing.assert_array_equal(array[...], DATA)
    assert reads(http_server) == expected


def test_requests_of_s3(
    usual_pipeline: str, s3_server: S3Server, public_s3_bucket: str, root: Path
) -> None:
    for i, body in enumerate(bodies()):
        s3_server.put(public_s3_bucket, f"d/{i}.bin", body)
    declare(root, f"s3://{public_s3_bucket}/d/")
    s3_server.clear()
    allow = {f"s3://{public_s3_bucket}/": zm.anonymous(**s3_server.location_options)}
    np.testing.assert_array_equal(opened(root, allow)[...], DATA)
    assert len(s3_server.requests) == OBJECTS


def test_requests_of_a_hierarchy_on_the_web(
    usual_pipeline: str, http_server: FileServer, tmp_path: Path
) -> None:
    declare(tmp_path, "../d/")
    for file in tmp_path.rglob("*.json"):
        http_server.put(f"h/{file.relative_to(tmp_path).as_posix()}", file.read_bytes())
    for i, body in enumerate(bodies()):
        http_server.put(f"h/d/{i}.bin", body)
    with zm.enable():
        array: Any = zarr.open_array(f"{http_server.url}/h", path="a", mode="r")
    np.testing.assert_array_equal(array[...], DATA)
    assert sum("/d/" in one.target and not one.is_question for one in http_server.requests) == 10


# Bytes at a time ---------------------------------------------------------------------------


class Flight:
    """A fault that counts the bytes that are being asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.peak = 0

    def answer(self, exchange: Exchange) -> Reply:
        reply = exchange.normal()
        with self.lock:
            self.now += len(reply.body)
            self.peak = max(self.peak, self.now)
        time.sleep(0.02)
        with self.lock:
            self.now -= len(reply.body)
        return reply


def test_bytes_in_flight_are_bounded(
    http_server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of several selections that are read at the same time."""
    most = 3 * EACH * CHUNK
    monkeypatch.setattr("zarr_manifest.sources.range_reading.MOST_BYTES_IN_FLIGHT", most)
    monkeypatch.setattr("zarr_manifest.sources.range_reading._budgets", {})
    flight = Flight()
    for i, body in enumerate(bodies()):
        http_server.put(f"d/{i}.bin", body)
        http_server.script(f"d/{i}.bin", Fault(flight.answer), sticky=True)
    declare(root, f"{http_server.url}/d/")
    array = opened(root, quick(http_server))
    threads = [threading.Thread(target=lambda: array[...]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert CHUNK * EACH < flight.peak <= most


def test_memory_beyond_the_output_is_bounded(http_server: FileServer, root: Path) -> None:
    """Of a selection of 64 MiB, from files and from a server that is in the same process."""
    chunk, count = 2**20, 64
    body = np.arange(chunk, dtype="<u8").tobytes()
    root.mkdir()
    (root / "o.bin").write_bytes(body)
    http_server.put("o.bin", body)
    for path in ("../o.bin", f"{http_server.url}/o.bin"):
        manifest = {
            str(i): {"path": path, "offset": chunk * (i % 8), "length": chunk} for i in range(count)
        }
        shutil.rmtree(root / "a", ignore_errors=True)
        values = np.broadcast_to(np.uint8(0), chunk * count)
        write_manifest_array(root, "a", values, (chunk,), manifest)
        array = opened(root, quick(http_server))
        array[: 2 * chunk]
        tracemalloc.start()
        try:
            found = array[...]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < found.nbytes + 40 * 2**20


# What fails --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (status(404), "source_not_found"),
        (truncate(9), "short_read"),
        (reset(), "source_error"),
    ],
    ids=["404", "short", "reset"],
)
def test_an_error_in_the_middle(
    fault: Fault, code: str, http_server: FileServer, root: Path
) -> None:
    for i, body in enumerate(bodies()):
        http_server.put(f"d/{i}.bin", body)
    http_server.script("d/5.bin", fault, sticky=True)
    declare(root, f"{http_server.url}/d/")
    allow = {f"{http_server.url}/": zm.anonymous(retry_config=NO_RETRIES)}
    array = opened(root, allow)
    with pytest.raises(zm.ManifestError) as raised:
        array[...]
    error = raised.value
    assert (error.code, error.array) == (code, "a")
    assert error.location == f"{http_server.url}/d/5.bin"
    assert error.chunk in [str(i) for i in range(50, 60)]
    # What it does not concern is read.
    np.testing.assert_array_equal(array[: 50 * CHUNK], DATA[: 50 * CHUNK])


def test_a_failure_ends_the_read(
    http_server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for hundreds of requests that have not been made."""
    for i, body in enumerate(bodies()):
        http_server.put(f"d/{i}.bin", body)
    declare(root, f"{http_server.url}/d/")
    array = opened(root, quick(http_server), max_gap=-1)
    array[...]
    http_server.clear()
    http_server.script("d/0.bin", status(404), sticky=True)
    http_server.latency = 0.05
    with pytest.raises(zm.errors.SourceNotFoundError):
        array[...]
    made = reads(http_server)
    assert made < 70
    time.sleep(0.2)
    assert reads(http_server) <= made + 32


def test_ranges_within_a_shorter_object_are_read(http_server: FileServer, root: Path) -> None:
    """Merged with one that is not, which is the one that fails."""
    short = bodies()[9][: -CHUNK // 2]
    for i, body in enumerate(bodies()):
        http_server.put(f"d/{i}.bin", short if i == 9 else body)
    declare(root, f"{http_server.url}/d/")
    array = opened(root, quick(http_server))
    with pytest.raises(zm.errors.RangeOutOfBoundsError) as raised:
        array[...]
    assert raised.value.chunk == "99"


def test_an_object_of_s3_that_has_changed(root: Path, s3_server: S3Server, s3_bucket: str) -> None:
    bucket = Bucket(root, s3_server, s3_bucket)
    bucket.declare(etag=bucket.etag())
    array = opened(root, bucket.allow)
    np.testing.assert_array_equal(array[...], np.arange(104, 120, dtype="u1"))
    s3_server.put(s3_bucket, "d/f.bin", bytes(24))
    with pytest.raises(zm.errors.SourceChangedError):
        array[...]
