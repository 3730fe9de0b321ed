"""Never a silent fill value: object stores, local files and the hierarchy's own store."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from zarr.storage import MemoryStore, ZipStore

import zarr_manifest as zm
from tests.failing_sources import (
    DATA,
    ENTRY,
    RAW,
    Bucket,
    Disk,
    declare,
    has_location,
    has_remedy,
    read,
    refused,
)
from tests.hierarchies import copy_into
from tests.servers.s3 import S3Server

# ---------------------------------------------------------------- S3


@pytest.fixture
def bucket(root: Path, s3_server: S3Server, s3_bucket: str) -> Bucket:
    return Bucket(root, s3_server, s3_bucket)


# Which error it is, in either way to read, is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("members", "expected", "says"),
    [
        ({"path": "s3://{}/d/gone.bin"}, zm.errors.SourceNotFoundError, ""),
        ({"etag": '"another"'}, zm.errors.SourceChangedError, "another"),
        ({"last_modified": "2001-01-01T00:00:00Z"}, zm.errors.SourceChangedError, "2001"),
        ({"version": "gone"}, zm.errors.SourceChangedError, "gone"),
    ],
)
def test_s3_errors_name_the_location_and_a_remedy(
    bucket: Bucket, members: dict[str, Any], expected: type[zm.ManifestError], says: str
) -> None:
    entry = {"path": bucket.url, **ENTRY, **members}
    entry["path"] = entry["path"].format(bucket.name)
    declare(bucket.root, {"0": entry, "1": {}})
    allow = {entry["path"].removesuffix("/d/f.bin"): bucket.server.options, **bucket.allow}
    error = refused(expected, bucket.root, allow=allow)
    has_location(error, entry["path"])
    has_remedy(error)
    assert says in str(error)


# ---------------------------------------------------------------- local files


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> Disk:
    return Disk(root, tmp_path / "outside")


@pytest.mark.parametrize(
    ("members", "expected", "says"),
    [
        ({"path": "gone.bin"}, zm.errors.SourceNotFoundError, ""),
        ({"offset": 1000}, zm.errors.RangeOutOfBoundsError, "24"),
    ],
)
def test_errors_of_files_name_the_location_and_a_remedy(
    disk: Disk, members: dict[str, Any], expected: type[zm.ManifestError], says: str
) -> None:
    url = f"{disk.allow[0]}/{members.get('path', 'f.bin')}"
    disk.declare(**{**members, "path": url})
    error = refused(expected, disk.root, allow=disk.allow)
    has_location(error, url)
    has_remedy(error)
    assert says in str(error)


@pytest.fixture
def nobody() -> Iterator[None]:
    """Somebody to whom files can be forbidden, which is not root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def forbidden(root: Path) -> Iterator[tuple[MemoryStore, Path]]:
    """A hierarchy in memory that refers to a file; pytest's directories are private."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "f.bin")
        file.write_bytes(RAW)
        file.chmod(0)
        Path(name).chmod(0o755)
        declare(root, {"0": {"path": file.as_uri(), **ENTRY}, "1": {}})
        memory = MemoryStore()
        copy_into(memory, root)
        yield memory, file


def test_file_is_forbidden(forbidden: tuple[MemoryStore, Path], nobody: None) -> None:
    store, file = forbidden
    error = refused(zm.errors.SourceAccessDeniedError, store, allow=[file.parent.as_uri()])
    has_location(error, file.as_uri())
    has_remedy(error)


# ---------------------------------------------------------------- the hierarchy's own store


def _memory(root: Path) -> Any:
    from zarr.core.buffer import default_buffer_prototype

    from_bytes = default_buffer_prototype().buffer.from_bytes
    files = (p for p in sorted(root.rglob("*")) if p.is_file())
    return MemoryStore({str(p.relative_to(root)): from_bytes(p.read_bytes()) for p in files})


def _zip(root: Path) -> Any:
    target = root.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(root).as_posix())
    return ZipStore(target, mode="r")


@pytest.fixture(params=[_memory, _zip], ids=["memory", "zip"])
def opened(request: pytest.FixtureRequest, root: Path) -> Iterator[Callable[[], Any]]:
    """Open the hierarchy after it has been written, and close it again."""
    opened: list[Any] = []

    def open_it() -> Any:
        location = request.param(root)
        opened.append(location)
        return location

    yield open_it
    for location in opened:
        if isinstance(location, ZipStore) and location._is_open:
            location.close()


def _relative(root: Path, **members: Any) -> None:
    declare(root, {"0": {"path": "../d/f.bin", **ENTRY, **members}, "1": {}})
    (root / "d").mkdir()
    (root / "d" / "f.bin").write_bytes(RAW)


def test_relative_reads(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    assert read(opened())[:8].tolist() == DATA[:8].tolist()


def test_relative_is_gone(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    (root / "d" / "f.bin").unlink()
    error = refused(zm.errors.SourceNotFoundError, opened())
    has_location(error, "d/f.bin")
    has_remedy(error)


def test_relative_range_past_the_end(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root, offset=20)
    error = refused(zm.errors.RangeOutOfBoundsError, opened())
    has_location(error, "d/f.bin")
    has_remedy(error)


def test_conditions_that_such_stores_cannot_check(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root, etag='"x"')
    has_remedy(refused(zm.errors.SourceError, opened()))


def test_manifest_is_gone(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    (root / "a" / "manifest.json").unlink()
    error = refused(zm.errors.ManifestNotFoundError, opened(), chunk=None)
    has_location(error, "a/manifest.json")
    has_remedy(error)


@pytest.mark.parametrize(
    ("url", "access", "problem"),
    [
        ("az://container/", zm.anonymous(), "Account must be specified"),
        ("s3://bucket/", {"nonsense": "1"}, "'nonsense' is not valid"),
    ],
)
def test_options_that_open_nothing(root: Path, url: str, access: Any, problem: str) -> None:
    declare(root, {"0": {"path": f"{url}f.bin", **ENTRY}, "1": {}})
    error = refused(zm.errors.SourceError, root, allow={url: access})
    assert problem in str(error)
    has_location(error, f"{url}f.bin")
    has_remedy(error)
