"""Reports as text, JSON, JUnit XML and badges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from conformance.runner.errors import UsageError
from conformance.runner.results import Outcome, Report, Result, as_json, counts

__all__ = ["badge", "json_text", "junit", "load_report", "printable", "text"]

_LABEL = "chunk-manifest-json"
_HEADINGS = {
    Outcome.FAILED: "FAILED",
    Outcome.UNEXPECTED_PASS: "UNEXPECTED PASS",
    Outcome.ADVISORY: "advisory failure",
}


def text(report: Report) -> str:
    """Return tables by class and by area, and then everything that did not pass as expected."""
    by_area = {**report.areas, "total": list(report.results)}
    width = max(map(len, (*report.classes, *by_area)))
    lines = [f"{report.implementation} {report.version}".rstrip(), ""]
    lines += [*_table("class", report.classes, width), "", *_table("area", by_area, width)]
    if report.whole_classes:
        lines += ["", f"classes held: {', '.join(report.held) or 'none'}"]
    for outcome, heading in _HEADINGS.items():
        for result in report.results:
            if result.outcome is outcome:
                lines += ["", f"{heading} {result.case.id}: {_message(result)}"]
                lines += [f"    {line}" for line in _explained(result)]
    lines += [f"\nFAILED {problem}" for problem in report.problems]
    return printable("\n".join(lines)) + "\n"


def _table(heading: str, groups: Mapping[str, Sequence[Result]], width: int) -> list[str]:
    rows: list[tuple[object, ...]] = [(heading, "passed", "failed", "known", "advisory", "skipped")]
    for name, results in groups.items():
        number = counts(results)
        failed = number["failed"] + number["unexpected_pass"]
        rows.append(
            (name, number["passed"], failed, number["known"], number["advisory"], number["skipped"])
        )
    return [str(row[0]).ljust(width) + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]


def _message(result: Result) -> str:
    if result.outcome is Outcome.UNEXPECTED_PASS:
        return f"the expectations list it as a failure: {result.reason}"
    return result.verdict.message


def _explained(result: Result) -> list[str]:
    """Say what the case tests, why, and where the specification says so."""
    case, verdict = result.case, result.verdict
    kept = [f"kept in {verdict.kept}"] if verdict.kept else []
    return [
        case.description,
        f"specification: {case.section}",
        *verdict.details.splitlines(),
        *verdict.trace,
        *kept,
    ]


def json_text(report: Report) -> str:
    """Return the report as JSON, as `load_report` reads it."""
    return json.dumps(as_json(report), indent=2, ensure_ascii=False) + "\n"


def load_report(path: Path) -> dict[str, Any]:
    """Load a report that was written as JSON; raise UsageError if the file is none."""
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be loaded: {error}") from error
    if not isinstance(report, dict) or report.get("format") != 1:
        raise UsageError(f"{path}: is not a report of this runner")
    return report


def junit(report: Report) -> str:
    """Return the report as JUnit XML: a suite for each class; known failures are skipped tests."""
    root = ElementTree.Element("testsuites", name=f"{_LABEL}: {report.implementation}")
    for name, results in report.classes.items():
        suite = ElementTree.SubElement(root, "testsuite", name=name)
        _count(suite, results)
        if name in report.whole_classes:
            held = "true" if name in report.held else "false"
            properties = ElementTree.SubElement(suite, "properties")
            ElementTree.SubElement(properties, "property", name="held", value=held)
        for result in results:
            _test_case(suite, result)
    if report.problems:
        suite = ElementTree.SubElement(root, "testsuite", name="expectations")
        suite.attrib |= {"tests": str(len(report.problems)), "failures": str(len(report.problems))}
        for problem in report.problems:
            test = ElementTree.SubElement(suite, "testcase", classname="expectations", name=problem)
            ElementTree.SubElement(test, "failure", message=problem)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _count(suite: ElementTree.Element, results: list[Result]) -> None:
    failures = sum(result.outcome.fails_run for result in results)
    passed = sum(result.outcome is Outcome.PASSED for result in results)
    suite.attrib |= {
        "tests": str(len(results)),
        "failures": str(failures),
        "skipped": str(len(results) - passed - failures),
        "time": f"{sum(result.verdict.seconds for result in results):.3f}",
    }


def _test_case(suite: ElementTree.Element, result: Result) -> None:
    test = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.case.area,
        name=result.case.id.partition("/")[2],
        time=f"{result.verdict.seconds:.3f}",
    )
    if result.outcome is Outcome.PASSED:
        return
    kind = "failure" if result.outcome.fails_run else "skipped"
    prefix = "" if result.outcome in (Outcome.FAILED, Outcome.SKIPPED) else f"{result.outcome}: "
    element = ElementTree.SubElement(test, kind, message=printable(prefix + _message(result)))
    if result.outcome is not Outcome.SKIPPED:
        element.text = printable("\n".join(_explained(result)))


def printable(text: str) -> str:
    """Replace what controls terminals, and what XML cannot contain: adapters may say anything."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def badge(report: Report) -> str:
    """Return an endpoint badge: the classes held, and how many of the cases run have passed."""
    number = counts(report.results)
    run = len(report.results) - number["skipped"]
    skipped = f", {number['skipped']} skipped" if number["skipped"] else ""
    # An unexpected pass is still a pass.
    passed = f"{number['passed'] + number['unexpected_pass']}/{run}{skipped}"
    held = f"{', '.join(report.held)} · " if report.held else ""
    color = "green"
    if report.unexpected:
        color = "red"
    elif number["known"] or number["advisory"]:
        color = "yellow"
    content: dict[str, Any] = {
        "schemaVersion": 1,
        "label": _LABEL,
        "message": held + passed,
        "color": color,
    }
    return json.dumps(content) + "\n"
