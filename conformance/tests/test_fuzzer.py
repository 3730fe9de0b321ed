"""Random questions to both readers, and what counts as the same answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzzer.asking import ask
from conformance.fuzzer.comparing import compare
from conformance.fuzzer.odd_values import Places
from conformance.fuzzer.questions import Question, questions

JAVASCRIPT = Path(__file__).parents[1] / "adapters" / "javascript" / "adapter.js"
PYTHON_READER = [sys.executable, "-m", "conformance.adapters.python"]
READ = Question({"op": "read"}, frozenset())
VALUES = {"ok": True, "data": "AAE="}


def refusal(code: str, phase: str | None = "manifest") -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "phase": phase, "message": ""}}


def test_both_readers_answer_alike() -> None:
    tally = ask([PYTHON_READER, ["node", str(JAVASCRIPT)]], 500)
    assert tally.differences == [], "\n\n".join([*tally.differences[:5], str(tally)])
    assert tally.share("same values") > 0.2
    assert tally.share("same error") > 0.2
    assert tally.share("allowed") < 0.1


def test_a_reader_that_ignores_an_offset_is_found() -> None:
    script = (
        "from zarr_manifest.manifest import decoding; import numpy as np;"
        "real = decoding.interpret_rows\n"
        "def without_offsets(*args):\n"
        "    columns, extras = yield from real(*args)\n"
        "    return columns._replace(offsets=np.zeros_like(columns.offsets)), extras\n"
        "decoding.interpret_rows = without_offsets\n"
        "from conformance.adapters.json_lines import serve\n"
        "from conformance.adapters.python.implementation import IMPLEMENTATION\n"
        "serve(IMPLEMENTATION)"
    )
    tally = ask([PYTHON_READER, [sys.executable, "-c", script]], 200)
    assert tally.differences


def test_questions_depend_on_the_seed_alone(tmp_path: Path) -> None:
    places = Places("file:///sources", "http://127.0.0.1:1")
    first = questions(7, tmp_path, places)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert questions(7, tmp_path, places) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    assert questions(8, tmp_path, places) != first


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([VALUES, VALUES], "same values"),
        ([VALUES, {**VALUES, "data": "AAI="}], "different"),
        ([VALUES, refusal("invalid_path")], "different"),
        ([refusal("invalid_path"), refusal("invalid_path")], "same error"),
        ([refusal("invalid_path"), refusal("invalid_path", "declaration")], "different"),
        ([refusal("invalid_path"), refusal("invalid_entry")], "different"),
        ([refusal("zarr_error", None), refusal("zarr_error", "chunk")], "same error"),
        ([refusal("zarr_error", None), VALUES], "allowed"),
        ([refusal("short_read", "chunk"), refusal("source_changed", "chunk")], "allowed"),
        ([refusal("short_read", "chunk"), refusal("invalid_path")], "different"),
        ([refusal("limit_exceeded"), refusal("invalid_path")], "allowed"),
    ],
)
def test_comparison(answers: list[dict[str, Any]], outcome: str) -> None:
    assert compare(READ, answers, []).outcome == outcome


def test_leeway_excuses_a_refusal_and_never_other_values() -> None:
    question = Question({"op": "get_chunk"}, frozenset({"unused bits of base64"}))
    assert compare(question, [VALUES, refusal("invalid_entry")], []).outcome == "allowed"
    assert compare(question, [VALUES, {**VALUES, "data": "AAI="}], []).outcome == "different"


def test_of_several_problems_any_may_be_reported() -> None:
    errors = [refusal("invalid_path"), refusal("invalid_entry")]
    assert compare(READ, errors, [("invalid_path", "0")]).outcome == "different"
    several = [("invalid_path", "0"), ("invalid_entry", "1")]
    assert compare(READ, errors, several).outcome == "allowed"
