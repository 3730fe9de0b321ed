"""The file as HDF5 reads it: a failure to read is never taken for damage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from obspec_utils.readers import BlockStoreReader
from obstore.store import MemoryStore

from zarr_manifest.conversion.files.hdf5 import read_hdf5

BLOCK = 2**20  # bytes that are read at once


class Vanishing:
    """Reads from a store whose file loses its end after the first resolution."""

    def __init__(self, body: bytes, kept: int) -> None:
        self.store = MemoryStore()
        self.store.put("f.h5", body)
        self._body, self._kept = body, kept

    def reader(self, url: str) -> Any:
        return BlockStoreReader(self.store, "f.h5")

    def vanish(self) -> None:
        self.store.put("f.h5", self._body[: self._kept])


class Short(io.BytesIO):
    """Reads one byte less than there is, behind the first block."""

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        found = super().read(size)
        return found if start < BLOCK else found[:-1]

    def reader(self, url: str) -> Any:
        return self


@pytest.fixture
def body(tmp_path: Path) -> bytes:
    """A file with datasets in its first block, and far behind it."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["near"] = np.arange(3)
        file["filler"] = np.zeros(2 * BLOCK, "u1")
        for number in range(20):
            file[f"far{number}"] = np.arange(3)
    return (tmp_path / "f.h5").read_bytes()


def test_fewer_bytes_than_requested_are_an_error(body: bytes) -> None:
    with pytest.raises(OSError, match="bytes were requested, but only"):
        read_hdf5("memory:///f.h5", Short(body), inline_limit=0)


def test_a_failure_to_read_refuses_no_dataset(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Vanishing(body, BLOCK)
    opened = h5py.File

    def vanishing(*args: Any, **options: Any) -> h5py.File:
        file = opened(*args, **options)
        source.vanish()
        return file

    monkeypatch.setattr(h5py, "File", vanishing)
    with pytest.raises(Exception, match=r"[Rr]ange") as caught:
        read_hdf5("memory:///f.h5", source, inline_limit=0)
    assert "Unable to" not in str(caught.value)
