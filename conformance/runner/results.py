"""The outcome of a run: the result of each case, judged by the expectations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from conformance.runner.cases import CLASSES, Case
from conformance.runner.expectations import Expectations

__all__ = ["Outcome", "Report", "Result", "Verdict", "as_json", "counts", "judge"]


class Outcome(StrEnum):
    """How a result counts. The last two fail the run."""

    PASSED = "passed"
    KNOWN = "known"  # a failure that the expectations list
    ADVISORY = "advisory"  # a failure of a case that says `should` or `may`
    SKIPPED = "skipped"
    FAILED = "failed"
    UNEXPECTED_PASS = "unexpected_pass"

    @property
    def fails_run(self) -> bool:
        """Whether one such result is enough to fail the run."""
        return self in (Outcome.FAILED, Outcome.UNEXPECTED_PASS)


@dataclass(frozen=True)
class Verdict:
    """What happened when a case was run; no message means that it passed.

    `message` is the same in every run, `details` are not. `trace` has the requests and the answers,
    and `kept` is where they and the files of the case are, if that was asked for.
    """

    message: str = ""
    details: str = ""
    skipped: bool = False
    trace: tuple[str, ...] = ()
    kept: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """A case, its verdict, and how that counts."""

    case: Case
    verdict: Verdict
    outcome: Outcome
    reason: str = ""  # why a failure is known

    @property
    def passed(self) -> bool:
        """Whether the case ran and its expectations were met."""
        return not self.verdict.message and not self.verdict.skipped


@dataclass(frozen=True)
class Report:
    """All results of a run, and problems of the expectations themselves."""

    implementation: str
    version: str
    features: tuple[str, ...]
    corpus_digest: str
    results: tuple[Result, ...]
    problems: tuple[str, ...] = field(default=())
    whole_classes: frozenset[str] = frozenset(CLASSES)  # of which all cases were selected

    @property
    def areas(self) -> dict[str, list[Result]]:
        """The results by area, in the order of the corpus."""
        areas: dict[str, list[Result]] = {}
        for result in self.results:
            areas.setdefault(result.case.area, []).append(result)
        return areas

    @property
    def classes(self) -> dict[str, list[Result]]:
        """The results by conformance class."""
        classes = {name: [r for r in self.results if r.case.cls == name] for name in CLASSES}
        return {name: results for name, results in classes.items() if results}

    @property
    def held(self) -> tuple[str, ...]:
        """The classes that the implementation has shown to hold: whole ones only."""
        return tuple(
            name
            for name, results in self.classes.items()
            if name in self.whole_classes and CLASSES[name] in self.features and _hold(results)
        )

    @property
    def unexpected(self) -> int:
        """Number of results and problems that fail the run."""
        return len(self.problems) + sum(result.outcome.fails_run for result in self.results)

    @property
    def failures(self) -> dict[str, str]:
        """Case id to message, for each case that failed, known or not."""
        return {
            result.case.id: result.verdict.message
            for result in self.results
            if result.verdict.message and not result.verdict.skipped
        }


def _hold(results: Sequence[Result]) -> bool:
    """Whether at least one case ran, and none that must pass failed, known or not."""
    ran = [result for result in results if not result.verdict.skipped]
    failed = any(result.verdict.message and result.case.level == "must" for result in ran)
    return bool(ran) and not failed


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Count the results by outcome."""
    found = Counter(result.outcome for result in results)
    return {outcome.value: found[outcome] for outcome in Outcome}


def judge(case: Case, verdict: Verdict, expectations: Expectations) -> Result:
    """Decide how a verdict counts."""
    reason = expectations.failures.get(case.id)
    if verdict.skipped:
        outcome = Outcome.SKIPPED
    elif not verdict.message:
        outcome = Outcome.PASSED if reason is None else Outcome.UNEXPECTED_PASS
    elif reason is not None:
        outcome = Outcome.KNOWN
    else:
        outcome = Outcome.FAILED if case.level == "must" else Outcome.ADVISORY
    return Result(case, verdict, outcome, reason or "")


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        "format": 1,
        "implementation": {
            "name": report.implementation,
            "version": report.version,
            "features": list(report.features),
        },
        "corpus_sha256": report.corpus_digest,
        "unexpected": report.unexpected,
        "problems": list(report.problems),
        "summary": counts(report.results),
        "held": list(report.held) if report.whole_classes else None,
        "classes": {name: counts(results) for name, results in report.classes.items()},
        "areas": {area: counts(results) for area, results in report.areas.items()},
        "results": [_result_as_json(result) for result in report.results],
    }


def _result_as_json(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    optional: dict[str, Any] = {
        "message": verdict.message,
        "details": verdict.details,
        "trace": list(verdict.trace),
        "kept": verdict.kept,
        "reason": result.reason,
    }
    return {
        "id": result.case.id,
        "level": result.case.level,
        "class": result.case.cls,
        "outcome": result.outcome.value,
        "seconds": round(verdict.seconds, 3),
    } | {name: value for name, value in optional.items() if value}
