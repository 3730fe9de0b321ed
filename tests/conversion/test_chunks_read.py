"""What looks at all chunks reads them by few requests."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.conversion.files.converted_files import IGNORED_WARNINGS
from tests.servers.http_files import FileServer
from zarr_manifest.conversion import ArrayNode, complete, read_files, refresh

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

COUNT = 50
BODY = np.random.default_rng(0).integers(0, 256, COUNT * 20, "u1").tobytes()


@pytest.fixture
def root(tmp_path: Path, http_server: FileServer) -> Path:
    """An array of many chunks, the last of which has no stated length."""
    http_server.put("f.bin", BODY)
    url = f"{http_server.url}/f.bin"
    entries: dict[str, Any] = {
        str(n): {"path": url, "offset": 20 * n, "length": 20} for n in range(COUNT)
    }
    del entries[str(COUNT - 1)]["length"]
    zarr.create_group(tmp_path / "data.zarr")
    zm.create_array(tmp_path / "data.zarr", "a", entries, shape=20 * COUNT, chunks=20, dtype="u1")
    return tmp_path / "data.zarr"


LOOKING: dict[str, Callable[[Path, Any], Any]] = {
    "complete": lambda root, allow: complete(root, allow=allow),
    "refresh": lambda root, allow: refresh(root, allow=allow, read=True),
    "snapshot": lambda root, allow: zm.snapshot(
        root, root.parent / "snap.zarr", checksum="sha256", allow=allow
    ),
    "copies": lambda root, allow: zm.snapshot(
        root, root.parent / "snap.zarr", copy=True, allow=allow
    ),
}


@pytest.mark.parametrize("name", LOOKING)
def test_chunks_are_read_together(name: str, root: Path, http_server: FileServer) -> None:
    assert not getattr(LOOKING[name](root, [http_server.url]), "refused", [])
    reads = [each for each in http_server.requests if not each.is_question]
    assert len(reads) <= 2  # all, and the one without a length
    place = root if name in ("complete", "refresh") else root.parent / "snap.zarr"
    allow = [http_server.url, root.parent]
    array: Any = zarr.open_array(zm.ManifestStore(place, allow=allow), path="a", mode="r")
    assert array[...].tobytes() == BODY


@pytest.mark.parametrize("name", sorted(LOOKING.keys() - {"refresh"}))
def test_errors_name_the_chunk(name: str, root: Path, http_server: FileServer) -> None:
    http_server.put("f.bin", BODY[:501])
    with pytest.raises(zm.errors.RangeOutOfBoundsError) as raised:
        LOOKING[name](root, [http_server.url])
    error = raised.value
    assert (error.array, error.location) == ("a", f"{http_server.url}/f.bin")
    assert 25 <= int(error.chunk or "") < COUNT


def test_objects_are_refused_with_their_first_wrong_chunk(
    root: Path, http_server: FileServer
) -> None:
    complete(root, allow=[http_server.url])
    body = bytearray(BODY)
    for wrong in (30, 7, 40):
        body[20 * wrong] ^= 1
    http_server.put("f.bin", bytes(body))
    (refused,) = refresh(root, allow=[http_server.url], read=True).refused
    assert (refused.location, refused.code) == (f"{http_server.url}/f.bin", "checksum_mismatch")
    assert "chunk '7'" in refused.reason


@pytest.mark.slow
def test_checksums_of_a_file_take_few_requests(http_server: FileServer) -> None:
    body = io.BytesIO()
    with h5py.File(body, "w") as file:
        file.create_dataset("x", data=np.frombuffer(BODY, "u1"), chunks=(20,), compression=1)
    http_server.put("f.h5", body.getvalue())
    url = f"{http_server.url}/f.h5"
    plain = list(read_files(url))
    needed = len(http_server.requests)
    nodes = read_files(url, checksum="sha256")
    (array,) = [node for node in nodes if isinstance(node, ArrayNode)]
    assert len(http_server.requests) == 2 * needed + 1
    assert len(plain) == 2
    assert all(entry.checksum for _, entry in array.manifest.items())
