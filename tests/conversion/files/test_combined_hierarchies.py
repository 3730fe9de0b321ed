"""Several Zarr hierarchies as one: what their manifests say of each chunk stays as it is."""

from __future__ import annotations

import base64
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.conversion.files.converted_files import convert, same
from tests.hierarchies import consolidate, files_below
from tests.processes import CONTEXT
from tests.servers.http_files import FileServer, redirect
from zarr_manifest.conversion import (
    ArrayNode,
    RefusedNode,
    read_concatenated,
    read_files,
    read_hierarchy,
    scan,
    scan_files,
)
from zarr_manifest.conversion.nodes import Node, parts_of
from zarr_manifest.errors import ChecksumMismatchError, LocationNotAllowedError, SourceChangedError
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import Reference

VALUES = np.arange(8, dtype="u1")
OPTIONS: dict[str, Any] = {
    "shape": 8, "chunks": 2, "dtype": "u1", "fill_value": 9, "dimension_names": ["x"],
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "inline": {"inline": True},
    "document": {"inline": False},
    "partitions": {"partition_shape": (2,)},
}
# Several states and versions of one object, which nobody has.
REMOTE: dict[str, Any] = {
    "0": {"path": "s3://b/k", "length": 2, "etag": '"one"', "size": 7},
    "1": {"path": "s3://b/k", "offset": 2, "length": 2, "version": "v", "checksum": "crc32c:0"},
    "2": {"path": "s3://b/k"},
    "3": {"path": "s3://b/k", "last_modified": "2026-11-01T00:00:00Z"},
}
REMOTE["1"]["checksum"] = compute_checksum("crc32c", b"12")


def stated(directory: Path) -> dict[str, Any]:
    """A chunk with a checksum and conditions, an empty one, one inline, and one that is absent."""
    (directory / "raw.bin").write_bytes(VALUES.tobytes())
    checksum = compute_checksum("crc32c", VALUES[:2].tobytes())
    path = (directory / "raw.bin").as_uri()
    data = base64.b64encode(VALUES[4:6].tobytes()).decode()
    return {
        "0": {"path": path, "length": 2, "checksum": checksum, "size": 8, "etag": '"tag"'},
        "1": {},
        "2": {"data": data, "checksum": compute_checksum("crc32c", VALUES[4:6].tobytes())},
    }


@pytest.fixture(params=FORMS)
def hierarchies(tmp_path: Path, request: Any) -> list[Path]:
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for root in roots:
        zm.create_array(root, "deep/local", stated(tmp_path), **OPTIONS, **FORMS[request.param])
        zm.create_array(root, "remote", REMOTE, **OPTIONS, **FORMS[request.param])
    return roots


def entries(nodes: list[Node], path: str) -> dict[tuple[int, ...], Reference]:
    (node,) = [node for node in nodes if node.path == path]
    assert isinstance(node, ArrayNode), node
    assert node.notes == ()
    return {index: entry for part in parts_of(node.manifest) for index, entry in part.items()}


READERS: dict[str, Any] = {
    "create": partial(read_files, concat_dim="x"),
    "concat": partial(read_concatenated, dim="x"),
}


@pytest.mark.parametrize("how", READERS)
@pytest.mark.parametrize("path", ["deep/local", "remote"])
def test_combined_hierarchies_keep_what_is_stated_of_chunks(
    hierarchies: list[Path], how: str, path: str
) -> None:
    each = [entries(list(read_hierarchy(root)), path) for root in hierarchies]
    expected = {(4 * n + index,): e for n, part in enumerate(each) for (index,), e in part.items()}
    nodes = list(READERS[how](hierarchies))
    assert [node for node in nodes if isinstance(node, RefusedNode)] == []
    assert entries(nodes, path) == expected


def test_one_hierarchy_keeps_what_is_stated_of_chunks(hierarchies: list[Path]) -> None:
    expected, found = list(read_hierarchy(hierarchies[0])), list(read_files(hierarchies[0]))
    for path in ("deep/local", "remote"):
        assert entries(found, path) == entries(expected, path)


@pytest.mark.slow
def test_hierarchies_are_combined_in_processes(hierarchies: list[Path]) -> None:
    expected = list(read_files(hierarchies, concat_dim="x"))
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        found = list(read_files(hierarchies, concat_dim="x", parallel=pool))
    assert found == expected


# ------------------------------------------------------------ values that count


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        ({"checksum": compute_checksum("crc32c", b"other")}, ChecksumMismatchError),
        ({"size": 9}, SourceChangedError),
    ],
)
def test_coordinates_are_not_read_from_an_object_that_is_another(
    tmp_path: Path, stated: dict[str, Any], error: Any
) -> None:
    (tmp_path / "raw.bin").write_bytes(VALUES.tobytes())
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for number, root in enumerate(roots):
        chunk = {"path": (tmp_path / "raw.bin").as_uri(), "offset": 4 * number, "length": 4}
        entries = {"0": chunk | (stated if number else {})}
        options = OPTIONS | {"shape": 4, "chunks": 4, "compressors": None}
        zm.create_array(root, "x", entries, **options)
    with pytest.raises(error):
        list(read_files(roots, allow=[tmp_path]))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_and_values_behind_links_are_read(tmp_path: Path, zarr_format: Any) -> None:
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for number, root in enumerate(roots):
        group = zarr.create_group(root, zarr_format=zarr_format)
        for name, values in {"x": VALUES + 8 * number, "same": VALUES}.items():
            made = group.create_array(
                name, shape=8, chunks=8, dtype="u1",
                **({"dimension_names": [name]} if zarr_format == 3 else {}),
            )  # fmt: skip
            made[:] = values
            if zarr_format == 2:
                made.attrs["_ARRAY_DIMENSIONS"] = [name]
            (root / name).rename(tmp_path / f"{name}{number}")
            (root / name).symlink_to(tmp_path / f"{name}{number}")
    found = convert(roots, tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["x"][...], np.arange(16))
    assert same(found.arrays["same"][...], VALUES)


# ------------------------------------------------------------ checksums, states and scans


@pytest.mark.parametrize("count", [1, 2])
def test_checksums_are_computed_where_there_are_none(tmp_path: Path, count: int) -> None:
    chunks = stated(tmp_path)
    chunks["0"]["checksum"] = "sha256:" + 64 * "0"  # not what the object has: it is not read
    del chunks["0"]["etag"], chunks["2"]["checksum"]
    # To the end of the object.
    chunks["3"] = {"path": chunks["0"]["path"], "offset": 6}
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"][:count]
    for root in roots:
        zm.create_array(root, "v", chunks, **OPTIONS, partition_shape=(2,))
    how: dict[str, Any] = {"concat_dim": "x"} if count > 1 else {}
    nodes = list(read_files(roots, checksum="crc32c", allow=[tmp_path], **how))
    found = entries(nodes, "v")
    for number in range(count):
        assert found[4 * number,].checksum == chunks["0"]["checksum"]
        expected = compute_checksum("crc32c", VALUES[6:].tobytes())
        assert found[4 * number + 3,].checksum == expected


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_states_of_native_chunks_are_recorded(tmp_path: Path, count: int, zarr_format: Any) -> None:
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"][:count]
    for root in roots:
        made = zarr.create_array(root, name="v", data=VALUES, chunks=4, zarr_format=zarr_format)
        made.attrs["a"] = 1
    options: dict[str, Any] = {"concat_dim": "new"} if count > 1 else {}
    for is_recorded in (True, False):
        nodes = list(read_files(roots, record_conditions=is_recorded, **options))
        for entry in entries(nodes, "v").values():
            size = Path(str(entry.path).removeprefix("file://")).stat().st_size
            assert entry.length == size
            assert bool(entry.conditions) is is_recorded


def test_hierarchies_are_combined_with_files_that_are_scanned(tmp_path: Path) -> None:
    roots = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for root in roots:
        zm.create_array(root, "v", stated(tmp_path), **OPTIONS)
    expected = list(read_files(roots, concat_dim="x"))
    scans = tmp_path / "scans"
    assert list(read_files(roots, concat_dim="x", scans=scans)) == expected
    found = scan(roots[0], scans=scans)
    assert (found.name, found.document) == (None, None)
    report = scan_files(roots, scans)
    assert (report.made, report.unkept) == (0, [root.as_uri() for root in roots])
    assert not scans.exists()


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_a_redirect_from_a_hierarchy_is_checked_within_its_host(
    tmp_path: Path, http_server: FileServer
) -> None:
    options = OPTIONS | {"shape": 8, "chunks": 8, "compressors": None}
    for number, name in enumerate(("a.zarr", "b.zarr")):
        zm.create_array(tmp_path / name, "x", {"0": {"path": "../raw.bin"}}, **options)
        consolidate(tmp_path / name)
        (tmp_path / name / "raw.bin").write_bytes((VALUES + 8 * number).tobytes())
    for key, body in files_below(tmp_path).items():
        http_server.put(key, body)
    urls = [f"{http_server.url}/{name}" for name in ("a.zarr", "b.zarr")]
    found = convert(urls, tmp_path / "both.zarr").arrays["x"]
    assert same(found[...], np.arange(16))
    http_server.put("other/raw.bin", VALUES.tobytes())
    elsewhere = redirect(f"{http_server.url}/other/raw.bin")
    http_server.script("b.zarr/raw.bin", elsewhere, sticky=True)
    with pytest.raises(LocationNotAllowedError, match=r"below .*/other/"):
        list(read_files(urls))
