"""Rows of a table by block of the chunk grid."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.format import Partitions, grid_index
from zarr_manifest.manifest import ChunkNumbers
from zarr_manifest.manifest.chunk_numbers import rows_of_blocks


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
        chosen = list(range(data.draw(st.integers(0, total))))
    else:
        chosen = sorted(data.draw(st.sets(st.integers(0, total - 1))))
    chunks = ChunkNumbers.of(np.array(chosen, np.int64))
    expected: dict[tuple[int, ...], list[int]] = {}
    for row, number in enumerate(chosen):
        expected.setdefault(partitions.owner(grid_index(grid_shape, number)), []).append(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.manifest.chunk_numbers._BATCH_SIZE", at_once)
        found = [
            (index, np.arange(len(chosen))[rows].tolist())
            for index, rows in rows_of_blocks(chunks, partitions)
        ]
    assert found == sorted(expected.items())


@pytest.mark.parametrize(
    ("grid_shape", "shape"),
    [((10**9, 10**9), (10, 10)), ((10**9, 10**9), (10**9, 1)), ((1, 10**18), (1, 2))],
)
def test_blocks_without_rows_cost_nothing(
    grid_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    partitions = Partitions(grid_shape, shape)
    blocks = [*rows_of_blocks(ChunkNumbers.of(np.array([0, 1, 10**17])), partitions)]
    assert 2 <= len(blocks) <= 3
    assert len([*rows_of_blocks(ChunkNumbers(0, 3), partitions)]) in (1, 2, 3)


@pytest.mark.parametrize(
    ("shape", "most"), [((10, 1000), 2), ((1000, 10), 8), ((2, 500), 2), ((10**6, 7), 8)]
)
def test_memory_beyond_the_columns(shape: tuple[int, int], most: float) -> None:
    """At most an index of few bytes a row, and only for blocks that lie across most rows."""
    chunks = ChunkNumbers.of(np.arange(0, 10**6, 2)[1:])
    tracemalloc.start()
    try:
        blocks = 0
        for _ in rows_of_blocks(chunks, Partitions((1000, 1000), shape)):
            blocks += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert blocks > 10
    assert peak < most * len(chunks) + 40 * 2**16


NUMBERS = st.one_of(
    st.integers(0, 2**62).map(lambda number: [number]),
    st.tuples(st.integers(0, 2**40), st.integers(0, 9)).map(
        lambda run: list(range(run[0], run[0] + run[1]))
    ),
    st.sets(st.integers(0, 30)).map(sorted),
    st.sets(st.integers(2**33, 2**33 + 2**32 + 2) | st.integers(0, 2**62)).map(sorted),
)


@given(NUMBERS, st.data())
def test_chunks_and_rows(numbers: list[int], data: st.DataObject) -> None:
    chunks = ChunkNumbers.of(np.array(numbers, np.int64))
    assert len(chunks) == len(numbers)
    assert chunks.numbers().tolist() == [chunks.number(row) for row in range(len(numbers))]
    assert chunks.numbers().tolist() == numbers
    asked = data.draw(st.lists(st.integers(0, 2**62) | st.sampled_from([0, *numbers])))
    asked += [number + step for number in numbers for step in (-1, 1)]
    rows = [numbers.index(number) if number in numbers else -1 for number in asked]
    assert chunks.rows_of(np.array(asked, np.int64)).tolist() == rows
    for number, row in zip(asked, rows, strict=True):
        assert chunks.row_of(number) == (None if row < 0 else row)
        assert chunks.rows_through(number) == sum(other <= number for other in numbers)
    if numbers:
        start = data.draw(st.integers(0, len(numbers) - 1))
        some = slice(start, data.draw(st.integers(start + 1, len(numbers))))
        own = data.draw(st.sets(st.integers(0, len(numbers) - 1), min_size=1))
        own_rows = np.array(sorted(own))
        assert chunks.select(some).numbers().tolist() == numbers[some]
        assert chunks.numbers(some).tolist() == numbers[some]
        chosen = chunks.select(own_rows)
        assert chosen.numbers().tolist() == [numbers[row] for row in sorted(own)]
        assert chunks.numbers(own_rows).tolist() == chosen.numbers().tolist()
        assert [chosen.row_of(numbers[row]) for row in sorted(own)] == list(range(len(own)))
    few = len(numbers) < 2 or numbers[-1] - numbers[0] < 2**32
    assert chunks.nbytes <= (4 if few else 8) * len(numbers)
