"""A first read makes no more requests than later ones, though its chunks wait for a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.servers.http_files import FileServer

OBJECTS, EACH, CHUNK = 3, 40, 8
AT_ONCE = 10
DATA = np.arange(OBJECTS * EACH * CHUNK, dtype="<u2")


def write_array(root: Path, server: FileServer) -> None:
    """Adjacent chunks in each of a few objects; the manifest is a document."""
    nbytes = CHUNK * DATA.itemsize
    manifest: dict[str, Any] = {}
    for number, part in enumerate(np.split(DATA, OBJECTS)):
        server.put(f"d/{number}.bin", part.tobytes())
        for i in range(EACH):
            entry = {"path": f"{server.url}/d/{number}.bin", "offset": i * nbytes, "length": nbytes}
            manifest[str(number * EACH + i)] = entry
    array = write_manifest_array(root, "a", DATA, (CHUNK,), "./manifest.json")
    (array / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("place", ["local", "server"])
def test_chunks_that_waited_for_the_document_are_requested_together(
    place: str, tmp_path: Path, http_server: FileServer
) -> None:
    write_array(tmp_path, http_server)
    if place == "server":
        for file in tmp_path.rglob("*.json"):
            http_server.put(f"h/{file.relative_to(tmp_path).as_posix()}", file.read_bytes())
    root = tmp_path if place == "local" else f"{http_server.url}/h"
    with zarr.config.set({"async.concurrency": AT_ONCE}):
        store = zm.ManifestStore(root, allow=[f"{http_server.url}/d/"])
        array: Any = zarr.open_array(store, path="a", mode="r")
        for _ in range(2):
            http_server.clear()
            np.testing.assert_array_equal(array[:], DATA)
            made = [each for each in http_server.requests if "/d/" in each.target]
            assert len(made) == OBJECTS
