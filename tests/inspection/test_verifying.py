"""What is damaged is found, by chunk and by name, and nothing else is."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
import zarr
from hypothesis import settings
from numcodecs.checksum32 import CRC32C
from zarr.codecs import Crc32cCodec

import zarr_manifest as zm
from tests.hierarchies import Values
from tests.processes import CONTEXT
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, status
from zarr_manifest import conversion, errors
from zarr_manifest.format import compute_checksum
from zarr_manifest.inspection import Finding, Report
from zarr_manifest.sources import ObjectPart

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

CREATION: dict[str, Any] = {
    "shape": 32,
    "chunks": 8,
    "dtype": "u1",
    "compressors": Crc32cCodec(),
    "fill_value": 0,
}
DAMAGED = 2
THEN = datetime(2024, 1, 31, 12, tzinfo=UTC)
NOWHERE = "http://127.0.0.1:9"


def encoded(number: int) -> bytes:
    """Return a chunk, and the CRC-32C that its codec adds."""
    body = bytes([number + 1] * 8)
    return body + int(compute_checksum("crc32c", body)[7:], 16).to_bytes(4, "little")


CHUNKS = [encoded(number) for number in range(4)]
OTHER = bytes([99]) + CHUNKS[DAMAGED][1:]
GARBAGE = b"no codec's own bytes"[:12]


class Place:
    """An array of four chunks, each an object of its own; the third is to be damaged."""

    allow: Any = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self.declare()

    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        """Write the hierarchy, with some other chunks from the beginning."""
        for number, body in enumerate(CHUNKS):
            self.put(number, (bodies or {}).get(number, body))
        entries = {str(n): self.entry(n, (bodies or {}).get(n, CHUNKS[n])) for n in range(4)}
        shutil.rmtree(self.root, ignore_errors=True)
        zarr.create_group(self.root)
        zm.create_array(self.root, "a", entries, inline=False, **CREATION)

    def entry(self, number: int, body: bytes) -> dict[str, Any]:
        checksum = compute_checksum("crc32c", body)
        return {**self.conditions(number, body), "length": len(body), "checksum": checksum}

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        raise NotImplementedError

    def put(self, number: int, body: bytes) -> None:
        raise NotImplementedError


class OnDisk(Place):
    def path(self, number: int) -> Path:
        return self.root.parent / f"raw-{number}.bin"

    def put(self, number: int, body: bytes) -> None:
        self.path(number).write_bytes(body)
        os.utime(self.path(number), (THEN.timestamp(),) * 2)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        self.allow = [f"file://{self.root.parent}/"]
        return {
            "path": self.path(number).as_uri(),
            "size": len(body),
            "last_modified": "2024-01-31T12:00:00Z",
        }

    def remove(self) -> None:
        self.path(DAMAGED).unlink()


class OnWeb(Place):
    def __init__(self, root: Path, server: FileServer) -> None:
        self.server = server
        self.allow = {f"{server.url}/": zm.anonymous(retry_config=NO_RETRIES)}
        super().__init__(root)

    def put(self, number: int, body: bytes, etag: str | None = None) -> None:
        self.server.put(f"{number}.bin", body, etag=etag or f"tag-{number}", last_modified=THEN)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        url = f"{self.server.url}/{number}.bin"
        return {"path": url, "size": len(body), "etag": f'"tag-{number}"'}

    def remove(self) -> None:
        self.server.remove(f"{DAMAGED}.bin")

    def answer(self, code: int) -> None:
        self.server.script(f"{DAMAGED}.bin", status(code), sticky=True)


class InBuckets(Place):
    """The third chunk is in a bucket of its own."""

    def __init__(self, root: Path, server: S3Server, bucket: str) -> None:
        self.server, self.bucket = server, bucket
        server.create_bucket(f"{bucket}-b", public=True)
        self.etags: dict[int, str] = {}
        options = {**server.location_options, "retry_config": NO_RETRIES}
        self.allow = {f"s3://{name}/": zm.anonymous(**options) for name in (bucket, f"{bucket}-b")}
        super().__init__(root)

    def place(self, number: int) -> tuple[str, str]:
        return (f"{self.bucket}-b" if number == DAMAGED else self.bucket, f"x/{number}.bin")

    def put(self, number: int, body: bytes) -> None:
        self.server.put(*self.place(number), body)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        bucket, key = self.place(number)
        etag = hashlib.md5(body).hexdigest()
        return {"path": f"s3://{bucket}/{key}", "size": len(body), "etag": f'"{etag}"'}

    def remove(self) -> None:
        self.server.delete(*self.place(DAMAGED))

    def deny(self) -> None:
        self.server._public.discard(f"{self.bucket}-b")

    def end(self) -> None:
        options = {**self.server.location_options, "endpoint": NOWHERE}
        self.allow[f"s3://{self.bucket}-b/"] = zm.anonymous(**options, retry_config=NO_RETRIES)


class Inline(Place):
    def put(self, number: int, body: bytes) -> None:
        pass

    def entry(self, number: int, body: bytes) -> dict[str, Any]:
        # An entry with the checksum of other bytes, unless those are what was to be written.
        stated = body if body == GARBAGE else CHUNKS[number]
        return {"data": body, "checksum": compute_checksum("crc32c", stated)}


class Native(Place):
    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        if not self.root.exists():
            values = np.repeat(np.arange(1, 5, dtype="u1"), 8)
            made = {k: v for k, v in CREATION.items() if k not in ("shape", "dtype")}
            zarr.create_group(self.root).create_array("a", data=values, **made)
        for number, body in (bodies or {}).items():
            self.put(number, body)

    def path(self, number: int) -> Path:
        return self.root / "a" / "c" / str(number)

    def put(self, number: int, body: bytes) -> None:
        self.path(number).write_bytes(body)

    def remove(self) -> None:
        self.path(DAMAGED).unlink()


class NativeOfV2(Native):
    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        if not self.root.exists():
            options: Any = {"filters": [CRC32C()], "compressors": None, "fill_value": 0}
            group = zarr.create_group(self.root, zarr_format=2)
            array = group.create_array("a", shape=32, chunks=8, dtype="u1", **options)
            array[:] = np.repeat(np.arange(1, 5, dtype="u1"), 8)
        super().declare(bodies)

    def path(self, number: int) -> Path:
        return self.root / "a" / str(number)


@pytest.fixture(params=["file", "web", "bucket", "inline", "native", "native of v2"])
def place(request: pytest.FixtureRequest, root: Path) -> Iterator[Any]:
    """Sources of each kind."""
    match request.param:
        case "file":
            yield OnDisk(root)
        case "web":
            yield OnWeb(root, request.getfixturevalue("http_server"))
        case "bucket":
            server = request.getfixturevalue("s3_server")
            yield InBuckets(root, server, request.getfixturevalue("public_s3_bucket"))
        case "inline":
            yield Inline(root)
        case "native":
            yield Native(root)
        case _:
            yield NativeOfV2(root)


def manifest(place: Place) -> Path:
    (found,) = (place.root / "a").glob("manifest-*.json")
    return found


def put(body: bytes) -> Callable[[Any], None]:
    return lambda place: place.put(DAMAGED, body)


def declare(body: bytes) -> Callable[[Any], None]:
    return lambda place: place.declare({DAMAGED: body})


SHORTER, LONGER = CHUNKS[DAMAGED][:-1], CHUNKS[DAMAGED] + b"!"

# What is done to the third chunk, by kind of place; and the state in which it is then.
DAMAGE: dict[str, dict[type[Place], tuple[Callable[[Any], Any], str | None]]] = {
    "gone": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (lambda p: p.remove(), "missing")),
        Native: (lambda p: p.remove(), None),  # a chunk of fill values
    },
    "truncated": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (put(SHORTER), "short")),
        Inline: (declare(SHORTER), "corrupt"),
        Native: (put(SHORTER), "undecodable"),
    },
    "longer": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (put(LONGER), "changed")),
        Inline: (declare(LONGER), "corrupt"),
        Native: (put(LONGER), "undecodable"),
    },
    "other bytes": {
        **dict.fromkeys((OnDisk, OnWeb), (put(OTHER), "corrupt")),
        InBuckets: (put(OTHER), "changed"),  # the tag is a digest
        Inline: (declare(OTHER), "corrupt"),
        Native: (put(OTHER), "undecodable"),
    },
    "other tag": {OnWeb: (lambda p: p.put(DAMAGED, CHUNKS[DAMAGED], "other"), "changed")},
    "denied": {
        OnWeb: (lambda p: p.answer(403), "denied"),
        InBuckets: (lambda p: p.deny(), "denied"),
    },
    "unreachable": {
        OnWeb: (lambda p: p.answer(503), "unreachable"),
        InBuckets: (lambda p: p.end(), "unreachable"),
    },
    "undecodable": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline, Native), (declare(GARBAGE), "undecodable")
    ),
    "document lost": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline), (lambda p: manifest(p).unlink(), "missing")
    ),
    "document stale": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline), (lambda p: manifest(p).write_text("{}"), "corrupt")
    ),
}
STATUS = {None: 0, "denied": 3, "unreachable": 3}
ONLY_READ = {"undecodable", "corrupt"}


@pytest.mark.slow
def test_damage_is_found_exactly_where_it_is(place: Any, tmp_path: Path) -> None:
    clean = zm.verify(place.root, read="all", decode=True, allow=place.allow)
    assert (clean.status, clean.findings, clean.sampled) == (0, [], 4), str(clean)
    for kind, by_place in DAMAGE.items():
        known = next((each for each in type(place).mro() if each in by_place), None)
        if known is None:
            continue
        damage, state = by_place[known]
        damage(place)
        report = zm.verify(place.root, read="all", decode=True, allow=place.allow)
        assert report.status == STATUS.get(state, 1), (kind, str(report))
        objects = zm.verify(place.root, allow=place.allow)
        if kind.startswith("document"):
            found = [(each.source, each.chunks, each.state) for each in report]
            assert found == [("documents", (), state)], kind
            assert names(objects) == names(report)
        else:
            found = [(each.chunks, each.state) for each in report]
            assert found == ([] if state is None else [((str(DAMAGED),), state)]), kind
            # Without reading a chunk, everything is found that an object shows.
            seen = isinstance(place, Inline | Native) or state in ONLY_READ
            assert names(objects) == ([] if seen else names(report)), kind
            counts = report.by_state()
            assert counts == {"ok": 3, **({} if state is None else {state: 1})}
        mend(place)


def names(report: Report) -> list[Any]:
    """Return the findings without their messages, in which some servers' answers are timed."""
    return [(each.array, each.chunks, each.state, each.code, each.location) for each in report]


def mend(place: Any) -> None:
    if isinstance(place, OnWeb):
        place.server.script(f"{DAMAGED}.bin")
    if isinstance(place, InBuckets):
        place.server._public.add(f"{place.bucket}-b")
        options = {**place.server.location_options, "retry_config": NO_RETRIES}
        place.allow[f"s3://{place.bucket}-b/"] = zm.anonymous(**options)
    place.declare({DAMAGED: CHUNKS[DAMAGED]} if isinstance(place, Native) else None)


class Failing:
    """Fails with the error of the code that the object is named after."""

    errors: ClassVar = {
        error.code: error("it failed")
        for error in (getattr(errors, name) for name in errors.__all__ if "Error" in name)
    }

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        raise self.errors[key]


def declare_all(root: Path, entries: list[dict[str, Any]]) -> None:
    options: dict[str, Any] = {**CREATION, "shape": len(entries), "chunks": 1}
    zm.create_array(root, "a", {str(n): entry for n, entry in enumerate(entries)}, **options)


def test_every_code_has_a_state(tmp_path: Path) -> None:
    declare_all(tmp_path, [{"path": f"https://own/{code}"} for code in Failing.errors])
    report = zm.verify(tmp_path, read="all", allow={"https://own/": Failing()})
    states = {finding.code: finding.state for finding in report.findings}
    assert states.keys() == Failing.errors.keys()
    # With these, a reader's settings or abilities are in the way, and nothing is known.
    assert {code for code, state in states.items() if state == "unchecked"} == {
        "manifest_error",
        "unsupported_transformer",
        "unsupported_checksum",
        "location_not_allowed",
        "limit_exceeded",
        "read_only",
        "not_convertible",
        "write_conflict",
    }


@pytest.mark.slow
def test_a_hierarchy_with_every_kind_of_node_has_no_finding(root: Path, values: Values) -> None:
    report = zm.verify(root, read="all", decode=True)
    assert (report.status, report.findings) == (0, []), str(report)
    assert report.by_array().keys() == values.keys()
    assert report.by_state().keys() == {"ok"}


@pytest.mark.parametrize("parts", [1, 3, 12])
def test_parts_are_all_chunks_once(tmp_path: Path, parts: int) -> None:
    """The sum of the lengths that are read says which chunks are: each has a bit of its own."""
    lengths = [2**n for n in range(16)]
    (tmp_path / "raw.bin").write_bytes(bytes(2**16))
    declare_all(tmp_path, [{"path": "../raw.bin", "offset": n, "length": n} for n in lengths])
    read = 0
    for number in range(1, parts + 1):
        found = zm.verify(tmp_path, read=f"{number}/{parts}").nbytes
        assert not read & found
        read |= found
    assert read == sum(lengths)


@pytest.mark.parametrize("percent", [0.5, 10])
def test_a_share_of_the_chunks(tmp_path: Path, percent: float) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(20_000))
    declare_all(tmp_path, [{"path": "../raw.bin", "offset": n, "length": 1} for n in range(20_000)])
    share = zm.verify(tmp_path, read=f"{percent}%").nbytes / 20_000
    assert abs(share - percent / 100) < 0.02


@pytest.mark.slow
def test_what_is_read_is_said(root: Path) -> None:
    for text in ("", "0/3", "4/3", "101%", "0%", "1 XB", "-1"):
        with pytest.raises(ValueError, match="what is read"):
            zm.verify(OnDisk(root).root, read=text)
    with pytest.raises(ValueError, match="say which"):
        zm.verify(root, decode=True)


def in_one_object(root: Path, server: FileServer, count: int, size: int) -> tuple[Any, bytes]:
    """Write an array of chunks that lie apart in one object on a server."""
    body = np.random.default_rng(1).bytes(count * size)
    server.put("raw.bin", body, last_modified=THEN)
    url = f"{server.url}/raw.bin"
    entries = {
        str(n): {
            "path": url,
            "offset": n * size,
            "length": size,
            "checksum": compute_checksum("crc32c", body[n * size : (n + 1) * size]),
        }
        for n in range(count)
    }
    options: dict[str, Any] = {"shape": count * size, "chunks": size, "dtype": "u1"}
    zm.create_array(root, "a", entries, compressors=None, **options)
    return [f"{server.url}/"], body


def bytes_sent(server: FileServer) -> list[tuple[int, int]]:
    ranges = [each.headers["range"] for each in server.requests if not each.is_question]
    spans = (text.removeprefix("bytes=").split("-") for text in ranges)
    return sorted((int(first), int(last) + 1) for first, last in spans)


def test_chunks_are_read_once_in_merged_requests(root: Path, http_server: FileServer) -> None:
    allow, body = in_one_object(root, http_server, count=256, size=4096)
    parts = [zm.verify(root, read=f"{n}/3", allow=allow) for n in (1, 2, 3)]
    assert sum(part.sampled for part in parts) == 256
    assert sum(part.nbytes for part in parts) == len(body)
    assert all("95 % confidence" in part.statement for part in parts)
    http_server.clear()
    report = zm.verify(root, read="all", allow=allow)
    assert bytes_sent(http_server) == [(0, len(body))]
    assert (report.statement, report.objects) == ("", 1)


_PROGRAM = """
import sys
import zarr_manifest as zm
from zarr_manifest.inspection import blocks
blocks._MOST_BYTES = 2**23
root, state, url = sys.argv[1:]
report = zm.verify(root, read="all", state=state, allow=[url])
"""
_SIZE, _MIB = 2**16, 2**20


@pytest.mark.slow
def test_a_killed_run_goes_on_and_reads_nothing_again(
    root: Path, tmp_path: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = 20 if settings.get_current_profile_name() == "thorough" else 1
    # More than is read before the last kill.
    allow, body = in_one_object(root, http_server, count=16 * (16 + 12 * kills), size=_SIZE)
    damaged = body[:_SIZE] + bytes(3) + body[_SIZE + 3 :]  # in the second chunk
    http_server.put("raw.bin", damaged, last_modified=THEN)
    state = tmp_path / "state.jsonl"
    http_server.bandwidth = 10e6
    rng = np.random.default_rng(2)
    recorded: list[tuple[int, int]] = []
    for _ in range(kills):
        known = state.stat().st_size if state.exists() else 0
        arguments = [sys.executable, "-c", _PROGRAM, root, state, allow[0]]
        process = subprocess.Popen([str(each) for each in arguments])
        enough = known + int(rng.integers(500, 2000))
        while process.poll() is None and (not state.exists() or state.stat().st_size < enough):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        before, recorded = recorded, [*recorded_spans(state)]
        assert len(recorded) > len(before)
        # What was recorded, of blocks that were still being checked, too, is not read again.
        assert not any(meet(span, done) for span in bytes_sent(http_server) for done in before)
        # Lost is what the requests of two threads were receiving: a MiB each, and what was under
        # way to them. A block is eight.
        received = sum(map(length, recorded)) - sum(map(length, before))
        assert http_server.sent - received <= 2 * (_MIB + _MIB)
        http_server.clear()
    http_server.bandwidth = math.inf
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**23)
    report = zm.verify(root, read="all", state=state, allow=allow)
    assert not any(meet(span, done) for span in bytes_sent(http_server) for done in recorded)
    fresh = zm.verify(root, read="all", allow=allow)
    assert comparable(report) == comparable(fresh)
    assert [each.chunks for each in report] == [("1",)]
    assert [run.is_complete for run in report.runs] == [True]
    assert report.nbytes == len(body)


def test_no_request_spans_what_was_read_before(
    root: Path, tmp_path: Path, http_server: FileServer
) -> None:
    allow, body = in_one_object(root, http_server, count=512, size=4096)
    state = tmp_path / "state.jsonl"
    options: dict[str, Any] = {"read": "all", "state": state, "allow": allow}
    expected = zm.verify(root, **options)
    lines = [json.loads(text) for text in state.read_text().splitlines()]
    examined = [line for line in lines if "examined" in line]
    # Of a block of 2 MB, which one request reads.
    assert [line["examined"]["runs"] for line in examined] == [[[0, 255]], [[256, 511]]]
    examined[0]["examined"]["runs"] = [[7, 7], [300, 310]]
    state.write_text("".join(json.dumps(line) + "\n" for line in (lines[0], examined[0])))
    http_server.clear()
    report = zm.verify(root, **options)
    assert bytes_sent(http_server) == [
        (0, 7 * 4096),
        (8 * 4096, 300 * 4096),
        (311 * 4096, len(body)),
    ]
    assert comparable(report) == comparable(expected)
    assert report.nbytes == len(body)


def recorded_spans(state: Path) -> list[tuple[int, int]]:
    """Return the bytes of chunks that a state file records, each once."""
    numbers: set[int] = set()
    for text in state.read_bytes().splitlines(keepends=True):
        line = json.loads(text) if text.endswith(b"\n") else {}
        found = line.get("block") or line.get("examined")
        if found is not None:
            first, last = map(int, found["key"].split(" ")[2].split("-"))
            for start, stop in found.get("runs", [(0, last - first)]):
                numbers |= {*range(first + start, first + stop + 1)}
    return [(number * _SIZE, (number + 1) * _SIZE) for number in sorted(numbers)]


def length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def comparable(report: Report) -> dict[str, Any]:
    document = report.to_json()
    return {k: v for k, v in document.items() if k not in ("began", "ended", "runs", "objects")}


def test_results_count_for_a_while_and_failures_come_first(
    root: Path, tmp_path: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**13)
    allow, body = in_one_object(root, http_server, count=8, size=4096)
    bad = bytearray(body)
    bad[5 * 4096] ^= 1
    http_server.put("raw.bin", bytes(bad))
    state = tmp_path / "state.jsonl"
    options: dict[str, Any] = {"read": "all", "state": state, "allow": allow}
    assert [each.chunks for each in zm.verify(root, **options)] == [("5",)]
    # As if it had been interrupted after the last block: what was found is not lost.
    lines = state.read_bytes().splitlines(keepends=True)
    unfinished = tmp_path / "unfinished.jsonl"
    unfinished.write_bytes(b"".join(lines[:-1]))
    http_server.put("raw.bin", body)
    http_server.clear()
    report = zm.verify(root, **options | {"state": unfinished})
    assert ([each.chunks for each in report], report.chunks) == ([("5",)], 8)
    assert bytes_sent(http_server) == []
    report = zm.verify(root, since=timedelta(days=30), **options)
    assert (report.status, report.chunks) == (0, 8)
    assert bytes_sent(http_server) == [(4 * 4096, 6 * 4096)]
    assert [(run.damaged, run.not_ok) for run in report.runs] == [(1, 1), (0, 0)]
    assert [line.partition(": ")[2] for line in str(report).splitlines() if line[0] == "2"] == [
        "8 chunks checked, 1 not ok",
        "8 chunks checked, 0 not ok",
    ]
    # Nothing is known to be ok once it is too old, nor in a run of its own.
    for since in (timedelta(0), None):
        http_server.clear()
        assert zm.verify(root, since=since, **options).status == 0
        assert sum(last - first for first, last in bytes_sent(http_server)) == len(body)
    # A failure is the first that is looked at, whatever the order of arrays.
    http_server.put("raw.bin", bytes(bad))
    zm.verify(root, **options)
    seen: list[str] = []
    ended = zm.verify(
        root,
        since=timedelta(days=30),
        time_limit=timedelta(0),
        progress=lambda what, done, total: seen.append(what),
        **options,
    )
    assert (ended.status, ended.is_complete, seen) == (3, False, [])
    assert "time limit" in " ".join(ended.not_checked)


@pytest.mark.slow
def test_several_state_files_count_together(root: Path, tmp_path: Path) -> None:
    place = OnDisk(root)
    zm.create_array(root, "b", {"0": {"data": CHUNKS[0]}}, **CREATION)
    paths = [tmp_path / f"{name}.jsonl" for name in ("merged", "a", "b")]
    for name, path in zip("ab", paths[1:], strict=True):
        zm.verify(root, [name], read="all", state=path, allow=place.allow)
        with path.open("ab") as file:
            file.write(b'{"run": "of a writer that was kil')
    for path in place.root.parent.glob("raw-*.bin"):
        path.rename(path.with_suffix(".away"))
    report = zm.verify(root, read="all", state=paths, since=timedelta(days=1), allow=place.allow)
    assert (report.status, report.chunks, len(report.runs)) == (0, 5, 3)
    other = tmp_path / "other"
    other.write_text("no state\n")
    with pytest.raises(ValueError, match="not a state file"):
        zm.verify(root, state=other)


@pytest.mark.slow
def test_workers_find_the_same(root: Path) -> None:
    place = OnDisk(root)
    place.put(DAMAGED, OTHER)
    options: dict[str, Any] = {"read": "all", "decode": True, "allow": place.allow}
    expected = comparable(zm.verify(root, **options))
    with ProcessPoolExecutor(1, CONTEXT) as processes:
        assert comparable(zm.verify(root, parallel=processes, **options)) == expected
    with ThreadPoolExecutor(2) as threads:
        assert comparable(zm.verify(root, parallel=threads, **options)) == expected
    # Files are read without the threads of obstore, which forks lack.
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as forks:
        assert comparable(zm.verify(root, parallel=forks, **options)) == expected


@pytest.mark.combinations
@pytest.mark.combinations
def test_workers_of_a_cluster_find_the_same(
    root: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**15)
    allow, body = in_one_object(root, http_server, count=256, size=4096)
    http_server.put("raw.bin", body[:77] + b"?" + body[78:], last_modified=THEN)
    expected = zm.verify(root, read="all", allow=allow)
    http_server.clear()
    with (
        distributed.LocalCluster(n_workers=8, threads_per_worker=1, dashboard_address=":0") as made,
        distributed.Client(made) as client,
    ):
        executor = client.get_executor()
        report = zm.verify(root, read="all", allow=allow, parallel=executor)
    assert comparable(report) == comparable(expected)
    assert sum(last - first for first, last in bytes_sent(http_server)) == len(body)


def test_objects_side_by_side_are_listed(
    root: Path, s3_server: S3Server, public_s3_bucket: str
) -> None:
    entries = {str(n): {"path": f"s3://{public_s3_bucket}/x/{n:02}", "size": 1} for n in range(40)}
    for number in range(40):
        s3_server.put(public_s3_bucket, f"x/{number:02}", b"?" * (2 if number == 9 else 1))
    s3_server.delete(public_s3_bucket, "x/07")
    zm.create_array(root, "a", entries, shape=40, chunks=1, dtype="u1", compressors=None)
    s3_server.clear()
    allow = {f"s3://{public_s3_bucket}/": s3_server.options}
    report = zm.verify(root, allow=allow)
    assert [(each.state, each.chunks) for each in report] == [
        ("missing", ("7",)),
        ("changed", ("9",)),
    ]
    assert [each.method for each in s3_server.requests] == ["GET"]
    assert report.by_source() == {
        f"s3://{public_s3_bucket}/": {"ok": 38, "missing": 1, "changed": 1}
    }
    # A bucket that may be read, but not listed.
    s3_server.clear()
    allow = {f"s3://{public_s3_bucket}/": zm.anonymous(**s3_server.location_options)}
    assert names(zm.verify(root, allow=allow)) == names(report)


def test_states_are_told_by_array_and_by_source(root: Path) -> None:
    place = OnDisk(root)
    zarr.create_array(root / "b", data=np.arange(8), chunks=4)
    (prefix,) = place.allow
    lines = str(zm.verify(root, allow=place.allow)).splitlines()
    assert lines[:2] == ["/a: 4 ok", "/b: 2 ok"]
    place.remove()
    lines = str(zm.verify(root, allow=place.allow)).splitlines()
    assert lines[1:5] == [
        "/a: 3 ok, 1 missing",
        "/b: 2 ok",
        f"{prefix}: 3 ok, 1 missing",
        "native: 2 ok",
    ]


def test_what_is_not_allowed_is_not_checked(root: Path) -> None:
    OnDisk(root)
    report = zm.verify(root)
    assert (report.status, report.by_state()) == (3, {"unchecked": 4})
    assert [(each.code, each.count) for each in report] == [("location_not_allowed", 4)]


def test_a_report_is_a_table(root: Path) -> None:
    place = OnDisk(root)
    place.remove()
    report = zm.verify(root, read="all", allow=place.allow)
    assert "4 chunks in 4 objects; 3 chunks read, 36 B" in str(report)
    assert "not checked: the bytes of 1 chunk that cannot be read, or of a changed" in str(report)
    (prefix,) = place.allow
    assert report.rows() == [
        {"array": "a", "source": prefix, "state": "ok", "chunks": 3},
        {"array": "a", "source": prefix, "state": "missing", "chunks": 1},
    ]
    assert all(isinstance(each, Finding) for each in report)
    assert "missing: /a 2: source_not_found" in str(report)
    assert "<table>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_json()))["states"] == report.rows()


def test_what_manifests_lack_is_added_as_one_change(root: Path, http_server: FileServer) -> None:
    zarr.create_group(root)
    for name in ("a", "b"):
        http_server.put(f"{name}.bin", CHUNKS[0] + CHUNKS[1], last_modified=THEN)
        entries: dict[str, Any] = {
            "0": {"path": f"{http_server.url}/{name}.bin", "length": 12},
            "1": {"path": f"{http_server.url}/{name}.bin", "offset": 12},
            "2": {"data": CHUNKS[2]},
            "3": {},
        }
        zm.create_array(root, name, entries, **CREATION)
    allow = [f"{http_server.url}/"]
    assert zm.verify(root, read="all", allow=allow).uncompared == 6
    report = conversion.complete(root, etags=True, allow=allow)
    assert (report.objects, report.arrays, report.refused) == (2, ["a", "b"], [])
    found = zm.entries(zarr.open_group(zm.ManifestStore(root, allow=allow), mode="r")["b"])
    for number in range(3):
        assert found[number]["checksum"] == compute_checksum("crc32c", CHUNKS[number])
    assert found[0].keys() == {"path", "offset", "length", "checksum", "etag", "size"}
    assert found[3] == {}
    report = zm.verify(root, read="all", allow=allow)
    assert (report.status, report.uncompared) == (0, 0)
    # There is nothing left to add; and what has changed since is not recorded.
    assert conversion.complete(root, etags=True, allow=allow).arrays == []
    http_server.put("a.bin", CHUNKS[1] + CHUNKS[0], last_modified=THEN)
    assert {each.state for each in zm.verify(root, allow=allow)} == {"changed"}
    assert conversion.complete(root, etags=True, allow=allow).arrays == []


def test_servers_that_fail_are_not_asked_for_ever(root: Path, http_server: FileServer) -> None:
    entries = {str(n): {"path": f"{http_server.url}/{n}", "size": 1} for n in range(400)}
    for number in range(400):
        http_server.script(str(number), status(503), sticky=True)
    zm.create_array(root, "a", entries, shape=400, chunks=1, dtype="u1", compressors=None)
    allow = {f"{http_server.url}/": zm.anonymous(retry_config=NO_RETRIES)}
    report = zm.verify(root, allow=allow)
    assert report.by_state() == {"unreachable": 400}
    assert report.status == 3
    assert len(http_server.requests) < 200


def test_no_more_requests_begin_in_a_second(root: Path, http_server: FileServer) -> None:
    entries = {str(n): {"path": f"{http_server.url}/{n}", "size": 1} for n in range(20)}
    for number in range(20):
        http_server.put(str(number), b"?")
    zm.create_array(root, "a", entries, shape=20, chunks=1, dtype="u1", compressors=None)
    http_server.script("7", status(503, retry_after=1))
    began = time.monotonic()
    report = zm.verify(root, per_second=100, allow=[f"{http_server.url}/"])
    assert report.status == 0
    # 19 intervals; and as long as the server wanted to be left alone.
    assert time.monotonic() - began >= 1
    assert len(http_server.requests) == 21
