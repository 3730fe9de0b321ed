"""The chunk grid: every element is in one chunk, and zarr counts the same chunks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.format import ChunkGrid

SIZES = st.integers(0, 9)


def regular(shape: Any, chunk_shape: Any) -> dict[str, Any]:
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk_shape}}
    return {"shape": shape, "chunk_grid": grid}


def rectilinear(shape: Any, chunk_shapes: Any) -> dict[str, Any]:
    configuration = {"kind": "inline", "chunk_shapes": chunk_shapes}
    return {
        "shape": shape,
        "chunk_grid": {"name": "rectilinear", "configuration": configuration},
    }


def run_length_encoded(lengths: list[int]) -> list[Any]:
    """Chunk lengths as pairs of length and repetition, where they repeat."""
    runs = [(length, len(list(run))) for length, run in itertools.groupby(lengths)]
    return [length if n == 1 else [length, n] for length, n in runs]


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    """Metadata of a grid of any kind."""
    shape = draw(st.lists(SIZES, max_size=3))
    if draw(st.booleans()):
        return regular(shape, [draw(st.integers(1, 6)) for _ in shape])
    chunk_shapes: list[Any] = []
    for size in shape:
        if draw(st.booleans()):
            chunk_shapes.append(draw(st.integers(1, 6)))
        else:
            cuts = sorted(draw(st.sets(st.integers(1, 8), max_size=3)))
            edges = [0, *(cut for cut in cuts if cut < size), *([size] if size else [])]
            lengths = [b - a for a, b in itertools.pairwise(edges)]
            chunk_shapes.append(run_length_encoded(lengths) if draw(st.booleans()) else lengths)
    return rectilinear(shape, chunk_shapes)


@pytest.mark.slow
@given(grids())
def test_chunks_partition_the_array(metadata: dict[str, Any]) -> None:
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None
    times = np.zeros(metadata["shape"], int)
    for index in np.ndindex(*grid.counts):
        part = times[grid.region(index)]
        assert part.size
        times[grid.region(index)] += 1
    np.testing.assert_array_equal(times, 1)


@given(grids())
def test_indices_of_chunks(metadata: dict[str, Any]) -> None:
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None
    beyond = np.ndindex(*(n + 1 for n in grid.counts))
    assert [index for index in beyond if grid.contains(index)] == list(np.ndindex(*grid.counts))


def test_zero_dimensions() -> None:
    grid = ChunkGrid.from_metadata(regular([], []))
    assert grid is not None
    assert grid.counts == ()
    assert grid.region(()) == ()


def test_last_chunk_of_a_rectilinear_grid_may_stick_out() -> None:
    grid = ChunkGrid.from_metadata(rectilinear([5], [[3, 4]]))
    assert grid is not None
    assert grid.counts == (2,)
    assert grid.region((1,)) == (slice(3, 5),)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"shape": [3]},
        {"shape": None, "chunk_grid": {}},
        {"shape": [3], "chunk_grid": "regular"},
        {"shape": [3], "chunk_grid": None},
        {"shape": [3], "chunk_grid": {"name": "regular"}},
        {"shape": [3], "chunk_grid": {"name": "hexagonal", "configuration": {}}},
        regular(["x"], [1]),
        regular([3], [0]),
        regular([3], [-1]),
        regular([3], [1, 1]),
        regular([3], None),
        regular([3], [None]),
        rectilinear([3], [[1, 2], [3]]),
        rectilinear([3], [["a"]]),
        rectilinear([3], [[[1, 2, 3]]]),
        rectilinear([3], [0]),
        rectilinear([3], [None]),
        rectilinear([3], None),
    ],
)
def test_unknown_or_invalid_grid(metadata: dict[str, Any]) -> None:
    assert ChunkGrid.from_metadata(metadata) is None
