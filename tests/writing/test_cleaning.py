"""Cleaning removes what nothing refers to, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore.store
import pytest
import zarr
from zarr.storage import LocalStore, ObjectStore

import zarr_manifest as zm
from tests.hierarchies import copy_into, files_below, in_memory, read
from tests.writing.unused_objects import (
    CREATION,
    ENTRIES,
    UNUSED,
    VALUES,
    chunk_name,
    cleaned,
    digest,
    document_name,
    put,
    unused,
    write_unused,
)
from zarr_manifest.errors import (
    WriteConflictError,
)
from zarr_manifest.format import DocumentCodec, complete_codec, encode_body
from zarr_manifest.sources import Directory, OwnFiles
from zarr_manifest.writing import CleaningReport

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_unused(tmp_path / "h")


# What is removed ---------------------------------------------------------------------------


def test_unused_objects_are_removed(root: Path) -> None:
    before = files_below(root)
    report = zm.clean(root, older_than=0)
    assert [(each.key, each.kind, each.nbytes) for each in report.unused] == [
        (UNUSED[0], "manifest document", 2),
        (UNUSED[1], "chunk", 2),
        (UNUSED[2], "momentary file", 1),
    ]
    assert report.nbytes == 5
    assert str(report) == "1 chunk, 1 manifest document, 1 momentary file, 5 B"
    assert not report.kept
    assert not report.young
    assert files_below(root) == {key: before[key] for key in before if key not in UNUSED}
    assert str(zm.clean(root, older_than=0)) == "nothing"


def test_a_dry_run_says_the_same_and_removes_nothing(root: Path) -> None:
    before = files_below(root)
    dry = zm.clean(root, older_than=0, dry_run=True)
    assert files_below(root) == before
    assert dry == zm.clean(root, older_than=0)


def test_by_default_what_is_younger_than_a_week_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_below(root)
    assert zm.clean(root) == CleaningReport(young=2)
    assert files_below(root) == before
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7 * 86400 - 60)
    assert not cleaned(root, older_than=timedelta(days=7))
    monkeypatch.setattr(time, "time", lambda: now + 7 * 86400 + 60)
    assert unused(zm.clean(root)) == UNUSED


def test_a_copy_that_keeps_times_is_young(root: Path) -> None:
    """As by rsync: the files were written long ago, but have just arrived."""
    for key in UNUSED:
        os.utime(root / key, (0, 0))
    assert zm.clean(root, older_than=60).young == 2
    assert (root / UNUSED[0]).exists()


@pytest.mark.parametrize("codecs", [(), ("gzip",), ("zstd",), ("zstd", "crc32c"), ("crc32c",)])
def test_encoded_documents(root: Path, codecs: tuple[str, ...]) -> None:
    body = encode_body(tuple(complete_codec(DocumentCodec(name)) for name in codecs), b"{ }")
    key = put(root, f"gone/manifest/{document_name(body, '0.0-{}.json')}", body)
    assert key in cleaned(root)


@pytest.mark.parametrize("name", ["manifest-{}.json.gz", "{}.json", "{}", "0.0-{}", "a_{}.json"])
def test_names_of_documents(root: Path, name: str) -> None:
    key = put(root, f"a/b/{document_name(b'{ }', name)}", b"{ }")
    assert key in cleaned(root)


# What stays --------------------------------------------------------------------------------

STRANGERS = {
    "data/x-0123456789abcdef.json": b"{}",
    f"data/{document_name(b'netCDF', 'x-{}.nc')}": b"netCDF",
    f"data/{document_name(b'[]')}": b"[]",
    f"a/chunks/sha256/01/01{'2' * 62}": b"12",
}
OTHERS = {
    f"a/{digest(b'{}')[:12]}.json": b"{}",
    f"a/x{digest(b'{}')[:16]}.json": b"{}",
    f"a/{digest(b'{}')[:16]}/m.json": b"{}",
    f"a/{digest(b'{}')}.json": b"{}",
    f"a/chunks/sha256/{digest(b'12')}": b"12",
    f"a/sha256/{digest(b'12')[:2]}/{digest(b'12')}": b"12",
    "pixi.lock": b"",
    "notes.partial": b"",
    "a/notes.lock": b"",
    "c/0.partial": b"",
    "a/zarr.json.locked": b"",
    "manifest.json": b"{}",
    "a.lock/b": b"",
}


def test_files_of_strangers_stay_and_are_reported(root: Path) -> None:
    for key, body in STRANGERS.items():
        put(root, key, body)
    report = zm.clean(root, older_than=0)
    assert unused(report) == UNUSED
    assert dict(report.kept) == dict(
        zip(
            STRANGERS,
            [
                "its bytes have another digest than its name states",
                "it is not a manifest document",
                "it is not a manifest document",
                "its bytes have another digest than its name states",
            ],
            strict=True,
        )
    )
    assert all((root / key).exists() for key in STRANGERS)


def test_other_files_stay(root: Path) -> None:
    for key, body in OTHERS.items():
        put(root, key, body)
    report = zm.clean(root, older_than=0)
    assert unused(report) == UNUSED
    assert not report.kept
    assert all((root / key).exists() for key in OTHERS)


@pytest.mark.parametrize(
    "key",
    [
        "zarr.json.lock",
        "a/zarr.json.held.lock",
        "native/c/0.partial",
        f"a/{document_name(b'{}', 'm-{}.json')}.partial",
        f"n/{chunk_name(b'1')}.partial",
        "plain/manifest.json.partial",
        "old/0.0.partial",
    ],
)
def test_files_of_killed_writers(root: Path, key: str) -> None:
    zarr.create_array(root / "native", data=np.arange(4), chunks=2)
    zarr.create_array(root / "old", shape=(4, 4), chunks=(2, 2), dtype="u1", zarr_format=2)
    zm.create_array(root, "plain", ENTRIES, **CREATION, manifest_url="./manifest.json")
    put(root, key, b"")
    report = zm.clean(root, older_than=0)
    assert {each.key: each.kind for each in report.unused}[key] == "momentary file"
    assert not (root / key).exists()


def test_files_that_a_writer_is_using_stay(root: Path) -> None:
    import fcntl

    with (root / "n/zarr.json.partial").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "n/zarr.json.partial" not in cleaned(root)
        assert (root / "n/zarr.json.partial").read_bytes() == b"{"


# Links -------------------------------------------------------------------------------------


def test_nothing_behind_links_is_removed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    twin = Path(shutil.copytree(root, outside / "twin"))
    shutil.rmtree(root / "n/chunks")
    (root / "n/chunks").symlink_to(twin / "n/chunks")
    (root / UNUSED[0]).unlink()
    (root / UNUSED[0]).symlink_to(twin / UNUSED[0])
    before = files_below(outside)
    assert cleaned(root, allow=[outside]) == ["n/zarr.json.partial"]
    assert files_below(outside) == before
    assert (root / UNUSED[0]).is_symlink()


def test_what_links_within_the_hierarchy_lead_to_stays(root: Path) -> None:
    """References may be written through them."""
    put(root, f"shared/{chunk_name(b'56')}", b"56")
    (root / "b").symlink_to("shared")
    zm.write_manifest(root, "a", {"0": {"path": f"../b/{chunk_name(b'56')}"}}, inline=True)
    assert cleaned(root) == UNUSED
    assert read(zm.ManifestStore(root), "a").tolist() == [53, 54, 0, 0]


def test_the_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert cleaned(tmp_path / "link") == UNUSED


# Writers at work ---------------------------------------------------------------------------


def test_an_object_that_is_written_again_meanwhile_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever that happens: before it is read, or before it is removed."""
    key = UNUSED[0]
    for method in ("opened", "remove_unchanged"):
        inner = getattr(OwnFiles, method)

        def written_before(self: Any, name: str, *more: Any, inner: Any = inner) -> Any:
            if name == key:
                time.sleep(0.02)
                put(root, key, b"{}")
            return inner(self, name, *more)

        with monkeypatch.context() as patched:
            patched.setattr(OwnFiles, method, written_before)
            report = zm.clean(root, older_than=0)
        assert key not in unused(report)
        assert report.young == 1
        assert (root / key).exists()
    assert cleaned(root) == [key]


@pytest.mark.parametrize(
    ("where", "first"),
    [
        (os, "scandir"),
        (Directory, "open"),  # of metadata
        (OwnFiles, "opened"),  # of what may be unused
        (OwnFiles, "remove_unchanged"),
        (obstore.store.MemoryStore, "list"),
        (ObjectStore, "get"),
        # In a bucket, a moment remains: between reading an object and removing it.
        (obstore.store.MemoryStore, "get_async"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_writer_that_uses_a_document_again_meanwhile_is_safe(
    where: Any, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = LocalStore(tmp_path)
    if where in (obstore.store.MemoryStore, ObjectStore):
        store = ObjectStore(obstore.store.MemoryStore())
    zarr.create_group(store)
    other = {"0": {"data": b"xy"}, "1": {"data": b"yx"}}
    zm.create_array(store, "a", ENTRIES, **CREATION, inline=False)
    zm.write_manifest(store, "a", other, inline=False)
    (key,) = cleaned(store, dry_run=True)
    has_begun = False

    def write() -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True  # writing uses the store, too
            time.sleep(0.02)  # the system's clock has steps
            zm.write_manifest(store, "a", ENTRIES, inline=False)

    inner = getattr(where, first)

    def after(*arguments: Any, **options: Any) -> Any:
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        return inner(*arguments, **options)

    async def awaited_after(*arguments: Any, **options: Any) -> Any:
        if first == "get" or arguments[1] == key:
            await asyncio.to_thread(write)
        return await inner(*arguments, **options)

    async def listed_after(*arguments: Any, **options: Any) -> Any:
        await asyncio.to_thread(write)
        async for found in inner(*arguments, **options):
            yield found

    hooks = {"list": listed_after, "get": awaited_after, "get_async": awaited_after}
    monkeypatch.setattr(where, first, hooks.get(first, after))
    report = zm.clean(store, older_than=0)
    assert has_begun
    assert key not in unused(report)
    assert read(zm.ManifestStore(store), "a").tolist() == VALUES


# Stores ------------------------------------------------------------------------------------


def test_memory(root: Path) -> None:
    store = in_memory(root)
    with pytest.raises(WriteConflictError, match="older_than=0"):
        zm.clean(store)
    # What exists for a moment exists in directories.
    expected = [key for key in UNUSED if not key.endswith(".partial")]
    assert cleaned(store, dry_run=True) == expected
    assert cleaned(store) == expected
    assert read(zm.ManifestStore(store), "a").tolist() == VALUES
    assert not cleaned(store)


def test_objects(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = ObjectStore(obstore.store.MemoryStore())
    copy_into(store, root)
    expected = [key for key in UNUSED if not key.endswith(".partial")]
    assert zm.clean(store).young == 2
    assert cleaned(zm.ManifestStore(store)) == expected
    assert not cleaned(store.store)
    assert read(zm.ManifestStore(store), "a").tolist() == VALUES


def test_s3(root: Path, s3_server: S3Server, s3_bucket: str) -> None:
    for key, body in files_below(root).items():
        s3_server.put(s3_bucket, f"h/{key}", body)
    for number in range(30):
        body = b"{%s}" % (b" " * number)
        s3_server.put(s3_bucket, f"h/a/{document_name(body)}", body)
    s3_server.put(s3_bucket, f"outside/{document_name(b'{}')}", b"{}")
    location = f"s3://{s3_bucket}/h"
    allow = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}
    s3_server.clear()
    report = zm.clean(location, allow=allow)
    assert (report.unused, report.young) == ([], 31)
    # The list, and the metadata: objects are neither asked for one by one, nor read.
    assert [request.method for request in s3_server.requests] == ["GET"] * 4
    assert not any("manifest-" in request.path for request in s3_server.requests)
    s3_server.clear()
    report = zm.clean(location, older_than=0, allow=allow)
    assert len(report.unused) == 31
    assert not any(request.method == "HEAD" for request in s3_server.requests)
    assert not zm.clean(location, older_than=0, allow=allow).unused
    assert read(zm.ManifestStore(location, allow=allow), "a").tolist() == VALUES
    whole: Any = obstore.store.S3Store.from_url(f"s3://{s3_bucket}/", **s3_server.options)
    left = {each["path"] for each in whole.list().collect()}
    assert left == {"h/zarr.json", "h/a/zarr.json", "h/n/zarr.json", "h/n/zarr.json.partial"} | {
        f"outside/{document_name(b'{}')}"
    }
