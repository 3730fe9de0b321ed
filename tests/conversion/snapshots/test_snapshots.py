"""A snapshot reads as its source did when it was taken, or raises: whatever the source is."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import S3Store
from zarr.storage import MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.hierarchies import Values, assert_same, files_below, read
from tests.properties import THOROUGH
from tests.servers.s3 import S3Server
from zarr_manifest.errors import (
    LocationNotAllowedError,
    ManifestError,
    NotConvertibleError,
    SourceChangedError,
    WriteConflictError,
)

OPTIONS: dict[str, Any] = {"shape": 8, "chunks": 2, "dtype": "i8", "compressors": None}


def assert_reads(target: Any, values: Values, allow: Any) -> None:
    store = zm.ManifestStore(target, allow=allow, read_only=True)
    for path in values:
        assert_same(read(store, path), values, path)
    assert zarr.open_group(store, path="a/b", mode="r").attrs["path"] == "a/b"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"checksum": "sha256"}, {"copy": True}, {"copy": True, "checksum": "crc32c"}]
)
def test_of_a_directory_with_nodes_of_every_kind(
    root: Path, values: Values, settings: Any, tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    bucket = f"s3://{s3_bucket}/snap.zarr"
    access: Any = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}
    identities: set[str] = set()
    targets: list[Any] = [tmp_path / "elsewhere" / "snap.zarr", MemoryStore()]
    if len(settings) > 1 or THOROUGH:
        targets += [tmp_path / "snap.zarr", bucket]
    for target in targets:
        report = zm.snapshot(root, target, allow=access, **settings)
        assert (report.arrays, report.refused) == (len(values), [])
        sources = {} if "copy" in settings else {f"{root}/": None}
        assert_reads(target, values, access | sources)
        identities.add(zm.identity(target, allow=access))
        assert not zm.diff(targets[0], target, allow=access).nodes
        assert not zm.validate(target, allow=access)
    assert len(identities) == 1
    if "copy" in settings:
        shutil.rmtree(root)
        assert_reads(targets[0], values, {})


@pytest.mark.parametrize("partitions", [None, (1,)])
@pytest.mark.parametrize("path", [None, "raw.bin", "absolute"])
def test_snapshots_of_two_places_have_one_identity(
    tmp_path: Path, path: str | None, partitions: tuple[int] | None
) -> None:
    """Unless they refer to objects in these places."""
    elsewhere = tmp_path / "elsewhere" / "raw.bin"
    snapshots: list[Path] = []
    for place in (tmp_path / "one", tmp_path / "one" / "two"):
        for raw in (elsewhere, place / "x.zarr" / "g" / "a" / "raw.bin"):
            if not raw.exists():  # at another time, it would be another object
                raw.parent.mkdir(parents=True)
                raw.write_bytes(b"1234")
        entry: dict[str, Any] = {"path": elsewhere.as_uri() if path == "absolute" else path}
        entries = {
            (n,): {"data": b"12"} if path is None else {**entry, "offset": 2 * n, "length": 2}
            for n in (0, 1)
        }
        options = {"shape": 4, "chunks": 2, "dtype": "u1", "partition_shape": partitions}
        zm.create_array(place / "x.zarr", "g/a", entries, **options)
        snapshots.append(place / "snap.zarr")
        allow = [elsewhere.parent, place]
        zm.snapshot(place / "x.zarr", snapshots[-1], checksum="sha256", allow=allow)
        array: Any = zarr.open(zm.ManifestStore(snapshots[-1], allow=allow), mode="r")["g/a"]
        assert array[:].tobytes() == (b"1212" if path is None else b"1234")
    assert len({*map(zm.identity, snapshots)}) == (2 if path == "raw.bin" else 1)


def test_local_files_need_checksums(root: Path, values: Values, tmp_path: Path) -> None:
    with pytest.raises(NotConvertibleError, match="Pass checksum='sha256'") as caught:
        zm.snapshot(root, tmp_path / "snap.zarr")
    assert (caught.value.array, caught.value.chunk) == ("a/sharded", "0.0")
    assert not files_below(tmp_path / "snap.zarr")


def write_native(location: Any) -> Any:
    group = zarr.create_group(location, attributes={"missing": float("nan")})
    array = group.create_array("x", **OPTIONS)
    array[:] = np.arange(1, 9)
    return array


@pytest.mark.slow
def test_later_writes_to_a_directory_are_noticed(tmp_path: Path) -> None:
    live, snap = tmp_path / "live.zarr", tmp_path / "snap.zarr"
    array = write_native(live)
    zm.snapshot(live, snap, checksum="crc32c")
    array[:2] = 0
    array[2:4] = 100
    os.utime(live / "x/c/1", (0, 2e9))
    frozen: Any = zarr.open(zm.ManifestStore(snap, allow=[f"{live}/"]), mode="r")["x"]
    assert frozen[4:].tolist() == [5, 6, 7, 8]
    with pytest.raises(ManifestError) as caught:  # it has no values but fill values
        frozen[:2]
    assert caught.value.code == "source_not_found"
    with pytest.raises(SourceChangedError):
        frozen[2:4]


@pytest.mark.parametrize("has_versions", [False, True])
def test_later_writes_to_a_bucket(
    has_versions: bool, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    if has_versions:
        s3_server.enable_versioning(s3_bucket)
    url = f"s3://{s3_bucket}/live.zarr"
    array = write_native(ObjectStore(S3Store.from_url(url, **s3_server.options)))
    access: Any = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}
    s3_server.clear()
    zm.snapshot(url, tmp_path / "snap.zarr", allow=access)
    chunks = [each for each in s3_server.requests if "/c/" in each.path]
    assert not [each for each in chunks if each.method == "GET"]  # none is read
    assert len(chunks) == (8 if has_versions else 2)
    array[:2] = 100
    frozen: Any = zarr.open(zm.ManifestStore(tmp_path / "snap.zarr", allow=access), mode="r")["x"]
    if has_versions:
        assert frozen[:].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        return
    assert frozen[2:].tolist() == [3, 4, 5, 6, 7, 8]
    with pytest.raises(SourceChangedError):
        frozen[:2]


@pytest.mark.slow
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_what_changes_meanwhile_is_named(tmp_path: Path, is_partitioned: bool) -> None:
    """While the last array is written, a chunk of the first changes: it could be a mixture."""
    live = tmp_path / "live.zarr"
    write_native(live)
    (tmp_path / "raw.bin").write_bytes(bytes(range(64)))
    entries = {str(n): {"path": "../../raw.bin", "offset": 8 * n, "length": 16} for n in range(4)}
    zm.create_array(live, "y", entries, partition_shape=(1,) if is_partitioned else None, **OPTIONS)

    def overwrite() -> None:
        (live / "x/c/1").write_bytes(bytes(16))

    def add() -> None:
        shutil.copytree(live / "x", live / "new", dirs_exist_ok=True)

    times = itertools.count(2_000_000_000)

    def touch() -> None:
        os.utime(tmp_path / "raw.bin", (0, next(times)))

    def taken(meddle: Callable[[], None]) -> Any:
        target = MemoryStore()
        zm.snapshot(
            live,
            target,
            checksum="sha256",
            allow=[f"{tmp_path}/"],
            progress=lambda *_: meddle(),
        )
        return zarr.open_group(zm.ManifestStore(target), mode="r")

    for meddle, name, chunk in ((overwrite, "x", "1"), (touch, "y", "0")):
        with pytest.raises(SourceChangedError, match="while the snapshot was taken") as caught:
            taken(meddle)
        assert (caught.value.array, caught.value.chunk) == (name, chunk)
    # Once the metadata have been read, the snapshot does not have what is new.
    assert sorted(taken(add)) == ["x", "y"]


def test_sources_must_be_allowed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(8))
    entry = {"path": "../../raw.bin", "length": 8}
    zm.create_array(root, "x", {"0": entry}, shape=1, chunks=1, dtype="i8", compressors=None)
    with pytest.raises(LocationNotAllowedError):
        zm.snapshot(root, tmp_path / "snap.zarr", checksum="sha256")
    with pytest.raises(ValueError, match="copy=True"):
        zm.snapshot(root, tmp_path / "snap.zarr", chunks_in=tmp_path)
    allow = [f"{tmp_path}/"]
    zm.snapshot(root, tmp_path / "snap.zarr", checksum="sha256", allow=allow)
    with pytest.raises(WriteConflictError):
        zm.snapshot(root, tmp_path / "snap.zarr", checksum="sha256", allow=allow)


def test_an_object_that_has_changed_since_its_manifest_was_written(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    (tmp_path / "raw.bin").write_bytes(bytes(8))
    entry = {"path": "../../raw.bin", "length": 8, "size": 9}
    zm.create_array(root, "x", {"0": entry}, shape=1, chunks=1, dtype="i8", compressors=None)
    with pytest.raises(SourceChangedError, match="its size is 8 bytes"):
        zm.snapshot(root, tmp_path / "snap.zarr", checksum="sha256", allow=[f"{tmp_path}/"])


def test_an_object_without_bytes_is_copied(tmp_path: Path) -> None:
    live, snap = tmp_path / "live.zarr", tmp_path / "snap.zarr"
    write_native(live)
    (live / "x/c/1").write_bytes(b"")
    zm.snapshot(live, snap, copy=True)
    shutil.rmtree(live)
    frozen: Any = zarr.open(zm.ManifestStore(snap), mode="r")["x"]
    assert frozen[4:].tolist() == [5, 6, 7, 8]
    with pytest.raises(ManifestError) as caught:  # not of a lost object
        frozen[2:4]
    assert caught.value.code == "range_out_of_bounds"


@pytest.mark.slow
def test_a_shared_place_gets_only_what_is_new(tmp_path: Path) -> None:
    """Chunks that are equal are there once; those whose sha256 is stated are not even read."""
    live, chunks = tmp_path / "live.zarr", tmp_path / "chunks"
    values = np.repeat([1, 2, 1], 100)
    array = zarr.create_array(live, data=values, chunks=100, compressors=None)
    zm.snapshot(live, tmp_path / "1.zarr", copy=True, chunks_in=chunks)
    first = {name: (chunks / name).stat().st_mtime_ns for name in files_below(chunks)}
    assert len(first) == 2
    array.resize((400,))
    array[300:] = 4
    zm.snapshot(live, tmp_path / "2.zarr", copy=True, chunks_in=chunks)
    assert len(files_below(chunks)) == 3
    allow = [f"{chunks}/"]
    for number, length in ((1, 300), (2, 400)):
        found = zarr.open(zm.ManifestStore(tmp_path / f"{number}.zarr", allow=allow), mode="r")
        assert found[:].tolist() == array[:length].tolist()
    # Of a snapshot with checksums, nothing is read.
    zm.snapshot(live, tmp_path / "3.zarr", checksum="sha256")
    for path in live.rglob("c/*"):
        path.chmod(0)
    zm.snapshot(
        tmp_path / "3.zarr", tmp_path / "4.zarr", copy=True, chunks_in=chunks, allow=[f"{live}/"]
    )
    assert len(files_below(chunks)) == 3
    assert not zm.diff(tmp_path / "2.zarr", tmp_path / "4.zarr").nodes


@pytest.mark.parametrize("has_versions", [False, True])
def test_a_later_copy_reads_only_what_is_new(
    has_versions: bool, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    """Of a live native array that grows: what has the ETag or version of before is not read."""
    if has_versions:
        s3_server.enable_versioning(s3_bucket)
    url, chunks = f"s3://{s3_bucket}/live.zarr", tmp_path / "chunks"
    store = ObjectStore(S3Store.from_url(url, **s3_server.options))
    array = zarr.create_array(store, data=np.repeat([1, 2, 1], 100), chunks=100, compressors=None)
    access: Any = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}

    def read_for(number: int) -> list[str]:
        s3_server.clear()
        target = tmp_path / f"{number}.zarr"
        zm.snapshot(url, target, copy=True, chunks_in=chunks, allow=access)
        requests = [each for each in s3_server.requests if each.method == "GET"]
        found: Any = zarr.open(zm.ManifestStore(target, allow=[f"{chunks}/"]), mode="r")
        assert found[:].tolist() == array[:].tolist()
        return sorted(each.path[-1] for each in requests if "/c/" in each.path)

    assert read_for(1) == ["0", "1", "2"]
    assert read_for(2) == []
    array[:100] = 3
    array.resize((400,))
    array[300:] = 4
    assert read_for(3) == ["0", "3"]
    # What was removed is copied again, and a record that is damaged saves nothing.
    shutil.rmtree(chunks / "sha256")
    assert read_for(4) == ["0", "1", "2", "3"]
    (record,) = (chunks / "origins").iterdir()
    record.write_text("{")
    assert read_for(5) == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_cleaning_a_shared_place(tmp_path: Path) -> None:
    """What a hierarchy that is not named may use stays, unless it is said that there is none."""
    live, chunks = tmp_path / "live.zarr", tmp_path / "chunks"
    array = zarr.create_array(live, shape=300, chunks=100, dtype="i8", compressors=None)
    snaps = [tmp_path / f"{number}.zarr" for number in range(2)]
    for number, snap in enumerate(snaps):
        array[:] = np.repeat([1, 2 + number, 4], 100)
        zm.snapshot(live, snap, copy=True, chunks_in=chunks)
    (chunks / "notes.txt").write_text("of others")
    before = files_below(chunks)
    assert len(before) == 5
    allow = [f"{chunks}/"]
    both = zm.clean(chunks, used_by=snaps, older_than=0, no_others=True, allow=allow)
    assert (both.unused, files_below(chunks)) == ([], before)
    report = zm.clean(chunks, used_by=snaps[1:], older_than=0, allow=allow)
    assert [each.kind for each in report.unused] == ["chunk"]
    assert files_below(chunks) == before
    assert not zm.clean(chunks, used_by=snaps[1:], no_others=True, allow=allow).unused  # young
    zm.clean(chunks, used_by=snaps[1:], older_than=0, no_others=True, allow=allow)
    assert before.keys() - files_below(chunks) == {report.unused[0].key}
    found: Any = zarr.open(zm.ManifestStore(snaps[1], allow=allow), mode="r")
    assert found[::100].tolist() == [1, 3, 4]
    (snaps[1] / "zarr.json").write_text("{")
    with pytest.raises(ManifestError):
        zm.clean(chunks, used_by=snaps[1:], older_than=0, no_others=True, allow=allow)
