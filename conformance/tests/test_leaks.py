"""Messages that show a secret fail their case: credentials, and query strings of URLs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.runner.run import run_suite
from conformance.tests.corpora import CorpusWriter, adapter_command

REFUSED = {"error": {"code": "source_error", "phase": "chunk"}}
READ = {"op": "read", "array": "a", "expect": REFUSED}
CREDENTIALS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "not-a-secret"}
MANIFEST = {
    "0": {"path": "@HTTP@/d.bin?token=a%2Fb+c&expires=1700000000"},
    "1": {"path": "https://someone:password@host/d.bin"},
    "2": {"path": "d.bin?v=1"},
    "3": {"path": "abfs://container@account/d.bin"},
    "4": {"path": "http://host/{partition}?p={partition}&d={digest}"},
}
SECRETS = [
    "the key not-a-secret is wrong",
    "AKIDEXAMPLE may not read this",
    json.dumps({"allow": [{"prefix": "s3://b/", "credentials": CREDENTIALS}]}),
    "GET http://127.0.0.1/d.bin?token=a%2Fb+c&expires=1700000000",
    "the token a/b c has expired",
    "expires=1700000000",
    "no such file: d.bin?v=1",
    "http://someone:password@host/d.bin",
    "signed with environment-must-not-be-used",
    "signed%20with%20not-a-secret",
]
HARMLESS = [
    "chunk 0 of a, in @HTTP@/d.bin: 404. Which v=1 of it was meant?",
    "container@account: is the account right? (v)",
    "token and expires are refused",
    "a manifest does not contain {partition} and {digest} in its query",
]


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    return CorpusWriter(tmp_path)


def verdict(corpus: CorpusWriter, step: dict[str, Any], answer: dict[str, Any]) -> str:
    corpus.case(
        "a/b",
        [step],
        [{"answer": answer}],
        files={"hierarchy/a/manifest.json": json.dumps(MANIFEST).encode()},
        open={"allow": [{"prefix": "s3://b/", "credentials": CREDENTIALS}]},
    )
    (result,) = run_suite(adapter_command(), corpus.load()).results
    return result.verdict.message


@pytest.mark.parametrize("message", SECRETS)
def test_an_error_that_shows_a_secret_fails(corpus: CorpusWriter, message: str) -> None:
    error = {"code": "source_error", "phase": "chunk", "message": message}
    said = verdict(corpus, READ, {"ok": False, "error": error})
    assert said == "the message shows credentials or a query string"


@pytest.mark.parametrize("message", SECRETS)
def test_a_problem_that_shows_a_secret_fails(corpus: CorpusWriter, message: str) -> None:
    problem = {"code": "invalid_path", "message": message, "array": "a", "chunk": "0"}
    step = {"op": "validate", "expect": {"problems": [{"code": "invalid_path"}]}}
    said = verdict(corpus, step, {"problems": [problem]})
    assert said == "the message shows credentials or a query string"


@pytest.mark.parametrize("message", HARMLESS)
def test_other_messages_pass(corpus: CorpusWriter, message: str) -> None:
    error = {"code": "source_error", "phase": "chunk", "message": message}
    assert verdict(corpus, READ, {"ok": False, "error": error}) == ""


def test_an_adapter_that_shows_its_whole_request_fails(corpus: CorpusWriter) -> None:
    step = {"op": "read", "array": "a", "expect": {"error": {"code": "unexpected"}}}
    corpus.case(
        "a/echo",
        [step],
        [{"echo": True}],
        open={"allow": [{"prefix": "s3://b/", "credentials": CREDENTIALS}]},
    )
    (result,) = run_suite(adapter_command(), corpus.load()).results
    assert result.verdict.message == "the message shows credentials or a query string"
