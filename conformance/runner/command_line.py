"""The command line: `python -m conformance.runner [options] -- COMMAND …`.

Exits with 0 if nothing is unexpected, 1 if something is, and 2 if the suite could not be run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.runner import reports
from conformance.runner.cases import CLASSES, FEATURES, Corpus, load_corpus
from conformance.runner.errors import UsageError
from conformance.runner.expectations import Expectations, load_expectations, write_expectations
from conformance.runner.one_shot import run_one_shot
from conformance.runner.results import Outcome, Report, Result, judge
from conformance.runner.run import run_suite
from conformance.runner.traces import Evidence

__all__ = ["main", "parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options before `--`."""
    program = Path(sys.argv[0]).name
    made = argparse.ArgumentParser(
        # The wheel has a command of its own.
        prog="python -m conformance.runner" if program == "__main__.py" else program,
        usage="%(prog)s [options] -- COMMAND [ARGUMENT ...]",
        description="Run an implementation against the conformance suite of chunk-manifest-json.",
        epilog="Exit status: 0, nothing unexpected; 1, something unexpected; 2, could not be run.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--only", action="append", default=[], metavar="GLOB", help="cases, such as 'ranges/*'")
    add("--area", action="append", default=[], help="all cases of an area")
    add("--class", action="append", default=[], choices=CLASSES, dest="classes", metavar="CLASS",
        help=f"of these, the cases of a class: {', '.join(CLASSES)}")  # fmt: skip
    add("--failed", type=Path, metavar="REPORT",
        help="of these, the cases that failed in an earlier JSON report")  # fmt: skip
    add("--list", action="store_true", help="print the ids of the cases without running them")
    add("--expect", type=Path, metavar="FILE", help="known failures")
    add("--record", type=Path, metavar="FILE", help="record the failures as known")
    add("--json", type=Path, metavar="FILE", help="write a report as JSON")
    add("--junit", type=Path, metavar="FILE", help="write a report as JUnit XML")
    add("--badge", type=Path, metavar="FILE", help="write an endpoint badge")
    add("--trace", action="store_true", help="show the requests and answers of failures")
    add("--keep", type=Path, metavar="DIRECTORY",
        help="leave each failed case here as it was run, with its requests")  # fmt: skip
    add("--jobs", type=int, default=1, metavar="N", help="cases at the same time (1)")
    add("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each answer (60)")
    add("--verbose", action="store_true", help="print each result as it arrives")
    add("--corpus", type=Path, default=Path(__file__).parent.parent, metavar="DIRECTORY",
        help="directory of index.json and cases/")  # fmt: skip
    add("--one-shot", action="store_true", help="the command prints an array")
    add("--name", help="one-shot: name of the implementation")
    add("--features", default="read", metavar="A,B", help="one-shot: what the command can do")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    split = given.index("--") if "--" in given else len(given)
    options, command = parser().parse_args(given[:split]), given[split + 1 :]
    try:
        failed = None if options.failed is None else _failed(options.failed)
        corpus = load_corpus(options.corpus)
        corpus = corpus.select(options.only, options.area, options.classes, failed)
        if options.list:
            sys.stdout.write("".join(f"{case.id}\n" for case in corpus.cases))
            return 0
        _check(options, command)
        report = _run(options, command, corpus)
        if options.record is not None:
            report = _record(options.record, report)
        _write(options, report)
    except UsageError as error:
        sys.stderr.write(reports.printable(f"error: {error}\n"))
        return 2
    sys.stdout.write(reports.text(report))
    return 1 if report.unexpected else 0


def _check(options: argparse.Namespace, command: Sequence[str]) -> None:
    if not command:
        raise UsageError("no command given; write it after --")
    if options.record is not None and options.expect is not None:
        raise UsageError("--record and --expect are mutually exclusive")
    selected = options.only or options.area or options.classes or options.failed
    if options.record is not None and selected:
        raise UsageError("--record must run all cases: it would forget the others")
    if options.jobs < 1:
        raise UsageError("--jobs must be at least 1")
    if not options.timeout > 0:
        raise UsageError("--timeout must be positive")
    for path in (options.record, options.json, options.junit, options.badge):
        # Fail now rather than after the run.
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{path.parent}: no such directory")
    if options.keep is not None:
        _make_empty(options.keep)


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        is_empty = not any(directory.iterdir())
    except OSError as error:
        raise UsageError(f"{directory}: cannot be made: {error}") from error
    if not is_empty:
        raise UsageError(f"{directory}: is not empty; --keep needs a directory of its own")


def _failed(path: Path) -> list[str]:
    """Return the ids of the cases that failed in a report, other than known failures."""
    results = reports.load_report(path)["results"]
    counts = {Outcome.FAILED, Outcome.ADVISORY, Outcome.UNEXPECTED_PASS}
    failed = [result["id"] for result in results if result["outcome"] in counts]
    if not failed:
        raise UsageError(f"{path}: nothing failed; run the suite without --failed")
    return failed


def _run(options: argparse.Namespace, command: Sequence[str], corpus: Corpus) -> Report:
    expected = Expectations() if options.expect is None else load_expectations(options.expect)
    progress = _print_result if options.verbose else None
    evidence = Evidence(options.trace, options.keep)
    if not options.one_shot:
        return run_suite(
            command,
            corpus,
            expected,
            timeout=options.timeout,
            jobs=options.jobs,
            evidence=evidence,
            progress=progress,
        )
    features = options.features.split(",")
    if unknown := set(features) - FEATURES:
        raise UsageError(f"unknown features {sorted(unknown)}")
    return run_one_shot(
        command,
        corpus,
        expected,
        name=options.name,
        features=features,
        timeout=options.timeout,
        jobs=options.jobs,
        evidence=evidence,
        progress=progress,
    )


def _print_result(result: Result) -> None:
    message = f": {result.verdict.message}" if result.verdict.message else ""
    sys.stderr.write(reports.printable(f"{result.outcome:>15} {result.case.id}{message}\n"))


def _record(path: Path, report: Report) -> Report:
    """Record the failures, which are known from now on."""
    write_expectations(path, report.implementation, report.failures)
    known = Expectations(report.implementation, report.failures)
    results = tuple(judge(result.case, result.verdict, known) for result in report.results)
    return replace(report, results=results)


def _write(options: argparse.Namespace, report: Report) -> None:
    for path, render in (
        (options.json, reports.json_text),
        (options.junit, reports.junit),
        (options.badge, reports.badge),
    ):
        if path is not None:
            path.write_text(render(report), encoding="utf-8")
