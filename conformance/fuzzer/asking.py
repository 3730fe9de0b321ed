"""Puts questions to two adapters at the same time, and counts what came of them."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.fuzzer.comparing import compare, compare_problems, problems_of
from conformance.fuzzer.odd_values import Places
from conformance.fuzzer.questions import Question, questions, write_sources
from conformance.runner.adapter_process import Adapter
from conformance.runner.exchanges import Rules
from conformance.runner.http_server import LoopbackServer, file_server

__all__ = ["Tally", "ask"]

_SECONDS = 60.0


@dataclass
class Tally:
    """What came of the questions.

    Attributes
    ----------
    counts : Counter of tuple
        How often each outcome occurred, with its reason.
    differences : list of str
        Each with the question, and both answers.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def share(self, outcome: str) -> float:
        """Return the share of the questions with this outcome."""
        found = sum(count for (name, _), count in self.counts.items() if name == outcome)
        return found / max(1, self.counts.total())

    def __str__(self) -> str:
        lines = [f"{self.counts.total():,} questions"]
        for (outcome, reason), count in sorted(self.counts.items()):
            lines.append(f"  {count:>6,} {outcome}{f': {reason}' if reason else ''}")
        return "\n".join(lines)


def ask(commands: Sequence[Sequence[str]], count: int, *, first_seed: int = 0) -> Tally:
    """Ask two adapters at least `count` questions.

    Parameters
    ----------
    commands : sequence of sequence of str
        Of the two adapters.
    count : int
        Number of questions.
    first_seed : int
        Seed of the first hierarchy; each further one has the next seed.
    """
    tally = Tally()
    with _places() as (directory, places), ExitStack() as stack:
        adapters = [stack.enter_context(Adapter(command, _SECONDS)) for command in commands]
        pool = stack.enter_context(ThreadPoolExecutor(len(adapters)))
        seed = first_seed
        while tally.counts.total() < count:
            asked = questions(seed, directory, places)
            answers = [pool.submit(_answers, adapter, asked) for adapter in adapters]
            _count(tally, seed, asked, *(future.result() for future in answers))
            seed += 1
    return tally


@contextmanager
def _places() -> Iterator[tuple[Path, Places]]:
    with tempfile.TemporaryDirectory(prefix="zarr-fuzzer-") as temporary:
        directory = Path(temporary).resolve()
        write_sources(directory / "sources")
        server = LoopbackServer()
        server.answer = file_server(directory / "sources", Rules(()))
        server.start()
        try:
            yield directory, Places((directory / "sources").as_uri(), server.origin)
        finally:
            server.stop()


def _answers(adapter: Adapter, asked: Sequence[Question]) -> list[dict[str, Any]]:
    return [adapter.ask(question.request) for question in asked]


def _count(
    tally: Tally,
    seed: int,
    asked: Sequence[Question],
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
) -> None:
    found, other = problems_of(first[0]), problems_of(second[0])
    for array in sorted({question.request.get("array", "") for question in asked}):
        mine, theirs = found.get(array, frozenset()), other.get(array, frozenset())
        comparison = compare_problems(mine, theirs)
        tally.counts[comparison.outcome, comparison.reason] += 1
        if comparison.outcome == "different":
            lines = [f"only one validator finds {sorted(mine ^ theirs, key=str)}"]
            lines += [f"  {sorted(problems, key=str)}" for problems in (mine, theirs)]
            tally.differences.append(_shown(seed, asked[0].request, array, lines))
    for question, *answers in list(zip(asked, first, second, strict=True))[1:]:
        array = question.request["array"]
        comparison = compare(question, answers, found.get(array, frozenset()))
        tally.counts[comparison.outcome, comparison.reason] += 1
        if comparison.outcome == "different":
            lines = [f"  {json.dumps(answer)[:900]}" for answer in answers]
            tally.differences.append(_shown(seed, question.request, array, lines))


def _shown(seed: int, request: Mapping[str, Any], array: str, lines: Sequence[str]) -> str:
    directory = Path(request["hierarchy"], array)
    said = json.dumps({name: value for name, value in request.items() if name != "hierarchy"})
    files = [
        f"  {path.relative_to(directory)}: {path.read_bytes()[:700]!r}"
        for path in sorted(directory.rglob("*.json"))
        if array
    ]
    return "\n".join([f"seed {seed}, {array}: {said}", *files, *lines])
