"""Rows of a table by block of the chunk grid."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.format import Partitions, grid_index
from zarr_manifest.manifest.block_rows import rows_of_blocks


@st.composite
def partitioned(draw: st.DrawFn) -> Partitions:
    grid_shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    shape = tuple(draw(st.sampled_from([1, 2, n, n + 1, 2**53 - 1])) for n in grid_shape)
    return Partitions(grid_shape, shape)


@given(partitioned(), st.data(), st.integers(1, 9), st.booleans())
def test_every_row_is_in_the_block_of_its_chunk(
    partitions: Partitions, data: st.DataObject, at_once: int, first_ones: bool
) -> None:
    grid_shape = partitions.grid_shape
    total = math.prod(grid_shape)
    if first_ones:
        chosen, numbers = list(range(data.draw(st.integers(0, total)))), None
    else:
        chosen = sorted(data.draw(st.sets(st.integers(0, total - 1))))
        numbers = np.array(chosen, np.int64)
    expected: dict[tuple[int, ...], list[int]] = {}
    for row, number in enumerate(chosen):
        expected.setdefault(partitions.owner(grid_index(grid_shape, number)), []).append(row)
    found = [
        (index, np.arange(len(chosen))[rows].tolist())
        for index, rows in rows_of_blocks(numbers, len(chosen), partitions, at_once=at_once)
    ]
    assert found == sorted(expected.items())


@pytest.mark.parametrize(
    ("grid_shape", "shape"),
    [((10**9, 10**9), (10, 10)), ((10**9, 10**9), (10**9, 1)), ((1, 10**18), (1, 2))],
)
def test_blocks_without_rows_cost_nothing(
    grid_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    numbers = np.array([0, 1, 10**17], np.int64)
    blocks = [*rows_of_blocks(numbers, 3, Partitions(grid_shape, shape))]
    assert 2 <= len(blocks) <= 3
    assert len([*rows_of_blocks(None, 3, Partitions(grid_shape, shape))]) in (1, 2, 3)


@pytest.mark.parametrize(
    ("shape", "most"), [((10, 1000), 2), ((1000, 10), 8), ((2, 500), 2), ((10**6, 7), 8)]
)
def test_memory_beyond_the_columns(shape: tuple[int, int], most: float) -> None:
    """At most an index of few bytes a row, and only for blocks that lie across most rows."""
    numbers = np.arange(0, 10**6, 2)[1:]
    tracemalloc.start()
    try:
        blocks = 0
        for _ in rows_of_blocks(numbers, len(numbers), Partitions((1000, 1000), shape)):
            blocks += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert blocks > 10
    assert peak < most * len(numbers) + 40 * 2**16
