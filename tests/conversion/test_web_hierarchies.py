"""A hierarchy on a web server: exports refer to its own objects by their URLs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zarr
from obstore.store import HTTPStore
from zarr.storage import ObjectStore

import zarr_manifest as zm
from tests.servers.http_files import FileServer
from zarr_manifest.conversion import (
    export_kerchunk_json,
    export_kerchunk_parquet,
    to_virtual_dataset,
)
from zarr_manifest.stores import store_urls

ENTRIES = {"0": {"path": "../raw/a%20b.bin", "offset": 1, "length": 2}, "1": {"path": "one.bin"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "h"
    zarr.create_group(root)
    zm.create_array(
        root, "t", ENTRIES, base="./", shape=4, chunks=2, dtype="u1", dimension_names=["x"]
    )
    metadata = json.loads((root / "t" / "zarr.json").read_text())
    document = json.loads((root / "zarr.json").read_text())
    document["consolidated_metadata"] = {
        "kind": "inline", "must_understand": False, "metadata": {"t": metadata},
    }  # fmt: skip
    (root / "zarr.json").write_text(json.dumps(document))
    return root


@pytest.mark.servers
def test_relative_references_become_urls(root: Path, tmp_path: Path) -> None:
    with FileServer(root) as server:
        report = export_kerchunk_json(server.url, tmp_path / "refs.json")
        assert report.refused == []
        references = json.loads((tmp_path / "refs.json").read_text())["refs"]
        assert references["t/0"] == [f"{server.url}/raw/a%20b.bin", 1, 2]
        assert references["t/1"] == [f"{server.url}/t/one.bin"]
        report = export_kerchunk_parquet(server.url, tmp_path / "refs.parq")
        assert (report.references, report.refused) == (2, [])


@pytest.mark.servers
def test_virtual_datasets_have_urls(root: Path) -> None:
    zm.write_manifest(root, "t", {"0": ENTRIES["0"]}, base="./")
    with FileServer(root) as server:
        found = to_virtual_dataset(server.url)["t"].data.manifest.dict()
        assert found["0"]["path"] == f"{server.url}/raw/a%20b.bin"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/a%20b/c?token=SECRET", "https://example.com/a%20b/c"),
        ("https://user:SECRET@example.com/h/", "https://example.com/h"),
        ("http://localhost:8000", "http://localhost:8000/"),
    ],
)
def test_urls_of_web_stores_have_no_secrets(url: str, expected: str) -> None:
    options = {"allow_http": True}
    (found,) = store_urls(ObjectStore(HTTPStore(url, client_options=options)))
    assert found.url == expected


def test_a_url_that_no_reference_can_express_is_none() -> None:
    assert store_urls(ObjectStore(HTTPStore("https://example.com/a%2Fb"))) == []
