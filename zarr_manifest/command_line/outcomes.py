"""The outcome of a conversion, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from zarr_manifest.command_line.tasks import PROBLEMS, Outcome
from zarr_manifest.command_line.wording import command, spelled
from zarr_manifest.conversion import ConversionReport, RefusedNode
from zarr_manifest.showing import counted, note_lines, size


def refusals(refused: Iterable[RefusedNode]) -> list[dict[str, Any]]:
    """Return the refused nodes as JSON values."""
    return [
        {"path": node.path, "code": node.code, "reason": spelled(node.reason)} for node in refused
    ]


def noted(notes: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return notes as JSON values."""
    return [{"path": path, "note": spelled(note)} for path, note in notes]


def hierarchy_outcome(hierarchy: str, report: ConversionReport, *, allow_refused: bool) -> Outcome:
    """Return the outcome of writing a hierarchy."""
    to_allow = [f"To see what readers must allow: {command('locations', hierarchy)}"]
    return conversion_outcome(
        {"hierarchy": hierarchy}, report, to_allow * bool(report.references), allow_refused
    )


def conversion_outcome(
    target: dict[str, str], report: ConversionReport, advice: Iterable[str], allow_refused: bool
) -> Outcome:
    """Return the outcome of writing a target, which is given as JSON names it."""
    (place,) = target.values()
    document = {
        **target,
        "groups": report.groups,
        "arrays": report.arrays,
        "references": report.references,
        "stated_bytes": report.stated_bytes,
        "refused": refusals(report.refused),
        "notes": noted(report.notes),
    }
    status = PROBLEMS if report.refused and not allow_refused else 0
    lines = [f"{place}: {_summary(report)}", *advice]
    return Outcome(document, lines, list(remarks(report.notes, report.refused)), status)


def _summary(report: ConversionReport) -> str:
    counts = {"group": report.groups, "array": report.arrays, "reference": report.references}
    summary = ", ".join(counted(number, noun) for noun, number in counts.items())
    return f"{summary} to {size(report.stated_bytes)}" if report.stated_bytes else summary


def remarks(notes: Iterable[tuple[str, str]], refused: Iterable[RefusedNode]) -> Iterator[str]:
    """Return the lines about notes and refusals."""
    for line in note_lines((path, spelled(note)) for path, note in notes):
        yield f"note: {line}"
    for node in refused:
        yield f"refused: /{node.path}: {node.code}: {spelled(node.reason)}"
