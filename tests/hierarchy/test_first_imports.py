"""A first read imports nothing, and a fork waits for what a store imports before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.hierarchies import write_manifest_array
from tests.servers.http_files import FileServer

# Imports take a while, so that a fork meets one.
PROGRAM = """
import os, signal, sys, threading, time
import zarr
from zarr_manifest import ManifestStore

class Slow:
    def find_spec(self, name, path=None, target=None):
        begun.set()
        imported.append(name)
        time.sleep(0.02)

root, url = sys.argv[1:]
begun, imported = threading.Event(), []
sys.meta_path.insert(0, Slow())
stores = []

def open_store():
    stores.append(ManifestStore(root, allow=[url]))

if hasattr(os, "fork"):
    # The child only opens: zarr's event loop and obstore are not made for forks.
    opening = threading.Thread(target=open_store)
    opening.start()
    begun.wait(10)
    child = os.fork()
    if not child:
        signal.alarm(20)
        open_store()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    opening.join()
else:
    open_store()
array = zarr.open_array(stores[0], path="x", mode="r")
imported.clear()
assert array[:].tolist() == [1, 2, 3, 4], array[:]
assert not imported, imported
"""


@pytest.mark.slow
def test_a_fork_while_a_store_is_opened_and_the_first_read(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(b"\1\2\3\4")
    with FileServer(tmp_path) as server:
        paths = [f"{server.url}/raw.bin", "../raw.bin"]
        entries = {str(i): {"path": paths[i % 2], "offset": i, "length": 1} for i in range(4)}
        write_manifest_array(tmp_path, "x", np.zeros(4, "u1"), 1, entries)
        arguments = [str(tmp_path), f"{server.url}/"]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
