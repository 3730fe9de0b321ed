"""Manifest: the columns give back exactly what the document says."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import encode_relative, format_canonical, parse_relative, strict
from zarr_manifest.manifest import (
    Grid,
    Manifest,
    Reference,
    interpret_manifest,
    references_of,
)

type Index = tuple[int, ...]

GRIDS = st.lists(st.integers(1, 5), max_size=3).map(tuple)
PATHS = st.sampled_from(["f.nc", "g.nc", "s3://b/h.nc", "../ü.nc"])
CHECKSUMS = st.sampled_from(["crc32c:0a1b2c3d", f"md5:{'0' * 32}"])
ENTRIES = st.one_of(
    st.just({}),
    st.binary(min_size=1, max_size=8).map(lambda data: {"data": base64.b64encode(data).decode()}),
    st.fixed_dictionaries(
        {"path": PATHS},
        optional={
            "offset": st.integers(0, 2**40),
            "length": st.integers(1, 2**40),
            "checksum": CHECKSUMS,
            "etag": st.just('"e"'),
            "version": st.just("v1"),
        },
    ),
)


def interpreted(
    document: bytes,
    ndim: int,
    grid_shape: Index | None = None,
    *,
    region: list[range] | None = None,
    parse_key: Callable[[str], Index | None] | None = None,
) -> Manifest:
    """A document as an array reads it: with keys of its own, or of one partition only."""
    grid = Grid(ndim, grid_shape, region, parse_key)
    return Manifest(strict(interpret_manifest(document, grid, zm.Limits())))


def all_indices(grid_shape: Index) -> list[Index]:
    return list(itertools.product(*(range(n) for n in grid_shape)))


@st.composite
def manifests(draw: st.DrawFn) -> tuple[Index, dict[Index, dict[str, Any]]]:
    """A grid, and entries of all or some of its chunks, in any order."""
    grid_shape = draw(GRIDS)
    chunks = all_indices(grid_shape)
    if draw(st.booleans()):
        chunks = [chunk for chunk in chunks if draw(st.booleans())]
    return grid_shape, {chunk: draw(ENTRIES) for chunk in draw(st.permutations(chunks))}


def check_reference(reference: Reference, entry: dict[str, Any], manifest: Manifest) -> None:
    assert reference.path == entry.get("path")
    assert reference.offset == entry.get("offset", 0)
    if "path" in entry:
        assert entry["path"] in manifest.paths
        assert reference.length == entry.get("length")
    data = entry.get("data")
    assert reference.data == (None if data is None else base64.b64decode(data))
    if reference.data is not None:
        assert reference.length == len(reference.data)
    assert reference.checksum == entry.get("checksum")
    assert reference.conditions.etag == entry.get("etag")
    assert reference.conditions.version == entry.get("version")
    assert reference.is_empty == (entry == {})


def spelling(index: Index, own: bool) -> str:
    return encode_relative(index, "default", "/") if own else format_canonical(index)


@given(manifests(), st.data())
def test_columns_give_back_the_entries(
    case: tuple[Index, dict[Index, dict[str, Any]]], data: st.DataObject
) -> None:
    grid_shape, entries = case
    ndim = len(grid_shape)
    document = {spelling(i, data.draw(st.booleans())): e for i, e in entries.items()}
    if ndim:
        # Beyond the grid along one dimension: ignored.
        outside = list(grid_shape)
        document[format_canonical(outside)] = {"path": "outside.nc", "checksum": "crc9:ignored"}
        document[format_canonical([2**53 - 1] * ndim)] = {"path": "outside.nc"}
    manifest = interpreted(
        json.dumps(document).encode(),
        ndim,
        grid_shape,
        parse_key=lambda key: parse_relative(key, ndim, "default", "/"),
    )

    assert len(manifest) == len(entries)
    assert manifest.grid_shape == grid_shape
    for index in all_indices(grid_shape):
        reference = manifest.get(index)
        if index in entries:
            assert reference is not None
            assert manifest[index] == reference
            check_reference(reference, entries[index], manifest)
        else:
            assert reference is None
            with pytest.raises(KeyError, match=re.escape(format_canonical(index))):
                manifest[index]
    assert list(manifest) == sorted(entries)
    assert dict(manifest.items()) == {index: manifest[index] for index in entries} == manifest
    rows = dict(references_of(manifest).items())
    assert list(rows) == list(manifest)
    for index, row in rows.items():
        path = manifest[index].path
        assert (manifest.paths[row.path_number] if row.path_number >= 0 else None) == path
        assert row.is_empty == manifest[index].is_empty
    assert [index for index, _ in manifest.items()] == sorted(entries)

    assert set(manifest.paths) == {e["path"] for e in entries.values() if "path" in e}
    stated = [e.get("length", 0) for e in entries.values() if "path" in e]
    inline = [len(base64.b64decode(e["data"])) for e in entries.values() if "data" in e]
    assert manifest.stated_bytes == sum(stated) + sum(inline)
    expected = {
        path: (
            sum(e.get("path") == path for e in entries.values()),
            sum(e.get("length", 0) for e in entries.values() if e.get("path") == path),
        )
        for path in manifest.paths
    }
    assert {path: (n, size) for path, n, size in references_of(manifest).statistics()} == expected
    assert list(references_of(manifest).open_ended()) == [
        references_of(manifest).get(i)
        for i in sorted(entries)
        if "path" in entries[i] and "length" not in entries[i]
    ]


@given(manifests().filter(lambda case: bool(case[1])))
def test_grid_shape_from_the_keys(case: tuple[Index, dict[Index, dict[str, Any]]]) -> None:
    grid_shape, entries = case
    document = json.dumps({format_canonical(i): e for i, e in entries.items()}).encode()
    manifest = Manifest.loads(document, ndim=len(grid_shape))
    assert manifest.grid_shape == tuple(max(axis) + 1 for axis in zip(*entries, strict=True))
    assert list(manifest) == sorted(entries)


@given(manifests().filter(lambda case: bool(case[0])))
def test_outside_the_grid_there_is_nothing(
    case: tuple[Index, dict[Index, dict[str, Any]]],
) -> None:
    grid_shape, entries = case
    document = json.dumps({format_canonical(i): e for i, e in entries.items()}).encode()
    manifest = Manifest.loads(document, grid_shape=grid_shape)
    for dimension in range(len(grid_shape)):
        for outside in (-1, grid_shape[dimension]):
            index = [0] * len(grid_shape)
            index[dimension] = outside
            assert manifest.get(index) is None


@given(GRIDS.filter(bool), st.data())
def test_two_spellings_of_a_chunk_are_refused(grid_shape: Index, data: st.DataObject) -> None:
    index = data.draw(st.sampled_from(all_indices(grid_shape)))
    spellings = [spelling(index, own) for own in data.draw(st.permutations([True, False]))]
    document = json.dumps({key: {"path": "f"} for key in spellings}).encode()
    with pytest.raises(zm.errors.InvalidChunkKeyError, match="same chunk") as raised:
        interpreted(
            document,
            len(grid_shape),
            grid_shape,
            parse_key=lambda key: parse_relative(key, len(grid_shape), "default", "/"),
        )
    assert raised.value.code == "invalid_chunk_key"
    assert all(repr(key) in str(raised.value) for key in spellings)
    assert "line 1, column" in str(raised.value)


@pytest.mark.parametrize(("key", "ndim"), [("0", 2), ("1", 0)])
@pytest.mark.parametrize("others", [False, True])
def test_the_error_names_what_is_not_a_chunk_key(key: str, ndim: int, others: bool) -> None:
    document: dict[str, Any] = {format_canonical((0,) * ndim): {"path": "f"}} if others else {}
    text = json.dumps({**document, key: {"path": "g"}}).encode()
    with pytest.raises(
        zm.errors.InvalidChunkKeyError, match="not a chunk key of this array"
    ) as raised:
        Manifest.loads(text, ndim=ndim)
    assert "line 1, column" in str(raised.value)
    assert repr(format_canonical((0,) * ndim)) in str(raised.value)


@given(manifests(), st.data())
def test_a_region_of_the_grid(
    case: tuple[Index, dict[Index, dict[str, Any]]], data: st.DataObject
) -> None:
    """Documents of partitions are numbered in the whole grid, wherever they lie in it."""
    grid_shape, entries = case
    region = []
    for n in grid_shape:
        first = data.draw(st.integers(0, n - 1))
        region.append(range(first, data.draw(st.integers(first + 1, n))))
    inside = {
        index: entry
        for index, entry in entries.items()
        if all(i in axis for i, axis in zip(index, region, strict=True))
    }
    document = json.dumps({format_canonical(i): e for i, e in inside.items()}).encode()
    manifest = interpreted(document, len(grid_shape), grid_shape, region=region)
    whole = Manifest.loads(document, grid_shape=grid_shape)
    assert list(manifest) == sorted(inside)
    assert dict(manifest.items()) == dict(whole.items())
    assert all((manifest.get(i) is None) == (i not in inside) for i in all_indices(grid_shape))
    for index in entries.keys() - inside.keys():
        key = format_canonical(index)
        document = json.dumps({key: entries[index]}).encode()
        with pytest.raises(zm.errors.InvalidChunkKeyError, match="another partition") as raised:
            interpreted(document, len(grid_shape), grid_shape, region=region)
        assert raised.value.chunk == key


@pytest.mark.parametrize("digits", [15, 16])
def test_largest_coordinates(digits: int) -> None:
    key = str(min(10**digits - 1, 2**53 - 1))
    manifest = Manifest.loads(json.dumps({key: {"path": "f"}, "2": {}}).encode(), ndim=1)
    assert list(manifest) == [(2,), (int(key),)]


def test_grid_of_too_many_chunks() -> None:
    with pytest.raises(zm.errors.LimitExceededError, match="chunk grid is too large") as raised:
        Manifest.loads(b"{}", grid_shape=(2**40, 2**40))
    assert raised.value.code == "limit_exceeded"


def test_neither_ndim_nor_grid_shape() -> None:
    with pytest.raises(TypeError, match="ndim"):
        Manifest.loads(b"{}")


def test_limits_are_passed_on() -> None:
    with pytest.raises(zm.errors.LimitExceededError):
        Manifest.loads(b'{"0": {}}', ndim=1, limits=zm.Limits(entries=0))


@pytest.mark.parametrize("grid_shape", [(), (3,), (0,), (2, 0)])
def test_empty_manifest(grid_shape: Index) -> None:
    manifest = Manifest.loads(b"{}", grid_shape=grid_shape)
    assert len(manifest) == 0
    assert manifest.paths == ()
    assert manifest.stated_bytes == 0
    assert list(manifest) == []
    assert references_of(manifest).statistics() == []
    assert manifest.get((0,) * len(grid_shape)) is None


def test_array_without_elements_ignores_every_entry() -> None:
    assert len(Manifest.loads(b'{"0.0": {"path": "f"}}', grid_shape=(2, 0))) == 0


@pytest.mark.parametrize("key", ["0", "c"])
@pytest.mark.parametrize("given_grid", [True, False])
def test_zero_dimensional(key: str, given_grid: bool) -> None:
    manifest = interpreted(
        json.dumps({key: {"path": "f", "offset": 3, "length": 8}}).encode(),
        0,
        () if given_grid else None,
        parse_key=lambda text: parse_relative(text, 0, "default", "/"),
    )
    assert manifest.grid_shape == ()
    assert list(manifest) == [()]
    assert manifest[()] == Reference("f", 3, 8)


@pytest.mark.slow
def test_memory_per_reference_of_some_chunks() -> None:
    """Of all chunks, it is a column less: ``test_scanner.py`` measures that."""
    count, every = 100_000, 2
    paths = [f"s3://bucket/{n}.nc" for n in range(10)]
    document = json.dumps(
        {
            f"{n // 500}.{n % 500}": {"path": paths[n % 10], "offset": n * 64, "length": 64}
            for n in range(0, count * every, every)
        }
    ).encode()
    manifest = Manifest.loads(document, grid_shape=(count * every // 500, 500))
    assert len(manifest) == count
    assert references_of(manifest).nbytes / len(manifest) <= 24
    assert len(manifest.paths) == 10 // every
    rows = np.random.default_rng(0).integers(0, count, 200)
    for n in (rows * every).tolist():
        reference = manifest[n // 500, n % 500]
        assert (reference.path, reference.offset, reference.length) == (
            paths[n % 10],
            n * 64,
            64,
        )


@pytest.mark.parametrize("key", ["0", 5, (0, 1), (), (0.5,), (7,), (-1,), None, ("0",)])
def test_what_is_not_the_index_of_a_chunk_is_not_in_a_manifest(key: Any) -> None:
    manifest = Manifest.loads(b'{"0": {"path": "f"}}', grid_shape=(2,))
    assert key not in manifest
    assert manifest.get(key) is None
    with pytest.raises(KeyError):
        manifest[key]
    assert (0,) in manifest
    assert (np.int64(0),) in manifest


def test_manifests_of_other_chunk_grids_are_not_equal() -> None:
    body = b'{"0": {"path": "f"}}'
    assert Manifest.loads(body, grid_shape=(2,)) == Manifest.loads(body, grid_shape=(2,))
    assert Manifest.loads(body, grid_shape=(2,)) != Manifest.loads(body, grid_shape=(3,))


# dumps ------------------------------------------------------------------------------


@pytest.mark.slow
@given(manifests(), st.randoms())
def test_dumps_undoes_loads(case: tuple[Index, dict[Index, dict[str, Any]]], random: Any) -> None:
    grid_shape, entries = case
    shuffled = list(entries.items())
    random.shuffle(shuffled)
    documents = [
        json.dumps({format_canonical(i): entry for i, entry in items}, indent=indent).encode()
        for items, indent in ((entries.items(), None), (shuffled, 2))
    ]
    manifest, other = (zm.Manifest.loads(text, grid_shape=grid_shape) for text in documents)
    dumped = manifest.dumps()
    assert dumped == other.dumps()
    again = zm.Manifest.loads(dumped, grid_shape=grid_shape)
    assert again.dumps() == dumped
    assert dict(again.items()) == dict(manifest.items())
    assert again.paths == manifest.paths
    assert list(json.loads(dumped)) == [format_canonical(index) for index in sorted(entries)]
    assert len(dumped.splitlines()) == (len(entries) + 2 if entries else 1)


def test_dumps_keeps_what_an_entry_says() -> None:
    entry = {
        "path": "ü%20 .nc",
        "offset": 0,
        "length": 3,
        "checksum": "crc32c:00000000",
        "etag": '"x"',
        "last_modified": "2024-01-31T14:00:00.500+02:00",
        "version": "v",
    }
    dumped = zm.Manifest.loads(json.dumps({"0": entry}).encode(), ndim=1).dumps()
    assert json.loads(dumped) == {"0": {**entry, "last_modified": "2024-01-31T12:00:00.500000Z"}}
    assert "ü" in dumped.decode()


@pytest.mark.parametrize("entry", [{"path": "f"}, {"path": "f", "offset": 3}, {"data": "AA=="}, {}])
def test_dumps_adds_nothing(entry: dict[str, Any]) -> None:
    dumped = zm.Manifest.loads(json.dumps({"0": entry}).encode(), ndim=1).dumps()
    assert json.loads(dumped) == {"0": entry}
