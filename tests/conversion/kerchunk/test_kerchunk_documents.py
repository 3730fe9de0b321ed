"""Metadata documents in other files, and lists of reference sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zarr_manifest as zm
from tests.conversion.kerchunk.kerchunk_sets import (
    URL,
    ZGROUP,
    assert_equal,
    entries,
    nodes,
    one,
    read_as_manifests,
    read_by_fsspec,
    refusal,
    zarray,
)
from tests.servers.http_files import FileServer
from zarr_manifest.conversion import ArrayNode, GroupNode, RefusedNode, read_kerchunk_json
from zarr_manifest.errors import LimitExceededError, NotConvertibleError

# Metadata that is elsewhere ---------------------------------------------------------


@pytest.fixture
def published(tmp_path: Path) -> dict[str, Any]:
    """A set over a Zarr v2 array, whose metadata it refers to like its chunks."""
    chunks = np.arange(24, dtype="<i2")
    (tmp_path / "chunks").write_bytes(chunks.tobytes())
    (tmp_path / "zarray").write_text(json.dumps(zarray()))
    (tmp_path / "all").write_text(f'..{{"title": "t"}}{ZGROUP}')
    place = tmp_path.as_uri()
    references = {
        f"a/{i}.{j}": [f"{place}/chunks", 24 * i + 12 * j, 12] for i in (0, 1) for j in (0, 1)
    }
    return references | {
        ".zgroup": [f"{place}/all", 16, len(ZGROUP)],
        ".zattrs": [f"{place}/all", 2, 14],
        "a/.zarray": [f"{place}/zarray"],
    }


def test_metadata_in_other_files(published: dict[str, Any], tmp_path: Path) -> None:
    allow = [f"{tmp_path.as_uri()}/"]
    ours, report = read_as_manifests(published, tmp_path / "h.zarr", allow=allow)
    assert report.refused == []
    assert_equal(ours, read_by_fsspec(published))
    assert nodes(published, allow=allow)[""] == GroupNode("", {"title": "t"})


def test_metadata_in_other_files_is_read_only_where_it_is_allowed(
    published: dict[str, Any], tmp_path: Path
) -> None:
    found = refusal(published)
    assert found.code == "location_not_allowed"
    assert f"allow=['{tmp_path.as_uri()}/']" in found.reason
    (tmp_path / "zarray").unlink()
    missing = refusal(published, allow=[f"{tmp_path.as_uri()}/"])
    assert missing.code == "source_not_found"
    assert f"{tmp_path.as_uri()}/zarray" in missing.reason
    big = refusal(published, "", allow=[f"{tmp_path.as_uri()}/"], max_bytes=15)
    assert big.code == LimitExceededError.code


@pytest.mark.parametrize("reference", [["{{u}}/zarray"], ["{{u}}/zarray", 0, 200]])
def test_metadata_of_unknown_size_is_bounded(reference: list[Any], http_server: FileServer) -> None:
    url = http_server.url
    http_server.put("/zarray", json.dumps(zarray()).ljust(200).encode())
    document = {"version": 1, "templates": {"u": url}, "refs": one(URL)}
    document["refs"] |= {"a/.zarray": reference}
    assert len(entries(document, allow=[url])) == 1
    found = refusal(document, allow=[url], max_bytes=199)
    assert (found.code, "larger than 199 bytes" in found.reason) == (LimitExceededError.code, True)


# Lists of sets ----------------------------------------------------------------------


def test_a_list_of_sets_becomes_groups(tmp_path: Path) -> None:
    first = {"version": 1, "templates": {"u": "f.nc"}, "refs": one(["{{u}}", 0, 5])}
    sets: list[Any] = [first, one(URL), 7, {"version": 3}]
    (tmp_path / "list.json").write_text(json.dumps(sets))
    for references in (sets, tmp_path / "list.json", json.dumps(sets).encode()):
        found = list(read_kerchunk_json(references))
        assert [node.path for node in found] == ["", "0", "0/a", "1", "1/a", "2", "3"]
        _, _, array, _, other, *refused = found
        assert isinstance(array, ArrayNode)
        assert isinstance(other, ArrayNode)
        assert array.notes[0].startswith("relative paths, such as 'f.nc', were")
        assert other.metadata == array.metadata
        for node, reason in zip(refused, ("not a JSON object", "has version 3"), strict=True):
            assert isinstance(node, RefusedNode)
            assert reason in node.reason
    with pytest.raises(NotConvertibleError, match="not a JSON object, but 7"):
        list(read_kerchunk_json(b"7"))


def test_a_rewrite_may_be_for_one_set_of_a_list() -> None:
    sets = [one(["/a/f.nc", 0, 5]), one(["/b/f.nc", 0, 5])]
    rewrite = {"/a/": "s3://a/", "/c/": "s3://c/"}
    (refused,) = (
        node
        for node in read_kerchunk_json(sets, rewrite=rewrite)
        if not node.path[:1] and isinstance(node, RefusedNode)
    )
    assert "no URL begins with '/c/'" in refused.reason
    assert zm.errors.NotConvertibleError.code == refused.code
