"""Documents that somebody has edited are accepted as they are, if they are valid."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zarr
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import consolidate, declared, files_below, in_memory, read
from zarr_manifest import conversion
from zarr_manifest.errors import (
    ChecksumMismatchError,
    InvalidConfigurationError,
    InvalidPathError,
    LocationNotAllowedError,
    ManifestNotFoundError,
    SourceNotFoundError,
    UnsupportedChecksumError,
    WriteConflictError,
)
from zarr_manifest.inspection import Problem

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

CREATION: dict[str, Any] = {"shape": 4, "chunks": 2, "dtype": "u1", "compressors": None}
ENTRIES = {"0": {"data": b"12"}, "1": {"data": b"34"}}
EDITED = b'{"0": {"data": "NTY="}, "1": {}}'
FORMS: dict[str, dict[str, Any]] = {
    "digest": {"inline": False},
    "plain": {"manifest_url": "./manifest.json"},
    "partitions": {"partition_shape": [1]},
    "plain partitions": {"partition_shape": [1], "manifest_url": "./m/{partition}.json"},
}


def checksum(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def configuration(root: Path, path: str = "a") -> dict[str, Any]:
    found = declared(root, path)[0]["configuration"]
    assert isinstance(found, dict)
    return found


def documents(root: Path, path: str = "a") -> list[Path]:
    return sorted(file for file in (root / path).rglob("*.json") if file.name != "zarr.json")


def configure(root: Path, path: str = "a", **members: Any) -> None:
    """Change members of a declaration; those that are None are removed."""
    document = root / path / "zarr.json"
    node = json.loads(document.read_text())
    found = node["storage_transformers"][0]["configuration"]
    found |= members
    for name in [name for name, value in found.items() if value is None]:
        del found[name]
    document.write_text(json.dumps(node))


def values(root: Any, path: str = "a") -> list[int]:
    found: list[int] = read(zm.ManifestStore(root), path).tolist()
    return found


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def root(tmp_path: Path, form: str) -> Path:
    """A hierarchy with an array whose manifest has documents."""
    root = tmp_path / "h"
    zarr.create_group(root)
    zm.create_array(root, "a", ENTRIES, **CREATION, **FORMS[form])
    return root


def edit(root: Path) -> int:
    """Edit all documents, as with ``jq``; return how many."""
    found = documents(root)
    for file in found:
        text = file.read_text().replace("MTI=", "NTY=").replace("MzQ=", "Nzg=")
        file.write_text(text + " ")
    return len(found)


def digested(root: Path) -> list[Any]:
    """What should be declared, by the names that documents have."""
    bodies = {file.name: file.read_bytes() for file in documents(root)}
    fitting = {
        name: checksum(body)
        for name, body in bodies.items()
        if name in ("manifest.json", "0.json", "1.json") or checksum(body)[7:23] in name
    }
    return [fitting[name] for name in sorted(fitting)]


def test_edited_documents(root: Path, form: str) -> None:
    number = edit(root)
    had_checksums = "digest" in form or form == "partitions"
    if had_checksums:
        with pytest.raises(ChecksumMismatchError, match="zarr-manifest accept"):
            values(root)
    before = files_below(root)
    report = conversion.accept(root, ["a"])
    assert report == conversion.AcceptanceReport(number, ["a"])
    assert values(root) == [53, 54, 55, 56]
    assert not zm.validate(root, strict=True)
    found = configuration(root)
    stated = found.get("checksum") or list(found["partitions"].values())
    assert ([stated] if isinstance(stated, str) else stated) == digested(root)
    # No document was overwritten, and plain ones keep their names.
    after = files_below(root)
    assert {key: after[key] for key in before if not key.endswith("zarr.json")} == {
        key: body for key, body in before.items() if not key.endswith("zarr.json")
    }
    assert len(after) == len(before) + (number if had_checksums else 0)
    assert conversion.accept(root, ["a"]) == conversion.AcceptanceReport()
    assert files_below(root) == after


@pytest.mark.parametrize("form", ["plain", "plain partitions"], indirect=True)
def test_declarations_without_checksums_get_them(root: Path) -> None:
    assert [each.code for each in zm.validate(root, strict=True)] == ["checksums_missing"]
    before = documents(root)
    assert conversion.accept(root, ["/a/"]).arrays == ["a"]
    assert documents(root) == before
    assert not zm.validate(root, strict=True)
    assert values(root) == [49, 50, 51, 52]


def test_invalid_documents_are_refused_with_all_problems(root: Path) -> None:
    zm.create_array(root, "b", ENTRIES, **CREATION, manifest_url="./manifest.json")
    for file in documents(root):
        file.write_text('{"0": {"length": 4}, "7": {}, "1": {"path": "a\\\\b"}}')
    before = files_below(root)
    report = conversion.accept(root, ["a", "b"])
    expected = [
        each for each in zm.validate(root, arrays=["a"]) if each.code != "checksum_mismatch"
    ]
    assert report.problems == expected
    assert all(isinstance(each, Problem) for each in report.problems)
    assert {each.code for each in report.problems} >= {"invalid_entry", "invalid_chunk_key"}
    assert (report.arrays, report.documents) == ([], 0)
    assert str(report).endswith(f"{len(expected)} problems")
    assert files_below(root) == before


def test_lost_documents_are_refused(root: Path) -> None:
    documents(root)[0].unlink()
    before = files_below(root)
    with pytest.raises(ManifestNotFoundError, match="'a'"):
        conversion.accept(root, ["a"])
    assert files_below(root) == before


def test_several_arrays_and_their_copies_are_one_change(root: Path) -> None:
    zm.create_array(root, "g/b", ENTRIES, **CREATION, inline=False)
    consolidate(root)
    for path in ("a", "g/b"):
        for file in documents(root, path):
            file.write_text(file.read_text().replace("MTI=", "NTY="))
    report = conversion.accept(root, ["a", "g/b"])
    assert report.arrays == ["a", "g/b"]
    assert not zm.validate(root)
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    for path in report.arrays:
        array: Any = group[path]
        assert array[:].tolist() == [53, 54, 51, 52]


# One kind of document ------------------------------------------------------------------

ONE = pytest.mark.parametrize("form", ["digest"], indirect=True)
PARTITIONED = pytest.mark.parametrize("form", ["plain partitions"], indirect=True)


@PARTITIONED
@pytest.mark.parametrize("stated", ["all", ["0", "1"], None])
def test_partitions_however_they_are_declared(root: Path, stated: Any) -> None:
    configure(root, partitions=stated)
    conversion.accept(root, ["a"])
    names = ("0", "1")
    assert configuration(root)["partitions"] == {
        name: checksum((root / f"a/m/{name}.json").read_bytes()) for name in names
    }


@PARTITIONED
def test_partitions_without_a_document(root: Path) -> None:
    configure(root, partitions=None)
    (root / "a/m/1.json").unlink()
    conversion.accept(root, ["a"])
    assert [*configuration(root)["partitions"]] == ["0"]
    assert values(root) == [49, 50, 0, 0]


@PARTITIONED
def test_partitions_outside_the_grid_stay_for_an_array_that_grows_again(root: Path) -> None:
    conversion.accept(root, ["a"])
    before = configuration(root)["partitions"]
    with zm.edit(root) as group:
        sync(group["a"].async_array.resize((2,), delete_outside_chunks=False))
    (root / "a/m/0.json").write_text('{"0":{"data":"NTY="}}')
    assert conversion.accept(root, ["a"]).documents == 1
    after = configuration(root)["partitions"]
    assert after == {"0": checksum(b'{"0":{"data":"NTY="}}'), "1": before["1"]}


@ONE
def test_what_cannot_be_accepted(root: Path) -> None:
    zarr.create_array(root, name="n", shape=4, dtype="u1")
    zm.create_array(root, "i", ENTRIES, **CREATION, inline=True)
    before = files_below(root)
    for path in ("n", "i", ""):
        with pytest.raises(InvalidConfigurationError, match="no manifest documents"):
            conversion.accept(root, ["a", path])
    with pytest.raises(SourceNotFoundError, match="'x'"):
        conversion.accept(root, ["a", "x"])
    with pytest.raises(SourceNotFoundError):
        conversion.accept(root.with_name("none"), ["a"])
    configure(root, checksum="md5:1")
    with pytest.raises(UnsupportedChecksumError, match="'a'"):
        conversion.accept(root, ["a"])
    del before["a/zarr.json"]
    assert before.items() <= files_below(root).items()


@ONE
def test_documents_elsewhere(root: Path) -> None:
    (name,) = (file.name for file in documents(root))
    outside = root.with_name("elsewhere")
    outside.mkdir()
    shutil.copy(root / "a" / name, outside)
    configure(root, manifest=f"{outside.as_uri()}/manifest-{{digest}}.json")
    with pytest.raises(LocationNotAllowedError):
        conversion.accept(root, ["a"])
    assert not conversion.accept(root, ["a"], allow=[outside]).arrays
    (outside / name).write_bytes(EDITED)
    with pytest.raises(InvalidPathError, match="outside the hierarchy"):
        conversion.accept(root, ["a"], allow=[outside])
    (outside / "plain.json").write_bytes(EDITED)
    configure(root, manifest=f"{outside.as_uri()}/plain.json")
    assert conversion.accept(root, ["a"], allow=[outside]).arrays == ["a"]
    assert read(zm.ManifestStore(root, allow=[outside]), "a").tolist() == [53, 54, 0, 0]


@ONE
def test_another_writer_meanwhile(root: Path) -> None:
    """After the metadata have been read, and before the document is."""
    edit(root)
    contents = in_memory(root)._store_dict
    (document,) = (key for key in contents if not key.endswith("zarr.json"))

    class Busy(MemoryStore):
        async def get(self, key: str, *more: Any, **options: Any) -> Any:
            if key == document:
                other = MemoryStore(contents), "a", {"0": {"data": b"xy"}}
                await asyncio.to_thread(zm.write_manifest, *other, inline=False)
            return await super().get(key, *more, **options)

    with pytest.raises(WriteConflictError):
        conversion.accept(Busy(contents), ["a"])
    assert values(MemoryStore(contents)) == [120, 121, 0, 0]


@ONE
def test_clean_keeps_what_was_accepted(root: Path) -> None:
    (before,) = documents(root)
    edit(root)
    conversion.accept(root, ["a"])
    report = zm.clean(root, older_than=0)
    assert not report.unused
    # Its name is not that of its bytes any more: somebody has written them there.
    assert [key for key, _ in report.kept] == [f"a/{before.name}"]
    assert values(root) == [53, 54, 55, 56]


# Stores ----------------------------------------------------------------------------------


def test_memory(root: Path) -> None:
    number = edit(root)
    store = in_memory(root)
    assert isinstance(store, MemoryStore)
    assert conversion.accept(store, ["a"]).documents == number
    assert values(store) == [53, 54, 55, 56]
    assert conversion.accept(zm.ManifestStore(store), ["a"]).documents == 0


def test_s3(root: Path, s3_server: S3Server, s3_bucket: str) -> None:
    number = edit(root)
    for key, body in files_below(root).items():
        s3_server.put(s3_bucket, f"h/{key}", body)
    location = f"s3://{s3_bucket}/h"
    allow = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}
    assert conversion.accept(location, ["a"], allow=allow).documents == number
    assert read(zm.ManifestStore(location, allow=allow), "a").tolist() == [53, 54, 55, 56]
