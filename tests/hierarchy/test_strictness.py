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
    Web,
    declare,
    has_location,
    has_remedy,
    read,
    refused,
)
from tests.hierarchies import declare_manifest, write_manifest_array
from tests.servers.http_files import (
    FileServer,
)


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


# ---------------------------------------------------------------- checksums


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


WRONG = _sha256(b"something else")


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


def test_checksum_mismatch(web: Web) -> None:
    web.declare_one(checksum=WRONG)
    error = web.refused(zm.errors.ChecksumMismatchError)
    has_remedy(error)
    assert WRONG in error.problem


# ---------------------------------------------------------------- the manifest document


# Which documents are refused, in either way to read, is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("document", "expected", "chunk", "says"),
    [
        ('{\n  "0": {"path": "f.bin",}\n}', zm.errors.InvalidJSONError, None, "line 2, column"),
        ('{"0": {},\n "1": {"path": 3}}', zm.errors.InvalidEntryError, "1",
         "member '1' at line 2, column 7"),
        ('{"0": {}, "c/0": {}}', zm.errors.InvalidChunkKeyError, None, "'c/0'"),
        ('{"0": {"path": "f", "checksum": "xxh3:00"}}', zm.errors.UnsupportedChecksumError, "0",
         "crc32c"),
    ],
)  # fmt: skip
def test_errors_name_the_document_and_what_is_wrong(
    root: Path, document: str, expected: type[zm.ManifestError], chunk: str | None, says: str
) -> None:
    declare(root, document)
    error = refused(expected, root, chunk=chunk)
    assert says in str(error)
    has_location(error, "a/manifest.json")


# ---------------------------------------------------------------- the array's metadata


# Which metadata are refused is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"chunk_grid": {"name": "urn:example:spiral"}}, "unknown chunk_grid 'urn:example:spiral'"),
        ({"chunk_key_encoding": "hilbert"}, "'hilbert'"),
        ({"chunk_key_encoding": {"name": "default", "configuration": []}}, "is not an object"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"x": 1}}}, "something else"),
        ({"chunk_key_encoding": {"name": "default", "separator": "."}}, "member 'separator'"),
    ],
)
def test_errors_name_what_is_wrong_with_the_grid_or_its_keys(
    root: Path, changes: dict[str, Any], says: str
) -> None:
    declare(root, {})
    document = root / "a/zarr.json"
    document.write_text(json.dumps(json.loads(document.read_text()) | changes))
    with pytest.raises(zm.ManifestError) as raised:
        read(root)
    assert raised.value.array == "a"
    assert says in str(raised.value)


def test_the_error_counts_the_dimensions_of_partitions(root: Path) -> None:
    declare(root, "{}")
    declare_manifest(root / "a", "./{partition}.json", partition_shape=[2, 2])
    with pytest.raises(zm.errors.InvalidConfigurationError, match="has 2 dimensions, but the"):
        read(root)


# ---------------------------------------------------------------- never fill values


def test_inline_data_of_the_wrong_size(root: Path) -> None:
    """zarr's own codecs complain, and say nothing of fill values."""
    declare(root, {"0": {"data": "AAAA"}})
    with pytest.raises(Exception, match=r"."):
        read(root)
