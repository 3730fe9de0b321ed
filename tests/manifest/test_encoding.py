"""Documents written from columns: the same bytes as entry by entry."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifest.one_by_one import encode_document
from zarr_manifest.format import LARGEST_INTEGER, Conditions, format_canonical, grid_index
from zarr_manifest.manifest import (
    EMPTY,
    INLINE,
    TO_THE_END,
    ChunkNumbers,
    Extras,
    Manifest,
    NumberedPaths,
    References,
    TextColumns,
    entry_of,
)

# As long as a number may be, and as short.
NUMBER = st.integers(0, LARGEST_INTEGER) | st.integers(0, 10**5) | st.sampled_from([0, 9999, 10**4])
TEXT = st.text(max_size=9) | st.text('",\\/\x00\x1f\x7fü€😀', max_size=6)
CONDITIONS = st.builds(
    Conditions, etag=st.none() | TEXT, last_modified=st.none(), version=st.none() | TEXT
)
CHECKSUM = st.sampled_from([None, "md5:" + "0" * 32, "x" * 600])
EXTRAS = st.builds(Extras, data=st.none(), checksum=CHECKSUM, conditions=CONDITIONS)
INSIDE = st.tuples(st.integers(0, 2), st.integers(0, 10**9), st.integers(0, 8))
GRID = (3, 10**9 + 1, 9)


@st.composite
def tables(draw: st.DrawFn) -> References:
    """References of every kind, even those that no reader accepts."""
    chunks = sorted(draw(st.sets(INSIDE, max_size=12)))
    paths = draw(st.lists(TEXT | st.just("long/" * 200), min_size=1, max_size=4, unique=True))
    kind = st.integers(0, len(paths) - 1) | st.sampled_from([EMPTY, INLINE])
    kinds = [draw(kind) for _ in chunks]
    numbers = [(i * GRID[1] + j) * GRID[2] + k for i, j, k in chunks]
    lengths = [draw(NUMBER | st.just(TO_THE_END)) if kind >= 0 else TO_THE_END for kind in kinds]
    extras: dict[int, Extras] = {}
    shared = draw(EXTRAS)
    for row, number in enumerate(kinds):
        if number == INLINE:
            extras[row] = Extras(draw(st.binary(min_size=1)), draw(st.none() | st.just("md5:0")))
        elif number >= 0 and draw(st.booleans()):
            extras[row] = draw(st.just(shared) | EXTRAS)
    return References(
        GRID,
        ChunkNumbers.of(np.array(numbers, np.int64)),
        np.array([draw(NUMBER) if kind >= 0 else 0 for kind in kinds], np.int64),
        np.array(lengths, np.int64),
        np.array(kinds, np.int32),
        tuple(paths),
        extras,
    )


@pytest.mark.slow
@given(tables(), st.integers(1, 5))
def test_the_bytes_are_those_of_entries_one_by_one(table: References, at_once: int) -> None:
    entries = ((format_canonical(i), entry_of(table.reference(row))) for i, row in table.items())
    expected = encode_document(entries)
    assert table.dumps() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.manifest.encoding._BATCH_SIZE", at_once)
        patch.setattr("zarr_manifest.manifest.encoding._FEW", 0)
        assert table.dumps() == expected


@given(st.lists(st.tuples(NUMBER, st.booleans(), st.sampled_from(["", "a", "bcd"])), min_size=1))
def test_lines_of_numbers_and_texts(values: list[tuple[int, bool, str]]) -> None:
    lines = TextColumns(len(values))
    where = np.array([shown for _, shown, _ in values])
    table = sorted({text for *_, text in values})
    lines.constant(b"<")
    lines.numbers(np.array([number for number, *_ in values]), where)
    lines.constant(b"|", where)
    lines.constant(b"")
    lines.texts([text.encode() for text in table], np.array([table.index(v[2]) for v in values]))
    lines.constant(b">")
    expected = "".join(f"<{f'{n}|' if shown else ''}{text}>" for n, shown, text in values)
    assert lines.text() == expected.encode()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_texts_that_many_lines_share(runs: list[tuple[int, int, int]]) -> None:
    table = [b"", b"a", b"b", b"c" * 600]
    first, second = (np.repeat([run[n] for run in runs], [run[0] for run in runs]) for n in (1, 2))
    lines = TextColumns(len(first))
    for numbers in (first, second):
        lines.texts(table, numbers)
        lines.constant(b"|")
        lines.numbers(np.arange(len(first)))
    expected = zip(first.tolist(), second.tolist(), strict=True)
    assert lines.text() == b"".join(
        b"%b|%d%b|%d" % (table[one], row, table[other], row)
        for row, (one, other) in enumerate(expected)
    )


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["plain", "conditions", "empty"])
def test_no_python_call_for_each_reference(columns: str) -> None:
    """A guard of speed that does not depend on the machine."""
    count = 50_000
    numbers = np.arange(count)
    options: dict[str, Any] = {
        "paths": NumberedPaths((numbers // 100).astype(np.int32), [f"{n}.nc" for n in range(500)]),
        "offsets": numbers * 1000,
        "lengths": numbers + 1,
    }
    if columns == "conditions":
        options["conditions"] = {f"{n}.nc": {"etag": f'"{n}"'} for n in range(500)}
    if columns == "empty":
        options["paths"] = ""
        options["empty"] = [grid_index((500, 100), number) for number in range(count)]
    manifest = Manifest.from_columns((500, 100), **options)
    manifest.dumps()  # tables and modules that the first one of a process needs
    calls = 0

    def count_calls(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_calls)
    try:
        manifest.dumps()
    finally:
        sys.setprofile(None)
    assert calls < count / 10
