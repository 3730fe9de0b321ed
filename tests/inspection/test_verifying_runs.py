"""How verifying reads: merged, once, in workers, and going on where another run was killed."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import zarr_manifest as zm
from tests.forked import Forked
from tests.inspection.damaged_places import (
    CHUNKS,
    CREATION,
    DAMAGED,
    OTHER,
    THEN,
    OnDisk,
)
from tests.processes import CONTEXT, cluster
from tests.servers.http_files import FileServer
from zarr_manifest.format import compute_checksum
from zarr_manifest.inspection import Report


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
import importlib, sys
import zarr_manifest as zm
module, _, name = "zarr_manifest.inspection.blocks._MOST_BYTES".rpartition(".")
setattr(importlib.import_module(module), name, 2**23)
root, state, url = sys.argv[1:]
report = zm.verify(root, read="all", state=state, allow=[url])
"""
_SIZE, _MIB = 2**16, 2**20


@pytest.mark.slow
def test_a_killed_run_goes_on_and_reads_nothing_again(
    root: Path,
    tmp_path: Path,
    http_server: FileServer,
    monkeypatch: pytest.MonkeyPatch,
    forked: Forked,
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
        process = forked.start(_PROGRAM, root, state, allow[0])
        enough = known + int(rng.integers(500, 2000))
        latest = time.monotonic() + 60
        while time.monotonic() < latest and (not state.exists() or state.stat().st_size < enough):
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait().returncode == -signal.SIGKILL
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


def test_nothing_is_begun_after_the_time_limit(
    root: Path, tmp_path: Path, http_server: FileServer
) -> None:
    """Not even within a block of 16 MB, for which the line takes four seconds."""
    allow, body = in_one_object(root, http_server, count=256, size=_SIZE)
    options: dict[str, Any] = {"read": "all", "state": tmp_path / "state.jsonl", "allow": allow}
    http_server.bandwidth = 4e6
    began = time.monotonic()
    report = zm.verify(root, time_limit=timedelta(seconds=1), **options)
    assert time.monotonic() - began < 3
    assert (report.is_complete, report.read) == (False, 0)
    assert report.not_checked[0] == "256 chunks: the time limit was reached"
    done = recorded_spans(options["state"])
    assert 0 < sum(map(length, done)) < len(body)
    http_server.bandwidth = math.inf
    http_server.clear()
    report = zm.verify(root, **options)
    assert (report.is_complete, report.read, report.objects) == (True, 256, 1)
    assert not any(meet(span, each) for span in bytes_sent(http_server) for each in done)


@pytest.mark.slow
def test_a_worker_elsewhere_hands_over_what_it_has_read(
    root: Path, tmp_path: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarr_manifest.inspection.verifying._SECONDS", 0.3)
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**22)
    allow, body = in_one_object(root, http_server, count=128, size=_SIZE)
    damaged = body[:_SIZE] + bytes(3) + body[_SIZE + 3 :]
    http_server.put("raw.bin", damaged, last_modified=THEN)
    expected = zm.verify(root, read="all", allow=allow)
    state = tmp_path / "state.jsonl"
    http_server.bandwidth = 6e6
    with ProcessPoolExecutor(1, CONTEXT) as processes:
        report = zm.verify(root, read="all", allow=allow, state=state, parallel=processes)
    assert comparable(report) == comparable(expected)
    lines = [json.loads(text) for text in state.read_text().splitlines()]
    assert sum("examined" in line for line in lines) > 1
    assert report.objects == 1


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
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**14)
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
def test_workers_of_a_cluster_find_the_same(
    root: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarr_manifest.inspection.blocks._MOST_BYTES", 2**15)
    allow, body = in_one_object(root, http_server, count=256, size=4096)
    http_server.put("raw.bin", body[:77] + b"?" + body[78:], last_modified=THEN)
    expected = zm.verify(root, read="all", allow=allow)
    http_server.clear()
    with cluster(workers=2) as client:
        report = zm.verify(root, read="all", allow=allow, parallel=client.get_executor())
    assert comparable(report) == comparable(expected)
    assert sum(last - first for first, last in bytes_sent(http_server)) == len(body)
