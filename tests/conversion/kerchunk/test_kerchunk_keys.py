"""Import of kerchunk's JSON: keys that are those of chunks, of others, and of none."""

from __future__ import annotations

import pytest

from tests.conversion.kerchunk.kerchunk_sets import (
    URL,
    ZGROUP,
    array_node,
    entries,
    nodes,
    one,
    refusal,
    zarray,
)
from zarr_manifest.conversion import RefusedNode


def test_keys_of_no_chunk_are_named() -> None:
    extra = {"a/0.7": URL, "a/2.0": URL, "a/x": URL, "a/0": URL, "a/00.1": "text"}
    node = array_node(one(URL) | extra)
    assert node.notes == (
        "5 references ('x', '0', '00.1', …) are not part of the array, and left out",
    )
    assert len(entries(one(URL) | extra)) == 1


def test_keys_of_no_array_are_refused() -> None:
    found = nodes({".zgroup": ZGROUP, **one(URL), "b/0.0": URL, "b/0.1": URL, "g/c/0": "x"})
    assert found["b"] == RefusedNode(
        "b",
        "not_convertible",
        "2 references ('b/0.0', 'b/0.1') are not part of any array",
    )
    assert found["g/c"].reason == "the reference 'g/c/0' is not part of any array"  # type: ignore[union-attr]


def test_chunk_keys_in_the_other_spelling() -> None:
    references = {"a/.zarray": zarray(), "a/0/1": URL, "a/1/0": "text"}
    assert entries(references) == {(0, 1): ("s3://b/f.nc", 100, 12), (1, 0): b"text"}
    assert array_node(references).notes == (
        "2 chunk keys are written with '/', though the metadata says '.'; they "
        "were read as written",
    )
    # The array's own spelling is the right one.
    both = {**references, "a/0.1": "dots"}
    assert entries(both)[0, 1] == b"dots"
    assert "left out" in array_node(both).notes[-1]
    slashes = {"a/.zarray": zarray(dimension_separator="/"), "a/0/1": "own", "a/0.1": "other"}
    assert entries(slashes) == {(0, 1): b"own"}


@pytest.mark.parametrize(("path", "key"), [("a", "a/"), ("", "")])
def test_the_key_of_a_scalar_without_its_number(path: str, key: str) -> None:
    # As VirtualiZarr writes them: fsspec finds nothing there, and zarr reads the fill value.
    references = {f"{path}/.zarray".strip("/"): zarray(shape=[], chunks=[]), key: URL}
    assert entries(references, path) == {(): ("s3://b/f.nc", 100, 12)}
    assert (
        f"the reference {key!r} was taken to be its chunk" in array_node(references, path).notes[0]
    )
    # Where the right one is there, too, it is right.
    both = references | {key.rstrip("/") + "/0" if key else "0": "text"}
    assert entries(both, path) == {(): b"text"}
    assert "left out" in array_node(both, path).notes[0]


def test_an_array_none_of_whose_references_is_a_chunk_is_refused() -> None:
    # As kerchunk writes small GRIB messages of two dimensions.
    assert refusal({"a/.zarray": zarray(), "a/0": "text"}).reason == (
        "the reference '0' is not part of the array, and there are no others: all would be fill "
        "values"
    )
    empty = {"a/.zarray": zarray(shape=[0, 6]), "a/0": "text"}
    assert entries(empty) == {}
    assert "left out" in array_node(empty).notes[0]
