"""The end of a process that has read through obstore: with its own exit status, never aborted."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.forked import Forked
from tests.hierarchies import write_hierarchy, write_manifest_array
from tests.properties import THOROUGH
from tests.servers.http_files import Exchange, Fault, FileServer, Reply
from tests.servers.raw import RawServer

# What happens rarely otherwise: the thread that woke the loop wants the interpreter again while
# that is ending, which takes its time.
SLOW_THREAD = """
import asyncio, threading, time
from asyncio.selector_events import BaseSelectorEventLoop as Loop
wake = Loop._write_to_self
def slow(loop):
    wake(loop)
    if threading.get_ident() != threading.main_thread().ident:
        time.sleep(0.3)
Loop._write_to_self = slow
class End:
    def __del__(self, sleep=time.sleep):
        sleep(0.6)
end = End()
"""

# Through obstore, whose threads are meant: web servers are read by threads of Python.
BUCKET = "s3://data.zarr/"
IN_BUCKET = ("validate", BUCKET, "--environment", BUCKET)

READ = f"""
import zarr
from zarr_manifest import ManifestStore, environment
store = ManifestStore({BUCKET!r}, allow={{{BUCKET!r}: environment()}})
zarr.open_group(store, mode="r")["inline"]
"""

COMMAND = f"""
import sys
from zarr_manifest.command_line import main
sys.argv = ["zarr-manifest", *{IN_BUCKET!r}]
main()
"""


def in_bucket(server: FileServer) -> dict[str, str]:
    """Return the variables by which a directory of a server is a bucket that cannot be listed."""
    return {
        "AWS_ENDPOINT": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_SKIP_SIGNATURE": "true",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "status"), [(READ, 0), (COMMAND, 3)], ids=["library", "command"]
)
def test_it_waits_for_threads_that_hand_over_an_answer(
    program: str, status: int, tmp_path: Path, forked: Forked
) -> None:
    write_hierarchy(tmp_path / "data.zarr")
    with FileServer(tmp_path) as server:
        done = forked.run(SLOW_THREAD + program, **in_bucket(server))
    assert done.returncode == status, done.stderr


# One chunk is missing; the answer about the other comes while the interpreter ends.
ABANDON = """
import os, time
class End:
    def __del__(self, sleep=time.sleep, write=os.write):
        write(2, b"ending\\n")
        sleep(0.6)
end = End()
import zarr
from zarr_manifest import ManifestStore
zarr.open_array(ManifestStore({url!r}), path="x", mode="r")[:]
"""


@pytest.mark.slow
def test_it_cancels_requests_that_nobody_waits_for(tmp_path: Path, forked: Forked) -> None:
    manifest = {"0": {"path": "missing"}, "1": {"path": "late"}}
    write_manifest_array(tmp_path, "x", np.zeros(2, "u1"), (1,), manifest)
    (tmp_path / "x" / "late").write_bytes(b"1")
    ending = threading.Event()

    def answer(exchange: Exchange) -> Reply:
        ending.wait(60)
        return exchange.normal()

    with FileServer(tmp_path) as server:
        server.script("/x/late", Fault(answer))
        reading, writing = os.pipe()
        process = forked.start(ABANDON.format(url=server.url), stderr=writing)
        os.close(writing)
        printed = []
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                printed.append(line)
                if line == b"ending\n":
                    ending.set()
        ending.set()  # the server ends once it has answered, also if nobody waits
        assert process.wait().returncode == 1
    assert b"source_not_found" in b"".join(printed)


# A body of megabytes begins to arrive, and never ends.
WAIT = """
import threading
import zarr
from zarr_manifest import ManifestStore
array = zarr.open_array(ManifestStore({root!r}, allow=[{url!r}]), path="x", mode="r")
array[:{half}]
def read():
    array[{half}:]
if {ends}:
    threading.Thread(target=read, daemon=True).start()
    open({end!r}).close()
else:
    read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True], ids=["interrupted", "ending"])
def test_it_does_not_wait_for_bodies_that_do_not_arrive(
    ends: bool, tmp_path: Path, forked: Forked
) -> None:
    size = 2 * 1024 * 1024
    last = threading.Event()

    def answer(request: str) -> Iterator[bytes | float]:
        found = re.search(r"bytes=(\d+)-(\d+)", request)
        assert found is not None
        first, final = int(found[1]), int(found[2])
        yield b"HTTP/1.1 206 Partial Content\r\nLast-Modified: Wed, 31 Jan 2024 12:00:00 GMT\r\n"
        yield f"Content-Length: {final - first + 1}\r\n".encode()
        yield f"Content-Range: bytes {first}-{final}/{4 * size}\r\n\r\n".encode()
        yield bytes(1000 if first else final + 1)
        if first:
            last.set()
            yield 100.0

    with RawServer(answer) as server:
        entries = {
            str(i): {"path": f"{server.url}/o", "offset": i * size, "length": size}
            for i in range(4)
        }
        write_manifest_array(tmp_path, "x", np.zeros(4 * size, "u1"), size, entries)
        end = tmp_path / "end"
        os.mkfifo(end)
        settings = {"root": str(tmp_path), "url": f"{server.url}/", "end": str(end)}
        process = forked.start(WAIT.format(**settings, half=2 * size, ends=ends))
        assert last.wait(60)
        time.sleep(0.5)  # until it waits for the rest
        started = time.monotonic()
        if ends:
            end.open("w").close()
        else:
            os.kill(process.pid, signal.SIGINT)
        done = process.wait()
    assert time.monotonic() - started < 10
    assert done.returncode == (0 if ends else -signal.SIGINT), done.stderr


@pytest.mark.slow
def test_it_does_not_wait_for_anything_else(forked: Forked) -> None:
    program = """
import atexit, threading, time
from zarr_manifest import ManifestStore
threading.Thread(target=threading.Event().wait, daemon=True).start()
started = time.monotonic()
atexit._run_exitfuncs()
print(time.monotonic() - started)
"""
    assert float(forked.run(program).stdout) < 1.5


# Each ends as a command does, and starts in no time: what it needs is imported already.
FORKED = """
import os, sys
import obstore
from zarr_manifest.command_line import application, main

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        sys.argv = ["zarr-manifest", *sys.argv[2:]]
        main()
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5 if THOROUGH else 1))
def test_commands_whose_answer_is_an_error_end_with_its_status(
    part: int, tmp_path: Path, forked: Forked
) -> None:
    """1,000 of them in the thorough tier; without the wait, one in 20 to 100 was aborted."""
    runs, at_once = (200, 2) if THOROUGH else (10, 1)
    write_hierarchy(tmp_path / "data.zarr")
    with FileServer(tmp_path) as server:
        arguments = [str(runs // at_once), *IN_BUCKET]
        started = [forked.start(FORKED, *arguments, **in_bucket(server)) for _ in range(at_once)]
        done = [each.wait() for each in started]
    statuses = [int(line) for each in done for line in each.stdout.splitlines()]
    assert statuses == [3] * runs
