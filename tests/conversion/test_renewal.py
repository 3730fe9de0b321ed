"""Sources that were touched, replaced or moved: what is recorded anew, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.combinations import combinations
from tests.command_line.commands import run
from tests.hierarchies import files_below
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import read_files, refresh, relocate, write_hierarchy
from zarr_manifest.conversion.renewal import with_states
from zarr_manifest.format import Conditions
from zarr_manifest.manifest import TO_THE_END, Manifest, references_of

VALUES = {"a": np.arange(24, dtype="<i4").reshape(6, 4), "b": np.linspace(0, 1, 8)}


def write_source(path: Path, *, seed: int = 0) -> Path:
    """A file with a compressed array, a plain one, and an inline one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("a", data=VALUES["a"] + seed, chunks=(2, 4), compression="gzip")
        file.create_dataset("b", data=VALUES["b"] + seed, chunks=(4,))
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((2,))
        inline = h5py.h5d.create(file.id, b"n", h5py.h5t.NATIVE_UINT8, space, compact)
        inline.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2], "u1"))
    return path


def make(root: Path, files: Any, **options: Any) -> Path:
    written = {name: options.pop(name) for name in ("partition_shape", "codecs", "inline_below")
               if name in options}  # fmt: skip
    nodes = read_files(files, **options)
    report = write_hierarchy(root, nodes, **written)
    assert not report.refused
    return root


def check(root: Any, allow: Any, *, seed: int = 0) -> None:
    """Read everything, with and without consolidated metadata."""
    for consolidated in (True, False):
        store = zm.ManifestStore(root, allow=allow, read_only=True)
        group = zarr.open_group(store, mode="r", use_consolidated=consolidated)
        for name, expected in VALUES.items():
            found: Any = group[name]
            np.testing.assert_array_equal(found[...], expected + seed)
        inline: Any = group["n"]
        assert list(inline[...]) == [1, 2]
    assert not zm.validate(root, allow=allow)


def entries(root: Path, name: str) -> Mapping[tuple[int, ...], Any]:
    metadata = json.loads((root / name / "zarr.json").read_text())
    stated = metadata["storage_transformers"][0]["configuration"]["manifest"]
    body = json.dumps(stated) if isinstance(stated, dict) else (root / name / stated).read_text()
    return zm.Manifest.loads(body.encode(), ndim=len(metadata["shape"]))


def touch(path: Path) -> None:
    """Give a file another time, as a restore does."""
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 1000))


FORMS: list[dict[str, Any]] = [
    {},
    {"checksum": "crc32c"},
    {"partition_shape": {"a": [1, 1], "b": [1]}, "codecs": ["gzip"]},
    {"inline_below": 10**6},
]


# Refresh ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", combinations(FORMS, besides=FORMS[:1]))
def test_a_touched_file_is_recorded_anew(tmp_path: Path, form: dict[str, Any]) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root, allow = make(tmp_path / "h", source, **form), [f"file://{tmp_path}/raw/"]
    opened = zarr.open_group(zm.ManifestStore(root, allow=allow, read_only=True), mode="r")
    before: Any = opened["a"]
    np.testing.assert_array_equal(before[...], VALUES["a"])
    touch(source)
    with pytest.raises(zm.errors.SourceChangedError, match=r"conversion\.refresh"):
        check(root, allow)
    report = refresh(root, allow=allow)
    assert (report.objects, report.arrays, report.refused) == (1, ["a", "b"], [])
    check(root, allow)
    after = files_below(root)
    assert refresh(root, allow=allow, read=True).arrays == []
    assert files_below(root) == after
    now: Any = zarr.open_group(zm.ManifestStore(root, allow=allow, read_only=True), mode="r")["a"]
    np.testing.assert_array_equal(now[...], VALUES["a"])


@pytest.mark.slow
def test_what_is_beside_conditions_is_kept(tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root = make(tmp_path / "h", source, checksum="sha256")
    before = {name: dict(entries(root, name).items()) for name in VALUES}
    touch(source)
    refresh(root, ["a"], allow=[f"file://{tmp_path}/raw/"])
    for name in VALUES:
        for index, reference in entries(root, name).items():
            old = before[name][index]
            assert (reference.path, reference.offset, reference.length, reference.checksum) == (
                old.path, old.offset, old.length, old.checksum,
            )  # fmt: skip
            assert (reference.conditions != old.conditions) == (name == "a")


@pytest.mark.slow
def test_a_replaced_file_is_refused_by_name_and_others_are_recorded(tmp_path: Path) -> None:
    kept, replaced = (write_source(tmp_path / "raw" / name) for name in ("1.h5", "2.h5"))
    allow = [f"file://{tmp_path}/raw/"]
    nodes = [
        node
        for number, file in enumerate((kept, replaced))
        for node in read_files(file)
        if node.path == "ab"[number]
    ]
    root = tmp_path / "h"
    write_hierarchy(root, nodes)
    touch(kept)
    replaced.write_bytes(replaced.read_bytes() + b"\0")
    recorded = entries(root, "b")[(0,)]
    done = run("refresh", root, "--allow", allow[0])
    assert done.status == 1
    assert f"refused: {replaced.as_uri()}: source_changed: the object may be another" in done.stderr
    assert "1 array written" in done.stdout
    group = zarr.open_group(zm.ManifestStore(root, allow=allow, read_only=True), mode="r")
    read: Any = group["a"]
    np.testing.assert_array_equal(read[...], VALUES["a"])
    assert entries(root, "b")[(0,)] == recorded
    with pytest.raises(zm.errors.SourceChangedError):
        group["b"][...]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("checksum", [None, "crc32c"])
def test_chunks_are_compared_where_they_are_read(tmp_path: Path, checksum: str | None) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root, allow = make(tmp_path / "h", source, checksum=checksum), [f"file://{tmp_path}/raw/"]
    offset = entries(root, "a")[0, 0].offset
    body = bytearray(source.read_bytes())
    body[offset : offset + 8] = b"\xff" * 8
    source.write_bytes(body)
    touch(source)
    before = files_below(root)
    report = refresh(root, allow=allow, read=True)
    (refused,) = report.refused
    assert refused.code == ("checksum_mismatch" if checksum else "source_changed")
    assert "array 'a', chunk '0.0'" in refused.reason
    assert files_below(root) == before


@pytest.mark.slow
def test_nothing_is_read_that_is_not_authorised(tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root = make(tmp_path / "h", source)
    with pytest.raises(zm.errors.LocationNotAllowedError, match=str(tmp_path / "raw")):
        refresh(root)
    done = run("refresh", root)
    assert f"--allow file://{tmp_path}/raw/" in done.stderr
    assert done.status != 0


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root = make(tmp_path / "h", source)
    source.unlink()
    before = files_below(root)
    report = refresh(root, allow=[f"file://{tmp_path}/raw/"])
    assert [each.code for each in report.refused] == ["source_not_found"]
    assert files_below(root) == before


def test_an_unknown_array_and_no_hierarchy(tmp_path: Path) -> None:
    root = make(tmp_path / "h", write_source(tmp_path / "raw" / "f.h5"))
    with pytest.raises(zm.errors.SourceNotFoundError, match="array 'nope'"):
        refresh(root, ["nope"], allow=["/"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(zm.errors.SourceNotFoundError):
        refresh(tmp_path / "empty")


def test_a_new_tag_of_a_web_server_needs_reading(tmp_path: Path, http_server: FileServer) -> None:
    body = write_source(tmp_path / "f.h5").read_bytes()
    http_server.put("f.h5", body, etag='"1"')
    url = f"{http_server.url}/f.h5"
    root = make(tmp_path / "h", url, allow=[http_server.url], checksum="crc32c")
    http_server.put("f.h5", body, etag='"2"')
    report = refresh(root, allow=[http_server.url])
    assert "its etag is" in report.refused[0].reason
    assert "read=True" in report.refused[0].reason
    assert not refresh(root, allow=[http_server.url], read=True).refused
    check(root, [http_server.url])
    assert entries(root, "a")[0, 0].conditions.etag == '"2"'


@pytest.mark.slow
def test_references_without_conditions_get_them(tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw" / "f.h5")
    root = make(tmp_path / "h", source, record_conditions=False)
    assert not entries(root, "a")[0, 0].conditions
    refresh(root, allow=[f"file://{tmp_path}/raw/"])
    assert entries(root, "a")[0, 0].conditions.size == source.stat().st_size


# Relocate ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", combinations(FORMS, besides=FORMS[:1]))
def test_files_that_were_moved(tmp_path: Path, form: dict[str, Any]) -> None:
    source = write_source(tmp_path / "old" / "deep" / "f.h5")
    root = make(tmp_path / "h", source, **form)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "f.h5").write_bytes(source.read_bytes())
    shutil.rmtree(tmp_path / "old")
    done = run("relocate", root, f"{tmp_path}/old/deep={tmp_path}/new")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == f"{root}: 1 object checked, 2 arrays written\n"
    check(root, [f"file://{tmp_path}/new/"])


def test_into_a_bucket_and_back(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> None:
    source = write_source(tmp_path / "old" / "a b" / "f.h5")
    root = make(tmp_path / "h", source)
    s3_server.put(s3_bucket, "x/a b/f.h5", source.read_bytes())
    allow = {f"s3://{s3_bucket}/": s3_server.options}
    moves = {f"{tmp_path}/old/": f"s3://{s3_bucket}/x/"}
    assert relocate(root, moves, allow=allow).refused == []
    check(root, allow)
    assert entries(root, "a")[0, 0].path == f"s3://{s3_bucket}/x/a%20b/f.h5"
    assert entries(root, "a")[0, 0].conditions.etag is not None
    # The same bytes under another key have the same tag there.
    s3_server.put(s3_bucket, "y/f.h5", source.read_bytes())
    moves = {f"s3://{s3_bucket}/x/a%20b/": f"s3://{s3_bucket}/y/"}
    assert relocate(root, moves, allow=allow).refused == []
    check(root, allow)
    # A file has no tag, but the size.
    assert relocate(root, {f"s3://{s3_bucket}/y": f"{tmp_path}/old/a b"}).refused == []
    check(root, [f"file://{tmp_path}/old/"])


@pytest.mark.slow
def test_nothing_is_written_if_one_object_differs(tmp_path: Path) -> None:
    first, second = (write_source(tmp_path / "old" / name) for name in ("1.h5", "2.h5"))
    nodes = [n for n in read_files(first) if n.path == "a"]
    nodes += [n for n in read_files(second) if n.path == "b"]
    root = tmp_path / "h"
    write_hierarchy(root, nodes)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    (tmp_path / "new" / "2.h5").unlink()
    before = files_below(root)
    moves = {f"{tmp_path}/old": f"{tmp_path}/new"}
    report = relocate(root, moves)
    assert [(each.location, each.code) for each in report.refused] == [
        ((tmp_path / "new" / "2.h5").as_uri(), "source_not_found")
    ]
    assert report.arrays == []
    assert files_below(root) == before
    (tmp_path / "new" / "2.h5").write_bytes(second.read_bytes() + b"\0")
    assert relocate(root, moves).refused[0].code == "source_changed"
    assert files_below(root) == before


@pytest.mark.slow
def test_a_place_that_nothing_refers_to(tmp_path: Path) -> None:
    root = make(tmp_path / "h", write_source(tmp_path / "old" / "f.h5"))
    before = files_below(root)
    with pytest.raises(zm.errors.InvalidPathError, match="no reference of the hierarchy lies"):
        relocate(root, {f"{tmp_path}/ol": f"{tmp_path}/new", f"{tmp_path}/old": f"{tmp_path}/old"})
    done = run("relocate", root, "s3://elsewhere/=s3://new/")
    assert done.status != 0
    assert "zarr-manifest locations" in done.stderr
    assert files_below(root) == before


def test_a_base_moves_and_relative_paths_stay(tmp_path: Path) -> None:
    data = np.arange(8, dtype="u1")
    for place in ("old", "new"):
        (tmp_path / place / "d").mkdir(parents=True)
        for number in range(2):
            part = data[number * 4 : number * 4 + 4].tobytes()
            (tmp_path / place / "d" / f"{number}.bin").write_bytes(part)
    root = tmp_path / "h"
    stated = {(n,): {"path": f"{n}.bin", "size": 4} for n in range(2)}
    zm.create_array(
        root, "g/x", stated, base=f"file://{tmp_path}/old/d/", shape=8, chunks=4, dtype="u1"
    )
    shutil.rmtree(tmp_path / "old")
    relocate(root, {f"{tmp_path}/old/": f"{tmp_path}/new/"})
    metadata = json.loads((root / "g" / "x" / "zarr.json").read_text())
    configuration = metadata["storage_transformers"][0]["configuration"]
    assert configuration["base"] == f"file://{tmp_path}/new/d/"
    assert entries(root / "g", "x")[0,].path == "0.bin"
    store = zm.ManifestStore(root, allow=[f"file://{tmp_path}/new/"], read_only=True)
    read: Any = zarr.open_group(store, mode="r")["g/x"]
    np.testing.assert_array_equal(read[...], data)


@pytest.mark.slow
def test_sources_in_the_hierarchy_move_out_of_it(tmp_path: Path) -> None:
    source = write_source(tmp_path / "h" / "raw" / "f.h5")
    root = make(tmp_path / "h", source)
    assert entries(root, "a")[0, 0].path == "raw/f.h5"
    shutil.move(root / "raw", tmp_path / "new")
    relocate(root, {f"{root}/raw/": f"{tmp_path}/new/"})
    check(root, [f"file://{tmp_path}/new/"])


@pytest.mark.slow
def test_without_anything_recorded_chunks_are_read(tmp_path: Path) -> None:
    source = write_source(tmp_path / "old" / "f.h5")
    root = make(tmp_path / "h", source, record_conditions=False)
    shutil.move(tmp_path / "old", tmp_path / "new")
    moves = {f"{tmp_path}/old": f"{tmp_path}/new"}
    report = relocate(root, moves)
    assert "neither its size nor a strong entity tag is recorded" in report.refused[0].reason
    assert not relocate(root, moves, read=True).refused
    check(root, [f"file://{tmp_path}/new/"])


def test_a_hierarchy_in_a_bucket(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> None:
    body = write_source(tmp_path / "f.h5").read_bytes()
    allow = {f"s3://{s3_bucket}/": s3_server.options}
    for key in ("old/f.h5", "new/f.h5"):
        s3_server.put(s3_bucket, key, body)
    url = f"s3://{s3_bucket}/h.zarr"
    nodes = read_files(f"s3://{s3_bucket}/old/f.h5", allow=allow)
    write_hierarchy(url, nodes, allow=allow, partition_shape={"a": [1, 1]})
    s3_server.delete(s3_bucket, "old/f.h5")
    moves = {f"s3://{s3_bucket}/old/": f"s3://{s3_bucket}/new/"}
    assert relocate(url, moves, allow=allow).refused == []
    check(url, allow)


def test_moving_a_base_beside_the_hierarchy_keeps_what_lies_in_it(tmp_path: Path) -> None:
    for name, value in (("old/raw.bin", 1), ("h/own.bin", 2)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes([value]))
    entries = {"0": {"path": "raw.bin", "size": 1}, "1": {"path": "../h/own.bin"}}
    zm.create_array(tmp_path / "h", "a", entries, base="../../old/", shape=2, chunks=1, dtype="u1")
    (tmp_path / "old").rename(tmp_path / "new")
    report = relocate(tmp_path / "h", {f"{tmp_path}/old/": f"{tmp_path}/new/"})
    assert report.refused == []
    metadata = json.loads((tmp_path / "h" / "a" / "zarr.json").read_text())
    base = metadata["storage_transformers"][0]["configuration"]["base"]
    assert base == (tmp_path / "new").as_uri() + "/"
    allowed = [base, f"{(tmp_path / 'h').as_uri()}/"]
    opened = zarr.open_array(zm.ManifestStore(tmp_path / "h", allow=allowed), path="a", mode="r")
    assert opened[:].tolist() == [1, 2]


def test_the_present_size_of_an_object_is_not_that_of_a_version() -> None:
    path = "s3://bucket/f"
    entries: Any = {"0": {"path": path, "version": "a"}, "1": {"path": path, "offset": 4}}
    table = references_of(Manifest.loads(json.dumps(entries).encode(), ndim=1))
    found = with_states(table, {path: Conditions('"1"', size=10)})
    assert found.columns().lengths.tolist() == [TO_THE_END, 6]
    assert [found.row(row).conditions.version for row in range(2)] == ["a", None]
    assert found.row(1).conditions.etag == '"1"'
