"""Tools that print an array: `COMMAND --array_path=DIRECTORY`, once for each step of a case."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.runner.adapter_process import environment
from conformance.runner.cases import Case, Corpus
from conformance.runner.data_types import print_form
from conformance.runner.errors import AdapterFailure, AdapterTimeout, Patience, UsageError
from conformance.runner.expectations import Expectations
from conformance.runner.results import Report, Result, Verdict, judge
from conformance.runner.run import Progress, collect, with_servers
from conformance.runner.stage import Stage
from conformance.runner.traces import Evidence, Trace
from conformance.runner.workplace import Workplace

__all__ = ["parse_values", "run_one_shot"]

type Number = bool | int | float

_WORDS: Mapping[str, Number] = {"true": True, "false": False}


def run_one_shot(
    command: Sequence[str],
    corpus: Corpus,
    expectations: Expectations | None = None,
    *,
    name: str | None = None,
    features: Sequence[str] = ("read",),
    timeout: float = 60.0,
    jobs: int = 1,
    evidence: Evidence | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run the cases that need nothing but reading whole arrays."""
    expected = expectations or Expectations()
    # Without a name, the implementation is named after its program.
    implementation = name or Path(command[0]).name
    expected.check_implementation(implementation)

    tool = _Tool(command, timeout)

    def run_case(case: Case) -> Verdict:
        if reason := _unfit(case, frozenset(features)):
            return Verdict(reason, skipped=True)

        def perform(
            content: Mapping[str, Any], workplace: Workplace, _: Stage, trace: Trace
        ) -> Verdict:
            return _perform(tool, content, workplace, trace)

        return with_servers(case, perform, evidence)

    results = collect(corpus, run_case, expected, progress, jobs)
    if not any(result.passed and _needs_values(result.case) for result in results):
        results = tuple(_unproven(result, expected) for result in results)
    return Report(
        implementation=implementation,
        version="",
        features=tuple(sorted(features)),
        corpus_digest=corpus.digest,
        whole_classes=corpus.whole_classes,
        results=results,
        problems=expected.unknown(corpus.listed),
    )


def _unfit(case: Case, features: frozenset[str]) -> str:
    """Return why a case cannot be run by such a tool; empty if it can."""
    content = case.content()
    if reason := case.unfit_for(features):
        return reason
    if content.get("open"):
        return "the command has no options for opening a hierarchy"
    for step in content["steps"]:
        if step["op"] != "read" or step.get("selection") is not None:
            return "the command only reads whole arrays"
        for expect in _options(step["expect"]):
            if "values" in expect and print_form(expect["data_type"], b"") is None:
                return f"values of type {expect['data_type']} have no single printed form"
    return ""


def _needs_values(case: Case) -> bool:
    """Whether the case can only be passed by printing values."""
    return any(
        all("values" in option and case.expected_file(option) for option in _options(expect))
        for expect in (step["expect"] for step in case.content()["steps"])
    )


def _unproven(result: Result, expectations: Expectations) -> Result:
    """Judge what passed again: a command that reads nothing fails whatever it is given."""
    if not result.passed:
        return result
    message = "no case printed the values that it must print, so this result proves nothing"
    return judge(result.case, replace(result.verdict, message=message), expectations)


def _options(expect: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    options: Sequence[Mapping[str, Any]] = expect.get("any_of", (expect,))
    return options


def _perform(
    tool: _Tool, content: Mapping[str, Any], workplace: Workplace, trace: Trace
) -> Verdict:
    for position, step in enumerate(content["steps"]):
        where = f"step {position + 1} (read): " if len(content["steps"]) > 1 else ""
        directory = workplace.hierarchy / step.get("array", "")
        try:
            status, output, errors = tool.run(directory, trace)
        except AdapterFailure as failure:
            return Verdict(where + failure.message, failure.details)
        values = parse_values(output)
        wrong = [
            _wrong(option, status, values, workplace.case.expected_file)
            for option in _options(step["expect"])
        ]
        if "" not in wrong:
            return Verdict(where + "; or ".join(wrong), errors.strip())
    return Verdict()


class _Tool:
    """The command; given up if it hangs again and again."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command, self._timeout = command, timeout
        self._patience = Patience("the command")

    def run(self, directory: Path, trace: Trace) -> tuple[int, str, str]:
        """Return the exit status, the output, and what it wrote to standard error."""
        command = [*self._command, f"--array_path={directory}"]
        with self._patience:
            status, output, errors = _run(command, self._timeout)
        trace.ran(command, status, output + errors)
        return status, output, errors


def _run(command: Sequence[str], timeout: float) -> tuple[int, str, str]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"the command cannot be started: {error}") from error
    with process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise AdapterTimeout("the command did not end in time") from None
    return process.returncode, output, errors


def _wrong(
    expect: Mapping[str, Any],
    status: int,
    values: Sequence[Number] | None,
    files: Callable[[Mapping[str, Any]], bytes],
) -> str:
    """Return what is wrong with the command's result; empty if it is as expected."""
    if "error" in expect:
        refused = status != 0 and not values
        return "" if refused else f"expected an error, got status {status} {_shown(values)}"
    if status != 0 or values is None:
        return f"expected values, got status {status} {_shown(values)}"
    wanted = print_form(expect["data_type"], files(expect)) or []
    if len(values) != len(wanted):
        return f"expected {len(wanted)} values, got {len(values)}"
    for position, (one, other) in enumerate(zip(wanted, values, strict=True)):
        if not _same(expect["data_type"], one, other):
            return f"value {position} differs: expected {one}, got {other}"
    return ""


def _shown(values: Sequence[Number] | None) -> str:
    return f"and {len(values)} values" if values else "and no values"


def _same(data_type: str, wanted: Number, got: Number) -> bool:
    """Compare with the precision of the data type, which is lower than that of the text."""
    if not data_type.startswith("float"):
        return wanted == got
    if wanted != wanted or got != got:
        return wanted != wanted and got != got
    format = "<" + {"float16": "e", "float32": "f", "float64": "d"}[data_type]
    try:
        return struct.pack(format, wanted) == struct.pack(format, got)
    except OverflowError:
        return False


def parse_values(output: str) -> list[Number] | None:
    """Parse what a tool printed: a JSON list, flat or nested, or numbers between whitespace.

    Returns None for anything else, such as a message.
    """
    try:
        parsed = json.loads(output)
    except (ValueError, RecursionError):
        parsed = None
    try:
        if isinstance(parsed, list):
            return _flat(parsed)
        return [_number(word) for word in output.split()]
    except (ValueError, RecursionError):
        return None


def _flat(values: list[Any]) -> list[Number]:
    flat: list[Number] = []
    for value in values:
        if isinstance(value, list):
            flat += _flat(value)
        else:
            flat.append(value if isinstance(value, bool | int | float) else _number(str(value)))
    return flat


def _number(word: str) -> Number:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return int(word)
    except ValueError:
        return float(word)
