"""The one table, as text for a terminal or as Markdown; reasons become numbered notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.cases import COLUMNS, Case, Quantity
from benchmarks.results import Results


@dataclass
class Table:
    """Column names, and rows of text; `left` columns are aligned to the left."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: int = 1
    title: str = ""

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def text(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            "  ".join(
                cell.ljust(width) if number < self.left else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*filter(None, [self.title]), *aligned, *self._numbered(" ")])

    def markdown(self) -> str:
        rules = [":--" if number < self.left else "--:" for number, _ in enumerate(self.columns)]
        lines = [f"| {' | '.join(line)} |" for line in (self.columns, rules, *self.rows)]
        notes = self._numbered(" ")
        return "\n".join([*lines, *(["", *_as_items(notes)] if notes else [])])

    def _numbered(self, separator: str) -> list[str]:
        return [f"[{number}]{separator}{note}" for number, note in enumerate(self.notes, 1)]


def _as_items(notes: Iterable[str]) -> Iterable[str]:
    return (f"- {note}" for note in notes)


def tabulate(cases: Sequence[Case], results: Results) -> Table:
    """Return the table of all cases: one row for each quantity."""
    table = Table(("work", "", *COLUMNS), left=2)
    for case in cases:
        for quantity in case.quantities:
            cells = (_cell(table, case, quantity, column, results) for column in COLUMNS)
            table.add(case.title, quantity.unit, *cells)
    return table


def _cell(table: Table, case: Case, quantity: Quantity, column: str, results: Results) -> str:
    value = results.value(case.name, column, quantity.name)
    if value is not None:
        return number(value * quantity.scale)
    reason = results.reason(case.name, column)
    if reason is None:
        return ""
    if reason not in table.notes:
        table.notes.append(reason)
    return f"[{table.notes.index(reason) + 1}]"


def number(value: float) -> str:
    """Return three significant digits at most, and no exponent: 0.0123, 1.23, 740, 12,300."""
    if value == 0:
        return "0"
    digits = max(0, 2 - _exponent(value))
    digits = max(0, 2 - _exponent(round(value, digits)))  # 99.96 has one digit more as 100
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if digits > 3 else shown


def _exponent(value: float) -> int:
    return int(f"{abs(value):e}".split("e")[1])
