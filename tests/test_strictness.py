"""Never a silent fill value: every way in which a source can fail raises its class and code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
import zarr
from zarr.core import codec_pipeline
from zarr.storage import LocalStore, MemoryStore, ObjectStore, ZipStore

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.servers.http_files import (
    Fault,
    FileServer,
    change,
    drop_header,
    ignore_conditions,
    ignore_range,
    reset,
    short_body,
    short_content_range,
    status,
    truncate,
    wrong_body_longer,
)
from tests.servers.s3 import S3Server

# Two chunks of 8 bytes at 4 and at 12, in an object of 24 bytes.
RAW = bytes(range(100, 124))
DATA = np.frombuffer(RAW[4:20], "u1")
ENTRY = {"offset": 4, "length": 8}
QUICK = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {
        "init_backoff": timedelta(milliseconds=1),
        "max_backoff": timedelta(milliseconds=5),
        "base": 2,
    },
}

_PIPELINES = ["BatchedCodecPipeline"]
if hasattr(codec_pipeline, "FusedCodecPipeline"):
    _PIPELINES.append("FusedCodecPipeline")


@pytest.fixture(autouse=True, params=_PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test reads through both of zarr's pipelines; the second calls ``get_sync``."""
    path = f"zarr.core.codec_pipeline.{request.param}"
    with zarr.config.set({"codec_pipeline.path": path}):
        yield request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data.zarr"


def _declare(root: Path, manifest: dict[str, Any] | str, **options: Any) -> None:
    """Write a group of one manifest array; a string is the text of the manifest document."""
    zarr.create_group(root, overwrite=True)
    document = "./manifest.json" if isinstance(manifest, str) else manifest
    array = write_manifest_array(root, "a", DATA, 8, document, fill_value=7, **options)
    if isinstance(manifest, str):
        (array / "manifest.json").write_text(manifest)


def _read(root: Any, **options: Any) -> Any:
    return zarr.open(zm.ManifestStore(root, **options), mode="r")["a"][...]


def _refused(
    expected: type[zm.ManifestError], root: Any, *, chunk: str | None = "0", **options: Any
) -> zm.ManifestError:
    """Read, and check what every error owes to its reader."""
    with pytest.raises(zm.ManifestError) as raised:
        _read(root, **options)
    error = raised.value
    assert type(error) is expected, error
    assert not isinstance(error, FileNotFoundError | KeyError)
    text = str(error)
    assert text.startswith(f"{expected.code}: ")
    assert error.array == "a"
    assert "array 'a'" in text
    if chunk is not None:
        assert error.chunk == chunk
        assert f"chunk '{chunk}'" in text
    assert "secret" not in text.lower()
    return error


def _has_location(error: zm.ManifestError, location: str) -> None:
    assert error.location == location
    assert f"location {location!r}" in str(error)


def _has_remedy(error: zm.ManifestError) -> None:
    assert error.remedy
    assert error.remedy in str(error)


# ---------------------------------------------------------------- HTTP


class Web:
    """One array whose two chunks lie in one object of an HTTP server."""

    def __init__(self, root: Path, server: FileServer) -> None:
        self.root, self.server = root, server
        self.url = f"{server.url}/d/f.bin"
        self.allow: Any = {f"{server.url}/d/": zm.anonymous(retry_config=QUICK)}
        self.etag = server.put("d/f.bin", RAW)

    def declare(self, **members: Any) -> None:
        _declare(
            self.root,
            {
                str(i): {"path": self.url, "offset": 4 + 8 * i, "length": 8, **members}
                for i in range(2)
            },
        )

    def declare_one(self, **members: Any) -> None:
        """Chunk 1 is explicitly empty, so that the requests are those of chunk 0."""
        _declare(self.root, {"0": {"path": self.url, **ENTRY, **members}, "1": {}})

    def script(self, *faults: Fault, sticky: bool = True) -> None:
        # The first request asks whether the object redirects.
        self.server.script("d/f.bin", *faults, sticky=sticky)

    def read(self, **options: Any) -> Any:
        return _read(self.root, **{"allow": self.allow, **options})

    def refused(self, expected: type[zm.ManifestError], **options: Any) -> zm.ManifestError:
        error = _refused(expected, self.root, **{"allow": self.allow, **options})
        _has_location(error, self.url)
        return error


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


def test_http_reads(web: Web) -> None:
    web.declare()
    assert web.read().tolist() == DATA.tolist()


def test_http_not_found(web: Web) -> None:
    web.declare_one()
    web.server.remove("d/f.bin")
    _has_remedy(web.refused(zm.SourceNotFoundError))


def test_http_not_found_even_where_missing_chunks_are_fine(web: Web) -> None:
    web.declare_one()
    web.server.remove("d/f.bin")
    with zarr.config.set({"array.read_missing_chunks": True}):
        web.refused(zm.SourceNotFoundError)


@pytest.mark.parametrize("code", [401, 403])
def test_http_denied(web: Web, code: int) -> None:
    web.declare_one()
    web.script(status(code))
    error = web.refused(zm.SourceAccessDeniedError)
    _has_remedy(error)
    assert "environment()" in str(error)


@pytest.mark.parametrize("offset", [20, 24, 1000])
def test_http_range_past_the_end(web: Web, offset: int) -> None:
    web.declare_one(offset=offset)
    error = web.refused(zm.RangeOutOfBoundsError)
    _has_remedy(error)
    assert "24" in error.problem
    assert str(offset) in error.problem


def test_http_one_of_two_merged_ranges_is_past_the_end(web: Web) -> None:
    _declare(
        web.root,
        {
            "0": {"path": web.url, **ENTRY},
            "1": {"path": web.url, "offset": 20, "length": 8},
        },
    )
    store = zm.ManifestStore(web.root, allow=web.allow)
    array = zarr.open_array(store, path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    with pytest.raises(zm.RangeOutOfBoundsError) as raised:
        array[:]
    assert raised.value.chunk == "1"


def test_http_open_ended_entry_begins_past_the_end(web: Web) -> None:
    _declare(web.root, {"0": {"path": web.url, "offset": 25}})
    web.refused(zm.RangeOutOfBoundsError)


def test_http_truncated_body(web: Web) -> None:
    web.declare_one()
    web.script(truncate(0))
    web.refused(zm.ShortReadError)


def test_http_truncated_body_is_resumed(web: Web) -> None:
    """The obstore client asks for the rest of a body that ends early."""
    web.declare_one()
    web.script(truncate(3))
    assert web.read()[:8].tolist() == DATA[:8].tolist()


def test_http_truncated_body_of_an_object_that_changes(web: Web) -> None:
    """The rest must not come from another object, not even without conditions."""
    web.declare_one()
    web.script(ignore_range(), truncate(3), change(bytes(24)), sticky=False)
    try:
        values = web.read()[:8].tolist()
    except zm.ManifestError:
        return
    assert values in (DATA[:8].tolist(), [0] * 8)


@pytest.mark.parametrize("fault", [short_content_range(2), short_body(2)])
def test_http_short_answer(web: Web, fault: Fault) -> None:
    web.declare_one()
    web.script(fault)
    web.refused(zm.ShortReadError)


def test_http_longer_body(web: Web) -> None:
    web.declare_one()
    web.script(wrong_body_longer(2))
    try:
        values = web.read()
    except zm.ManifestError as error:
        assert isinstance(error, zm.ShortReadError | zm.SourceError)  # noqa: PT017
    else:
        # What was not asked for may be ignored, but not take another's place.
        assert values[:8].tolist() == DATA[:8].tolist()


def test_http_server_ignores_ranges(web: Web) -> None:
    web.declare_one()
    web.script(ignore_range())
    error = web.refused(zm.SourceError)
    assert "range" in error.problem
    _has_remedy(error)


def test_http_reset_for_ever(web: Web) -> None:
    web.declare_one()
    web.script(reset())
    web.refused(zm.SourceError)


@pytest.mark.parametrize("fault", [status(503), reset(), status(500), status(429, retry_after=0)])
def test_http_transient_failures_are_retried(web: Web, fault: Fault) -> None:
    web.declare()
    web.script(fault, fault, sticky=False)
    assert web.read().tolist() == DATA.tolist()


def test_http_transient_failure_after_the_first_request(web: Web) -> None:
    web.declare()
    store = zm.ManifestStore(web.root, allow=web.allow)
    array = zarr.open_array(store, path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    web.script(status(503), reset(), sticky=False)
    assert array[:].tolist() == DATA.tolist()


def test_http_unavailable_for_ever(web: Web) -> None:
    web.declare_one()
    web.script(status(503))
    started = datetime.now(UTC)
    error = web.refused(zm.SourceError)
    assert "503" in error.problem
    assert datetime.now(UTC) - started < timedelta(seconds=5)
    assert len(web.server.requests) <= 12


def test_http_default_headers_and_options_pass(web: Web) -> None:
    web.declare_one()
    headers = {"client_options": {"default_headers": {"x-key": "1"}}}
    values = web.read(allow={f"{web.server.url}/d/": headers})
    assert values[:8].tolist() == DATA[:8].tolist()
    assert all(r.headers.get("x-key") == "1" for r in web.server.requests)


def test_http_nobody_listens(root: Path) -> None:
    with FileServer() as server:
        url = server.url
    _declare(root, {"0": {"path": f"{url}/f.bin", **ENTRY}})
    error = _refused(zm.SourceError, root, allow={url: zm.anonymous(retry_config=QUICK)})
    _has_location(error, f"{url}/f.bin")


def test_http_416_for_a_range_inside(web: Web) -> None:
    web.declare_one()
    web.script(status(416))
    web.refused(zm.SourceError)


def test_http_416_for_a_range_past_the_end(web: Web) -> None:
    web.declare_one(offset=100)
    web.script(status(416))
    web.refused(zm.RangeOutOfBoundsError)


# ---------------------------------------------------------------- HTTP, conditions


def test_etag_matches(web: Web) -> None:
    web.declare(etag=web.etag)
    assert web.read().tolist() == DATA.tolist()
    assert any(r.headers.get("if-match") == web.etag for r in web.server.requests)


def test_etag_without_quotes_matches(web: Web) -> None:
    web.declare(etag=web.etag.strip('"'))
    web.script(ignore_conditions())
    assert web.read().tolist() == DATA.tolist()


def test_etag_changed(web: Web) -> None:
    web.declare_one(etag=web.etag)
    web.server.put("d/f.bin", RAW[::-1])
    _has_remedy(web.refused(zm.SourceChangedError))


def test_etag_changes_between_two_reads(web: Web) -> None:
    web.declare(etag=web.etag)
    array = zarr.open_array(zm.ManifestStore(web.root, allow=web.allow), path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    web.script(change(RAW[::-1]), sticky=False)
    with pytest.raises(zm.SourceChangedError):
        array[8:]


def test_etag_changed_and_the_server_ignores_conditions(web: Web) -> None:
    web.declare_one(etag='"another"')
    web.script(ignore_conditions())
    error = web.refused(zm.SourceChangedError)
    assert "another" in error.problem


def test_weak_etag(web: Web) -> None:
    web.server.put("d/f.bin", RAW, etag='W/"weak"')
    web.declare(etag='W/"weak"')
    assert web.read().tolist() == DATA.tolist()


def test_weak_etag_changed(web: Web) -> None:
    web.server.put("d/f.bin", RAW, etag='W/"weak2"')
    web.declare_one(etag='W/"weak"')
    web.refused(zm.SourceChangedError)


@pytest.mark.parametrize("faults", [(), (ignore_conditions(),)])
def test_server_without_etags(web: Web, faults: tuple[Fault, ...]) -> None:
    web.server.put("d/f.bin", RAW, etag="")
    web.declare_one(etag='"stated"')
    if faults:
        web.script(*faults)
    web.refused(zm.SourceChangedError)


THEN = datetime(2024, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("stated", ["2024-01-31T12:00:00Z", "2024-01-31T13:00:00+01:00"])
@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=1)])
def test_last_modified_then_or_before(web: Web, age: timedelta, stated: str) -> None:
    web.server.put("d/f.bin", RAW, last_modified=THEN - age)
    web.declare(last_modified=stated)
    assert web.read().tolist() == DATA.tolist()


@pytest.mark.parametrize("faults", [(), (ignore_conditions(),)])
def test_last_modified_later(web: Web, faults: tuple[Fault, ...]) -> None:
    web.server.put("d/f.bin", RAW, last_modified=THEN + timedelta(seconds=1))
    web.declare_one(last_modified="2024-01-31T12:00:00Z")
    if faults:
        web.script(*faults)
    _has_remedy(web.refused(zm.SourceChangedError))


def test_last_modified_unknown(web: Web) -> None:
    web.declare_one(last_modified="2024-01-31T12:00:00Z")
    web.server.put("d/f.bin", RAW, last_modified=THEN - timedelta(days=1))
    web.script(drop_header("Last-Modified"))
    error = web.refused(zm.SourceChangedError)
    assert "unknown" in error.problem


def test_version_cannot_be_honoured_over_http(web: Web) -> None:
    web.declare_one(version="v1")
    error = _refused(zm.SourceChangedError, web.root, allow=web.allow)
    _has_location(error, web.url)


# ---------------------------------------------------------------- S3


class Bucket:
    """One array whose two chunks lie in one object of a bucket."""

    def __init__(self, root: Path, server: S3Server, name: str) -> None:
        self.root, self.server, self.name = root, server, name
        self.url = f"s3://{name}/d/f.bin"
        self.allow: Any = {f"s3://{name}/d/": {**server.options, "retry_config": QUICK}}
        server.put(name, "d/f.bin", RAW)

    def declare(self, **members: Any) -> None:
        _declare(
            self.root,
            {
                str(i): {"path": self.url, "offset": 4 + 8 * i, "length": 8, **members}
                for i in range(2)
            },
        )

    def read(self, **options: Any) -> Any:
        return _read(self.root, **{"allow": self.allow, **options})

    def refused(self, expected: type[zm.ManifestError], **options: Any) -> zm.ManifestError:
        error = _refused(expected, self.root, chunk=None, **{"allow": self.allow, **options})
        assert error.chunk in ("0", "1")
        _has_location(error, self.url)
        return error

    def etag(self) -> str:
        store = obstore.store.S3Store(self.name, **self.server.options)
        found = obs.head(store, "d/f.bin")["e_tag"]
        assert found is not None
        return found


@pytest.fixture
def bucket(root: Path, s3_server: S3Server, s3_bucket: str) -> Bucket:
    return Bucket(root, s3_server, s3_bucket)


def test_s3_reads(bucket: Bucket) -> None:
    bucket.declare()
    assert bucket.read().tolist() == DATA.tolist()


def test_s3_no_such_key(bucket: Bucket) -> None:
    bucket.declare()
    bucket.server.delete(bucket.name, "d/f.bin")
    _has_remedy(bucket.refused(zm.SourceNotFoundError))


def test_s3_no_such_bucket(bucket: Bucket) -> None:
    _declare(bucket.root, {"0": {"path": "s3://no-such-bucket-here/f.bin", **ENTRY}})
    allow = {"s3://no-such-bucket-here": bucket.server.options}
    error = _refused(zm.SourceNotFoundError, bucket.root, allow=allow)
    _has_location(error, "s3://no-such-bucket-here/f.bin")


def test_s3_denied(bucket: Bucket) -> None:
    bucket.declare()
    anonymous = zm.anonymous(**bucket.server.location_options)
    error = bucket.refused(zm.SourceAccessDeniedError, allow={f"s3://{bucket.name}/d/": anonymous})
    _has_remedy(error)


@pytest.mark.parametrize("offset", [20, 24, 1000])
def test_s3_range_past_the_end(bucket: Bucket, offset: int) -> None:
    bucket.declare(offset=offset)
    _has_remedy(bucket.refused(zm.RangeOutOfBoundsError))


def test_s3_etag(bucket: Bucket) -> None:
    bucket.declare(etag=bucket.etag())
    assert bucket.read().tolist() == DATA.tolist()
    bucket.server.put(bucket.name, "d/f.bin", RAW[::-1])
    bucket.refused(zm.SourceChangedError)


def test_s3_last_modified(bucket: Bucket) -> None:
    bucket.declare(last_modified="2001-01-01T00:00:00Z")
    bucket.refused(zm.SourceChangedError)


def test_s3_version(bucket: Bucket) -> None:
    bucket.server.enable_versioning(bucket.name)
    version = bucket.server.put(bucket.name, "d/f.bin", RAW)
    bucket.server.put(bucket.name, "d/f.bin", RAW[::-1])
    bucket.declare(version=version)
    assert bucket.read().tolist() == DATA.tolist()


def test_s3_version_is_gone(bucket: Bucket) -> None:
    bucket.server.enable_versioning(bucket.name)
    version = bucket.server.put(bucket.name, "d/f.bin", RAW)
    bucket.declare(version=version)
    bucket.server.delete(bucket.name, "d/f.bin", version)
    error = bucket.refused(zm.SourceChangedError)
    assert str(version) in error.problem


def test_s3_version_of_a_bucket_without_versions(bucket: Bucket) -> None:
    bucket.declare(version="no-such-version")
    with pytest.raises((zm.SourceChangedError, zm.SourceError)):
        bucket.read()


# ---------------------------------------------------------------- local files


class Disk:
    """One array whose chunk lies in a local file outside the hierarchy."""

    def __init__(self, root: Path, directory: Path) -> None:
        directory.mkdir()
        self.root = root
        self.file = directory / "f.bin"
        self.file.write_bytes(RAW)
        self.url = self.file.as_uri()
        self.allow = [directory.as_uri()]

    def declare(self, **members: Any) -> None:
        _declare(self.root, {"0": {"path": self.url, **ENTRY, **members}, "1": {}})

    def read(self) -> Any:
        return _read(self.root, allow=self.allow)

    def refused(self, expected: type[zm.ManifestError]) -> zm.ManifestError:
        error = _refused(expected, self.root, allow=self.allow)
        _has_location(error, self.url)
        return error


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> Disk:
    return Disk(root, tmp_path / "outside")


def test_file_reads(disk: Disk) -> None:
    disk.declare()
    assert disk.read()[:8].tolist() == DATA[:8].tolist()


def test_file_is_gone(disk: Disk) -> None:
    disk.declare()
    disk.file.unlink()
    _has_remedy(disk.refused(zm.SourceNotFoundError))


def test_file_and_directory_are_gone(disk: Disk) -> None:
    disk.declare()
    shutil.rmtree(disk.file.parent)
    disk.refused(zm.SourceNotFoundError)


def test_file_is_a_directory(disk: Disk) -> None:
    disk.declare()
    disk.file.unlink()
    disk.file.mkdir()
    with pytest.raises((zm.SourceNotFoundError, zm.SourceError)):
        disk.read()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_file_is_forbidden(disk: Disk) -> None:
    disk.declare()
    disk.file.chmod(0)
    disk.refused(zm.SourceAccessDeniedError)


@pytest.mark.parametrize("offset", [20, 24, 1000])
def test_file_range_past_the_end(disk: Disk, offset: int) -> None:
    disk.declare(offset=offset)
    error = disk.refused(zm.RangeOutOfBoundsError)
    assert "24" in error.problem


def test_file_was_truncated_to_nothing(disk: Disk) -> None:
    disk.declare()
    disk.file.write_bytes(b"")
    disk.refused(zm.RangeOutOfBoundsError)


def test_file_etag(disk: Disk) -> None:
    etag = obs.head(obstore.store.LocalStore(disk.file.parent), "f.bin")["e_tag"]
    disk.declare(etag=etag)
    assert disk.read()[:8].tolist() == DATA[:8].tolist()
    disk.file.write_bytes(RAW + b"more")
    disk.refused(zm.SourceChangedError)


def test_file_last_modified(disk: Disk) -> None:
    disk.declare(last_modified="2024-01-31T12:00:00Z")
    os.utime(disk.file, (THEN.timestamp(), THEN.timestamp() + 0.5))
    assert disk.read()[:8].tolist() == DATA[:8].tolist()
    os.utime(disk.file, (THEN.timestamp(), THEN.timestamp() + 1))
    disk.refused(zm.SourceChangedError)


# ---------------------------------------------------------------- the hierarchy's own store


def _local(root: Path) -> Any:
    return root


def _zarr_local(root: Path) -> Any:
    return LocalStore(root, read_only=True)


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


def _obstore(root: Path) -> Any:
    return obstore.store.LocalStore(root)


def _zarr_obstore(root: Path) -> Any:
    return ObjectStore(obstore.store.LocalStore(root), read_only=True)


HIERARCHIES = [_local, _zarr_local, _memory, _zip, _obstore, _zarr_obstore]


@pytest.fixture(params=HIERARCHIES, ids=lambda f: f.__name__.strip("_"))
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
    _declare(root, {"0": {"path": "../d/f.bin", **ENTRY, **members}, "1": {}})
    (root / "d").mkdir()
    (root / "d" / "f.bin").write_bytes(RAW)


def test_relative_reads(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    assert _read(opened())[:8].tolist() == DATA[:8].tolist()


def test_relative_is_gone(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    (root / "d" / "f.bin").unlink()
    error = _refused(zm.SourceNotFoundError, opened())
    _has_location(error, "d/f.bin")
    _has_remedy(error)


@pytest.mark.parametrize("offset", [20, 24, 1000])
def test_relative_range_past_the_end(root: Path, opened: Callable[[], Any], offset: int) -> None:
    _relative(root, offset=offset)
    error = _refused(zm.RangeOutOfBoundsError, opened())
    _has_location(error, "d/f.bin")
    _has_remedy(error)


def test_relative_changed(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root, etag='"x"')
    location = opened()
    plain = isinstance(location, MemoryStore | ZipStore)
    error = _refused(zm.SourceError if plain else zm.SourceChangedError, location)
    _has_remedy(error)


def test_manifest_is_gone(root: Path, opened: Callable[[], Any]) -> None:
    _relative(root)
    (root / "a" / "manifest.json").unlink()
    error = _refused(zm.ManifestNotFoundError, opened(), chunk=None)
    _has_location(error, "a/manifest.json")
    _has_remedy(error)


# ---------------------------------------------------------------- checksums


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


WRONG = _sha256(b"something else")


def test_checksum_matches(web: Web) -> None:
    web.declare_one(checksum=_sha256(RAW[4:12]))
    assert web.read()[:8].tolist() == DATA[:8].tolist()


def test_checksum_mismatch(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    error = _refused(zm.ChecksumMismatchError, web.root, allow=web.allow)
    assert WRONG in error.problem


def test_checksum_mismatch_names_location_and_remedy(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    _has_remedy(web.refused(zm.ChecksumMismatchError))


def test_checksum_mismatch_inline(root: Path) -> None:
    _declare(root, {"0": {"data": "AAAAAAAAAAA=", "checksum": WRONG}})
    _refused(zm.ChecksumMismatchError, root)


def test_checksum_never(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    assert web.read(verify="never")[:8].tolist() == DATA[:8].tolist()


def test_checksum_of_shards(web: Web, tmp_path: Path) -> None:
    """Partial reads verify under "always" only, which then fetches the whole chunk."""
    native = zarr.create_array(
        tmp_path / "native", shape=(64,), shards=(32,), chunks=(4,), dtype="u1", compressors=None
    )
    native[:] = np.arange(64)
    shard = (tmp_path / "native" / "c" / "0").read_bytes()
    web.server.put("d/f.bin", shard)
    for checksum in (_sha256(shard), WRONG):
        shutil.rmtree(web.root, ignore_errors=True)
        write_manifest_array(
            web.root,
            "a",
            np.zeros(64, "u1"),
            (4,),
            {"0": {"path": web.url, "checksum": checksum}},
            shards=(32,),
        )

        def part(verify: Any) -> Any:
            store = zm.ManifestStore(web.root, allow=web.allow, verify=verify)
            return zarr.open_array(store, path="a", mode="r")[5:7].tolist()

        assert part("auto") == [5, 6]
        assert part("never") == [5, 6]
        if checksum == WRONG:
            with pytest.raises(zm.ChecksumMismatchError):
                part("always")
        else:
            assert part("always") == [5, 6]


def test_unsupported_checksum(web: Web) -> None:
    web.declare_one(checksum="xxh3:00")
    error = _refused(zm.UnsupportedChecksumError, web.root, allow=web.allow)
    assert "crc32c" in str(error)
    _has_remedy(error)


# ---------------------------------------------------------------- the manifest document


def test_invalid_json(root: Path) -> None:
    _declare(root, '{\n  "0": {"path": "f.bin",}\n}')
    error = _refused(zm.InvalidJSONError, root, chunk=None)
    assert "line 2, column" in error.problem
    _has_location(error, "a/manifest.json")


@pytest.mark.parametrize("text", ["", "{", '{"0": {}', "\ufeff{}"])
def test_invalid_json_anyhow(root: Path, text: str) -> None:
    _declare(root, text)
    error = _refused(zm.InvalidJSONError, root, chunk=None)
    assert "line 1" in error.problem


def test_not_utf8(root: Path) -> None:
    _declare(root, "{}")
    (root / "a" / "manifest.json").write_bytes(b'{"0": {"path": "\xff"}}')
    error = _refused(zm.InvalidJSONError, root, chunk=None)
    assert "UTF-8" in error.problem


@pytest.mark.parametrize("text", ["[]", "null", "3", '"text"'])
def test_not_an_object(root: Path, text: str) -> None:
    _declare(root, text)
    _refused(zm.InvalidManifestError, root, chunk=None)


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"path": 3}, "path"),
        ({"path": "f", "offset": -1}, "offset"),
        ({"path": "f", "offset": 1.5}, "offset"),
        ({"path": "f", "length": "8"}, "length"),
        ({"path": "f", "length": 0}, "length"),
        ({"path": "f", "offset": 2**53 - 1, "length": 1}, "2^53-1"),
        ({"path": "f", "data": "AA=="}, "'path' and 'data'"),
        ({"offset": 4, "length": 8}, "'path'"),
        ({"data": "not base64!"}, "data"),
        ({"Path": "f"}, "'path'"),
        ([], "entry"),
        (None, "entry"),
        ("f.bin", "entry"),
        ({"path": "f", "last_modified": "yesterday"}, "'last_modified'"),
        ({"path": "f", "last_modified": "2024-01-31T12:00:00"}, "'last_modified'"),
        ({"path": "f", "checksum": "sha256:zz"}, "checksum"),
    ],
)
def test_invalid_entry(root: Path, entry: Any, named: str) -> None:
    _declare(root, json.dumps({"0": {}, "1": entry}, indent=1))
    error = _refused(zm.InvalidEntryError, root, chunk="1")
    assert named in error.problem
    _has_location(error, "a/manifest.json")


def test_invalid_entry_names_member_and_position(root: Path) -> None:
    _declare(root, '{"0": {},\n "1": {"path": 3}}')
    error = _refused(zm.InvalidEntryError, root, chunk="1")
    assert "member '1' at line 2, column 7" in error.problem


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("key", ["x", "0.0", "-1", "00", "", "c/x"])
def test_invalid_chunk_key(root: Path, key: str, inline: bool) -> None:
    _declare(root, {key: {}}, inline=inline)
    error = _refused(zm.InvalidChunkKeyError, root, chunk=None)
    assert repr(key) in error.problem
    _has_remedy(error)


def test_one_chunk_in_two_spellings(root: Path) -> None:
    _declare(root, {"0": {}, "c/0": {}})
    error = _refused(zm.InvalidChunkKeyError, root, chunk=None)
    assert "'0'" in error.problem
    assert "'c/0'" in error.problem


@pytest.mark.parametrize(
    ("limits", "member"),
    [
        (zm.Limits(manifest_bytes=10), "manifest_bytes"),
        (zm.Limits(entries=1), "entries"),
        (zm.Limits(inline_bytes=15), "inline_bytes"),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
def test_limits(root: Path, limits: zm.Limits, member: str, inline: bool) -> None:
    document = {str(i): {"data": "AAAAAAAAAAA="} for i in range(2)}
    _declare(root, document, inline=inline)
    assert _read(root).tolist() == [0] * 16
    error = _refused(zm.LimitExceededError, root, chunk=None, limits=limits)
    assert error.remedy
    assert member in error.remedy


def test_nesting(root: Path) -> None:
    _declare(root, '{"0": {"path": "f", "more": ' + "[" * 100_000 + "]" * 100_000 + "}}")
    with pytest.raises((zm.LimitExceededError, zm.InvalidJSONError)):
        _read(root)


# ---------------------------------------------------------------- never fill values


def test_empty_and_absent_are_the_only_fill_values(web: Web) -> None:
    _declare(web.root, {"0": {}})
    assert web.read().tolist() == [7] * 16
    assert web.server.requests == []


def test_group_members_do_not_read_fill_values_either(web: Web) -> None:
    web.declare()
    web.server.remove("d/f.bin")
    store = zm.ManifestStore(web.root, allow=web.allow)
    group = zarr.open_group(store, mode="r")
    for array in (group["a"], dict(group.members())["a"], zarr.open_array(store, path="a")):
        with pytest.raises(zm.SourceNotFoundError):
            array[...]  # type: ignore[index]


def test_inline_data_of_the_wrong_size(root: Path) -> None:
    """zarr's own codecs complain, and say nothing of fill values."""
    _declare(root, {"0": {"data": "AAAA"}})
    with pytest.raises(Exception, match=r"."):
        _read(root)
