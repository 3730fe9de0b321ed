"""Never a silent fill value: checksums, manifest documents, and what reads as fill."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.failing_sources import (
    DATA,
    RAW,
    Web,
    declare,
    has_location,
    has_remedy,
    read,
    refused,
)
from tests.hierarchies import write_manifest_array
from tests.servers.http_files import (
    FileServer,
)

pytestmark = pytest.mark.usefixtures("pipeline")


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


# ---------------------------------------------------------------- checksums


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


WRONG = _sha256(b"something else")


def test_checksum_matches(web: Web) -> None:
    web.declare_one(checksum=_sha256(RAW[4:12]))
    assert web.read()[:8].tolist() == DATA[:8].tolist()


def test_checksum_mismatch(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    error = refused(zm.errors.ChecksumMismatchError, web.root, allow=web.allow)
    assert WRONG in error.problem


def test_checksum_mismatch_names_location_and_remedy(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    has_remedy(web.refused(zm.errors.ChecksumMismatchError))


def test_checksum_mismatch_inline(root: Path) -> None:
    declare(root, {"0": {"data": "AAAAAAAAAAA=", "checksum": WRONG}})
    refused(zm.errors.ChecksumMismatchError, root)


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
            with pytest.raises(zm.errors.ChecksumMismatchError):
                part("always")
        else:
            assert part("always") == [5, 6]


def test_unsupported_checksum(web: Web) -> None:
    web.declare_one(checksum="xxh3:00")
    error = refused(zm.errors.UnsupportedChecksumError, web.root, allow=web.allow)
    assert "crc32c" in str(error)
    has_remedy(error)


# ---------------------------------------------------------------- the manifest document


def test_invalid_json(root: Path) -> None:
    declare(root, '{\n  "0": {"path": "f.bin",}\n}')
    error = refused(zm.errors.InvalidJSONError, root, chunk=None)
    assert "line 2, column" in error.problem
    has_location(error, "a/manifest.json")


@pytest.mark.parametrize("text", ["", "{", '{"0": {}', "\ufeff{}"])
def test_invalid_json_anyhow(root: Path, text: str) -> None:
    declare(root, text)
    error = refused(zm.errors.InvalidJSONError, root, chunk=None)
    assert "line 1" in error.problem


def test_not_utf8(root: Path) -> None:
    declare(root, "{}")
    (root / "a" / "manifest.json").write_bytes(b'{"0": {"path": "\xff"}}')
    error = refused(zm.errors.InvalidJSONError, root, chunk=None)
    assert "UTF-8" in error.problem


@pytest.mark.parametrize("text", ["[]", "null", "3", '"text"'])
def test_not_an_object(root: Path, text: str) -> None:
    declare(root, text)
    refused(zm.errors.InvalidManifestError, root, chunk=None)


@pytest.mark.slow
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
    declare(root, json.dumps({"0": {}, "1": entry}, indent=1))
    error = refused(zm.errors.InvalidEntryError, root, chunk="1")
    assert named in error.problem
    has_location(error, "a/manifest.json")


def test_invalid_entry_names_member_and_position(root: Path) -> None:
    declare(root, '{"0": {},\n "1": {"path": 3}}')
    error = refused(zm.errors.InvalidEntryError, root, chunk="1")
    assert "member '1' at line 2, column 7" in error.problem


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("key", ["x", "0.0", "-1", "00", "", "c/x"])
def test_invalid_chunk_key(root: Path, key: str, inline: bool) -> None:
    declare(root, {key: {}}, inline=inline)
    error = refused(zm.errors.InvalidChunkKeyError, root, chunk=None)
    assert repr(key) in error.problem
    has_remedy(error)


def test_one_chunk_in_two_spellings(root: Path) -> None:
    declare(root, {"0": {}, "c/0": {}})
    error = refused(zm.errors.InvalidChunkKeyError, root, chunk=None)
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
    declare(root, document, inline=inline)
    assert read(root).tolist() == [0] * 16
    error = refused(zm.errors.LimitExceededError, root, chunk=None, limits=limits)
    assert error.remedy
    assert member in error.remedy


def test_nesting(root: Path) -> None:
    declare(root, '{"0": {"path": "f", "more": ' + "[" * 100_000 + "]" * 100_000 + "}}")
    with pytest.raises((zm.errors.LimitExceededError, zm.errors.InvalidJSONError)):
        read(root)


# ---------------------------------------------------------------- never fill values


def test_empty_and_absent_are_the_only_fill_values(web: Web) -> None:
    declare(web.root, {"0": {}})
    assert web.read().tolist() == [7] * 16
    assert web.server.requests == []


def test_group_members_do_not_read_fill_values_either(web: Web) -> None:
    web.declare()
    web.server.remove("d/f.bin")
    store = zm.ManifestStore(web.root, allow=web.allow)
    group = zarr.open_group(store, mode="r")
    for array in (group["a"], dict(group.members())["a"], zarr.open_array(store, path="a")):
        with pytest.raises(zm.errors.SourceNotFoundError):
            array[...]  # type: ignore[index]


def test_inline_data_of_the_wrong_size(root: Path) -> None:
    """zarr's own codecs complain, and say nothing of fill values."""
    declare(root, {"0": {"data": "AAAA"}})
    with pytest.raises(Exception, match=r"."):
        read(root)
