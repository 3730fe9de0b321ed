"""Any Zarr hierarchy as a source: its references, written elsewhere, are those that it has."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import S3Store
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests import hierarchies
from tests.combinations import combinations
from tests.conversion.files.converted_files import same
from tests.hierarchies import Values, consolidate, declare_manifest, in_memory, read
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import (
    ArrayNode,
    RefusedNode,
    StreamedManifest,
    read_files,
    read_hierarchy,
    write_hierarchy,
)
from zarr_manifest.conversion.nodes import parts_of
from zarr_manifest.errors import LocationNotAllowedError
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import Reference

VALUES = np.arange(8, dtype="u1")
OPTIONS: dict[str, Any] = {"shape": 8, "chunks": 2, "dtype": "u1", "fill_value": 9}


def array(nodes: Any, path: str) -> ArrayNode:
    (found,) = [node for node in nodes if node.path == path]
    assert isinstance(found, ArrayNode), found
    return found


def entries(nodes: Any, path: str) -> dict[tuple[int, ...], Reference]:
    parts = parts_of(array(nodes, path).manifest)
    return {index: entry for part in parts for index, entry in part.items()}


def all_kinds(directory: Path) -> dict[str, Any]:
    (directory / "raw.bin").write_bytes(VALUES.tobytes())
    checksum = compute_checksum("crc32c", VALUES[:2].tobytes())
    return {
        "0": {"path": "raw.bin", "length": 2, "checksum": checksum, "size": 8},
        "1": {},
        "2": {"data": base64.b64encode(VALUES[4:6].tobytes()).decode()},
    }


EXPECTED = [0, 1, 9, 9, 4, 5, 9, 9]
FORMS: dict[str, Any] = {
    "inline": {"inline": True},
    "document": {"inline": False},
    "encoded": {"inline": False, "codecs": ["zstd", "crc32c"]},
    "partitioned": {"partition_shape": (2,)},
    "a partition each": {"partition_shape": (1,), "codecs": ["gzip"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_manifest_keeps_its_entries(tmp_path: Path, form: str) -> None:
    given = all_kinds(tmp_path)
    root = tmp_path / "first" / "h.zarr"
    zm.create_array(root, "deep/a", given, base="../../../../", **OPTIONS, **FORMS[form])
    found = entries(read_hierarchy(root), "deep/a")
    assert sorted(found) == [(0,), (1,), (2,)]
    url = (tmp_path / "raw.bin").as_uri()
    assert (found[0,].path, found[0,].length) == (url, 2)
    assert found[0,].checksum == given["0"]["checksum"]
    assert found[0,].conditions.size == 8
    assert found[1,].is_empty
    assert found[2,].data == VALUES[4:6].tobytes()
    other = tmp_path / "elsewhere" / "deeper" / "h.zarr"
    report = write_hierarchy(other, read_hierarchy(root))
    assert (report.refused, report.references) == ([], 3)
    assert read(zm.ManifestStore(other, allow=[tmp_path]), "deep/a").tolist() == EXPECTED
    assert entries(read_hierarchy(other), "deep/a") == found


@pytest.mark.parametrize("form", ["partitioned", "a partition each"])
def test_partitions_are_read_while_they_are_written(tmp_path: Path, form: str) -> None:
    root = tmp_path / "h.zarr"
    zm.create_array(root, "a", all_kinds(tmp_path), base="../../", **OPTIONS, **FORMS[form])
    manifest = array(read_hierarchy(root), "a").manifest
    assert isinstance(manifest, StreamedManifest)
    assert manifest.partition_shape == FORMS[form]["partition_shape"]
    for document in (root / "a").glob("manifest*/**/*"):
        if document.is_file():
            document.unlink()
    report = write_hierarchy(tmp_path / "other.zarr", [ArrayNode("a", {
        "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 9, "codecs": [{"name": "bytes"}],
    }, manifest)])  # fmt: skip
    assert [node.code for node in report.refused] == ["manifest_not_found"]


@pytest.mark.slow
def test_a_hierarchy_with_nodes_of_all_kinds(root: Path, values: Values, tmp_path: Path) -> None:
    other = tmp_path / "other" / "copy.zarr"
    report = write_hierarchy(other, read_hierarchy(root))
    assert report.refused == []
    store = zm.ManifestStore(other, allow=[root])
    for path, expected in values.items():
        assert same(read(store, path), expected), path
    assert zarr.open_group(store, path="a/b", mode="r").attrs["path"] == "a/b"


def test_another_base_counts_for_relative_paths(tmp_path: Path) -> None:
    zm.create_array(tmp_path / "h.zarr", "a", {"0": {"path": "f"}}, **OPTIONS)
    found = entries(read_hierarchy(tmp_path / "h.zarr", base="s3://bucket/raw/"), "a")
    assert found[0,].path == "s3://bucket/raw/f"


def test_paths_in_the_hierarchy_stay_in_it(tmp_path: Path) -> None:
    root = tmp_path / "first.zarr"
    zm.create_array(root, "a", {"0": {"path": "blob"}}, **OPTIONS)
    (root / "a" / "blob").write_bytes(b"\1\2")
    write_hierarchy(tmp_path / "second.zarr", read_hierarchy(root))
    document = json.loads((tmp_path / "second.zarr/a/zarr.json").read_text())
    configuration = document["storage_transformers"][0]["configuration"]
    assert configuration["manifest"] == {"0": {"path": "../first.zarr/a/blob"}}
    found = read(zm.ManifestStore(tmp_path / "second.zarr", allow=[root]), "a")
    assert found.tolist() == [1, 2, *[9] * 6]


def test_a_store_in_memory_has_urls_and_inline_data_only(root: Path, values: Values) -> None:
    zm.create_array(root, "urls", {"0": {"path": "s3://b/f"}, "1": {}}, **OPTIONS)
    zm.create_array(root, "texts", {"0": {"data": "AAA="}}, **OPTIONS)
    assert values
    nodes = {node.path: node for node in read_hierarchy(in_memory(root))}
    assert entries([nodes["urls"]], "urls")[0,].path == "s3://b/f"
    assert entries([nodes["texts"]], "texts")[0,].data == b"\0\0"
    for path in ("native", "a/b/external", "old"):
        refused = nodes[path]
        assert isinstance(refused, RefusedNode), path
        assert "no URL" in refused.reason


def test_a_hierarchy_in_memory_is_written_elsewhere(tmp_path: Path) -> None:
    store = MemoryStore()
    zm.create_array(store, "a", {"0": {"data": "AQI="}}, **OPTIONS)
    assert write_hierarchy(tmp_path / "h.zarr", read_hierarchy(store)).refused == []
    assert read(zm.ManifestStore(tmp_path / "h.zarr"), "a")[:2].tolist() == [1, 2]


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_a_hierarchy_on_a_web_server(root: Path, values: Values) -> None:
    assert values
    consolidate(root)
    with FileServer(root) as server:
        nodes = {node.path: node for node in read_hierarchy(server.url)}
        path = entries([nodes["a/b/external"]], "a/b/external")[0, 0].path
        assert path == f"{server.url}/raw/external.bin"
        refused = nodes["native"]
        assert isinstance(refused, RefusedNode)
        assert (refused.code, "cannot be listed" in refused.reason) == ("source_error", True)


@pytest.mark.parametrize("by", combinations(["url", "store"], besides=["url"]))
def test_a_hierarchy_in_a_bucket(
    s3_server: S3Server, s3_bucket: str, root: Path, values: Values, tmp_path: Path, by: str
) -> None:
    for key, body in hierarchies.files_below(root).items():
        s3_server.put(s3_bucket, f"h.zarr/{key}", body)
    url = f"s3://{s3_bucket}/h.zarr"
    allow: Any = {f"s3://{s3_bucket}/": s3_server.options}
    given: Any = url
    if by == "store":
        given = S3Store(s3_bucket, prefix="h.zarr", **s3_server.options)
    nodes = list(read_hierarchy(given, allow=allow if by == "url" else None))
    chunk = entries(nodes, "native")[0, 0]
    assert (chunk.path, chunk.conditions.etag is not None) == (f"{url}/native/c/0/0", True)
    report = write_hierarchy(tmp_path / "h.zarr", nodes)
    assert report.refused == []
    store = zm.ManifestStore(tmp_path / "h.zarr", allow=allow)
    for path, expected in values.items():
        assert same(read(store, path), expected), path


def test_a_declaration_that_is_not_usable_refuses_its_array(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "h.zarr")
    for name in ("bad", "good"):
        zm.create_array(tmp_path / "h.zarr", name, {}, **OPTIONS)
    declare_manifest(tmp_path / "h.zarr/bad", "./nowhere.json")
    nodes = {node.path: node for node in read_hierarchy(tmp_path / "h.zarr")}
    refused = nodes["bad"]
    assert isinstance(refused, RefusedNode)
    assert refused.code == "manifest_not_found"
    assert isinstance(nodes["good"], ArrayNode)


def test_documents_outside_the_hierarchy_must_be_allowed(tmp_path: Path) -> None:
    zm.create_array(tmp_path / "h.zarr", "a", {}, **OPTIONS)
    (tmp_path / "m.json").write_text('{"0": {}}')
    declare_manifest(tmp_path / "h.zarr/a", "../../m.json")
    (refused,) = [node for node in read_hierarchy(tmp_path / "h.zarr") if node.path == "a"]
    assert isinstance(refused, RefusedNode)
    assert refused.code == "location_not_allowed"
    found = entries(read_hierarchy(tmp_path / "h.zarr", allow=[tmp_path]), "a")
    assert found[0,].is_empty


@pytest.mark.slow
def test_create_takes_manifest_hierarchies(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(VALUES.tobytes())
    options: dict[str, Any] = {**OPTIONS, "chunks": 8, "dimension_names": ["x"]}
    for name in ("a", "b"):
        given = {"0": {"path": "../../raw.bin"}}
        zm.create_array(tmp_path / f"{name}.zarr", "v", given, **options)
    write_hierarchy(tmp_path / "one.zarr", read_files(tmp_path / "a.zarr"))
    store = zm.ManifestStore(tmp_path / "one.zarr", allow=[tmp_path])
    assert same(read(store, "v"), VALUES)
    names = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    write_hierarchy(tmp_path / "two.zarr", read_files(names, concat_dim="x"))
    store = zm.ManifestStore(tmp_path / "two.zarr", allow=[tmp_path])
    assert same(read(store, "v"), np.concatenate([VALUES, VALUES]))


@pytest.mark.parametrize("how", ["coordinates", "loaded", "compared", "checksums"])
def test_nothing_is_read_that_only_a_hierarchy_names(tmp_path: Path, how: str) -> None:
    secret, names = tmp_path / "secret.bin", [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    secret.write_bytes(VALUES.tobytes() * 2)
    options: dict[str, Any] = {**OPTIONS, "chunks": 8, "compressors": None}
    for number, name in enumerate(names):
        chunk = {"path": secret.as_uri(), "offset": 8 * number, "length": 8}
        path, dim = "x" if how == "coordinates" else "v", "y" if how == "compared" else "x"
        zm.create_array(name, path, {"0": chunk}, dimension_names=[dim], **options)
        inline = {"0": {"data": base64.b64encode(bytes(8)).decode()}}
        zm.create_array(name, "w", inline, dimension_names=["x"], **options)
    options = {
        "loadable_variables": ["v"] if how == "loaded" else None,
        "checksum": "crc32c" if how == "checksums" else None,
    }
    try:
        nodes = list(read_files(names, concat_dim="x", **options))
    except LocationNotAllowedError:
        return
    (refused,) = [node for node in nodes if isinstance(node, RefusedNode)]
    assert (refused.path, refused.code) == ("v", "location_not_allowed")


def test_sizes_of_objects_are_not_needed(tmp_path: Path) -> None:
    names = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for name in names:
        chunk = {"0": {"path": "s3://nobody-has-allowed-it/f"}}
        zm.create_array(name, "v", chunk, **OPTIONS | {"chunks": 8}, dimension_names=["x"])
    found = entries(read_files(names, concat_dim="x"), "v")
    assert [entry.length for entry in found.values()] == [None, None]
