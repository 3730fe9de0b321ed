"""Whether two answers to a question are the same as far as the specification settles it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.fuzzer.questions import Question

__all__ = ["Comparison", "Problems", "compare", "compare_problems", "problems_of"]

type Answer = Mapping[str, Any]

# Codes that validators report, by array.
type Problems = Mapping[str, frozenset[tuple[str, str | None]]]

_OF_THE_LIBRARY = "zarr_error"
_LIMITS = "limits at any point"


@dataclass(frozen=True)
class Comparison:
    """What came of a question.

    Attributes
    ----------
    outcome : str
        ``same values``, ``same error``, ``same problems``, ``allowed`` or ``different``.
    reason : str
        Why they may differ.
    """

    outcome: str
    reason: str = ""


def problems_of(answer: Answer) -> Problems:
    """Return what a validator found, by array: code and chunk of each problem."""
    found: dict[str, set[tuple[str, str | None]]] = {}
    for problem in answer.get("problems", ()):
        found.setdefault(problem["array"] or "", set()).add((problem["code"], problem["chunk"]))
    return {array: frozenset(problems) for array, problems in found.items()}


def compare(
    question: Question, answers: Sequence[Answer], problems: Collection[tuple[str, str | None]]
) -> Comparison:
    """Compare the two answers to a question.

    Parameters
    ----------
    question : Question
        What was asked.
    answers : sequence of mapping
        Two answers of the protocol.
    problems : collection
        What a validator found in the array.
    """
    accepting = [answer for answer in answers if answer["ok"]]
    if len(accepting) == len(answers):
        first, second = ({**answer, "id": None} for answer in answers)
        return Comparison("same values" if first == second else "different")
    if accepting:
        reasons = sorted(question.leeway)
        if any(not answer["ok"] and _is_of_the_library(answer["error"]) for answer in answers):
            reasons.append("codecs of the Zarr library")
    else:
        errors = [answer["error"] for answer in answers]
        if _same_error(*errors):
            return Comparison("same error")
        reasons = [*_why_errors_may_differ(question, errors, problems), *sorted(question.leeway)]
    return Comparison("allowed", reasons[0]) if reasons else Comparison("different")


def compare_problems(
    first: Collection[tuple[str, str | None]], second: Collection[tuple[str, str | None]]
) -> Comparison:
    """Compare what two validators found in an array."""
    if set(first) == set(second):
        return Comparison("same problems")
    if any(code == "limit_exceeded" for code, _ in (*first, *second)):
        return Comparison("allowed", _LIMITS)
    return Comparison("different")


def _is_of_the_library(error: Answer) -> bool:
    return bool(error["code"] == _OF_THE_LIBRARY)


def _same_error(first: Answer, second: Answer) -> bool:
    # What the Zarr library refuses has no phase.
    same_phase = first["phase"] == second["phase"] or _is_of_the_library(first)
    return bool(first["code"] == second["code"] and same_phase)


def _why_errors_may_differ(
    question: Question, errors: Sequence[Answer], problems: Collection[tuple[str, str | None]]
) -> Iterator[str]:
    """Yield the reasons why two refusals may name different problems ("Precedence")."""
    if len(problems) > 1:
        yield "several problems"
    if any(error["code"] == "limit_exceeded" for error in errors):
        yield _LIMITS
    if question.request["op"] == "read" and all(
        error["phase"] == "chunk" or _is_of_the_library(error) for error in errors
    ):
        yield "several chunks fail"
