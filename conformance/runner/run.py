"""Running cases: each in its own copy, with its own servers, judged by the expectations.

This is the runner as a library: `run_suite(command, load_corpus(directory))`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.runner.adapter_process import DECOYS, Adapter
from conformance.runner.cases import Case, Corpus
from conformance.runner.comparing import compare
from conformance.runner.errors import AdapterFailure, UsageError
from conformance.runner.expectations import Expectations
from conformance.runner.leaks import known_secrets, shows_secret
from conformance.runner.results import Report, Result, Verdict, judge
from conformance.runner.stage import Stage, wrong_requests
from conformance.runner.workplace import Workplace
from conformance.runner.written_arrays import left_behind, wrong_array

__all__ = ["collect", "run_suite", "with_servers"]

type Progress = Callable[[Result], None]
type Perform = Callable[[Mapping[str, Any], Workplace, Stage], Verdict]

_OPEN: Mapping[str, Any] = {
    "allow": [],
    "base": None,
    "verify": "auto",
    "missing": "fill",
    "limits": {},
    "via": "file",
}
_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "read": {"array": "", "selection": None},
    "get_chunk": {"array": "", "range": None},
    "list": {"array": ""},
    "validate": {},
    "write": {"array": "", "chunks": [], "partition_shape": None, "codecs": None, "inline": False},
}


def run_suite(
    command: Sequence[str],
    corpus: Corpus,
    expectations: Expectations | None = None,
    *,
    timeout: float = 60.0,
    progress: Progress | None = None,
) -> Report:
    """Run the cases of a corpus against the adapter that a command starts.

    `timeout` is in seconds, for each answer; `progress` is called with each result. Raises
    UsageError if the adapter cannot be started, or if every case is skipped.
    """
    expected = expectations or Expectations()
    with Adapter(command, timeout) as adapter:
        greeting = adapter.greeting
        expected.check_implementation(greeting.name)

        def run_case(case: Case) -> Verdict:
            if reason := case.unfit_for(greeting.features):
                return Verdict(reason, skipped=True)

            def perform(content: Mapping[str, Any], workplace: Workplace, stage: Stage) -> Verdict:
                return _perform(adapter, content, workplace, stage)

            return with_servers(case, perform)

        results = collect(corpus, run_case, expected, progress)
    return Report(
        implementation=greeting.name,
        version=greeting.version,
        features=tuple(sorted(greeting.features)),
        corpus_digest=corpus.digest,
        complete=corpus.complete,
        results=results,
        problems=expected.unknown(corpus.ids),
    )


def collect(
    corpus: Corpus,
    run_case: Callable[[Case], Verdict],
    expectations: Expectations,
    progress: Progress | None,
) -> tuple[Result, ...]:
    """Run each case; raise UsageError if all are skipped, because nothing was tested."""
    results: list[Result] = []
    for case in corpus.cases:
        started = time.monotonic()
        verdict = replace(run_case(case), seconds=time.monotonic() - started)
        results.append(judge(case, verdict, expectations))
        if progress is not None:
            progress(results[-1])
    if all(result.verdict.skipped for result in results):
        raise UsageError("nothing was tested: the implementation skips every selected case")
    return tuple(results)


def with_servers(case: Case, perform: Perform) -> Verdict:
    """Set up a case, run it, and check the requests that its servers received."""
    stage = Stage()
    with Workplace(case, stage.origins) as workplace:
        try:
            content = workplace.content()
            if not workplace.make_links(content.get("links", {})):
                return Verdict("symbolic links cannot be made here", skipped=True)
            stage.start(content.get("servers", {}), workplace.directory)
            verdict = perform(content, workplace, stage)
        finally:
            seen = stage.stop()
        assertions = content.get("requests", {})
        # The outcome explains more than the requests made on the way.
        if not verdict.message and (wrong := wrong_requests(assertions, seen)):
            lines = [
                f"{server}: {request.method} {request.target} {request.headers.get('range', '')}"
                for server in assertions
                for request in seen[server]
            ]
            verdict = Verdict("; ".join(wrong), "\n".join(line.rstrip() for line in lines))
        return replace(
            verdict,
            message=_cut(workplace.anonymise(verdict.message), 500),
            details=_cut(workplace.anonymise(verdict.details), 4000),
        )


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + " …"


def _perform(
    adapter: Adapter, content: Mapping[str, Any], workplace: Workplace, stage: Stage
) -> Verdict:
    """Run the steps in order; the first failure is the verdict."""
    steps = content["steps"]
    secrets = known_secrets(content, workplace.documents(), DECOYS)
    for position, step in enumerate(steps):
        where = f"step {position + 1} ({step['op']}): " if len(steps) > 1 else ""
        request = _request(step, content.get("open", {}), workplace, stage)
        try:
            answer = adapter.ask(request)
        except AdapterFailure as failure:
            return Verdict(where + failure.message, failure.details)
        mismatch = compare(step["expect"], answer, workplace.case.expected_file)
        if mismatch is not None:
            return Verdict(where + mismatch.message, mismatch.details)
        if step["op"] == "write" and (wrong := _wrong_writing(workplace, request, answer)):
            return Verdict(where + wrong)
        if shows_secret(answer, secrets):
            return Verdict(f"{where}the message shows credentials or a query string", str(answer))
    return Verdict()


def _wrong_writing(
    workplace: Workplace, request: Mapping[str, Any], answer: Mapping[str, Any]
) -> str:
    check = wrong_array if answer["ok"] else left_behind
    return check(workplace.hierarchy, request)


def _request(
    step: Mapping[str, Any], opened: Mapping[str, Any], workplace: Workplace, stage: Stage
) -> dict[str, Any]:
    """Build the request of a step, with all members, including defaults."""
    said = {**_OPEN, **opened, **_REQUESTS[step["op"]], "reuse": False, **step}
    del said["expect"]
    via_http = said["via"] == "http"
    said["hierarchy"] = f"{stage.origin('http')}/" if via_http else str(workplace.hierarchy)
    return said
