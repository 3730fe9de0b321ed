"""Files and directories that are swapped for links while they are read: nothing leaks.

A process of its own exchanges what lies in the directory with a link to what lies outside it, as
fast as it can. Each read gets the former, or an error.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.properties import THOROUGH

INSIDE, PRIVATE = b"inside!!", b"PRIVATE!"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="swaps as Linux can")

# Exchanges two names at once, until its input ends.
SWAP = """
import ctypes, os, sys, threading
here, there = map(os.fsencode, sys.argv[1:])
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print("ready", flush=True)
exchange, EXCHANGE, CWD = ctypes.CDLL(None).renameat2, 2, -100
while True:
    if exchange(CWD, here, CWD, there, EXCHANGE):
        os._exit(1)
"""


@contextmanager
def swapping(name: Path, private: Path) -> Iterator[None]:
    """Exchange a file or a directory with a link to another, again and again."""
    link = name.with_name(f"{name.name}.link")
    link.symlink_to(private)
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", SWAP, str(name), str(link)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
            assert process.poll() is None
        finally:
            process.stdin.close()


CASES = {
    # key that is read: what is swapped, and the private file or directory
    "relative source": ("a/c/0", "data.zarr/raw/f", "private/f"),
    "directory of a relative source": ("a/c/0", "data.zarr/raw", "private"),
    "allowed source": ("b/c/0", "allowed/d/f", "private/f"),
    "directory of an allowed source": ("b/c/0", "allowed/d", "private"),
    "native chunk": ("native/c/0", "data.zarr/native/c/0", "private/f"),
    "directory of a native chunk": ("native/c/0", "data.zarr/native/c", "private"),
    "metadata": ("native/zarr.json", "data.zarr/native/zarr.json", "private/f"),
    "directory of metadata": ("native/zarr.json", "data.zarr/native", "private"),
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    data = np.frombuffer(INSIDE, "u1")
    zarr.create_array(root / "native", data=data, chunks=8, compressors=None)
    for directory in ("data.zarr/raw", "allowed/d", "private"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "f").write_bytes(PRIVATE if directory == "private" else INSIDE)
    (tmp_path / "private/0").write_bytes(PRIVATE)
    (tmp_path / "private/c").mkdir()
    (tmp_path / "private/c/0").write_bytes(PRIVATE)
    (tmp_path / "private/zarr.json").write_bytes(PRIVATE)
    for name, path in {"a": "../raw/f", "b": (tmp_path / "allowed/d/f").as_uri()}.items():
        entry = {"path": path, "offset": 0, "length": 8}
        write_manifest_array(root, name, np.zeros(8, "u1"), 8, {"0": entry})
    return tmp_path


def outcomes(store: zm.ManifestStore, key: str, reads: int) -> Counter[str]:
    """What reading gave, half of the times in an event loop."""
    found: Counter[str] = Counter()

    def count(body: Any) -> None:
        seen = b"" if body is None else body.to_bytes()
        found["leaked" if PRIVATE in seen else "read" if seen else "missing"] += 1

    for _ in range(reads // 2):
        try:
            count(store.get_sync(key))
        except zm.ManifestError as error:
            found[error.code] += 1

    async def asynchronously() -> None:
        prototype = default_buffer_prototype()
        for _ in range(reads - reads // 2):
            try:
                count(await store.get(key, prototype))
            except zm.ManifestError as error:
                found[error.code] += 1

    asyncio.run(asynchronously())
    return found


# 40,000 in all in the thorough tier.
READS = 5_000 if THOROUGH else 200


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_nothing_leaks(top: Path, case: str) -> None:
    key, name, private = CASES[case]
    store = zm.ManifestStore(LocalStore(top / "data.zarr"), allow=[top / "allowed"])
    assert store.get_sync(key) is not None
    with swapping(top / name, top / private):
        found = outcomes(store, key, READS)
        for _ in range(50):
            if "leaked" in found or {"read", "location_not_allowed"} <= found.keys():
                break
            found += outcomes(store, key, READS)
    print(f"{case}: {dict(found)}")
    assert found["leaked"] == 0
    assert found.keys() <= {"read", "location_not_allowed", "leaked"}
    assert found["read"]
    assert found["location_not_allowed"]
