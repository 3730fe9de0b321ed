"""What was measured, by case and column: numbers, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from benchmarks.cases import Case
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, least


@dataclass
class Results:
    """The numbers of all cells; measuring again keeps the least.

    Attributes
    ----------
    effort
        How much data were used.
    machine
        Where: lines of text.
    numbers, reasons
        By case, then by column.
    failures
        What failed, which no run should see.
    """

    effort: Effort
    machine: list[str] = field(default_factory=list)
    numbers: dict[str, dict[str, Measured]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, case: str, column: str, measured: Mapping[str, float]) -> None:
        cells = self.numbers.setdefault(case, {})
        cells[column] = least([cells.get(column, {}), measured])

    def explain(self, case: str, column: str, reason: str) -> None:
        """Say why a column cannot do a case."""
        self.reasons.setdefault(case, {})[column] = reason

    def fail(self, case: str, column: str, error: str) -> None:
        self.failures.append(f"{column}, {case}: {error}")
        self.explain(case, column, f"failed: {error}")

    def explain_absent(self, case: Case) -> None:
        for column, reason in case.reasons.items():
            self.explain(case.name, column, reason)

    def value(self, case: str, column: str, quantity: str) -> float | None:
        """Return a number, or None if it was not measured."""
        return self.numbers.get(case, {}).get(column, {}).get(quantity)

    def reason(self, case: str, column: str) -> str | None:
        return self.reasons.get(case, {}).get(column)

    def save(self, path: Path) -> None:
        """Write all of it as JSON."""
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(self))))

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what was saved."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
