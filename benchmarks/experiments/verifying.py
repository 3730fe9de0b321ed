"""What does it cost to verify? Memory and time of many entries, requests, and bytes in a second.

The memory is that of a process that verifies documents and objects of a partitioned manifest,
with all that it imports. The same manifest is compared with a copy of which one document has
changed. Requests are counted as planned, for chunks that are objects of a bucket each, with those
of a server that is asked for nothing. Bytes are read from the tests' server, and compared with
what curl reads from it, in turns: over a line of limited bandwidth, and without a limit, where
the processors that server and readers share are the limit.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import shutil
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import zarr_manifest as zm
from benchmarks.effort import Effort
from benchmarks.goals import MET, NOT_MET
from benchmarks.layout import Table, number
from benchmarks.remote_server import running
from zarr_manifest.format import Conditions, compute_checksum, verify_checksum
from zarr_manifest.inspection.blocks import MOST_CHUNKS
from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import ObjectVersion, Pace, object_states
from zarr_manifest.sources.object_reader import PAGE, ObstoreReader

_MOST_MEGABYTES = 200
_MOST_REQUESTS = 100_000
_MOST_SECONDS = 1
_LEAST_SHARE = 0.8

# Bytes a second that the server sends.
_LINES = {"1 Gbit/s": 1e9 / 8, "10 Gbit/s": 1e10 / 8, "no limit": math.inf}

_OBJECTS = 1000
_TIMES = 9
_CHUNK = 2**20

_VERIFY = """
import datetime, json, sys, time
import zarr
import zarr_manifest as zm
options = json.loads(sys.argv[2])
first = {"read": "1%"} if "read" in options else {"time_limit": datetime.timedelta(0)}
zm.verify(sys.argv[1], **options | first)  # imports
began = time.monotonic()
report = zm.verify(sys.argv[1], **options)
seconds = time.monotonic() - began
status = dict(line.split(":") for line in open("/proc/self/status"))
megabytes = int(status["VmHWM"].split()[0]) / 1000  # that of resource is inherited
print(json.dumps([report.status, report.chunks, report.objects, report.nbytes, seconds, megabytes]))
"""


def run(effort: Effort) -> Iterator[Table]:
    goals = Table(("goal", "bound", "ours", "verdict"), title="Goals")
    with TemporaryDirectory() as name:
        directory = Path(name)
        count = effort.pick(10_000_000, 200_000)
        _write_many(directory, count)
        seconds, megabytes = _verified(directory / "many.zarr", count, allow=[f"{directory}/raw/"])
        table = Table(("", "seconds", "peak MB"), title="Documents and objects")
        table.add(f"{count:,} entries, {_OBJECTS:,} objects", number(seconds), number(megabytes))
        yield table
        goals.add(*_goal("peak memory", megabytes, _MOST_MEGABYTES, "MB"))
        seconds = _compared(directory, count)
        goals.add(*_goal(f"diff of {count:,} entries", seconds, _MOST_SECONDS, "s"))
    requests = _requests(10**8)
    goals.add(*_goal("requests for 10⁸ objects of a bucket, planned", requests, _MOST_REQUESTS, ""))
    columns = ("line", "curl MB/s", "piped to a CRC-32C", "verify MB/s", "share")
    table = Table(columns, title="Bytes of a web server")
    for line, bandwidth in _LINES.items():
        mebibytes = 128 if bandwidth < 1e9 else effort.pick(2048, 128)
        *rates, share = _bytes(mebibytes, bandwidth)
        table.add(line, *map(number, (*rates, share)))
        verdict = MET if share >= _LEAST_SHARE else NOT_MET
        goals.add(f"bytes a second, {line}", f"≥ {_LEAST_SHARE} of curl's", number(share), verdict)
    table.notes += [
        "each MiB has a CRC-32C; curl makes one request, and drops what it reads",
        f"medians of {_TIMES} rounds, in each of which all three read; share: in a round",
    ]
    yield table
    yield goals


def _goal(name: str, found: float, most: float, unit: str) -> tuple[str, str, str, str]:
    verdict = MET if found <= most else NOT_MET
    return name, f"≤ {most:,} {unit}".strip(), f"{number(found)} {unit}".strip(), verdict


def _write_many(directory: Path, count: int) -> None:
    """Write an array of one-byte chunks in a few objects, in partitions of 100,000."""
    (directory / "raw").mkdir()
    each = count // _OBJECTS
    for n in range(_OBJECTS):
        with (directory / "raw" / f"{n:04}").open("wb") as file:
            file.truncate(each)
    numbers = np.arange(count)
    names = [(directory / "raw" / f"{n:04}").as_uri() for n in range(_OBJECTS)]
    paths = zm.manifest.NumberedPaths((numbers // each).astype(np.int32), names)
    manifest = zm.Manifest.from_columns(
        (count,), paths=paths, offsets=numbers % each, lengths=np.ones(count, np.int64)
    )
    options: dict[str, Any] = {"shape": count, "chunks": 1, "dtype": "u1", "compressors": None}
    # With a base, as snapshots have, equal documents say the same wherever they are.
    options |= {"partition_shape": [100_000], "base": f"{directory.as_uri()}/"}
    zm.create_array(directory / "many.zarr", "a", manifest, **options)


def _verified(root: Path, chunks: int, **options: Any) -> tuple[float, float]:
    """Verify in a process of its own; return the seconds, and the peak memory in megabytes."""
    command = [sys.executable, "-c", _VERIFY, str(root), json.dumps(options)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    status, found, _, _, seconds, megabytes = json.loads(done.stdout)
    if (status, found) != (0, chunks):
        raise RuntimeError(f"status {status} for {found:,} chunks")
    return seconds, megabytes


def _compared(directory: Path, count: int) -> float:
    """Return how many seconds it takes to compare with a copy in which one entry is another."""
    old, new = directory / "many.zarr", directory / "changed.zarr"
    shutil.copytree(old, new)
    with zm.edit(new) as root:
        zm.entries(root["a"])[count // 2] = {}
    zm.diff(new, old)  # imports
    began = time.monotonic()
    found = zm.diff(old, new)
    seconds = time.monotonic() - began
    if [each.path for each in found.nodes] != ["a"]:
        raise RuntimeError(f"found {found}")
    return seconds


class _Listed(ObstoreReader, frozen=True):
    """Lists the names of numbers, and counts how often."""

    pages: list[str]

    async def list_states(self, after: str) -> list[tuple[str, Conditions]]:
        self.pages.append(after)
        first = bisect_right(range(10**9), after, key=lambda n: f"x/{n:09}")
        return [(f"x/{n:09}", Conditions(size=1)) for n in range(first, first + PAGE)]


class _Bucket:
    """Sources that have nothing but names."""

    def __init__(self, reader: _Listed) -> None:
        self.reader = reader

    async def local_files(self, locations: Sequence[UrlLocation]) -> list[None]:
        return [None] * len(locations)

    async def reader_of(self, location: UrlLocation) -> tuple[_Listed, str]:
        return self.reader, location.path


def _requests(count: int) -> int:
    """Return how many requests it takes to learn the states of so many objects side by side."""
    from obstore.store import MemoryStore

    reader = _Listed(MemoryStore(), [])
    names = (f"x/{n:09}" for n in range(MOST_CHUNKS, 2 * MOST_CHUNKS))
    objects = [ObjectVersion(UrlLocation("s3", "bucket", name)) for name in names]
    sources: Any = _Bucket(reader)

    async def states() -> list[Any]:
        return await object_states(sources, objects, Pace(100))

    if any(each != Conditions(size=1) for each in asyncio.run(states())):
        raise RuntimeError("an object was not listed")
    return len(reader.pages) * -(-count // MOST_CHUNKS)


def _bytes(mebibytes: int, bandwidth: float) -> tuple[float, ...]:
    """Return megabytes a second of curl, of curl and a checksum, of verify; and its share."""
    with TemporaryDirectory() as name, running(0, bandwidth) as server:
        directory = Path(name)
        (directory / "served").mkdir()
        body = np.random.default_rng(1).bytes(mebibytes * _CHUNK)
        (directory / "served" / "raw.bin").write_bytes(body)
        server.serve(directory / "served")
        url = f"{server.url}/raw.bin"
        checksums = [
            compute_checksum("crc32c", body[n * _CHUNK : (n + 1) * _CHUNK])
            for n in range(mebibytes)
        ]
        entries = {
            str(n): {"path": url, "offset": n * _CHUNK, "length": _CHUNK, "checksum": checksum}
            for n, checksum in enumerate(checksums)
        }
        options: dict[str, Any] = {"shape": len(body), "chunks": _CHUNK, "dtype": "u1"}
        zm.create_array(directory / "data.zarr", "a", entries, compressors=None, **options)
        if shutil.which("curl") is None:
            raise RuntimeError("curl is not installed")
        seconds: list[tuple[float, ...]] = []
        for _ in range(_TIMES):
            began = time.monotonic()
            subprocess.run(["curl", "-sSo", "/dev/null", url], check=True)
            curl = time.monotonic() - began
            piped = _piped(url, checksums)
            ours, _ = _verified(
                directory / "data.zarr", mebibytes, read="all", allow=[f"{server.url}/"]
            )
            seconds.append((curl, piped, ours))
    rates = [len(body) / 1e6 / median(each) for each in zip(*seconds, strict=True)]
    return *rates, median(curl / ours for curl, _, ours in seconds)


def _piped(url: str, checksums: Sequence[str]) -> float:
    """Return how many seconds it takes to compare what curl writes with checksums."""
    began = time.monotonic()
    piece = bytearray(_CHUNK)
    with subprocess.Popen(["curl", "-sS", url], stdout=subprocess.PIPE) as curl:
        written: Any = curl.stdout
        fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, _CHUNK)
        for checksum in checksums:
            written.readinto(piece)
            verify_checksum(checksum, piece)
    return time.monotonic() - began
