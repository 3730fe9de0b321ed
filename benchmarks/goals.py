"""Ratios against the goals, each met or not met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.cases import US
from benchmarks.layout import Table, number
from benchmarks.results import Results

MET = "met"
NOT_MET = "not met"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Cell:
    """A number of the results; without a column, it is ours."""

    case: str
    column: str | None
    quantity: str

    def of(self, ours: str, results: Results) -> float | None:
        return results.value(self.case, self.column or ours, self.quantity)


@dataclass(frozen=True)
class Goal:
    """A bound on our number, or on what it is relative to another one.

    Attributes
    ----------
    text
        What is compared, in the words of the table.
    case, quantity
        Ours; the column is given when it is judged.
    to
        The number to divide by, or to subtract; `None` leaves ours as it is.
    at_most
        The bound: of ours divided by the other; if `speedup`, of the other divided by ours, from
        below; if `beyond`, of ours minus the other.
    scale, unit
        How a number that is not a ratio is shown.
    """

    text: str
    case: str
    quantity: str
    bound: float
    to: Cell | None = None
    speedup: bool = False
    beyond: bool = False
    scale: float = 1.0
    unit: str = "x"

    def value(self, column: str, results: Results) -> float | None:
        """Return what is compared with the bound, or None if something was not measured."""
        ours = results.value(self.case, column, self.quantity)
        if ours is None or self.to is None:
            return ours
        other = self.to.of(column, results)
        if other is None:
            return None
        if self.beyond:
            return ours - other
        above, below = (other, ours) if self.speedup else (ours, other)
        return above / below if below else float("inf")

    def verdict(self, column: str, results: Results) -> str:
        value = self.value(column, results)
        if value is None:
            return NOT_MEASURED
        return MET if (value >= self.bound if self.speedup else value <= self.bound) else NOT_MET

    def shown(self, column: str, results: Results) -> str:
        value = self.value(column, results)
        return "" if value is None else f"{number(value * self.scale)} {self.unit}"

    @property
    def bound_shown(self) -> str:
        sign = "≥" if self.speedup else "≤"
        return f"{sign} {number(self.bound * self.scale)} {self.unit}"


def judge(goals: Iterable[Goal], results: Results) -> Table:
    """Return a table of the goals."""
    table = Table(("goal", "bound", US, "verdict"), title="Goals")
    for goal in goals:
        shown, verdict = goal.shown(US, results), goal.verdict(US, results)
        table.add(goal.text, goal.bound_shown, shown, verdict)
    return table
