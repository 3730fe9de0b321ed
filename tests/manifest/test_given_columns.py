"""Manifests from columns of numbers."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifest.one_by_one import encode_document
from zarr_manifest import Manifest, ManifestError
from zarr_manifest.format import format_canonical, grid_index
from zarr_manifest.manifest import Extras, NumberedPaths, entry_of, references_of

INDEX = st.tuples(st.integers(0, 2), st.integers(0, 3))
PATH_ENTRY = st.fixed_dictionaries(
    {"path": st.sampled_from(["a.nc", "s3://b/c.nc", "d%20e.nc"])},
    optional={"offset": st.integers(0, 2**40), "length": st.integers(1, 2**40)},
)
OTHER_ENTRY = st.one_of(st.just({}), st.builds(lambda b: {"data": b}, st.binary(min_size=1)))


def from_entries(entries: dict[tuple[int, int], dict[str, Any]], **more: Any) -> Manifest:
    with_path = {index: e for index, e in entries.items() if "path" in e}
    return Manifest.from_columns(
        (3, 4),
        indices=np.array(list(with_path), np.int64).reshape(-1, 2),
        paths=[e["path"] for e in with_path.values()],
        offsets=np.array([e.get("offset", 0) for e in with_path.values()], np.int64),
        lengths=np.array([e.get("length", -1) for e in with_path.values()], np.int64),
        data={index: e["data"] for index, e in entries.items() if "data" in e},
        empty=[index for index, e in entries.items() if e == {}],
        **more,
    )


@given(st.dictionaries(INDEX, PATH_ENTRY | OTHER_ENTRY))
def test_columns_document_columns(entries: dict[tuple[int, int], dict[str, Any]]) -> None:
    manifest = from_entries(entries)
    again = Manifest.loads(manifest.dumps(), grid_shape=(3, 4))
    assert again.dumps() == manifest.dumps()
    assert sorted(index for index, _ in manifest.items()) == sorted(entries)
    for index, entry in entries.items():
        reference = manifest[index]
        assert reference.is_empty == (entry == {})
        assert reference.path == entry.get("path")
        assert reference.data == entry.get("data")
        if "path" in entry:
            assert (reference.offset, reference.length) == (
                entry.get("offset", 0),
                entry.get("length"),
            )


def test_all_chunks_of_the_grid_in_c_order() -> None:
    manifest = Manifest.from_columns(
        (2, 2), paths=[["a", "b"], ["", "a"]], offsets=np.arange(4).reshape(2, 2), lengths=7
    )
    assert {i: (r.path, r.offset, r.length) for i, r in manifest.items()} == {
        (0, 0): ("a", 0, 7),
        (0, 1): ("b", 1, 7),
        (1, 1): ("a", 3, 7),
    }
    assert manifest.paths == ("a", "b")


@pytest.mark.parametrize("grid_shape", [(), (0,), (3, 0), (5,)])
def test_grids_of_any_size(grid_shape: tuple[int, ...]) -> None:
    manifest = Manifest.from_columns(grid_shape, paths="f.nc")
    assert len(manifest) == int(np.prod(grid_shape))
    assert len(Manifest.from_columns(grid_shape, paths="")) == 0


def test_checksums_and_conditions() -> None:
    manifest = from_entries(
        {(0, 0): {"path": "a.nc"}, (0, 1): {"data": b"x"}, (0, 2): {"path": "s3://b/c.nc"}},
        checksums={(0, 0): "crc32c:00000000", (0, 1): "crc32c:00000001"},
        conditions={"a.nc": {"etag": '"1"'}, "unused": {"version": "2"}},
    )
    assert manifest[0, 0].checksum == "crc32c:00000000"
    assert manifest[0, 0].conditions.etag == '"1"'
    assert manifest[0, 1].checksum == "crc32c:00000001"
    assert manifest[0, 1].data == b"x"
    assert not manifest[0, 2].conditions


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"paths": "f", "offsets": [0, -1, 0, 0]}, "invalid_entry"),
        ({"paths": "f", "lengths": [1, 0, 1, 1]}, "invalid_entry"),
        ({"paths": "f", "lengths": [1, -2, 1, 1]}, "invalid_entry"),
        ({"paths": "f", "offsets": 2**53 - 1, "lengths": 1}, "invalid_entry"),
        ({"paths": "f", "offsets": np.array([2**64 - 1] * 4, np.uint64)}, "invalid_entry"),
        ({"paths": "f", "offsets": [0.5] * 4}, "invalid_entry"),
        ({"paths": "f", "offsets": [0, 1]}, "invalid_entry"),
        ({"paths": ["f", "g"]}, "invalid_entry"),
        ({"paths": [1, 2, 3, 4]}, "invalid_entry"),
        ({"paths": "f", "indices": [[0, 2]]}, "invalid_chunk_key"),
        ({"paths": "f", "indices": [[0, -1]]}, "invalid_chunk_key"),
        ({"paths": "f", "indices": [[0, 0], [1, 1], [0, 0]]}, "invalid_chunk_key"),
        ({"paths": "f", "indices": [0, 1]}, "invalid_chunk_key"),
        ({"paths": "f", "data": {(0, 0): b"x"}}, "invalid_chunk_key"),
        ({"paths": "", "data": {(0, 0): b""}}, "invalid_entry"),
        ({"paths": "", "empty": [(0, 0)], "checksums": {(0, 0): "md5:" + "0" * 32}},
         "invalid_entry"),
        ({"paths": "f", "checksums": {(0, 0): "sha1:00"}}, "unsupported_checksum"),
        ({"paths": "f", "conditions": {"f": {"size": "1"}}}, "invalid_entry"),
        ({"paths": "f", "conditions": {"f": {"last_modified": "today"}}}, "invalid_entry"),
    ],
)  # fmt: skip
def test_columns_that_readers_would_refuse_are_refused(columns: dict[str, Any], code: str) -> None:
    with pytest.raises(ManifestError) as refused:
        Manifest.from_columns((2, 2), **columns)
    assert refused.value.code == code


@pytest.mark.parametrize("grid_shape", [(2**31, 2**31), (10**30, 0)])
def test_a_grid_that_cannot_be_numbered(grid_shape: tuple[int, int]) -> None:
    with pytest.raises(ManifestError, match="chunk grid is too large"):
        Manifest.from_columns(grid_shape, paths="f", indices=[[0, 0]])
    with pytest.raises(ManifestError, match="chunk grid is too large"):
        Manifest.loads(b'{"0.0": {}}', grid_shape=grid_shape)


@given(st.lists(st.integers(-2, 4), max_size=9), st.permutations(["a", "b", "c", "d", "e"]))
def test_paths_by_number(numbers: list[int], names: list[str]) -> None:
    grid_shape = (len(numbers),)
    paths = NumberedPaths(np.array(numbers, np.int32), names)
    columns = {"offsets": np.arange(len(numbers)), "lengths": 5}
    numbered = Manifest.from_columns(grid_shape, paths=paths, **columns)
    named = [names[number] if number >= 0 else "" for number in numbers]
    plain = Manifest.from_columns(grid_shape, paths=np.array(named, object), **columns)
    assert numbered.paths == plain.paths
    assert list(numbered.items()) == list(plain.items())


@pytest.mark.parametrize("order", ["every chunk", "some chunks", "few paths"])
def test_columns_in_order_are_not_copied(order: str) -> None:
    count = 500_000
    numbers = np.arange(count)
    columns: dict[str, Any] = {
        "offsets": numbers * 10,
        "lengths": numbers + 1,
        "paths": NumberedPaths((numbers // 1000).astype(np.int32), [f"{n}" for n in range(500)]),
    }
    grid_shape = (count,) if order == "every chunk" else (2 * count,)
    if order != "every chunk":
        columns["indices"] = 2 * numbers[:, np.newaxis]
    if order == "few paths":
        columns["paths"], columns["lengths"] = "f.nc", 7
    tracemalloc.start()
    try:
        manifest = Manifest.from_columns(grid_shape, **columns)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    own = 0 if order == "every chunk" else 8  # the numbers of the chunks
    assert peak < (own + 1) * count + 60 * 2**16
    found = manifest.columns()
    assert np.shares_memory(found.offsets, columns["offsets"])
    assert order != "every chunk" or manifest[7,].path == "0"


# Documents and parts of them --------------------------------------------------------------


@given(st.dictionaries(INDEX, PATH_ENTRY | OTHER_ENTRY))
def test_a_document_has_the_entries_one_by_one(
    entries: dict[tuple[int, int], dict[str, Any]],
) -> None:
    manifest = from_entries(entries)
    one_by_one = encode_document(
        (format_canonical(index), entry_of(reference)) for index, reference in manifest.items()
    )
    assert manifest.dumps() == one_by_one


@given(
    st.dictionaries(INDEX, PATH_ENTRY | OTHER_ENTRY),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
)
def test_blocks_have_every_entry_once(
    entries: dict[tuple[int, int], dict[str, Any]], shape: tuple[int, int]
) -> None:
    manifest = from_entries(entries)
    blocks = {block: Manifest(part) for block, part in references_of(manifest).blocks(shape)}
    assert list(blocks) == sorted(blocks)
    for block, part in blocks.items():
        owners = {(i // shape[0], j // shape[1]) for (i, j), _ in part.items()}
        assert owners == {block}
    items = [item for part in blocks.values() for item in part.items()]
    assert sorted((i, entry_of(r)) for i, r in items) == [
        (i, entry_of(r)) for i, r in manifest.items()
    ]


@given(st.dictionaries(INDEX, PATH_ENTRY | OTHER_ENTRY), st.data())
def test_other_paths(entries: dict[tuple[int, int], dict[str, Any]], data: st.DataObject) -> None:
    manifest = from_entries(entries)
    names = {path: data.draw(st.sampled_from(["x", "y", path])) for path in manifest.paths}
    renamed = manifest.with_paths([names[path] for path in manifest.paths])
    assert len(set(renamed.paths)) == len(renamed.paths)
    expected = {
        index: {**entry, "path": names[entry["path"]]} if "path" in entry else entry
        for index, entry in entries.items()
    }
    assert renamed.dumps() == from_entries(expected).dumps()
    with pytest.raises(ValueError, match="paths to replace"):
        manifest.with_paths([*manifest.paths, "z"])


@pytest.mark.slow
def test_a_document_of_many_entries() -> None:
    grid_shape = (2, 100, 100)
    count = math.prod(grid_shape)
    numbers = np.arange(count)
    manifest = Manifest.from_columns(
        grid_shape,
        paths=NumberedPaths((numbers % 3 - 1).astype(np.int32), ["a%20b", "ü"]),
        offsets=numbers // 2,
        lengths=np.where(numbers % 5, numbers + 1, -1),
        data={grid_index(grid_shape, number): b"x" for number in range(0, count, 999)},
        checksums={grid_index(grid_shape, 1): f"md5:{'0' * 32}"},
        conditions={"ü": {"etag": '"e"'}},
    )
    one_by_one = encode_document(
        (format_canonical(index), entry_of(reference)) for index, reference in manifest.items()
    )
    assert manifest.dumps() == one_by_one
    again = Manifest.loads(one_by_one, grid_shape=grid_shape)
    assert list(again.items()) == list(manifest.items())


@given(st.dictionaries(INDEX, PATH_ENTRY | OTHER_ENTRY))
def test_columns_and_what_is_kept_aside(entries: dict[tuple[int, int], dict[str, Any]]) -> None:
    manifest = from_entries(entries, conditions={"a.nc": {"etag": '"e"'}})
    columns = manifest.columns()
    references = [manifest[i, j] for i, j in (divmod(n, 4) for n in columns.numbers.tolist())]
    rows = [row for _, row in references_of(manifest).items()]
    assert len(references) == len(rows) == len(entries)
    assert columns.path_numbers.tolist() == [row.path_number for row in rows]
    assert columns.offsets.tolist() == [r.offset for r in references]
    with_path = [-1 if r.length is None else r.length for r in references if r.path is not None]
    assert columns.lengths[columns.path_numbers >= 0].tolist() == with_path
    extras = {row: extra for extra, rows in references_of(manifest).extras() for row in rows}
    for row, reference in enumerate(references):
        extra = extras.get(row, Extras())
        assert (extra.data, extra.conditions) == (reference.data, reference.conditions)


def test_parts_of_no_dimensions() -> None:
    manifest = Manifest.from_columns((), paths="f.nc")
    ((block, part),) = references_of(manifest).blocks(())
    assert block == ()
    assert part.dumps() == manifest.dumps() == b'{\n"0":{"path":"f.nc"}\n}\n'
