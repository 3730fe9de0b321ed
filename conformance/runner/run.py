"""Running cases: each in its own copy, with its own servers, judged by the expectations.

This is the runner as a library: `run_suite(command, load_corpus(directory))`.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from conformance.runner.adapter_process import DECOYS, Adapter
from conformance.runner.cases import Case, Corpus
from conformance.runner.comparing import compare
from conformance.runner.errors import AdapterFailure, UsageError
from conformance.runner.expectations import Expectations
from conformance.runner.leaks import known_secrets, shows_secret
from conformance.runner.pipes import WatchedPipes, make_pipes
from conformance.runner.results import Report, Result, Verdict, judge
from conformance.runner.stage import SERVERS, Stage, wrong_requests
from conformance.runner.traces import Evidence, Trace, request_lines
from conformance.runner.workplace import Workplace
from conformance.runner.written_arrays import left_behind, wrong_array

__all__ = ["collect", "run_suite", "with_servers"]

type Progress = Callable[[Result], None]
type Perform = Callable[[Mapping[str, Any], Workplace, Stage, Trace], Verdict]

_OPEN: Mapping[str, Any] = {
    "allow": [],
    "base": None,
    "verify": "auto",
    "missing": "fill",
    "limits": {},
    "via": "file",
    "consolidated": True,
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
    jobs: int = 1,
    evidence: Evidence | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run the cases of a corpus against the adapter that a command starts.

    `timeout` is in seconds, for each answer; `jobs` is how many cases run at the same time, each
    with a process of its own; `progress` is called with each result. Raises UsageError if the
    adapter cannot be started, or if every case is skipped.
    """
    expected = expectations or Expectations()
    with _Adapters(command, timeout) as adapters:
        greeting = adapters.first.greeting
        expected.check_implementation(greeting.name)

        def run_case(case: Case) -> Verdict:
            if reason := case.unfit_for(greeting.features):
                return Verdict(reason, skipped=True)
            with adapters.borrow() as adapter:

                def perform(
                    content: Mapping[str, Any], workplace: Workplace, stage: Stage, trace: Trace
                ) -> Verdict:
                    return _perform(adapter, content, workplace, stage, trace)

                return with_servers(case, perform, evidence)

        results = collect(corpus, run_case, expected, progress, jobs)
    return Report(
        implementation=greeting.name,
        version=greeting.version,
        features=tuple(sorted(greeting.features)),
        corpus_digest=corpus.digest,
        whole_classes=corpus.whole_classes,
        results=results,
        problems=expected.unknown(corpus.listed),
    )


class _Adapters:
    """Processes of one adapter, of which each runs one case at a time."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command, self._timeout = command, timeout
        self._idle: queue.SimpleQueue[Adapter] = queue.SimpleQueue()
        self._started = ExitStack()

    def __enter__(self) -> Self:
        self.first = self._start()
        self._idle.put(self.first)
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def _start(self) -> Adapter:
        return self._started.enter_context(Adapter(self._command, self._timeout))

    @contextmanager
    def borrow(self) -> Iterator[Adapter]:
        """Lend an adapter that is idle, or else a new one."""
        try:
            adapter = self._idle.get_nowait()
        except queue.Empty:
            adapter = self._start()
        try:
            yield adapter
        finally:
            self._idle.put(adapter)


def collect(
    corpus: Corpus,
    run_case: Callable[[Case], Verdict],
    expectations: Expectations,
    progress: Progress | None,
    jobs: int = 1,
) -> tuple[Result, ...]:
    """Run each case; raise UsageError if all are skipped, because nothing was tested.

    The results are in the order of the corpus, however many cases run at the same time.
    """

    def timed(case: Case) -> Verdict:
        started = time.monotonic()
        verdict = run_case(case)
        return replace(verdict, seconds=time.monotonic() - started)

    results: list[Result] = []
    for case, verdict in zip(corpus.cases, _each(timed, corpus.cases, jobs), strict=True):
        results.append(judge(case, verdict, expectations))
        if progress is not None:
            progress(results[-1])
    if all(result.verdict.skipped for result in results):
        raise UsageError("nothing was tested: the implementation skips every selected case")
    return tuple(results)


def _each(run: Callable[[Case], Verdict], cases: Sequence[Case], jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        # Nothing runs ahead of a caller that stops early.
        yield from map(run, cases)
        return
    with ThreadPoolExecutor(jobs) as executor:
        yield from executor.map(run, cases)


def with_servers(case: Case, perform: Perform, evidence: Evidence | None = None) -> Verdict:
    """Set up a case, run it, and check the requests that its servers received."""
    stage, trace, evidence = Stage(_servers_named(case)), Trace(), evidence or Evidence()
    with Workplace(case, stage.origins, evidence.keep) as workplace:
        try:
            content = workplace.content()
            if not workplace.make_links(content.get("links", {})):
                return Verdict("symbolic links cannot be made here", skipped=True)
            pipes = [workplace.directory / name for name in content.get("pipes", ())]
            if not make_pipes(pipes):
                return Verdict("named pipes cannot be made here", skipped=True)
            stage.start(content.get("servers", {}), workplace.directory)
            with WatchedPipes(pipes) as watched:
                verdict = perform(content, workplace, stage, trace)
            if watched.had_to_wait:
                verdict = Verdict("the reader waited for somebody to write to a named pipe")
        finally:
            seen = stage.stop()
        trace.received(seen)
        assertions = content.get("requests", {})
        # The outcome explains more than the requests made on the way.
        if not verdict.message and (wrong := wrong_requests(assertions, seen)):
            of_these = {server: seen[server] for server in assertions}
            verdict = Verdict("; ".join(wrong), "\n".join(request_lines(of_these)))
        verdict = replace(
            verdict,
            message=_cut(workplace.anonymise(verdict.message), 500),
            details=_cut(workplace.anonymise(verdict.details), 4000),
        )
        return _with_evidence(verdict, workplace, trace, evidence)


def _servers_named(case: Case) -> frozenset[str]:
    """Return the servers that a case starts, counts the requests of, or refers to."""
    content = case.content()
    texts = [case.text.encode(), *map(Path.read_bytes, case.documents())]
    referred = {name for name in SERVERS if any(f"@{name.upper()}".encode() in t for t in texts)}
    return frozenset({*content.get("servers", {}), *content.get("requests", {}), *referred})


def _with_evidence(
    verdict: Verdict, workplace: Workplace, trace: Trace, evidence: Evidence
) -> Verdict:
    """Add the trace of a failure, and keep its directory, as far as that was asked for."""
    if not verdict.message or verdict.skipped:
        return verdict
    lines = trace.lines() if evidence.trace else ()
    if evidence.keep is None:
        # Nobody can look at these locations any more.
        return replace(verdict, trace=tuple(map(workplace.anonymise, lines)))
    trace.write(workplace.directory)
    workplace.is_kept = True
    return replace(verdict, trace=lines, kept=str(workplace.directory))


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + " …"


def _perform(
    adapter: Adapter,
    content: Mapping[str, Any],
    workplace: Workplace,
    stage: Stage,
    trace: Trace,
) -> Verdict:
    """Run the steps in order; the first failure is the verdict."""
    steps = content["steps"]
    # A host that poses as the user of another one is no secret.
    hosts = {origin.removeprefix("http://") for origin in stage.origins.values()}
    secrets = known_secrets(content, workplace.documents(), DECOYS) - hosts
    for position, step in enumerate(steps):
        where = f"step {position + 1} ({step['op']}): " if len(steps) > 1 else ""
        request = _request(step, content, workplace, stage)
        trace.ask(request)
        try:
            answer = adapter.ask(request)
        except AdapterFailure as failure:
            return Verdict(where + failure.message, failure.details)
        trace.answer(answer)
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
    step: Mapping[str, Any], content: Mapping[str, Any], workplace: Workplace, stage: Stage
) -> dict[str, Any]:
    """Build the request of a step, with all members, including defaults."""
    said = {**_OPEN, **content.get("open", {}), **_REQUESTS[step["op"]], "reuse": False, **step}
    del said["expect"]
    if said["via"] == "http":
        root = content["servers"]["http"]["root"]
        said["hierarchy"] = f"{stage.origin('http')}/{'hierarchy/' if root == '.' else ''}"
    else:
        said["hierarchy"] = str(workplace.hierarchy)
    return said
