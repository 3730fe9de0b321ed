"""The array in most cases: ``a``, four numbers in two chunks, in one source.

The source holds more than the chunks, so that a reader that takes the wrong bytes is noticed;
the values never equal the fill value, so that one that returns fill values is noticed too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, problem

__all__ = ["ARRAY", "ENTRIES", "SOURCE", "refused_and_reported", "standard", "with_source"]

ARRAY = Array()
ENTRIES, SOURCE = ARRAY.lay_out("data.bin")


def with_source(case: Case, manifest: Any, **declared: Any) -> Case:
    """Add the array with its own manifest, and its source beside it."""
    return case.array(array=ARRAY, manifest=manifest, **declared).put("a/data.bin", SOURCE)


def standard(
    id: str, section: str, description: str, *, manifest: Any = ENTRIES, **options: Any
) -> Case:
    """Make a case with the standard array and this manifest."""
    return with_source(Case(id, section, description, **options), manifest)


def refused_and_reported(
    id: str,
    section: str,
    description: str,
    code: str,
    *,
    manifest: Any = ENTRIES,
    declared: dict[str, Any] | None = None,
    phase: str = "manifest",
    reported: bool = True,
    chunk: str | None = None,
    needs: Sequence[str] = (),
) -> list[Case]:
    """Make a case that must fail and, if `reported`, one that a validator must report.

    `chunk` is what the problem names: the member as its document writes it, or None for a problem
    of the document or the declaration.
    """
    declared = declared or {}
    read = with_source(Case(id, section, description, needs=needs), manifest, **declared)
    cases = [read.refuses(code, phase)]
    if reported:
        says = f"A validator reports `{code}` for the array. {description}"
        validate = Case(f"{id}-validate", "conformance-classes", says, needs=needs)
        cases.append(with_source(validate, manifest, **declared).reports(problem(code, chunk)))
    return cases
