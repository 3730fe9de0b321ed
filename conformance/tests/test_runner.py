"""The conformance runner: right answers pass, and every kind of wrong answer fails."""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.runner.comparing import compare
from conformance.runner.data_types import item_size
from conformance.runner.errors import UsageError
from conformance.runner.expectations import Expectations
from conformance.runner.results import Outcome, Report
from conformance.runner.run import run_suite
from conformance.tests.corpora import CorpusWriter, adapter_command, sha256

VALUES = struct.pack("<6h", 1, 2, 3, 4, 5, 6)
EXPECT_VALUES = {
    "values": "expected.bin",
    "sha256": sha256(VALUES),
    "shape": [2, 3],
    "data_type": "int16",
}
FILES = {"expected.bin": VALUES}
READ = {"op": "read", "array": "a", "expect": EXPECT_VALUES}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    return CorpusWriter(tmp_path)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_answer(values: bytes = VALUES, **members: Any) -> dict[str, Any]:
    answer = {"shape": [2, 3], "data_type": "int16", "data": base64_of(values), **members}
    return {"answer": answer}


def error_answer(code: str, phase: str | None, message: str = "no") -> dict[str, Any]:
    return {"answer": {"ok": False, "error": {"code": code, "phase": phase, "message": message}}}


def run(corpus: CorpusWriter, expectations: Expectations | None = None, **options: Any) -> Report:
    return run_suite(adapter_command(), corpus.load(), expectations, **options)


def verdict(corpus: CorpusWriter, **options: Any) -> str:
    """The message of the only case; empty if it passed."""
    (result,) = run(corpus, **options).results
    assert result.outcome in (Outcome.PASSED, Outcome.FAILED)
    assert (result.outcome is Outcome.FAILED) == bool(result.verdict.message)
    return result.verdict.message


def step(op: str, expect: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"op": op, "expect": expect, **members}


# ------------------------------------------------------------------ answers


def test_right_answers_pass(corpus: CorpusWriter) -> None:
    chunk = {"bytes": "chunk.bin", "sha256": sha256(b"abc")}
    problem = {"code": "invalid_entry", "phase": "manifest", "array": "a", "message": "bad"}
    one_of_them = {"error": {"code": ["short_read", "source_error"], "phase": "chunk"}}
    steps_and_answers = [
        (READ, read_answer()),
        (step("get_chunk", chunk, chunk=[0]), {"answer": {"data": base64_of(b"abc")}}),
        (step("get_chunk", {"missing": True}, chunk=[1]), {"answer": {"data": None}}),
        (step("list", {"chunks": ["0", "1"]}), {"answer": {"chunks": ["0", "1"]}}),
        (step("validate", {"problems": []}), {"answer": {"problems": []}}),
        (
            step("validate", {"problems": [{"code": "invalid_entry", "array": "a"}]}),
            {"answer": {"problems": [problem, problem | {"code": "invalid_path"}]}},
        ),
        (step("read", one_of_them), error_answer("source_error", "chunk")),
        (step("read", {"any_of": [one_of_them, EXPECT_VALUES]}), read_answer()),
        (step("read", {"error": {"code": "missing_chunk"}}), error_answer("missing_chunk", None)),
        (step("read", {"error": {"code": "zarr_error"}}), error_answer("zarr_error", "chunk")),
        (
            step("validate", {"problems": [{"code": "invalid_entry", "chunk": "0/1"}]}),
            {"answer": {"problems": [problem | {"chunk": "0/1"}]}},
        ),
    ]
    steps, answers = zip(*steps_and_answers, strict=True)
    corpus.case("a/all", list(steps), list(answers), files={**FILES, "chunk.bin": b"abc"})
    assert verdict(corpus) == ""


WRONG_READS = {
    "byte": (read_answer(VALUES[:-2] + b"\7\0"), "element [1, 2] differs: expected 6, got 7"),
    "shape": (read_answer(shape=[3, 2]), "expected shape [2, 3], got [3, 2]"),
    "data type": (read_answer(data_type="uint16"), "expected data_type int16, got uint16"),
    "length": (read_answer(VALUES[:-1]), "expected 12 bytes of values, got 11"),
    "error": (error_answer("short_read", "chunk"), "got error short_read (chunk)"),
    "no base64": (read_answer(data="****"), "malformed answer: data is not base64"),
    "no shape": (read_answer(shape=None), "malformed answer: shape is not a list of sizes"),
    "size": (read_answer(shape=[2, True]), "malformed answer: shape is not a list of sizes"),
    "ok": ({"answer": {"ok": 1}}, "malformed answer: ok is not a boolean"),
    "phase": (error_answer("short_read", None), "malformed answer: error.phase is not one of"),
    "error form": ({"answer": {"ok": False, "error": "no"}}, "error is not an object"),
    "garbage": ({"line": "Hello, world"}, "a line that is not JSON"),
    "no object": ({"line": "[]"}, "not a JSON object"),
    "id": ({"line": '{"id": 77, "ok": true}'}, "the wrong id"),
    "id type": ({"line": '{"id": true, "ok": true}'}, "the wrong id"),
    "crash": ({"exit": 3}, "the adapter ended with status 3"),
    "closed": ({"close": True}, "the adapter closed its output"),
}


@pytest.mark.parametrize("kind", WRONG_READS)
def test_a_wrong_answer_to_read_fails(
    corpus: CorpusWriter, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.runner.adapter_process._LEAVING_SECONDS", 0.5)
    do, message = WRONG_READS[kind]
    corpus.case("a/wrong", [READ], [do], files=FILES)
    assert message in verdict(corpus)


CHUNK = {"bytes": "expected.bin", "sha256": sha256(VALUES)}
REFUSAL = {"error": {"code": "invalid_entry", "phase": "manifest"}}
OTHER_WRONG = [
    ("read", REFUSAL, error_answer("invalid_path", "manifest"), "got error invalid_path"),
    ("read", REFUSAL, error_answer("invalid_entry", "chunk"), "got error invalid_entry (chunk)"),
    ("read", REFUSAL, read_answer(), "got values int16 [2, 3]"),
    ("get_chunk", CHUNK, {"answer": {"data": base64_of(VALUES[:-1] + b"x")}}, "byte 11 differs"),
    ("get_chunk", CHUNK, {"answer": {"data": ""}}, "expected 12 bytes, got 0"),
    ("get_chunk", CHUNK, {"answer": {"data": None}}, "expected 12 bytes, got no chunk"),
    ("get_chunk", CHUNK, {"answer": {}}, "malformed answer: data"),
    ("get_chunk", {"missing": True}, {"answer": {"data": ""}}, "got 0 bytes of a chunk"),
    ("list", {"chunks": ["0", "1"]}, {"answer": {"chunks": ["1", "0"]}}, "sorted"),
    ("list", {"chunks": ["0", "1"]}, {"answer": {"chunks": ["0"]}}, "not listed ['1']"),
    ("list", {"chunks": ["0"]}, {"answer": {"chunks": ["0", "0"]}}, "each chunk once"),
    ("list", {"chunks": ["0"]}, {"answer": {"chunks": [0]}}, "malformed answer: chunks"),
    ("validate", {"problems": [{"code": "invalid_entry"}]}, {"answer": {"problems": []}}, "none"),
    (
        "validate",
        {"problems": []},
        {"answer": {"problems": [{"code": "invalid_path", "message": "?"}]}},
        "expected no problems, got invalid_path",
    ),
    ("validate", {"problems": []}, {"answer": {"problems": [{}]}}, "malformed answer: problems"),
    *(
        (
            "validate",
            {"problems": [{"code": "invalid_path", "chunk": wanted}]},
            {"answer": {"problems": [{"code": "invalid_path", "message": "?", "chunk": got}]}},
            f"problem invalid_path: chunk differs: expected {json.dumps(wanted)}, "
            f"got {json.dumps(got)}",
        )
        for wanted, got in [("0.1", "0/1"), ("0.1", None), (None, "0.1"), (None, "")]
    ),
    ("read", {"any_of": [REFUSAL, EXPECT_VALUES]}, read_answer(shape=[6]), "expected error"),
]


@pytest.mark.parametrize(("op", "expect", "do", "message"), OTHER_WRONG)
def test_other_wrong_answers_fail(
    corpus: CorpusWriter, op: str, expect: dict[str, Any], do: dict[str, Any], message: str
) -> None:
    corpus.case("a/wrong", [step(op, expect, chunk=[0])], [do], files=FILES)
    assert message in verdict(corpus)


def test_a_crash_and_a_hang_fail_their_case_only(corpus: CorpusWriter) -> None:
    corpus.case("a/crash", [READ], [{"exit": 1, "stderr": "out of luck\n"}], files=FILES)
    corpus.case("a/hang", [READ], [{"hang": True}], files=FILES)
    corpus.case("a/right", [READ], [read_answer()], files=FILES)
    crash, hang, right = run(corpus, timeout=1.0).results
    assert crash.verdict.message == "the adapter ended with status 1"
    assert crash.verdict.details == "out of luck"
    assert hang.verdict.message == "the adapter did not answer in time"
    assert right.outcome is Outcome.PASSED


def test_a_line_that_nobody_asked_for_fails(corpus: CorpusWriter) -> None:
    answer = json.dumps({"id": 1, "ok": True, **read_answer()["answer"]})
    corpus.case("a/two", [READ, READ], [{"line": f"{answer}\nloading"}], files=FILES)
    (result,) = run(corpus).results
    assert result.verdict.message.startswith("step 2 (read): the adapter ")
    assert result.verdict.details.startswith("loading")


@given(
    data_type=st.sampled_from(["bool", "uint8", "int64", "float16", "float32", "complex128"]),
    count=st.integers(1, 9),
    data=st.data(),
)
def test_values_are_compared_by_their_bits(data_type: str, count: int, data: st.DataObject) -> None:
    size = item_size(data_type)
    assert size is not None
    one, other = (
        data.draw(st.binary(min_size=size * count, max_size=size * count)) for _ in range(2)
    )
    expect = {"values": "x", "shape": [count], "data_type": data_type}
    answer = {"ok": True, "shape": [count], "data_type": data_type, "data": base64_of(other)}
    mismatch = compare(expect, answer, lambda _: one)
    assert (mismatch is None) == (one == other)
    if mismatch is not None:
        (element,) = re.findall(r"^element \[(\d+)\] differs", mismatch.message)
        start = int(element) * size
        assert one[:start] == other[:start]
        assert one[start : start + size] != other[start : start + size]


def test_nan_shows_its_bits() -> None:
    expect = {"values": "x", "shape": [], "data_type": "float32"}
    data = base64_of(struct.pack("<I", 0x7FC00001))
    answer = {"ok": True, "shape": [], "data_type": "float32", "data": data}
    mismatch = compare(expect, answer, lambda _: struct.pack("<I", 0x7FC00000))
    assert mismatch is not None
    assert mismatch.message == (
        "element [] differs: expected nan (0x7fc00000), got nan (0x7fc00001)"
    )


# ------------------------------------------------------------------ requests, places


def test_requests_say_everything(corpus: CorpusWriter) -> None:
    corpus.case(
        "a/echo",
        [{"op": "get_chunk", "array": "x/y", "chunk": [1], "expect": {"missing": True}}],
        [{"echo": True}],
        open={"allow": [{"prefix": "@SOURCES@/", "endpoint": "@S3@"}], "verify": "always"},
    )
    (result,) = run(corpus).results
    assert result.verdict.message == "expected no chunk, got error unexpected"
    assert json.loads(result.verdict.details.partition(": ")[2]) == {
        "id": 1,
        "op": "get_chunk",
        "hierarchy": "@HIERARCHY@",
        "array": "x/y",
        "chunk": [1],
        "range": None,
        "reuse": False,
        # The report has placeholders again, for what was different in this run.
        "allow": [{"prefix": "@SOURCES@/", "endpoint": "@S3@"}],
        "base": None,
        "verify": "always",
        "missing": "fill",
        "limits": {},
        "via": "file",
        "consolidated": True,
    }


def test_placeholders_are_replaced(corpus: CorpusWriter, tmp_path: Path) -> None:
    """In JSON below hierarchy/ (the adapter can fetch them), and nowhere else."""
    (tmp_path / "corpus").mkdir()
    corpus = CorpusWriter(tmp_path / "corpus")
    fetched = [
        ["GET", "@SOURCES@/plain.json", {}],
        ["GET", "file://@SOURCES_PATH@/plain.json", {}],
        ["GET", "@HIERARCHY@/raw.bin", {}],
        ["GET", "@HTTP@/plain.json", {}],
        ["HEAD", "@HTTP2@/plain.json", {}],
        ["GET", "@S3@/bucket/key", {}],
    ]
    corpus.case(
        "a/places",
        [READ],
        [{"fetch": fetched, **read_answer()}],
        files={
            **FILES,
            "sources/plain.json": b'"@HTTP@"',
            "sources/bucket/key": b"",
            "hierarchy/raw.bin": b"@HTTP@",
            "hierarchy/latin.json": b'"\xe9 @HTTP@"',
        },
        servers={name: {"root": "sources"} for name in ("http", "http2", "s3")},
        requests={
            "http": {"min": 1, "max": 1, "paths": ["/plain.json"], "methods": ["GET"]},
            "http2": {"min": 1, "max": 1, "paths": ["/plain.json"], "methods": ["HEAD"]},
            "s3": {"min": 1, "max": 1, "paths": ["/bucket/key"]},
        },
    )
    assert verdict(corpus) == ""


def test_a_hierarchy_over_http(corpus: CorpusWriter) -> None:
    corpus.case(
        "a/http",
        [READ],
        [read_answer()],
        files=FILES,
        features=["read", "hierarchy-http"],
        open={"via": "http"},
        servers={"http": {"root": "hierarchy"}},
        requests={"http": {"paths": ["/do.json"], "min": 1}},
    )
    assert verdict(corpus) == ""


@pytest.mark.parametrize(
    ("method", "asked", "is_whole"),
    [("GET", "bytes=0-", True), ("GET", "bytes=0-0", False), ("HEAD", "bytes=0-", False)],
)
def test_requests_for_the_whole_are_counted(
    corpus: CorpusWriter, method: str, asked: str, is_whole: bool
) -> None:
    corpus.case(
        "a/requests",
        [READ],
        [{"fetch": [[method, "@HTTP@/c", {"Range": asked}]], **read_answer()}],
        files=FILES,
        requests={"http": {"whole": 0}},
    )
    assert ("for the whole" in verdict(corpus)) is is_whole


def test_a_hierarchy_below_a_path_over_http(corpus: CorpusWriter) -> None:
    corpus.case(
        "a/http",
        [READ],
        [{"fetch": [["GET", "@HTTP@/sources/beside.bin", {}]], **read_answer()}],
        files={**FILES, "sources/beside.bin": b"x"},
        features=["read", "hierarchy-http"],
        open={"via": "http"},
        servers={"http": {"root": "."}},
        requests={"http": {"paths": ["/hierarchy/do.json", "/sources/beside.bin"], "min": 2}},
    )
    assert verdict(corpus) == ""


WRONG_REQUESTS = [
    ({"max": 0}, "http: expected at most 0 requests, got more"),
    ({"whole": 0}, "http: expected at most 0 requests for the whole, got more"),
    ({"min": 3}, "http: expected at least 3 requests, got fewer"),
    ({"paths": ["/a b.bin"]}, "http: expected no requests with other paths, got ['/c']"),
    ({"methods": ["GET"]}, "http: expected no requests with other methods, got ['HEAD']"),
    ({"without_headers": ["Authorization"]}, "without the headers ['authorization']"),
]


@pytest.mark.parametrize(("asserted", "message"), WRONG_REQUESTS)
def test_extra_requests_fail(corpus: CorpusWriter, asserted: dict[str, Any], message: str) -> None:
    fetched = [
        ["GET", "@HTTP@/a%20b.bin?x=1", {"Authorization": "Bearer secret"}],
        ["HEAD", "@HTTP@/c", {}],
        # Asked by browsers on their own.
        ["OPTIONS", "@HTTP@/d", {}],
    ]
    corpus.case(
        "a/requests",
        [READ],
        [{"fetch": fetched, **read_answer()}],
        files=FILES,
        requests={"http": asserted},
    )
    assert message in verdict(corpus)


def test_requests_are_those_of_the_case(corpus: CorpusWriter) -> None:
    """Also where the case before left a server in the middle of something."""
    for number in range(5):
        corpus.case(
            f"a/number-{number}",
            [READ],
            [{"fetch": [["GET", f"@HTTP@/{number}", {}]], **read_answer()}],
            files=FILES,
            servers={"http": {"root": "hierarchy", "rules": [{"path": "/0", "truncate": 0}]}},
            requests={"http": {"max": 1, "min": 1, "paths": [f"/{number}"]}},
        )
    assert run(corpus).unexpected == 0


def test_links_are_made_in_the_copy(corpus: CorpusWriter) -> None:
    corpus.case(
        "a/links",
        [READ],
        [{"fetch": [["GET", "@HIERARCHY@/a/b/link.bin", {}]], **read_answer()}],
        files={**FILES, "sources/there.bin": b"x"},
        links={
            "hierarchy/a/b/link.bin": "../../../sources/there.bin",
            "hierarchy/dangling.bin": "nowhere",
        },
    )
    assert verdict(corpus) == ""


def test_a_case_is_skipped_where_links_cannot_be_made(
    corpus: CorpusWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("a required privilege is not held")

    corpus.case("a/links", [READ], files=FILES, links={"hierarchy/x": "y"})
    corpus.case("a/right", [READ], [read_answer()], files=FILES)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    linked, right = run(corpus).results
    assert (linked.outcome, right.outcome) == (Outcome.SKIPPED, Outcome.PASSED)
    assert linked.verdict.message == "symbolic links cannot be made here"


# ------------------------------------------------------------------ expectations, skipping


def test_what_a_reader_must_not_have(corpus: CorpusWriter) -> None:
    corpus.case("a/with", [READ], [read_answer()], files=FILES, lacks=["list", "write"])
    corpus.case("a/without", [READ], [read_answer()], files=FILES, lacks=["write"])
    with_it, without = run(corpus).results
    assert with_it.verdict.message == "is for readers without list"
    assert (with_it.outcome, without.outcome) == (Outcome.SKIPPED, Outcome.PASSED)


def test_classes_held(corpus: CorpusWriter) -> None:
    right, wrong = [read_answer()], [read_answer(shape=[6])]
    for name, cls, do, members in (
        ("core", "core", right, {}),
        ("optional", "core", wrong, {"level": "should"}),
        ("transport", "core", right, {"features": ["read", "s3"]}),
        ("safe", "safe", right, {}),
        ("known", "safe", wrong, {}),
        ("not-claimed", "checksums", right, {}),
        ("not-run", "validator", right, {"features": ["validate", "s3"]}),
    ):
        corpus.case(f"a/{name}", [READ], do, files=FILES, **{"class": cls}, **members)
    listed = Expectations("scripted", {"a/known": "shape"})
    report = run(corpus, listed)
    assert report.unexpected == 0
    assert report.held == ("core",)
    part = run_suite(adapter_command(), corpus.load().select(["a/core", "a/transport"]))
    assert (part.unexpected, part.held) == (0, ())


def test_no_reader_is_safe_without_limits(corpus: CorpusWriter) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES, **{"class": "safe"})
    assert run(corpus).held == ("safe",)
    assert run_suite(adapter_command(features=["read"]), corpus.load()).held == ()


def test_known_failures(corpus: CorpusWriter) -> None:
    corpus.case("a/known", [READ], [read_answer(shape=[6])], files=FILES)
    corpus.case("a/new", [READ], [read_answer(shape=[6])], files=FILES)
    corpus.case("a/repaired", [READ], [read_answer()], files=FILES)
    corpus.case("a/optional", [READ], [read_answer(shape=[6])], files=FILES, level="should")
    corpus.case("a/lacking", [READ], files=FILES, features=["read", "s3"])
    listed = {"a/known": "shape", "a/repaired": "shape", "a/lacking": "s3", "a/gone": "?"}
    report = run(corpus, Expectations("scripted", listed))
    assert [result.outcome for result in report.results] == [
        Outcome.KNOWN,
        Outcome.FAILED,
        Outcome.UNEXPECTED_PASS,
        Outcome.ADVISORY,
        Outcome.SKIPPED,
    ]
    assert report.problems == ("the expectations list a/gone, which is not a case",)
    assert report.unexpected == 3


def test_a_selection_knows_all_ids(corpus: CorpusWriter) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES)
    corpus.case("b/two", [READ], [read_answer(shape=[6])], files=FILES)
    selected = corpus.load().select(only=["a/*"])
    listed = Expectations("scripted", {"b/two": "shape"})
    assert run_suite(adapter_command(), selected, listed).unexpected == 0


def test_a_run_without_cases_does_not_succeed(corpus: CorpusWriter) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES)
    with pytest.raises(UsageError, match="nothing was tested"):
        run_suite(adapter_command(features=[]), corpus.load())


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        ({"protocol": 2}, "it speaks protocol 2, but the runner speaks 1"),
        ({"protocol": True}, "it speaks protocol True"),
        ({"ok": False, "error": "no"}, "it answered with an error"),
        ({"features": "read"}, "features is not a list of strings"),
        ({"version": None}, "version is not a string"),
        ({"features": ["reed"]}, r"features that do not exist: \['reed'\]"),
    ],
)
def test_a_wrong_hello(corpus: CorpusWriter, hello: dict[str, Any], message: str) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES)
    with pytest.raises(UsageError, match=message):
        run_suite(adapter_command(**hello), corpus.load())


@pytest.mark.parametrize(
    "command", [["/no/such/program"], [sys.executable, "-c", "raise SystemExit('no luck')"]]
)
def test_an_adapter_that_cannot_be_started(corpus: CorpusWriter, command: list[str]) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES)
    with pytest.raises(UsageError, match=r"cannot be started|(?s:did not answer hello.*no luck)"):
        run_suite(command, corpus.load())


def test_expectations_of_another_implementation(corpus: CorpusWriter) -> None:
    corpus.case("a/one", [READ], [read_answer()], files=FILES)
    with pytest.raises(UsageError, match="those of other, not of scripted"):
        run(corpus, Expectations("other", {}))
