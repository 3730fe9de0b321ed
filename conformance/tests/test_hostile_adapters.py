"""Adapters that answer what nobody can use, or never: the runner survives, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.runner.errors import UsageError
from conformance.runner.reports import json_text, junit, text
from conformance.runner.results import Outcome
from conformance.runner.run import run_suite
from conformance.tests.corpora import CorpusWriter, adapter_command, sha256

READ = {
    "op": "read",
    "array": "a",
    "expect": {
        "values": "expected.bin",
        "sha256": sha256(b"\1\0"),
        "shape": [1],
        "data_type": "int16",
    },
}
RIGHT = {"answer": {"shape": [1], "data_type": "int16", "data": "AQA="}}
FILES = {"expected.bin": b"\1\0"}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    return CorpusWriter(tmp_path)


def _line(members: str) -> dict[str, Any]:
    return {"line": f'{{"id": 1, "ok": true, "shape": [1], "data_type": "int16", {members}}}'}


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "brackets": ({"flood": 1_000_000, "repeat": "["}, "did not answer in time"),
    "lines of brackets": ({"line": "[" * 1_000_000}, "nested more than 100 levels"),
    "deep values": (_line(f'"data": {"[" * 500}{"]" * 500}'), "nested more than 100 levels"),
    "a long line": ({"flood": 20_000, "repeat": "x" * 1024}, "is longer than 16 MiB"),
    "no UTF-8": ({"hex": "7b22ff227d"}, "a line that is not UTF-8"),
    "UTF-16": ({"hex": '{"id":1}'.encode("utf-16").hex()}, "a line that is not UTF-8"),
    "NaN": (_line('"data": NaN'), "a line that is not JSON"),
    "infinity": (_line('"data": -Infinity'), "a line that is not JSON"),
    "digits": (_line(f'"data": {"9" * 5000}'), "a line that is not JSON"),
    "half of a pair": (_line('"data": "\\ud800"'), "an escaped lone surrogate"),
    "half in a name": (_line('"data": "AQA=", "\\ud800": 1'), "an escaped lone surrogate"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_cannot_be_used_fails_its_case_only(corpus: CorpusWriter, kind: str) -> None:
    do, message = HOSTILE[kind]
    corpus.case("a/hostile", [READ], [do], files=FILES)
    corpus.case("a/right", [READ], [RIGHT], files=FILES)
    report = run_suite(adapter_command(), corpus.load(), timeout=2.0)
    hostile, right = report.results
    assert message in hostile.verdict.message
    assert (hostile.outcome, right.outcome) == (Outcome.FAILED, Outcome.PASSED)
    for render in (text, json_text, junit):
        assert len(render(report).encode()) < 20_000


def test_long_words_are_cut(corpus: CorpusWriter) -> None:
    error = {"code": "x" * 100_000, "phase": "chunk", "message": "y" * 100_000}
    corpus.case("a/long", [READ], [{"answer": {"ok": False, "error": error}}], files=FILES)
    (result,) = run_suite(adapter_command(), corpus.load()).results
    assert len(result.verdict.message) < 1000
    assert len(result.verdict.details) < 10_000


def test_a_terminal_is_not_controlled(corpus: CorpusWriter) -> None:
    do = {"exit": 1, "stderr": "\x1b[2J\x9b2J\rgone\n"}
    corpus.case("a/escapes", [READ], [do], files=FILES)
    shown = text(run_suite(adapter_command(), corpus.load()))
    assert "[2J" in shown
    assert not set(shown) & set("\x1b\x9b\r")


def test_an_adapter_that_always_hangs_is_given_up(corpus: CorpusWriter) -> None:
    for number in range(9):
        corpus.case(f"a/{number}", [READ], [{"hang": True}], files=FILES)
    with pytest.raises(UsageError, match="did not answer 3 times in a row"):
        run_suite(adapter_command(), corpus.load(), timeout=1.0)


def test_one_that_hangs_now_and_then_is_not(corpus: CorpusWriter) -> None:
    for number in range(6):
        do = RIGHT if number % 2 else {"hang": True}
        corpus.case(f"a/{number}", [READ], [do], files=FILES)
    results = run_suite(adapter_command(), corpus.load(), timeout=1.5).results
    assert [result.outcome for result in results].count(Outcome.FAILED) == 3


def test_a_chatty_adapter_is_restarted(corpus: CorpusWriter) -> None:
    answer = json.dumps({"id": 1, "ok": True, **RIGHT["answer"]})
    corpus.case(
        "a/chatty", [READ], [{"line": "\n".join([answer, *["noise"] * 50_000])}], files=FILES
    )
    corpus.case("a/next", [READ], [RIGHT], files=FILES)
    corpus.case("a/right", [READ], [RIGHT], files=FILES)
    *_, right = run_suite(adapter_command(), corpus.load()).results
    assert right.outcome is Outcome.PASSED
