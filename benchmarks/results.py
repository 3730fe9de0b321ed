"""What was measured, by case and column: numbers, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.cases import Case
from benchmarks.measuring import Measured, least


@dataclass
class Results:
    """The numbers of all cells; measuring again keeps the least."""

    numbers: dict[tuple[str, str], Measured] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, case: str, column: str, measured: Mapping[str, float]) -> None:
        earlier = self.numbers.get((case, column), {})
        self.numbers[case, column] = least([earlier, measured])

    def explain(self, case: str, column: str, reason: str) -> None:
        """Say why a column cannot do a case."""
        self.reasons[case, column] = reason

    def fail(self, case: str, column: str, error: str) -> None:
        """Take down that a column failed, which no run should see."""
        self.failures.append(f"{column}, {case}: {error}")
        self.explain(case, column, f"failed: {error}")

    def explain_absent(self, case: Case) -> None:
        for column, reason in case.reasons.items():
            self.explain(case.name, column, reason)

    def value(self, case: str, column: str, quantity: str) -> float | None:
        """Return a number, or None if it was not measured."""
        return self.numbers.get((case, column), {}).get(quantity)
