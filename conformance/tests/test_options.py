"""Options for those who work on an implementation: what to run, what to keep, how many at once."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from conformance.runner import command_line
from conformance.runner.command_line import main
from conformance.runner.errors import UsageError
from conformance.runner.results import Result
from conformance.runner.run import run_suite
from conformance.tests.corpora import CorpusWriter, adapter_command, sha256, tool_command

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
DATA = struct.pack("<2h", 1, -2)
FILES = {"expected.bin": DATA}
EXPECT = {"values": "expected.bin", "sha256": sha256(DATA), "shape": [2], "data_type": "int16"}
READ = {"op": "read", "array": "", "expect": EXPECT}
RIGHT = {"answer": {"shape": [2], "data_type": "int16", "data": base64.b64encode(DATA).decode()}}
WRONG = {"answer": {**RIGHT["answer"], "shape": [1]}}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    """Cases of three classes and levels, right and wrong."""
    directory = tmp_path / "corpus"
    directory.mkdir()
    writer = CorpusWriter(directory)
    writer.case("one/right", [READ], [RIGHT], files=FILES)
    writer.case("one/wrong", [READ], [WRONG], files=FILES)
    writer.case("two/advised", [READ], [WRONG], files=FILES, level="should", **{"class": "safe"})
    writer.case("two/safe", [READ], [RIGHT], files=FILES, **{"class": "safe"})
    writer.case("two/s3", [READ], files=FILES, features=["read", "s3"])
    writer.write_index()
    return writer


def run(corpus: CorpusWriter, *options: object, command: list[str] | None = None) -> int:
    given = ["--corpus", str(corpus.directory), *map(str, options)]
    return main([*given, "--", *(adapter_command() if command is None else command)])


def listed(corpus: CorpusWriter, capsys: pytest.CaptureFixture[str], *options: object) -> list[str]:
    """Ids of the cases that options select."""
    capsys.readouterr()
    assert run(corpus, "--list", *options) == 0
    return capsys.readouterr().out.split()


# ------------------------------------------------------------------ --class, --failed


def test_a_class_narrows_what_is_selected(
    corpus: CorpusWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(corpus, capsys, "--class", "safe") == ["two/advised", "two/safe"]
    assert listed(corpus, capsys, "--class", "core", "--area", "two") == ["two/s3"]
    both = ["--class", "core", "--class", "safe"]
    assert listed(corpus, capsys, *both) == listed(corpus, capsys)


def test_a_class_that_was_selected_whole_can_be_held(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def held(*options: object) -> Any:
        run(corpus, "--json", tmp_path / "r.json", *options)
        return json.loads((tmp_path / "r.json").read_bytes())["held"]

    assert held("--class", "safe") == ["safe"]
    assert "classes held: safe" in capsys.readouterr().out
    assert held("--class", "core") == []
    assert held() == ["safe"]
    capsys.readouterr()
    assert held("--class", "safe", "--only", "two/safe") is None
    assert "classes held" not in capsys.readouterr().out


def test_what_failed_is_run_again(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "r.json"
    assert run(corpus, "--json", report) == 1
    assert listed(corpus, capsys, "--failed", report) == ["one/wrong", "two/advised"]
    assert listed(corpus, capsys, "--failed", report, "--class", "safe") == ["two/advised"]
    # A report can be continued until nothing fails.
    assert run(corpus, "--failed", report, "--json", report) == 1
    assert [one["id"] for one in json.loads(report.read_bytes())["results"]] == [
        "one/wrong",
        "two/advised",
    ]


def test_known_failures_are_not_run_again_but_unexpected_passes_are(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, report = tmp_path / "known.json", tmp_path / "r.json"
    failures = {"one/wrong": "?", "one/right": "?"}
    known.write_text(json.dumps({"implementation": "scripted", "failures": failures}))
    assert run(corpus, "--expect", known, "--json", report) == 1
    assert listed(corpus, capsys, "--failed", report) == ["one/right", "two/advised"]


def test_a_report_without_failures_or_of_other_cases(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "r.json"
    assert run(corpus, "--only", "one/right", "--json", report) == 0
    assert run(corpus, "--failed", report) == 2
    assert "nothing failed" in capsys.readouterr().err
    text = report.read_text().replace('"passed"', '"failed"').replace("one/right", "one/gone")
    report.write_text(text)
    assert run(corpus, "--failed", report) == 2
    assert "not cases of this corpus: one/gone" in capsys.readouterr().err
    report.write_text("{}")
    assert run(corpus, "--failed", report) == 2
    assert "is not a report" in capsys.readouterr().err


# ------------------------------------------------------------------ --keep, --trace


@pytest.fixture
def served(corpus: CorpusWriter) -> CorpusWriter:
    """A corpus with a failure for which a server was asked, and a link."""
    fetched = {"fetch": [["GET", "@HTTP@/plain.txt", {"Range": "bytes=0-1"}]]}
    corpus.case(
        "one/served",
        [READ, READ],
        [{**fetched, **RIGHT}, WRONG],
        files={**FILES, "sources/plain.txt": b"text"},
        servers={"http": {"root": "sources"}},
        links={"hierarchy/link": "../sources/plain.txt"},
    )
    corpus.write_index()
    return corpus


def test_failures_are_kept_as_they_were_run(
    served: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "with space" / "kept"
    assert run(served, "--keep", kept) == 1
    assert sorted(path.name for path in kept.iterdir()) == [
        "one.served",
        "one.wrong",
        "two.advised",
    ]
    assert f"    kept in {kept / 'one.served'}\n" in capsys.readouterr().out
    case = kept / "one.served"
    # The files are where the requests say.
    hello, first, second = map(json.loads, (case / "requests.jsonl").read_text().splitlines())
    assert (hello["op"], first["hierarchy"]) == ("hello", str(case / "hierarchy"))
    assert (case / "hierarchy" / "link").read_bytes() == b"text"
    assert "@HTTP@" not in (case / "hierarchy" / "do.json").read_text()
    assert (case / "received.txt").read_text() == "http: GET /plain.txt bytes=0-1\n"
    answers = [json.loads(line) for line in (case / "answers.jsonl").read_text().splitlines()]
    assert [answer["shape"] for answer in answers] == [[2], [1]]
    assert [answer["id"] for answer in answers] == [first["id"], second["id"]] == [1, 2]


def test_an_adapter_answers_kept_requests(corpus: CorpusWriter, tmp_path: Path) -> None:
    assert run(corpus, "--keep", tmp_path / "kept", "--only", "one/wrong") == 1
    case = tmp_path / "kept" / "one.wrong"
    with (case / "requests.jsonl").open() as requests:
        done = subprocess.run(
            adapter_command(), stdin=requests, capture_output=True, text=True, check=True
        )
    hello, answer = done.stdout.splitlines()
    assert json.loads(hello)["name"] == "scripted"
    assert json.loads(answer) == json.loads((case / "answers.jsonl").read_text())


def test_nothing_is_kept_of_what_passes_or_is_skipped(corpus: CorpusWriter, tmp_path: Path) -> None:
    assert run(corpus, "--keep", tmp_path / "kept", "--only", "*/right", "--only", "*/s3") == 0
    assert [*(tmp_path / "kept").iterdir()] == []


def test_a_directory_with_files_is_left_alone(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert run(corpus, "--keep", tmp_path) == 2
    assert "is not empty" in capsys.readouterr().err
    assert run(corpus, "--keep", tmp_path / "mine.txt") == 2
    assert "cannot be made" in capsys.readouterr().err


def test_a_trace_shows_requests_and_answers(
    served: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(served, "--trace", "--only", "one/*", "--json", tmp_path / "r.json") == 1
    shown = capsys.readouterr().out.partition("FAILED one/served")[2].splitlines()
    # In this run's report, locations are placeholders, as they are in its messages.
    assert [line[:6] for line in shown[3:]] == ["    → ", "    ← "] * 2 + ["    ht"]
    assert '"hierarchy": "@HIERARCHY@"' in shown[3]
    assert shown[7] == "    http: GET /plain.txt bytes=0-1"
    results = json.loads((tmp_path / "r.json").read_bytes())["results"]
    traces = {result["id"]: result.get("trace") for result in results}
    assert traces["one/right"] is None
    assert traces["one/served"] == [line[4:] for line in shown[3:]]


def test_a_trace_cuts_long_lines_and_has_no_answer_of_an_adapter_that_ended(
    corpus: CorpusWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    values = base64.b64encode(bytes(6000)).decode()
    long = {"answer": {**RIGHT["answer"], "data": values}}
    corpus.case("one/long", [READ], [long], files=FILES)
    corpus.case("one/crash", [READ], [{"exit": 3}], files=FILES)
    corpus.write_index()
    assert run(corpus, "--trace", "--only", "one/long", "--only", "one/crash") == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) < 520
    assert re.findall("^    ([→←]).*$", out, re.MULTILINE) == ["→", "←", "→"]


def test_commands_of_one_shot_are_traced_and_kept(
    corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.dumps({"output": "1 3\n", "errors": "hm\n"}).encode()
    step = {**READ, "array": "a", "selection": None}
    corpus.case("one/print", [step], files={**FILES, "hierarchy/a/print.json": said})
    corpus.write_index()
    kept = tmp_path / "kept"
    options = ("--one-shot", "--only", "one/print", "--keep", kept, "--trace", "--jobs", "2")
    assert run(corpus, *options, command=tool_command()) == 1
    command, *printed = (kept / "one.print" / "commands.txt").read_text().splitlines()
    assert command.endswith(f"--array_path={kept / 'one.print' / 'hierarchy' / 'a'}")
    assert printed == ["1 3", "hm", "exit status 0"]
    assert f"    {command}\n    1 3\n" in capsys.readouterr().out


# ------------------------------------------------------------------ --jobs


def test_jobs_give_the_same_report(corpus: CorpusWriter, tmp_path: Path) -> None:
    def report(jobs: int) -> Any:
        path = tmp_path / f"{jobs}.json"
        assert run(corpus, "--jobs", jobs, "--json", path) == 1
        loaded = json.loads(path.read_bytes())
        for result in loaded["results"]:
            del result["seconds"]
        return loaded

    assert report(1) == report(3)


def test_jobs_run_at_the_same_time_with_a_process_each(corpus: CorpusWriter) -> None:
    """Each of two cases waits until the other one has been asked."""
    meeting = {"meet": str(corpus.directory / "meeting"), "others": 2, **RIGHT}
    for name in ("a", "b"):
        corpus.case(f"three/{name}", [READ], [meeting], files=FILES)
    chosen = corpus.load().select(areas=["three"])
    report = run_suite(adapter_command(), chosen, jobs=2, timeout=30.0)
    assert report.unexpected == 0
    processes = {path.read_text() for path in (corpus.directory / "meeting").iterdir()}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


def test_progress_comes_in_the_order_of_the_corpus_from_one_thread(corpus: CorpusWriter) -> None:
    for number in range(20):
        corpus.case(f"three/n{number:02}", [READ], [RIGHT], files=FILES)
    threads: set[int] = set()
    seen: list[str] = []

    def progress(result: Result) -> None:
        threads.add(threading.get_ident())
        seen.append(result.case.id)

    loaded = corpus.load()
    run_suite(adapter_command(), loaded, jobs=4, progress=progress)
    assert seen == [case.id for case in loaded.cases]
    assert threads == {threading.get_ident()}


def test_a_suite_that_cannot_go_on_ends_all_jobs(corpus: CorpusWriter) -> None:
    meeting = corpus.directory / "meeting"
    for number in range(30):
        hang = {"meet": str(meeting), "others": 1, "hang": True}
        corpus.case(f"three/n{number:02}", [READ], [hang], files=FILES)
    chosen = corpus.load().select(areas=["three"])
    with pytest.raises(UsageError, match="did not answer 3 times in a row"):
        run_suite(adapter_command(), chosen, jobs=2, timeout=1.5)
    processes = [int(path.name) for path in meeting.iterdir()]
    assert 3 <= len(processes) < 30
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert not [one for one in threading.enumerate() if one.name.startswith("ThreadPool")]


# ------------------------------------------------------------------ documentation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--record", "known.json", "--class", "core"], "--record must run all cases"),
        (["--record", "known.json", "--failed", "/no/such.json"], "/no/such.json: cannot be"),
        (["--class", "checksums"], "no case matches checksums"),
    ],
)
def test_usage_errors(
    corpus: CorpusWriter, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(corpus, *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("/suite/runner/__main__.py", "python -m conformance.runner"),
        ("/bin/chunk-manifest-json-conformance", "chunk-manifest-json-conformance"),
    ],
)
def test_the_help_names_the_command_that_was_used(
    program: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out.startswith(f"usage: {shown} [options] -- COMMAND")


def test_the_readme_names_every_option_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Once in its table; examples may use it again."""
    command_line.parser().print_help()
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    table = re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE)
    assert sorted(table) == sorted(options)
