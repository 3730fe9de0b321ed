"""The file of known failures: `{"implementation": …, "failures": {case id: reason}}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.runner.errors import UsageError

__all__ = ["Expectations", "load_expectations", "write_expectations"]


@dataclass(frozen=True)
class Expectations:
    """The cases that an implementation is known to fail; `implementation` may be None."""

    implementation: str | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    def check_implementation(self, name: str) -> None:
        """Raise UsageError if these are the expectations of another implementation."""
        if self.implementation not in (None, name):
            raise UsageError(f"the expectations are those of {self.implementation}, not of {name}")

    def unknown(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Report the listed cases that do not exist."""
        return tuple(
            f"the expectations list {name}, which is not a case"
            for name in sorted(self.failures.keys() - set(ids))
        )


def load_expectations(path: Path) -> Expectations:
    """Load an expectations file; raise UsageError if it is invalid."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be loaded: {error}") from error
    if not isinstance(content, dict) or content.keys() != {"implementation", "failures"}:
        raise UsageError(f"{path}: expected an object with implementation and failures")
    name, failures = content["implementation"], content["failures"]
    if (
        not isinstance(name, str)
        or not isinstance(failures, dict)
        or not all(isinstance(reason, str) for reason in failures.values())
    ):
        raise UsageError(f"{path}: implementation and the reasons must be strings")
    return Expectations(name, failures)


def write_expectations(path: Path, implementation: str, failures: Mapping[str, str]) -> None:
    """Write an expectations file, sorted to keep diffs small."""
    content = {"implementation": implementation, "failures": dict(sorted(failures.items()))}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
