"""What a hierarchy holds: every kind of node, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import consolidate, document_of, write_hierarchy
from tests.servers.http_files import FileServer
from zarr_manifest.inspection import contents


@pytest.mark.slow
def test_every_kind_of_node(tmp_path: Path) -> None:
    values = write_hierarchy(tmp_path / "h.zarr")
    found = contents(tmp_path / "h.zarr")
    nodes = {node.path: node for node in found.nodes}
    assert [*nodes] == sorted(nodes, key=lambda path: path.split("/") if path else [])
    assert {path for path, node in nodes.items() if node.kind != "group"} == set(values)
    assert {path for path, node in nodes.items() if node.kind == "manifest array"} == {
        "a/b/external",
        "inline",
        "sharded_manifest",
    }
    for path, data in values.items():
        assert nodes[path].shape == data.shape
    external = nodes["a/b/external"]
    assert (external.chunks, external.references, external.objects) == (4, 4, 1)
    assert external.nbytes == values["a/b/external"].nbytes
    assert (nodes["inline"].references, nodes["inline"].inline) == (3, 1)
    assert found.locations == zm.ManifestStore(tmp_path / "h.zarr").locations()


def test_counts_add_up_over_partitions(tmp_path: Path) -> None:
    entries = {
        (0,): {"path": "s3://b/x/1.nc", "length": 2},
        (1,): {"path": "s3://b/x/1.nc", "offset": 7},
        (2,): {"path": "raw.bin", "length": 2},
        (3,): {},
        (4,): {"data": b"ab"},
    }
    zm.create_array(tmp_path, "", entries, partition_shape=[2], shape=14, chunks=2, dtype="i2")
    (node,) = contents(tmp_path).nodes
    counts = (node.references, node.inline, node.empty, node.open_ended, node.nbytes)
    assert counts == (3, 1, 1, 1, 4)
    assert (node.chunks, node.objects, node.prefixes) == (7, 2, ("", "s3://b/x/"))


def test_unreadable_nodes_are_listed(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    entries = {"0": {"path": "s3://b/f.nc"}}
    for path in ("a", "b", "c", "d"):
        zm.create_array(tmp_path, path, entries, shape=2, chunks=2, dtype="i2", inline=False)
    (tmp_path / "a/zarr.json").write_text("{")
    document_of(tmp_path, "b").unlink()
    document = json.loads((tmp_path / "c/zarr.json").read_text())
    document |= {"chunk_grid": None, "data_type": {"name": "made-up"}}
    (tmp_path / "c/zarr.json").write_text(json.dumps(document))
    found = contents(tmp_path)
    problems = {n.path: n.problem.code for n in found.nodes if n.problem is not None}
    assert problems == {
        "a": "invalid_configuration",
        "b": "manifest_not_found",
        "c": "invalid_configuration",
    }
    c = next(node for node in found.nodes if node.path == "c")
    assert (c.data_type, c.shape, c.chunks) == ("made-up", None, None)
    assert [(place.prefix, place.references) for place in found.locations] == [("s3://b/", 1)]


def test_a_transformer_that_need_not_be_understood(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, data=np.arange(3))
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["storage_transformers"] = [{"name": "x", "must_understand": False}]
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    (node,) = contents(tmp_path).nodes
    assert (node.references, node.problem) == (0, None)


def test_places_are_numbered(tmp_path: Path) -> None:
    """Those of all arrays together may be further down than those of one array."""
    zarr.create_group(tmp_path)
    paths = {"a": ["/data/a/1.nc", "/data/b/2.nc"], "b": ["/home/me/4.nc", "/home/me/5.nc"]}
    for name, (first, second) in paths.items():
        entries = {
            "0": {"path": f"file://{first}", "length": 2},
            "1": {"path": f"file://{second}", "length": 2},
        }
        zm.create_array(tmp_path, name, entries, shape=2, chunks=1, dtype="i2", inline=False)
    found = contents(tmp_path)
    assert [place.prefix for place in found.locations] == [
        "file:///data/a/",
        "file:///data/b/",
        "file:///home/me/",
    ]
    a, b, *_ = str(found).splitlines()
    assert a.endswith("2 references to 4 B [1] [2]")
    assert b.endswith("2 references to 4 B [3]")
    assert "2 references" in found._repr_html_()


def test_a_deep_hierarchy(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    document = json.loads((tmp_path / "zarr.json").read_text())
    members = {"/".join("g" * 1500): {"zarr_format": 3, "node_type": "group"}}
    document["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": members,
    }
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    lines = str(contents(tmp_path)).splitlines()
    assert (len(lines), lines[-1].strip()) == (1500, "└── g/")


def test_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(zm.errors.SourceNotFoundError):
        contents(tmp_path)
    with pytest.raises(zm.errors.SourceNotFoundError):
        contents(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


@pytest.mark.filterwarnings("ignore:(Object at|Consolidated):zarr.errors.ZarrUserWarning")
def test_on_a_web_server(http_server: FileServer, tmp_path: Path) -> None:
    """Which lists nothing, so that consolidated metadata has to."""
    write_hierarchy(tmp_path / "h.zarr")
    for consolidated in (False, True):
        if consolidated:
            consolidate(tmp_path / "h.zarr")
        for file in (tmp_path / "h.zarr").rglob("*"):
            if file.is_file():
                key = file.relative_to(tmp_path).as_posix()
                http_server.put(key, file.read_bytes())
        if consolidated:
            nodes = contents(f"{http_server.url}/h.zarr").nodes
            assert {"a/b/external", "inline", "native"} <= {node.path for node in nodes}
            assert not any(node.problem for node in nodes)
        else:
            with pytest.raises(zm.errors.SourceError, match="cannot be listed"):
                contents(f"{http_server.url}/h.zarr")
    with pytest.raises(zm.errors.SourceNotFoundError):
        contents(f"{http_server.url}/nowhere")
