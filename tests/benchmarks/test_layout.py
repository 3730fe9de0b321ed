"""The one table: three digits, a row for each quantity, and a note for each reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cases
from benchmarks.cases import CPU_SECONDS, PEAK, Case
from benchmarks.effort import Effort
from benchmarks.layout import Table, number, tabulate
from benchmarks.results import Results

CASE = Case(
    "O1", "open", (CPU_SECONDS, PEAK), lambda _: {}, (cases.US,), {cases.FLOOR: "no document"}
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (0.000048, "0.000048"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (99.96, "100"),
        (740.4, "740"),
        (12345, "12,345"),
        (-31.94, "-31.9"),
    ],
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(1e-6, 1e9))
def test_numbers_are_right_to_half_a_per_cent(value: float) -> None:
    shown = number(value)
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=0.0051)
    assert "e" not in shown


def test_every_quantity_is_a_row_in_its_own_unit() -> None:
    results = Results(Effort())
    results.add("O1", cases.US, {"cpu": 0.5, "peak": 3e6, "wall": 9.0})
    table = tabulate([CASE], results)
    ours = 2 + cases.COLUMNS.index(cases.US)
    assert [(row[0], row[1], row[ours]) for row in table.rows] == [
        ("open", "CPU s", "0.500"),
        ("open", "MB peak", "3.00"),
    ]


def test_reasons_are_notes_and_each_is_said_once() -> None:
    results = Results(Effort())
    results.explain_absent(CASE)
    results.explain("O1", cases.ICECHUNK, "not installed: icechunk")
    results.explain("O1", cases.VIRTUALIZARR, "no document")
    table = tabulate([CASE], results)
    assert table.notes == ["not installed: icechunk", "no document"]
    cells = dict(zip(("work", "", *cases.COLUMNS), table.rows[0], strict=True))
    assert cells[cases.ICECHUNK] == "[1]"
    assert cells[cases.VIRTUALIZARR] == cells[cases.FLOOR] == "[2]"
    assert table.text().splitlines()[-1] == "[2] no document"


names = st.text(st.characters(categories=["L", "N"], include_characters=" "), max_size=9)


@pytest.mark.slow
@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=5))
def test_text_and_markdown_have_the_same_cells(rows: list[tuple[str, str, str]]) -> None:
    table = Table(("a", "b", "c"))
    for row in rows:
        table.add(*row)
    lines = table.markdown().splitlines()
    assert [tuple(re.split(r" ?\| ?", line)[1:-1]) for line in lines[2:]] == [
        tuple(re.split(r" ?\| ?", f"| {' | '.join(row)} |")[1:-1]) for row in rows
    ]
    ends = {len(line.rstrip()) for line in table.text().splitlines()}
    widths = [max(map(len, column)) for column in zip(("a", "b", "c"), *rows, strict=True)]
    assert max(ends) <= sum(widths) + 4
