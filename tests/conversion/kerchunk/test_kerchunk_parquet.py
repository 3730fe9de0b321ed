"""Import of kerchunk's Parquet layout: any columns, any record size, streamed or whole."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conversion.kerchunk.kerchunk_parquet_sets import write_rows, write_set, zarray
from tests.properties import examples
from zarr_manifest import Manifest, ManifestError
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    StreamedManifest,
    read_kerchunk_parquet,
)
from zarr_manifest.format import Partitions

URL = "s3://bucket/a b%.nc"
PATH = "s3://bucket/a%20b%25.nc"


def nodes(root: Path, **options: Any) -> dict[str, Node]:
    return {node.path: node for node in read_kerchunk_parquet(root, **options)}


def array_node(root: Path, path: str = "x", **options: Any) -> ArrayNode:
    node = nodes(root, **options)[path]
    assert isinstance(node, ArrayNode), node
    return node


def whole(root: Path, path: str = "x", **options: Any) -> Manifest:
    manifest = array_node(root, path, **options).manifest
    assert isinstance(manifest, Manifest)
    return manifest


def refusal(root: Path, path: str = "x", **options: Any) -> RefusedNode:
    node = nodes(root, **options)[path]
    assert isinstance(node, RefusedNode), node
    return node


def entries(manifest: Manifest) -> dict[tuple[int, ...], Any]:
    return {
        index: r.data if r.data is not None else (r.path, r.offset, r.length)
        for index, r in manifest.items()
    }


# Any set --------------------------------------------------------------------------


REFERENCES = st.one_of(
    st.binary(min_size=1, max_size=5).filter(lambda data: not data.startswith(b"base64:")),
    st.sampled_from(["s3://b/a.nc", URL, "/data/a.nc", "https://h/a%20b.nc"]).map(lambda u: [u]),
    st.tuples(
        st.sampled_from(["s3://b/a.nc", URL]), st.integers(0, 2**40), st.integers(1, 2**40)
    ).map(list),
)
WRITTEN = {
    "s3://b/a.nc": "s3://b/a.nc",
    URL: PATH,
    "/data/a.nc": "file:///data/a.nc",
    "https://h/a%20b.nc": "https://h/a%20b.nc",
}


def expected(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    return (WRITTEN[value[0]], 0, None) if len(value) == 1 else (WRITTEN[value[0]], *value[1:])


@st.composite
def reference_sets(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[int, Any]]:
    grid = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    count = math.prod(grid)
    if not count:
        return grid, {}
    return grid, draw(st.dictionaries(st.integers(0, count - 1), REFERENCES, max_size=60))


@pytest.mark.slow
@examples(0.6)
@given(
    reference_sets(),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
    st.integers(0, 20),
    st.data(),
)
def test_rows_become_the_entries_of_their_chunks(
    found: tuple[tuple[int, ...], dict[int, Any]],
    record_size: int,
    dictionary: bool,
    padded: bool,
    stream_above: int,
    data: st.DataObject,
) -> None:
    grid, references = found
    wanted = {
        tuple(int(i) for i in np.unravel_index(number, grid)) if grid else (): expected(value)
        for number, value in references.items()
    }
    with tempfile.TemporaryDirectory() as directory:
        root = write_set(
            Path(directory, "refs.parq"),
            {"x/.zarray": zarray(grid, [1] * len(grid))},
            {"x": references},
            record_size=record_size,
            padded=padded,
            dictionary=dictionary,
            row_group_size=data.draw(st.sampled_from([None, 1, 3])),
        )
        assert entries(whole(root, stream_above=10**9)) == wanted
        node = array_node(root, stream_above=stream_above)
        assert node.notes == ()
        if isinstance(node.manifest, Manifest):
            assert entries(node.manifest) == wanted
        else:
            assert gathered(grid, node.manifest) == wanted


def gathered(grid: tuple[int, ...], manifest: StreamedManifest) -> dict[tuple[int, ...], Any]:
    """Put parts together, each of which must be one partition, and none be there twice."""
    partitions = Partitions(grid, manifest.partition_shape)
    together: dict[tuple[int, ...], Any] = {}
    seen: list[tuple[int, ...]] = []
    for part in manifest.parts:
        (owner,) = {partitions.owner(index) for index in part}
        assert part.grid_shape == grid
        seen.append(owner)
        together |= entries(part)
    assert seen == sorted(set(seen))
    return together


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(0, 500))
def test_partitions_are_runs_of_the_chunks_in_c_order(grid: list[int], drawn: int) -> None:
    assume(math.prod(grid) > 1)
    most = 1 + drawn % (math.prod(grid) - 1)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "set"
        one = {0: ("s3://b/f", 0, 1)}
        documents = {"x/.zarray": zarray(grid, [1] * len(grid))}
        write_set(root, documents, {"x": one}, record_size=math.prod(grid))
        manifest = array_node(root, stream_above=most).manifest
    assert isinstance(manifest, StreamedManifest)
    shape = manifest.partition_shape
    assert math.prod(shape) <= most
    partitions = Partitions(tuple(grid), shape)
    assert partitions.owner([n - 1 for n in grid]) == tuple(n - 1 for n in partitions.counts)
    for dimension in range(len(grid)):
        # Cut along one dimension at most; whole after it, one row at a time before it.
        if any(s < n for s, n in zip(shape[dimension + 1 :], grid[dimension + 1 :], strict=True)):
            assert shape[dimension] == 1


# What rows may look like ------------------------------------------------------------


def one_array(root: Path, rows: list[Any], **options: Any) -> Path:
    write_set(root, {"x/.zarray": zarray([len(rows)], [1])}, {}, record_size=max(1, len(rows)))
    write_rows(root / "x" / "refs.0.parq", rows, **options)
    return root


@pytest.mark.parametrize(
    ("columns", "rows", "wanted"),
    [
        (["raw"], [b"ab", None], {(0,): b"ab"}),
        (["path"], [[URL], None], {(0,): (PATH, 0, None)}),
        (["path", "offset", "size"], [None, [URL, 3, 4]], {(1,): (PATH, 3, 4)}),
        (["path", "size"], [[URL, 0, 4]], {(0,): (PATH, 0, 4)}),
        (["size", "raw", "path", "offset"], [[URL, 3, 4], b"x"], {(0,): (PATH, 3, 4), (1,): b"x"}),
    ],
)
def test_columns_may_be_missing(
    tmp_path: Path, columns: list[str], rows: list[Any], wanted: Any
) -> None:
    assert entries(whole(one_array(tmp_path, rows, columns=columns))) == wanted


@pytest.mark.parametrize(
    "kinds",
    [
        {"path": pa.binary()},
        {"path": pa.large_string(), "raw": pa.large_binary()},
        {"path": pa.dictionary(pa.int8(), pa.string())},
        {"offset": pa.float64(), "size": pa.float64()},
        {"offset": pa.uint32(), "size": pa.int32()},
        {"raw": pa.string()},
        {"raw": pa.dictionary(pa.int32(), pa.binary())},
    ],
)
def test_columns_may_have_other_types(tmp_path: Path, kinds: dict[str, pa.DataType]) -> None:
    rows = [[URL, 3, 4], b"ab", None, [URL]]
    wanted = {(0,): (PATH, 3, 4), (1,): b"ab", (3,): (PATH, 0, None)}
    assert entries(whole(one_array(tmp_path, rows, kinds=kinds))) == wanted


def test_a_column_of_nulls_is_one_that_is_missing(tmp_path: Path) -> None:
    rows = [b"ab", None]
    root = one_array(tmp_path, rows, kinds={"path": pa.null()})
    assert entries(whole(root)) == {(0,): b"ab"}


def test_null_numbers_are_zeros(tmp_path: Path) -> None:
    one_array(tmp_path, [[URL, None, None], [URL, None, 4]])
    assert entries(whole(tmp_path)) == {(0,): (PATH, 0, None), (1,): (PATH, 0, 4)}


def test_inline_data_in_base64_is_decoded(tmp_path: Path) -> None:
    assert entries(whole(one_array(tmp_path, [b"base64:YWI="]))) == {(0,): b"ab"}


def test_inline_data_goes_before_a_reference(tmp_path: Path) -> None:
    table = pa.table({"path": [URL], "offset": [3], "size": [4], "raw": [b"ab"]})
    one_array(tmp_path, [b"ab"])
    pa.parquet.write_table(table, tmp_path / "x" / "refs.0.parq")
    assert entries(whole(tmp_path)) == {(0,): b"ab"}


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([[URL, 5, 0]], {}, "size 0"),
        ([[URL, -5, 3]], {}, "negative offset"),
        ([[URL, 5, -1]], {}, "negative size"),
        ([[URL, 0.5, 1]], {"kinds": {"offset": pa.float64()}}, "not an integer"),
        ([[URL, 2**62, 1]], {}, "2^53"),
        ([[URL, "a", 1]], {"kinds": {"offset": pa.string()}}, "not integers"),
        ([[7]], {"kinds": {"path": pa.int64()}}, "not strings"),
        ([[b"\xff"]], {"kinds": {"path": pa.binary()}}, "UTF-8"),
        ([[""]], {}, "no URL"),
        ([["ftp://h/f"]], {}, "ftp"),
        ([b"base64:!"], {}, "chunk 0"),
        ([b""], {}, "is empty"),
        ([None], {"columns": ["offset", "size"]}, "neither a column 'path'"),
    ],
)
def test_a_row_that_no_entry_can_say_refuses_its_array(
    tmp_path: Path, rows: list[Any], options: dict[str, Any], words: str
) -> None:
    node = refusal(one_array(tmp_path, rows, **options))
    assert words in node.reason
    assert node.code in ("not_convertible", "invalid_entry")


def test_text_that_is_not_utf_8_refuses_its_array(tmp_path: Path) -> None:
    one_array(tmp_path, [None])
    text = pa.array([b"s3://b/\xff"], pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"path": text}), tmp_path / "x" / "refs.0.parq")
    assert "not UTF-8" in refusal(tmp_path).reason


def test_object_versions_are_conditions(tmp_path: Path) -> None:
    manifest = whole(one_array(tmp_path, [["s3://b/f?versionId=v1", 0, 3], ["s3://b/g", 0, 3]]))
    assert manifest[0,].conditions.version == "v1"
    assert manifest[1,].conditions.version is None


@pytest.mark.parametrize("record_size", [1, 2, 5])
def test_an_object_may_have_several_versions(tmp_path: Path, record_size: int) -> None:
    rows: dict[int, Any] = {
        0: ["s3://b/f?versionId=1"], 2: ["s3://b/f"], 3: ["s3://b/f?versionId=2"], 4: b"inline",
    }  # fmt: skip
    documents = {"x/.zarray": zarray([5], [1])}
    write_set(tmp_path, documents, {"x": rows}, record_size=record_size)
    manifest = whole(tmp_path)
    assert manifest.paths == ("s3://b/f",)
    assert {index: each.conditions.version for index, each in manifest.items()} == {
        (0,): "1", (2,): None, (3,): "2", (4,): None,
    }  # fmt: skip
    assert manifest[4,].data == b"inline"


def test_paths_are_rewritten(tmp_path: Path) -> None:
    one_array(tmp_path, [["/home/somebody/a b.nc", 1, 2], ["/home/somebodyelse/c.nc"], [URL]])
    rewrite = {"/home/somebody/": "s3://bucket/"}
    assert entries(whole(tmp_path, rewrite=rewrite)) == {
        (0,): ("s3://bucket/a%20b.nc", 1, 2),
        (1,): ("file:///home/somebodyelse/c.nc", 0, None),
        (2,): (PATH, 0, None),
    }


@pytest.mark.parametrize("stream_above", [0, 100])
def test_a_rewrite_that_matches_no_url_is_refused(tmp_path: Path, stream_above: int) -> None:
    one_array(tmp_path, [["/home/them/f.nc"]])
    rewrite = {"/home/thme/": "s3://b/"}
    found: list[Node] = []
    for node in read_kerchunk_parquet(tmp_path, rewrite=rewrite, stream_above=stream_above):
        if isinstance(node, ArrayNode) and isinstance(node.manifest, StreamedManifest):
            list(node.manifest.parts)
        found.append(node)
    assert isinstance(found[-1], RefusedNode)
    assert found[-1].path == ""
    assert "no URL begins with '/home/thme/'" in found[-1].reason
    # Before all URLs were read, nothing is said.
    if stream_above == 0:
        early = list(read_kerchunk_parquet(tmp_path, rewrite=rewrite, stream_above=0))
        assert not any(isinstance(node, RefusedNode) for node in early)


@pytest.mark.parametrize("stream_above", [0, 100])
def test_relative_paths_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream_above: int
) -> None:
    monkeypatch.chdir(tmp_path)
    node = array_node(one_array(tmp_path, [["a.nc"]]), stream_above=stream_above)
    assert "working directory" in node.notes[0]


# Files ------------------------------------------------------------------------------


def test_the_chunks_of_a_missing_file_are_missing(tmp_path: Path) -> None:
    references = {number: [URL, number, 1] for number in (0, 1, 4, 5)}
    write_set(tmp_path, {"x/.zarray": zarray([9], [1])}, {"x": references}, record_size=2)
    assert [index for (index,) in entries(whole(tmp_path))] == [0, 1, 4, 5]
    write_set(tmp_path / "none", {"x/.zarray": zarray([9], [1])}, {}, record_size=2)
    assert entries(whole(tmp_path / "none")) == {}


def test_references_past_the_end_of_the_grid_are_noted(tmp_path: Path) -> None:
    references = {number: [URL, number, 1] for number in range(8)}
    write_set(tmp_path, {"x/.zarray": zarray([3], [1])}, {"x": references}, record_size=2)
    for stream_above in (0, 100):
        node = array_node(tmp_path, stream_above=stream_above)
        assert "1 reference past the end" in node.notes[0]
        assert "2 files" in node.notes[1]
    assert list(entries(whole(tmp_path))) == [(0,), (1,), (2,)]


def test_files_with_too_many_rows_are_refused(tmp_path: Path) -> None:
    write_set(tmp_path, {"x/.zarray": zarray([9], [1])}, {}, record_size=2)
    write_rows(tmp_path / "x" / "refs.0.parq", [[URL]] * 3)
    assert "record_size of 2" in refusal(tmp_path).reason


def test_a_directory_that_cannot_be_read_refuses_its_array(tmp_path: Path) -> None:
    name = "n" * 5000
    document = zarray([2], [1])
    write_set(tmp_path, {f"{name}/.zarray": document, "x/.zarray": document}, {}, record_size=2)
    assert "cannot be read: File name too long" in refusal(tmp_path, name).reason
    assert len(whole(tmp_path)) == 0
    with pytest.raises(ManifestError, match="File name too long"):
        read_kerchunk_parquet(tmp_path / name)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [([2**31, 2**31], "chunk grid is too large"), ([10**30, 1], "not an integer from 0 to 2^53-1")],
)
@pytest.mark.parametrize("stream_above", [0, 100])
def test_a_grid_that_is_too_large(
    tmp_path: Path, shape: list[int], reason: str, stream_above: int
) -> None:
    documents = {"x/.zarray": zarray(shape, [1, 1])}
    write_set(tmp_path, documents, {}, record_size=2)
    (tmp_path / "x").mkdir()
    write_rows(tmp_path / "x" / "refs.0.parq", [[URL]])
    assert reason in refusal(tmp_path, stream_above=stream_above).reason


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="pyarrow before 16")
def test_a_column_that_pyarrow_cannot_look_into_refuses_its_array(tmp_path: Path) -> None:
    node = nodes(one_array(tmp_path, [b"text", None], kinds={"raw": pa.string_view()}))["x"]
    assert isinstance(node, ArrayNode) or "refs.0.parq" in node.reason  # type: ignore[union-attr]


def test_a_file_that_is_not_parquet_refuses_only_its_array(tmp_path: Path) -> None:
    documents = {f"{name}/.zarray": zarray([2], [1]) for name in "xy"}
    write_set(tmp_path, documents, {"y": {0: [URL]}}, record_size=2)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "refs.0.parq").write_bytes(b"PAR1")
    assert "refs.0.parq cannot be read as Parquet" in refusal(tmp_path).reason
    assert entries(whole(tmp_path, "y")) == {(0,): (PATH, 0, None)}


def test_a_streamed_array_raises_when_a_later_file_is_broken(tmp_path: Path) -> None:
    references = {number: [URL] for number in range(6)}
    write_set(tmp_path, {"x/.zarray": zarray([6], [1])}, {"x": references}, record_size=2)
    (tmp_path / "x" / "refs.1.parq").write_bytes(b"PAR1")
    manifest = array_node(tmp_path, stream_above=2).manifest
    assert isinstance(manifest, StreamedManifest)
    with pytest.raises(ManifestError, match=r"refs\.1\.parq.*array 'x'"):
        list(manifest.parts)


# The set as a whole -----------------------------------------------------------------


def test_nested_groups_and_an_array_at_the_root(tmp_path: Path) -> None:
    documents = {
        ".zattrs": {"title": "sea"},
        "a/b/x/.zarray": zarray([2], [1]),
        "a/b/x/.zattrs": {"_ARRAY_DIMENSIONS": ["t"], "units": "K"},
        "a/with space/.zarray": json.dumps(zarray([], [])),
    }
    write_set(tmp_path, documents, {"a/b/x": {1: [URL]}, "a/with space": {0: b"ab"}}, record_size=3)
    found = nodes(tmp_path)
    assert list(found) == ["", "a", "a/b", "a/b/x", "a/with space"]
    assert found[""] == GroupNode("", {"title": "sea"})
    array = found["a/b/x"]
    assert isinstance(array, ArrayNode)
    assert array.metadata["dimension_names"] == ["t"]
    assert array.metadata["attributes"]["units"] == "K"
    assert entries(whole(tmp_path, "a/with space")) == {(): b"ab"}

    root = tmp_path / "root"
    write_set(root, {".zarray": zarray([2], [1])}, {"": {1: [URL, 1, 2]}}, record_size=3)
    assert entries(whole(root, "")) == {(1,): (PATH, 1, 2)}


def test_bare_nan_in_the_metadata(tmp_path: Path) -> None:
    document = zarray([1], [1], dtype="<f4", fill_value=math.nan)
    write_set(tmp_path, {"x/.zarray": document}, {}, record_size=2)
    assert array_node(tmp_path).metadata["fill_value"] == "NaN"


def test_metadata_that_cannot_be_converted_refuses_its_node(tmp_path: Path) -> None:
    documents = {"x/.zarray": zarray([1], [1], dtype="<q9"), "y/.zarray": zarray([1], [1])}
    write_set(tmp_path, documents, {"x": {0: [URL]}, "y": {0: [URL]}}, record_size=2)
    assert refusal(tmp_path).code == "not_convertible"
    assert len(whole(tmp_path, "y")) == 1


def test_references_without_metadata_are_refused_by_name(tmp_path: Path) -> None:
    write_set(tmp_path, {".zgroup": {"zarr_format": 2}}, {"lost": {0: [URL]}}, record_size=2)
    assert "no '.zarray'" in refusal(tmp_path, "lost").reason


def test_data_in_the_metadata_refuses_its_array(tmp_path: Path) -> None:
    documents = {"x/.zarray": zarray([1], [1]), "x/0": "base64:YWI=", "elsewhere/0": "a"}
    write_set(tmp_path, documents, {}, record_size=2)
    assert "x/0" in refusal(tmp_path).reason
    assert "not a metadata document" in refusal(tmp_path, "elsewhere/0").reason


def test_a_file_url_is_a_location(tmp_path: Path) -> None:
    root = one_array(tmp_path / "with space", [[URL]])
    for location in (str(root), root.as_uri(), f"file://localhost{root.as_uri()[7:]}"):
        assert [node.path for node in read_kerchunk_parquet(location)] == ["", "x"]


def not_sets(root: Path) -> Iterator[tuple[Any, str, str]]:
    yield root / "nowhere", "source_not_found", "no such directory"
    (root / "empty").mkdir()
    yield root / "empty", "not_convertible", "has no file '.zmetadata'"
    yield "s3://bucket/refs.parq", "not_convertible", "local file system"
    for name, text, code, words in (
        ("json", "{", "invalid_json", "is not JSON"),
        ("bytes", "\x00", "invalid_json", "is not JSON"),
        ("list", "[]", "not_convertible", "not an object"),
        ("bare", '{"record_size": 3}', "not_convertible", "object 'metadata'"),
        ("text", '{"record_size": 3, "metadata": "a"}', "not_convertible", "object 'metadata'"),
        ("v2", '{"metadata": {}}', "not_convertible", "no member 'record_size'"),
        ("zero", '{"metadata": {}, "record_size": 0}', "not_convertible", "positive integer"),
        ("true", '{"metadata": {}, "record_size": true}', "not_convertible", "positive integer"),
        ("string", '{"metadata": {}, "record_size": "9"}', "not_convertible", "positive integer"),
    ):
        (root / name).mkdir()
        (root / name / ".zmetadata").write_text(text)
        yield root / name, code, words


def test_inputs_that_are_not_reference_sets_are_clear_errors(tmp_path: Path) -> None:
    for location, code, words in not_sets(tmp_path):
        with pytest.raises(ManifestError) as caught:
            read_kerchunk_parquet(location)
        assert caught.value.code == code
        assert words in str(caught.value)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"zarr-manifest\[kerchunk\]"):
        read_kerchunk_parquet(tmp_path)
