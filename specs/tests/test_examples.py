"""The specification's examples: complete, as they are written, and read as the text says."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from conformance.adapters.core_reader.hierarchy import CoreHierarchy
from specs.tests.examples import examples, main
from specs.tests.text import CORE, DIRECTORY, Block, marked
from specs.tests.verdicts import in_schema

EXAMPLES = DIRECTORY / "examples"
ARRAYS = {block.argument: json.loads(block.body) for block in marked("reads")}


def _files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def _open(name: str) -> Any:
    """Open one of the examples, or an array in it, from the example's own root."""
    root = next(p for p in _above(DIRECTORY / name) if not (p.parent / "zarr.json").exists())
    store = zm.ManifestStore(root, allow=[str(EXAMPLES / "beside" / "archive")], read_only=True)
    path = "/".join((DIRECTORY / name).relative_to(root).parts)
    return zarr.open(store, path=path, mode="r")


def _above(path: Path) -> list[Path]:
    return [path, *path.parents]


def _manifest(name: str) -> dict[str, Any]:
    """The manifest of an example, all partitions together, read without the package."""
    directory = DIRECTORY / name
    metadata = json.loads((directory / "zarr.json").read_text())
    declared = metadata["storage_transformers"][0]["configuration"]["manifest"]
    if not isinstance(declared, str):
        return dict(declared)
    entries: dict[str, Any] = {}
    for path in directory.glob(declared.format(partition="*", digest="*")):
        content = path.read_bytes()
        entries |= json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return entries


@pytest.mark.parametrize("block", marked("file"), ids=lambda block: block.argument)
def test_committed_file_is_what_the_text_shows(block: Block) -> None:
    assert (DIRECTORY / block.argument).read_bytes() == block.body.encode()


def test_committed_files_are_what_the_script_writes(tmp_path: Path) -> None:
    main([str(tmp_path)])
    assert _files(tmp_path / "examples") == _files(EXAMPLES)
    assert {f"examples/{name}" for name in _files(EXAMPLES)} == set(examples())


@pytest.mark.parametrize("name", ARRAYS)
def test_reads_as_the_text_says(name: str) -> None:
    array = _open(name)
    np.testing.assert_array_equal(array[...], np.array(ARRAYS[name], dtype=array.dtype))


def test_every_array_has_a_block_that_says_what_it_reads_as() -> None:
    documents = {path.parent for path in EXAMPLES.rglob("zarr.json")}
    arrays = {path for path in documents if "shape" in (path / "zarr.json").read_text()}
    assert {path.relative_to(DIRECTORY).as_posix() for path in arrays} == set(ARRAYS)


@pytest.mark.parametrize("name", [name for name in ARRAYS if not name.endswith("mask")])
def test_documents_are_valid(name: str) -> None:
    metadata = json.loads((DIRECTORY / name / "zarr.json").read_text())
    assert in_schema("storage_transformers", metadata["storage_transformers"])
    # The example with an inline manifest shows an array without a lock.
    if "chunk-manifest-json" in metadata:
        assert in_schema("lock", metadata["chunk-manifest-json"])
    manifest = _manifest(name)
    assert manifest
    assert in_schema("manifest", manifest)


# What the blocks say, taken from the sources by hand.


def test_range_by_hand() -> None:
    manifest = _manifest("examples/range")
    first = (EXAMPLES / "range" / manifest["0.0"]["path"]).read_bytes()
    entry = manifest["1.0"]
    archive = (EXAMPLES / "range" / entry["path"]).read_bytes()
    second = archive[entry["offset"] : entry["offset"] + entry["length"]]
    assert len(archive) > entry["offset"] + entry["length"]
    rows = np.stack([np.frombuffer(row, "<i2") for row in (first, second)])
    assert rows.tolist() == ARRAYS["examples/range"]


def test_inline_by_hand() -> None:
    manifest = _manifest("examples/inline")
    assert manifest["1"] == {}
    assert "2" not in manifest
    values = list(base64.b64decode(manifest["0"]["data"])) + [255] * 4
    assert values == ARRAYS["examples/inline"]


def test_mixed_by_hand() -> None:
    manifest = _manifest("examples/mixed/sst")
    assert sorted(manifest) == ["0.0", "1.0", "2.0", "3.0"]
    rows: list[Any] = []
    for key in sorted(manifest):
        source = EXAMPLES / "mixed" / "sources" / manifest[key]["path"]
        rows.append(np.fromfile(source, ">f4", 2, offset=manifest[key]["offset"]).tolist())
        assert manifest[key]["length"] == 8
    assert rows == ARRAYS["examples/mixed/sst"]


def test_by_digest_by_hand() -> None:
    directory = EXAMPLES / "by-digest"
    metadata = json.loads((directory / "zarr.json").read_text())
    declared = metadata["storage_transformers"][0]["configuration"]["partitions"]
    assert set(declared) == {"0", "1"}
    for name, checksum in declared.items():
        (document,) = (directory / "manifest").glob(f"{name}-*.json")
        digest = hashlib.sha256(document.read_bytes()).hexdigest()
        assert (checksum, document.stem) == (f"sha256:{digest}", f"{name}-{digest[:16]}")
    manifest = _manifest("examples/by-digest")
    assert manifest.pop("3") == {}
    inline = b"".join(base64.b64decode(manifest[key]["data"]) for key in sorted(manifest))
    assert [*inline, 255, 255] == ARRAYS["examples/by-digest"]


def test_group_has_the_native_array_and_the_manifest_array() -> None:
    group = _open("examples/mixed")
    # Not listed: zarr warns of `sources`, a directory that is no node.
    assert all(isinstance(group[name], zarr.Array) for name in ("mask", "sst"))
    native = zarr.open_array(EXAMPLES / "mixed" / "mask", mode="r")
    assert native[:].tolist() == ARRAYS["examples/mixed/mask"]


def test_checksums_are_verified() -> None:
    store = zm.ManifestStore(EXAMPLES / "mixed", verify="always", read_only=True)
    assert zarr.open_array(store, path="sst", mode="r")[3].tolist() == [7.5, 8.5]
    assert all("checksum" in entry for entry in _manifest("examples/mixed/sst").values())


def test_examples_of_the_core_need_no_feature() -> None:
    """Each block and each example that the core shows can be read by the core reader."""
    shown = {b.argument for kind in ("file", "reads") for b in marked(kind) if b.document == CORE}
    assert {name.split("/")[1] for name in shown} == {"range", "inline", "beside"}
    blocks = [
        b.body
        for b in marked("valid declaration") + marked("valid manifest") + marked("file")
        if b.document == CORE
    ]
    for member in ("partition_shape", "partitions", "checksum", "etag", "size", "version"):
        assert not any(f'"{member}"' in body for body in blocks)
    for name in ARRAYS:
        if not name.startswith(("examples/mixed", "examples/by-digest")):
            root = DIRECTORY / name
            allowed = [(EXAMPLES / "beside" / "archive").as_uri()]
            reader = CoreHierarchy(str(root), allowed, missing_is_an_error=False)
            values = reader.read("", None)
            expected = np.array(ARRAYS[name]).astype(values.data_type)
            assert values.data == expected.tobytes()


def test_beside_by_hand() -> None:
    manifest = _manifest("examples/beside/archive.zarr/sst")
    source = EXAMPLES / "beside" / "archive" / manifest["0"]["path"]
    values = [np.fromfile(source, ">f4", 2, offset=manifest[key]["offset"]) for key in "01"]
    assert np.concatenate(values).tolist() == ARRAYS["examples/beside/archive.zarr/sst"]
