"""What the system has in memory is read without waiting; anything else is left to others."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.sources.cached_files import CachedFiles
from zarr_manifest.sources.local_files import Directory

LARGEST = 2**16


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A directory on a disk: files of memory file systems cannot be read like this."""
    root = Path(tempfile.mkdtemp(dir="/var/tmp" if Path("/var/tmp").is_dir() else None))
    (root / "probe").write_bytes(b"probe")
    if CachedFiles(str(root)).read("probe") is None:
        shutil.rmtree(root)
        pytest.skip("the system does not tell what it has in memory")
    yield root
    shutil.rmtree(root)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@given(content=st.binary(max_size=100), above=st.sampled_from(["", "a/", "a/b/"]))
def test_a_file_that_was_just_written(disk: Path, content: bytes, above: str) -> None:
    path = disk / f"{above}f"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    before = descriptors()
    assert CachedFiles(str(disk)).read(f"{above}f") == content
    assert descriptors() == before


@pytest.mark.parametrize(("size", "is_read"), [(LARGEST, True), (LARGEST + 1, False)])
def test_large_files_are_left_to_threads(disk: Path, size: int, is_read: bool) -> None:
    (disk / "large").write_bytes(bytes(size))
    assert (CachedFiles(str(disk)).read("large") is not None) == is_read


def test_what_is_not_in_memory(disk: Path) -> None:
    path = disk / "cold"
    path.write_bytes(b"x" * 5000)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    assert CachedFiles(str(disk)).read("cold") in (None, b"x" * 5000)
    assert path.read_bytes() == b"x" * 5000
    assert CachedFiles(str(disk)).read("cold") == b"x" * 5000


def test_links_are_left_to_others(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (disk / "inside").write_bytes(b"inside")
    (disk / "outward").symlink_to(tmp_path / "secret")
    (disk / "inward").symlink_to("inside")
    (disk / "above").symlink_to(tmp_path)
    for key in ("outward", "inward", "above/secret", f"../{disk.name}/inside", "/etc/passwd"):
        assert CachedFiles(str(disk)).read(key) is None
    # The directory itself may be named by a link, as for Directory.
    (tmp_path / "named").symlink_to(disk)
    assert CachedFiles(str(tmp_path / "named")).read("inside") == b"inside"
    assert Directory(str(tmp_path / "named")).open("inside").size == 6


def test_what_is_no_regular_file(disk: Path) -> None:
    os.mkfifo(disk / "fifo")
    (disk / "directory").mkdir()
    before = descriptors()
    for key in ("fifo", "directory", "directory/", "missing", "missing/f", "inside\0", "", "."):
        assert CachedFiles(str(disk)).read(key) is None
    assert CachedFiles(str(disk / "missing")).read("f") is None
    assert descriptors() == before


def test_metadata_of_a_hierarchy_are_those_of_now(disk: Path) -> None:
    """Nothing is kept: each look is at the file."""
    root = disk / "hierarchy"
    zarr.create_group(root).create_array("a", shape=4, chunks=2, dtype="i2")
    store = zm.ManifestStore(root)
    assert zarr.open_group(store, mode="r")["a"].attrs.asdict() == {}
    zarr.open_group(root, mode="r+")["a"].update_attributes({"b": 1})
    assert zarr.open_group(store, mode="r")["a"].attrs.asdict() == {"b": 1}
    shutil.rmtree(root / "a")
    assert "a" not in zarr.open_group(store, mode="r")
