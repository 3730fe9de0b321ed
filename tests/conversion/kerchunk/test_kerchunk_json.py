"""Import of kerchunk's JSON: documents, chunks and nodes, entry by entry."""

from __future__ import annotations

import base64
import functools
import gzip
import http.server
import json
import math
import threading
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.kerchunk.kerchunk_sets import (
    URL,
    ZGROUP,
    array_node,
    assert_equal,
    entries,
    nodes,
    one,
    read_as_manifests,
    read_by_fsspec,
    refusal,
    zarray,
)
from tests.properties import examples
from zarr_manifest import ManifestError
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    RefusedNode,
    read_kerchunk,
    read_kerchunk_json,
)
from zarr_manifest.errors import (
    InvalidJSONError,
    InvalidPathError,
    LimitExceededError,
    NotConvertibleError,
    SourceError,
    SourceNotFoundError,
)

# Any set ---------------------------------------------------------------------------

URLS = {
    "s3://b/a.nc": "s3://b/a.nc",
    "s3://b/a b%20+#?.nc": "s3://b/a%20b%2520%2B%23%3F.nc",
    "S3://b/ü:.nc": "s3://b/%C3%BC:.nc",
    "/data/a b.nc": "file:///data/a%20b.nc",
    "file:///data/100%.nc": "file:///data/100%25.nc",
    "local:///data/./x/../a.nc": "file:///data/a.nc",
    "https://example.com/a%20b c.nc?x=1 2%": "https://example.com/a%20b%20c.nc?x=1%202%25",
    "gs://b/a": "gs://b/a",
    "abfs://c@account.dfs.core.windows.net/a": "abfs://c@account.dfs.core.windows.net/a",
    "s3a://b/a": "s3://b/a",
}

REFERENCES = st.one_of(
    st.binary(min_size=1, max_size=9).map(lambda b: "base64:" + base64.b64encode(b).decode()),
    st.text(min_size=1, max_size=5).filter(lambda text: not text.startswith("base64:")),
    st.sampled_from(sorted(URLS)).map(lambda url: [url]),
    st.tuples(st.sampled_from(sorted(URLS)), st.integers(0, 2**50), st.integers(1, 2**50)).map(
        list
    ),
)


def entry_of(value: Any) -> Any:
    if isinstance(value, str):
        encoded = value.removeprefix("base64:")
        return base64.b64decode(encoded) if encoded != value else value.encode()
    return (URLS[value[0]], 0, None) if len(value) == 1 else (URLS[value[0]], *value[1:])


@pytest.mark.slow
@examples(1.5)
@given(
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from("./"),
    st.sampled_from(["", "a/", "g/a b%/"]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.data(),
)
def test_references_become_the_entries_of_their_chunks(
    grid: list[int], separator: str, below: str, version: int, as_text: bool, data: st.DataObject
) -> None:
    count = math.prod(grid)
    found: dict[int, Any] = {}
    if count:
        found = data.draw(st.dictionaries(st.integers(0, count - 1), REFERENCES, max_size=12))
    document: Any = zarray(shape=grid, chunks=[1] * len(grid), dimension_separator=separator)
    references: dict[str, Any] = {
        f"{below}.zarray": json.dumps(document) if as_text else document,
    }
    wanted = {}
    for number, value in found.items():
        index = tuple(int(i) for i in np.unravel_index(number, grid)) if grid else ()
        references[below + (separator.join(map(str, index)) or "0")] = value
        wanted[index] = entry_of(value)
    whole = {"version": 1, "refs": references} if version else references
    path = below.rstrip("/")
    assert entries(whole, path) == wanted
    assert entries(json.dumps(whole).encode(), path) == wanted
    node = array_node(whole, path)
    assert not [note for note in node.notes if "left out" in note]
    assert [type(n) for n in nodes(whole).values()][:-1] == [GroupNode] * path.count("/") + (
        [GroupNode] if path else []
    )


# The document ----------------------------------------------------------------------


def test_metadata_as_text_objects_and_base64_with_bare_nans() -> None:
    document = json.dumps(zarray(dtype="<f4", fill_value=math.nan))
    assert "NaN" in document
    encoded = "base64:" + base64.b64encode(document.encode()).decode()
    for stated in (document, json.loads(document), encoded):
        for references in ({"a/.zarray": stated}, {"version": 1, "refs": {"a/.zarray": stated}}):
            assert array_node(references).metadata["fill_value"] == "NaN"
            # A NaN in an object makes the whole document something that is not JSON.
            assert array_node(json.dumps(references).encode()).metadata["fill_value"] == "NaN"


def test_an_array_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(np.arange(12, dtype="<i2").tobytes())
    references = {
        ".zarray": zarray(shape=[4], chunks=[2]),
        ".zattrs": {"_ARRAY_DIMENSIONS": ["x"], "units": "K"},
        "1": [str(tmp_path / "f"), 2, 4],
    }
    ours, _ = read_as_manifests(references, tmp_path / "h.zarr")
    assert_equal(ours, read_by_fsspec(references))
    assert ours[""].tolist() == [0, 0, 1, 2]
    assert array_node(references, "").metadata["dimension_names"] == ["x"]


def test_a_set_that_lies_in_a_file(tmp_path: Path) -> None:
    text = json.dumps({"version": 1, "refs": one(URL)}).encode()
    wanted = {(0, 0): ("s3://b/f.nc", 100, 12)}
    for name, content in {
        "plain.json": text,
        "a b%20.json.gz": gzip.compress(text),
        "c.json.zst": zstandard.ZstdCompressor().compress(text),
    }.items():
        (tmp_path / name).write_bytes(content)
        path = tmp_path / name
        for location in (path, str(path), path.as_uri(), content):
            assert entries(location) == wanted
        assert [node.path for node in read_kerchunk(path)] == ["", "a"]
    with pytest.raises(SourceNotFoundError):
        read_kerchunk_json(tmp_path / "missing.json")
    with pytest.raises(ManifestError) as caught:
        read_kerchunk_json(tmp_path)
    assert caught.value.code == "source_error"
    with pytest.raises(NotConvertibleError, match="cannot be decompressed"):
        read_kerchunk_json(gzip.compress(text)[:30])


def test_how_far_a_compressed_set_is_decompressed() -> None:
    text = json.dumps({"version": 1, "refs": one("text" * 1000)}).encode()
    compress = zstandard.ZstdCompressor().compress
    several = compress(text[:99]) + compress(text[99:])
    for compressed in (gzip.compress(text), compress(text), several):
        assert entries(compressed, max_bytes=len(text)) == {(0, 0): b"text" * 1000}
        with pytest.raises(LimitExceededError, match="max_bytes") as caught:
            read_kerchunk_json(compressed, max_bytes=len(text) - 1)
        assert "larger than" in caught.value.problem
        with pytest.raises(NotConvertibleError, match="the encoded reference set is truncated"):
            read_kerchunk_json(compressed[:-3])
    assert len(entries(text, max_bytes=1)) == 1


@pytest.mark.slow
def test_a_set_on_a_web_server(tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text(json.dumps({"version": 1, "refs": one(URL)}))
    handler = functools.partial(_QuietHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            root = f"http://127.0.0.1:{server.server_port}"
            assert len(entries(f"{root}/a%20b.json")) == 1
            assert [node.path for node in read_kerchunk(f"{root}/a%20b.json")] == ["", "a"]
            with pytest.raises(SourceNotFoundError, match="there is no such object"):
                read_kerchunk_json(f"{root}/missing.json")
            with pytest.raises(SourceError, match="a query"):
                read_kerchunk_json(f"{root}/a%20b.json?signature=secret")
        finally:
            server.shutdown()
    with pytest.raises(SourceError, match="Download it, and name the file") as caught:
        read_kerchunk_json("sftp://me:secret@h/refs.json")
    assert "secret" not in str(caught.value)


def test_a_set_in_the_memory_of_fsspec(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    files.pipe(f"/{tmp_path.name}/a b.json", json.dumps(one(URL)).encode())
    assert len(entries(f"memory://{tmp_path.name}/a%20b.json")) == 1
    files.pipe(f"/{tmp_path.name}.json", json.dumps(one(URL)).encode())
    assert len(entries(f"memory:///{tmp_path.name}.json")) == 1
    with pytest.raises(SourceNotFoundError, match="there is no such object"):
        read_kerchunk_json(f"memory://{tmp_path.name}/missing.json")


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("text", "not a JSON object, but 'text'"),
        (
            {"version": 2, "refs": {}},
            "has version 2; known are 1, and 0, which omits 'version'",
        ),
        ({"version": "1", "refs": {}}, "has version '1'"),
        ({"version": True, "refs": {}}, "has version True"),
        ({"version": 0, "refs": {}}, "has version 0"),
        ({"version": None, "refs": {}}, "has version None"),
        ({"version": 1, "refs": []}, "'refs' is not a JSON object"),
        ({"version": 1, "refs": None}, "'refs' is not a JSON object"),
        ({"refs": {"a/0": ["u"]}}, "has 'refs', but no 'version'"),
        ({"version": 1, "templates": {"u": 1}}, "template 'u' is not text"),
        ({"version": 1, "gen": {}}, "'gen' is not a list"),
    ],
)
def test_documents_that_are_not_reference_sets(document: Any, problem: str) -> None:
    with pytest.raises(NotConvertibleError, match=problem):
        read_kerchunk_json(json.dumps(document).encode())


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b'{"a": }', b"\xff\xfe"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"a/0": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep reference"),
        pytest.param(b'{"version": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep version"),
    ],
)
def test_documents_that_are_not_json(content: bytes) -> None:
    with pytest.raises(InvalidJSONError, match="the reference set is not JSON"):
        read_kerchunk_json(content)


def test_members_that_are_not_known_are_named() -> None:
    found = refusal({"version": 1, "refs": one(URL), "records": 5}, "")
    assert found.reason == ("the reference set has an unknown member 'records', which was left out")


@pytest.mark.slow
def test_generated_references_win(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(np.arange(24, dtype="<i2").tobytes())
    references = {
        "version": 1,
        "templates": {"here": str(tmp_path), "name": "{{n}}"},
        "gen": [
            {
                "key": "a/{{i}}.{{j}}",
                "url": "{{here}}/{{name(n='f')}}",
                "offset": "{{(2 * i + j) * 12}}",
                "length": "12",
                "dimensions": {"i": {"stop": 2}, "j": [0, 1]},
            }
        ],
        "refs": {".zgroup": ZGROUP, **one(["s3://b/never", 0, 1])},
    }
    ours, _ = read_as_manifests(references, tmp_path / "h.zarr")
    theirs = read_by_fsspec(references, simple_templates=False)
    assert_equal(ours, theirs)
    assert ours["a"][2, 3] == 18


def test_templates_in_urls_alone() -> None:
    templates = {"u": "s3://b", "f": "{{x}}.nc"}
    references = {
        "version": 1,
        "templates": templates,
        "refs": {
            "a/.zarray": zarray(),
            "a/0.0": ["{{u}}/{{f(x='1')}}", 0, 12],
            "a/0.1": ["{{u}}/2.nc"],
            "a/1.0": "{{u}} is text",
        },
    }
    assert entries(references) == {
        (0, 0): ("s3://b/1.nc", 0, 12),
        (0, 1): ("s3://b/2.nc", 0, None),
        (1, 0): b"{{u}} is text",
    }
    references["refs"]["a/1.1"] = ["{{v}}/3.nc"]
    assert "'v' is undefined (chunk '1.1')" in refusal(references).reason
    # As fsspec does: what has no templates is not looked into.
    plain = {"version": 1, "refs": one(["s3://b/{{v}}"])}
    assert entries(plain) == {(0, 0): ("s3://b/%7B%7Bv%7D%7D", 0, None)}


# Chunks ----------------------------------------------------------------------------


@pytest.mark.slow
def test_many_references_of_several_kinds() -> None:
    """More than are taken at once, of arrays that take turns."""
    count = 20_000
    refs: dict[str, Any] = {
        "g/x/y/.zarray": zarray(shape=[count, 3]),
        "b/.zarray": zarray(shape=[count, 3], dimension_separator="/"),
    }
    expected: dict[str, dict[tuple[int, ...], Any]] = {"g/x/y": {}, "b": {}}
    for number in range(count // 2):
        url = f"s3://b/{number // 7}.nc"
        value: Any = [url, number, number + 1] if number % 999 else "text"
        refs[f"b/{number}/0"] = [url]
        refs[f"g/x/y/{number}.0"] = value
        refs[f"stray/{number}"] = value
        entry = (url, number, number + 1) if number % 999 else b"text"
        expected["g/x/y"][number, 0] = entry
        expected["b"][number, 0] = (url, 0, None)
    for given_set in (refs, json.dumps({"version": 1, "refs": refs}).encode()):
        for path, wanted in expected.items():
            assert entries(given_set, path) == wanted
        found = refusal(given_set, "stray").reason
        assert found.startswith("10000 references ('stray/0', 'stray/1', 'stray/2', …)")


def test_arrays_without_chunks(tmp_path: Path) -> None:
    references = {
        ".zgroup": ZGROUP,
        "scalar/.zarray": zarray(shape=[], chunks=[], fill_value=7),
        "empty/.zarray": zarray(shape=[0, 3], chunks=[1, 3]),
        "lazy/.zarray": zarray(fill_value=-1),
        "written/.zarray": zarray(shape=[], chunks=[]),
        "written/0": "base64:BQA=",
    }
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert report.refused == []
    assert_equal(ours, read_by_fsspec(references))
    assert (ours["scalar"], ours["written"]) == (7, 5)
    assert array_node(references, "empty").manifest.grid_shape == (0, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        True,
        [],
        ["s3://b/f", 1],
        ["s3://b/f", 1, 2, 3],
        [5, 1, 2],
        ["s3://b/f", -1, 2],
        ["s3://b/f", 0, 0],
        ["s3://b/f", 0, -1],
        ["s3://b/f", 0.0, 5.0],
        ["s3://b/f", "0", "5"],
        ["s3://b/f", None, None],
        ["s3://b/f", True, 5],
        ["s3://b/f", 0, 2**53],
        ["s3://b/f", 2**64, 5],
        "base64:???",
        "base64:A",
        "base64:",
        "",
    ],
)
def test_references_that_are_wrong_refuse_their_array(value: Any) -> None:
    references = {**one(value), "b/.zarray": zarray(), "b/0.0": URL}
    for given_set in (references, json.dumps(references).encode()):
        found = refusal(given_set)
        assert found.code == "not_convertible"
        assert "(chunk '0.0'" in found.reason
        assert len(entries(given_set, "b")) == 1


def test_offset_and_length_that_no_manifest_can_state() -> None:
    found = refusal(one(["s3://b/f", 2**53 - 1, 2]))
    assert (found.code, "0.0" in found.reason) == ("invalid_entry", True)


def test_an_object_as_a_chunk_is_its_text() -> None:
    assert entries(one({"x": 1})) == {(0, 0): b'{"x": 1}'}


def test_numbers_of_numpy() -> None:
    assert entries(one(["s3://b/f", np.int64(5), np.uint8(6)])) == {(0, 0): ("s3://b/f", 5, 6)}


# Nodes -----------------------------------------------------------------------------


def test_groups_that_nobody_names_are_there() -> None:
    found = nodes({"x/y/z/.zarray": zarray(), "x/.zattrs": {"title": "t"}})
    assert list(found) == ["", "x", "x/y", "x/y/z"]
    assert found["x"] == GroupNode("x", {"title": "t"})


@pytest.mark.parametrize(
    ("documents", "path", "problem"),
    [
        ({"a/.zarray": "{"}, "a", "the .zarray document is not JSON"),
        ({"a/.zarray": "[]"}, "a", "the .zarray document is not a JSON object"),
        ({"a/.zarray": ["s3://b/meta"]}, "a", "its metadata lies in a file that is not authorised"),
        ({"a/.zarray": ["s3://b/m", 0]}, "a", "neither [url] nor [url, offset, length]"),
        ({"a/.zarray": [None]}, "a", "a reference has no URL"),
        ({"a/.zarray": "base64:?"}, "a", "the .zarray document is not base64"),
        ({"a/.zarray": zarray(dtype="|O")}, "a", "data type '|O'"),
        ({"a/.zarray": zarray(), "a/.zattrs": "[1]"}, "a", "the .zattrs document"),
        ({"a/.zgroup": "5"}, "a", "the .zgroup document is not a JSON object"),
        ({"a/.zgroup": {"zarr_format": 3}}, "a", "'zarr_format' of the .zgroup document is 3"),
        ({".zattrs": "{"}, "", "the .zattrs document is not JSON"),
        ({"a/zarr.json": "{}"}, "a", "Zarr v3"),
        ({"a/../.zarray": zarray()}, "a/..", "cannot have the name '..'"),
        ({"a//.zarray": zarray()}, "a/", "cannot have the name ''"),
        ({"zarr.json/.zarray": zarray()}, "zarr.json", "cannot have the name"),
        ({"a/.zarray": zarray(), "a/b/.zarray": zarray()}, "a/b", "lies below 'a', an array"),
        ({"a/.zarray": "[]", "a/b/.zgroup": ZGROUP}, "a/b", "a refused node"),
    ],
)
def test_nodes_that_are_refused(documents: dict[str, Any], path: str, problem: str) -> None:
    references = {**documents, "good/.zarray": zarray(), "good/0.0": URL}
    assert problem in refusal(references, path).reason
    assert len(entries(references, "good")) == 1


def test_a_group_with_wrong_attributes_stays_a_group() -> None:
    found = list(read_kerchunk_json({"g/.zattrs": "[]", "g/a/.zarray": zarray()}))
    assert [type(node) for node in found] == [GroupNode, GroupNode, ArrayNode, RefusedNode]


def test_consolidated_metadata_fills_in() -> None:
    consolidated = {"zarr_consolidated_format": 1, "metadata": one(URL) | {"a/.zattrs": {"k": 1}}}
    del consolidated["metadata"]["a/0.0"]  # type: ignore[attr-defined]
    references = {".zmetadata": consolidated, "a/0.0": URL}
    assert entries(references) == {(0, 0): ("s3://b/f.nc", 100, 12)}
    own = array_node({**references, "a/.zattrs": {"k": 2}})
    assert own.metadata["attributes"] == {"k": 2}


def test_references_below_a_refused_array_are_not_named_again() -> None:
    found = list(read_kerchunk_json({"a/.zarray": "[]", "a/0.0": URL, "a/x/0": URL}))
    assert [(node.path, type(node)) for node in found] == [("", GroupNode), ("a", RefusedNode)]


def test_text_that_is_none() -> None:
    document = json.dumps(one("\ud800") | {"b/.zarray": zarray(), "b/0.0": URL}).encode()
    assert "\\ud800" in document.decode()
    assert "inline data cannot be decoded" in refusal(document).reason
    assert len(entries(document, "b")) == 1


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ([2**40, 2**40], "limit_exceeded"),
        ([10**30, 1], "invalid_configuration"),
        ([10**30, 0], "invalid_configuration"),
    ],
)
def test_a_grid_that_is_too_large(shape: list[int], code: str) -> None:
    huge = zarray(shape=shape, chunks=[1, 1])
    found = refusal({"a/.zarray": huge, "a/0.0": URL, "b/.zarray": zarray()})
    assert found.code == code


def test_consolidated_metadata_that_is_none() -> None:
    assert entries({**one(URL), ".zmetadata": "{"}) == {(0, 0): ("s3://b/f.nc", 100, 12)}


@pytest.mark.parametrize("location", ["http://[x", "file://host/references.json"])
def test_locations_that_are_none(location: str) -> None:
    with pytest.raises(InvalidPathError):
        read_kerchunk(location)
    with pytest.raises(InvalidPathError):
        read_kerchunk_json(location)


def test_which_layout_a_location_has(tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    for location in (tmp_path / "refs", str(tmp_path / "refs"), (tmp_path / "refs").as_uri()):
        with pytest.raises(NotConvertibleError, match="Parquet"):
            read_kerchunk(location)
    with pytest.raises(NotConvertibleError, match="local file system"):
        read_kerchunk("s3://b/refs.parq/")
    with pytest.raises(SourceNotFoundError):
        read_kerchunk(tmp_path / "refs.json")
