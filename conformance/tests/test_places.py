"""Where a case runs: a hierarchy that is a link, and named pipes that nobody writes to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from conformance.runner.results import Outcome
from conformance.runner.workplace import Workplace
from conformance.tests.corpora import CorpusWriter
from conformance.tests.test_runner import FILES, READ, read_answer, run


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    return CorpusWriter(tmp_path)


def test_the_hierarchy_may_be_a_link(corpus: CorpusWriter) -> None:
    corpus.case("a/link", [READ], files=FILES, links={"hierarchy": "sources/real"})
    (case,) = corpus.load().cases
    shutil.rmtree(case.directory / "hierarchy")
    with Workplace(case, {}) as workplace:
        assert workplace.make_links({"hierarchy": "sources/real"})
        assert workplace.hierarchy.readlink() == Path("sources/real")


def test_a_reader_that_waits_for_a_pipe_fails_and_goes_on(corpus: CorpusWriter) -> None:
    opening = {"fetch": [["GET", "@HIERARCHY@/a/b/pipe", {}]], **read_answer()}
    corpus.case("a/pipes", [READ], [opening], files=FILES, pipes=["hierarchy/a/b/pipe"])
    corpus.case("a/unopened", [READ], [read_answer()], files=FILES, pipes=["hierarchy/pipe"])
    waiting, right = run(corpus).results
    assert waiting.verdict.message == "the reader waited for somebody to write to a named pipe"
    assert right.outcome is Outcome.PASSED


def test_a_case_is_skipped_where_pipes_cannot_be_made(
    corpus: CorpusWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.case("a/pipes", [READ], files=FILES, pipes=["hierarchy/x"])
    corpus.case("a/right", [READ], [read_answer()], files=FILES)
    monkeypatch.delattr(os, "mkfifo")
    piped, right = run(corpus).results
    assert (piped.outcome, right.outcome) == (Outcome.SKIPPED, Outcome.PASSED)
    assert piped.verdict.message == "named pipes cannot be made here"
