"""The Python adapters, asked over a pipe, as the runner asks them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from conformance.adapters.zarr_arrays import (
    MISSING_ERROR,
    chunk_bytes,
    listed_chunks,
    read_values,
)
from tests.hierarchies import declare_manifest, write_hierarchy, write_manifest_array
from tests.servers.http_files import FileServer, status

ROOT = Path(__file__).parents[2]
needs_missing_errors = pytest.mark.skipif(
    not MISSING_ERROR, reason=f"zarr {zarr.__version__} has no array.read_missing_chunks"
)
DATA = np.arange(1, 13, dtype="<i4").reshape(3, 4)


class Adapter:
    """A running adapter."""

    def __init__(self, *module_and_arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module_and_arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ask(self, op: str, hierarchy: Path | str = "", array: str = "", **members: Any) -> Any:
        """Send one request and return the answer."""
        request = {"id": [op, 7], "op": op, "hierarchy": str(hierarchy), "array": array, **members}
        answer = self.send(json.dumps(request))
        assert answer.pop("id") == [op, 7]
        return answer

    def send(self, line: str) -> Any:
        """Send one line and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> int:
        """End the input, and return the exit status."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            return self._process.wait(10)


def _running(module: str) -> Iterator[Adapter]:
    adapter = Adapter(module)
    yield adapter
    assert adapter.end() == 0


@pytest.fixture(scope="module")
def ours() -> Iterator[Adapter]:
    """The adapter of this package."""
    yield from _running("conformance.adapters.python")


@pytest.fixture(scope="module")
def plain() -> Iterator[Adapter]:
    """The adapter of plain zarr."""
    yield from _running("conformance.adapters.zarr_python")


def values(answer: Any) -> np.ndarray[Any, Any]:
    assert answer["ok"], answer
    data_type = np.dtype(answer["data_type"]).newbyteorder("<")
    body = base64.b64decode(answer["data"], validate=True)
    return np.frombuffer(body, data_type).reshape(answer["shape"])


def failure(answer: Any) -> tuple[str, str | None]:
    assert not answer["ok"], answer
    return answer["error"]["code"], answer["error"]["phase"]


def inline(data: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"data": base64.b64encode(data.tobytes()).decode()}


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    """A group with one array: its second row is inline, its third is missing."""
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    (root / "raw.bin").write_bytes(b"head" + DATA[0].tobytes() + b"tail")
    manifest = {"0.0": {"path": "../raw.bin", "offset": 4, "length": 16}, "1.0": inline(DATA[1])}
    write_manifest_array(root, "a", DATA, (1, 4), manifest, fill_value=-1)
    return root


# ------------------------------------------------------------------ protocol


@pytest.mark.parametrize("adapter", ["ours", "plain"])
def test_hello_names_the_implementation_and_its_features(
    adapter: str, request: pytest.FixtureRequest
) -> None:
    answer = request.getfixturevalue(adapter).ask("hello", protocol=1)
    assert answer["ok"]
    assert answer["protocol"] == 1
    assert answer["name"]
    assert answer["version"]
    assert len(set(answer["features"])) == len(answer["features"])
    assert {"read", "get_chunk", "list"} <= set(answer["features"])


def test_plain_zarr_announces_nothing_that_only_a_manifest_reader_has(
    ours: Adapter, plain: Adapter
) -> None:
    theirs = set(plain.ask("hello", protocol=1)["features"])
    assert theirs < set(ours.ask("hello", protocol=1)["features"])
    assert not theirs & {"validate", "http", "s3", "partitions", "encoded-manifests", "limits"}


def test_another_protocol_is_refused(ours: Adapter) -> None:
    assert failure(ours.ask("hello", protocol=2)) == ("unexpected", None)


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"op": "read"}'])
def test_a_malformed_request_is_answered_and_the_next_one_too(ours: Adapter, line: str) -> None:
    answer = ours.send(line)
    assert answer["id"] is None
    assert failure(answer)[0] == "unexpected"
    assert ours.ask("hello", protocol=1)["ok"]


def test_an_error_of_zarr_says_its_class(ours: Adapter, tmp_path: Path) -> None:
    answer = ours.ask("read", tmp_path / "nowhere", "a")
    assert failure(answer)[0] == "zarr_error"
    assert "NotFoundError" in answer["error"]["message"]


def test_an_unknown_operation_is_unexpected(ours: Adapter, hierarchy: Path) -> None:
    assert failure(ours.ask("delete", hierarchy, "a"))[0] == "unexpected"


# ------------------------------------------------------------------ operations


def test_every_array_of_a_hierarchy_reads_as_it_is(ours: Adapter, tmp_path: Path) -> None:
    for path, expected in write_hierarchy(tmp_path / "all.zarr").items():
        found = values(ours.ask("read", tmp_path / "all.zarr", path, selection=None))
        np.testing.assert_array_equal(found, expected, err_msg=path)


def test_a_selection(ours: Adapter, hierarchy: Path) -> None:
    found = values(ours.ask("read", hierarchy, "a", selection=[[0, 2], [1, 3]]))
    np.testing.assert_array_equal(found, DATA[:2, 1:3])


@pytest.mark.parametrize("data_type", ["bool", "uint16", "float64", "complex64"])
def test_a_zero_dimensional_array(ours: Adapter, tmp_path: Path, data_type: str) -> None:
    data = np.array(1, dtype=data_type)
    write_manifest_array(tmp_path, "a", data, (), {"0": inline(data)}, inline=True)
    answer = ours.ask("read", tmp_path, "a", selection=None)
    assert (answer["shape"], answer["data_type"]) == ([], data_type)
    assert values(answer)[()] == data
    assert ours.ask("list", tmp_path, "a")["chunks"] == ["0"]
    assert (
        base64.b64decode(ours.ask("get_chunk", tmp_path, "a", chunk=[])["data"]) == data.tobytes()
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (None, slice(None)),
        ({"start": 3, "stop": 9}, slice(3, 9)),
        ({"start": 3}, slice(3, None)),
        ({"last": 3}, slice(-3, None)),
    ],
)
def test_chunks_and_ranges_of_them(
    ours: Adapter, hierarchy: Path, part: Any, expected: slice
) -> None:
    for row in (0, 1):
        answer = ours.ask("get_chunk", hierarchy, "a", chunk=[row, 0], range=part)
        assert base64.b64decode(answer["data"]) == DATA[row].tobytes()[expected]
    assert ours.ask("get_chunk", hierarchy, "a", chunk=[2, 0], range=part)["data"] is None


def test_chunks_are_listed_in_the_order_of_the_grid(ours: Adapter, tmp_path: Path) -> None:
    data = np.arange(12, dtype="u1")
    manifest = {str(i): inline(data[i : i + 1]) for i in (10, 9, 0)}
    write_manifest_array(tmp_path, "a", data, (1,), manifest)
    assert ours.ask("list", tmp_path, "a")["chunks"] == ["0", "9", "10"]


@needs_missing_errors
def test_a_missing_chunk_is_an_error_where_the_request_says_so(
    ours: Adapter, hierarchy: Path
) -> None:
    np.testing.assert_array_equal(values(ours.ask("read", hierarchy, "a"))[2], -1)
    assert failure(ours.ask("read", hierarchy, "a", missing="error")) == ("missing_chunk", "chunk")
    there = ours.ask("read", hierarchy, "a", missing="error", selection=[[0, 2], [0, 4]])
    np.testing.assert_array_equal(values(there), DATA[:2])


def test_reuse_continues_with_what_was_opened_before(ours: Adapter, hierarchy: Path) -> None:
    assert ours.ask("read", hierarchy, "a")["ok"]
    (hierarchy / "a" / "manifest.json").write_text("no JSON")
    assert ours.ask("read", hierarchy, "a", reuse=True)["ok"]
    assert failure(ours.ask("read", hierarchy, "a")) == ("invalid_json", "manifest")


# ------------------------------------------------------------------ errors and their phases


def test_an_error_in_the_declaration(ours: Adapter, hierarchy: Path) -> None:
    declare_manifest(hierarchy / "a", "%2e%2e/outside.json")
    assert failure(ours.ask("read", hierarchy, "a")) == ("invalid_path", "declaration")


@pytest.mark.parametrize(
    ("entry", "code", "phase"),
    [
        ({"path": "../raw.bin", "length": 0}, "invalid_entry", "manifest"),
        ({"path": "%2e%2e/raw.bin"}, "invalid_path", "manifest"),
        ({"path": "../../../raw.bin"}, "location_not_allowed", "manifest"),
        ({"path": "file:///raw.bin"}, "location_not_allowed", "manifest"),
        ({"path": "../none.bin"}, "source_not_found", "chunk"),
        ({"path": "../raw.bin", "offset": 16, "length": 16}, "range_out_of_bounds", "chunk"),
    ],
)
@pytest.mark.parametrize("op", ["read", "get_chunk"])
def test_an_error_in_an_entry(
    ours: Adapter, hierarchy: Path, entry: Any, code: str, phase: str, op: str
) -> None:
    (hierarchy / "a" / "manifest.json").write_text(json.dumps({"0.0": entry}))
    assert failure(ours.ask(op, hierarchy, "a", chunk=[0, 0])) == (code, phase)


def test_a_manifest_that_is_not_there(ours: Adapter, hierarchy: Path) -> None:
    (hierarchy / "a" / "manifest.json").unlink()
    for op in ("read", "list"):
        assert failure(ours.ask(op, hierarchy, "a")) == ("manifest_not_found", "manifest")


# ------------------------------------------------------------------ how a hierarchy is opened


def test_base_verify_and_limits(ours: Adapter, hierarchy: Path) -> None:
    wrong = {"path": "../raw.bin", "offset": 4, "length": 16, "checksum": "crc32c:00000000"}
    (hierarchy / "a" / "manifest.json").write_text(json.dumps({"0.0": wrong}))
    (hierarchy / "elsewhere").mkdir()
    assert failure(ours.ask("read", hierarchy, "a")) == ("checksum_mismatch", "chunk")
    never = ours.ask("read", hierarchy, "a", verify="never", base="elsewhere")
    np.testing.assert_array_equal(values(never)[0], DATA[0])
    limited = ours.ask("read", hierarchy, "a", limits={"manifest_bytes": 10})
    assert failure(limited) == ("limit_exceeded", "manifest")


def test_sources_on_an_http_server(ours: Adapter, hierarchy: Path, http_server: FileServer) -> None:
    http_server.put("/raw.bin", DATA[0].tobytes())
    entry = {"path": f"{http_server.url}/raw.bin"}
    (hierarchy / "a" / "manifest.json").write_text(json.dumps({"0.0": entry}))
    allow = [{"prefix": http_server.url}]
    np.testing.assert_array_equal(values(ours.ask("read", hierarchy, "a", allow=allow))[0], DATA[0])
    http_server.script("/raw.bin", status(500), sticky=True)
    failed = ours.ask("read", hierarchy, "a", allow=allow)
    assert failure(failed) == ("source_error", "chunk")


def test_a_hierarchy_on_an_http_server(
    ours: Adapter, hierarchy: Path, http_server: FileServer
) -> None:
    for file in hierarchy.rglob("*"):
        if file.is_file():
            http_server.put(f"/h/{file.relative_to(hierarchy)}", file.read_bytes())
    answer = ours.ask("read", f"{http_server.url}/h", "a", via="http")
    np.testing.assert_array_equal(values(answer)[:2], DATA[:2])


def test_sources_in_a_bucket(
    ours: Adapter, hierarchy: Path, s3_server: Any, s3_bucket: str
) -> None:
    s3_server.put(s3_bucket, "raw.bin", DATA[0].tobytes())
    entry = {"path": f"s3://{s3_bucket}/raw.bin"}
    (hierarchy / "a" / "manifest.json").write_text(json.dumps({"0.0": entry}))
    anonymous = {"prefix": f"s3://{s3_bucket}", "endpoint": s3_server.endpoint}
    refused = ours.ask("read", hierarchy, "a", allow=[anonymous])
    assert failure(refused) == ("source_access_denied", "chunk")
    names = ("access_key_id", "secret_access_key")
    credentials = {name: s3_server.options[name] for name in names}
    allow = [{**anonymous, "region": "us-east-1", "credentials": credentials}]
    np.testing.assert_array_equal(values(ours.ask("read", hierarchy, "a", allow=allow))[0], DATA[0])


# ------------------------------------------------------------------ consolidated metadata


def test_consolidated_metadata_is_what_counts_where_there_is_some(
    ours: Adapter, plain: Adapter, tmp_path: Path
) -> None:
    root = tmp_path / "data.zarr"
    zarr.create_group(root).create_array("native", data=DATA)
    with pytest.warns(match="not part in the Zarr format 3"):
        zarr.consolidate_metadata(root)
    (root / "native" / "zarr.json").unlink()
    for adapter in (ours, plain):
        np.testing.assert_array_equal(values(adapter.ask("read", root, "native")), DATA)


# ------------------------------------------------------------------ plain zarr


def test_plain_zarr_reads_fill_values(plain: Adapter, hierarchy: Path) -> None:
    np.testing.assert_array_equal(values(plain.ask("read", hierarchy, "a")), -1)
    assert plain.ask("list", hierarchy, "a")["chunks"] == []
    assert plain.ask("get_chunk", hierarchy, "a", chunk=[0, 0])["data"] is None
    assert failure(plain.ask("validate", hierarchy))[0] == "unexpected"


@needs_missing_errors
def test_plain_zarr_takes_chunks_of_a_manifest_for_missing(plain: Adapter, hierarchy: Path) -> None:
    assert failure(plain.ask("read", hierarchy, "a", missing="error"))[0] == "missing_chunk"


def test_plain_zarr_refuses_a_manifest_array_at_the_root(plain: Adapter, tmp_path: Path) -> None:
    write_manifest_array(tmp_path / "root.zarr", "", DATA, (1, 4), {}, inline=True)
    assert failure(plain.ask("read", tmp_path / "root.zarr")) == ("unexpected", None)


# ------------------------------------------------------------------ arrays in the protocol's terms


@st.composite
def native_arrays(draw: st.DrawFn) -> tuple[Any, np.ndarray[Any, Any]]:
    """A native array in memory, and its values."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    data_type = draw(st.sampled_from(["bool", "int8", "uint16", "float32", "float64", ">i4"]))
    version: Literal[2, 3] = draw(st.sampled_from([2, 3]))
    separator = draw(st.sampled_from(["/", "."]))
    encoding: Any = {"name": "default" if version == 3 else "v2", "separator": separator}
    data = np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(data_type)
    array = zarr.create_array(
        {},
        name=draw(st.sampled_from([None, "x", "c/0"])),
        shape=shape,
        chunks=tuple(draw(st.integers(1, n)) for n in shape),
        dtype=data.dtype,
        zarr_format=version,
        chunk_key_encoding=encoding,
        compressors=None,
    )
    array[...] = data
    return array, data


@given(native_arrays(), st.data())
def test_reads_return_what_was_written(
    native: tuple[Any, np.ndarray[Any, Any]], data: st.DataObject
) -> None:
    array, written = native
    pairs = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in written.shape]
    for selection in (None, pairs):
        found = read_values(array, selection)
        key = ... if selection is None else tuple(slice(*pair) for pair in pairs)
        assert found.shape == written[key].shape
        assert found.data_type == written.dtype.name
        assert found.data == written[key].astype(written.dtype.newbyteorder("<")).tobytes()


@given(native_arrays())
def test_listing_finds_exactly_the_existing_chunks(
    native: tuple[Any, np.ndarray[Any, Any]],
) -> None:
    array, written = native
    counts = [-(-n // c) for n, c in zip(written.shape, array.chunks, strict=True)]
    indices = list(np.ndindex(*counts))
    assert listed_chunks(array) == [".".join(map(str, index)) or "0" for index in indices]
    for index in indices:
        assert chunk_bytes(array, index, None) is not None
