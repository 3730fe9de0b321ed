"""The conformance runner's command line, reports, one-shot mode, and table."""

from __future__ import annotations

import ast
import base64
import json
import re
import runpy
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.runner import table
from conformance.runner.command_line import main
from conformance.runner.one_shot import parse_values
from conformance.tests.corpora import CorpusWriter, adapter_command, sha256, tool_command

SUITE = Path(__file__).parents[1]
DATA = struct.pack("<2h", 1, -2)
EXPECT = {
    "values": "expected.bin",
    "sha256": sha256(DATA),
    "shape": [2],
    "data_type": "int16",
}
READ = {"op": "read", "array": "", "expect": EXPECT}
RIGHT = {"answer": {"shape": [2], "data_type": "int16", "data": base64.b64encode(DATA).decode()}}
WRONG = {"answer": {**RIGHT["answer"], "shape": [1]}}
FILES = {"expected.bin": DATA}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    """One that passes, one that does not, one that may fail, one that is skipped."""
    directory = tmp_path / "corpus"
    directory.mkdir()
    writer = CorpusWriter(directory)
    writer.case("one/right", [READ], [RIGHT], files=FILES)
    writer.case("one/wrong", [READ], [WRONG], files=FILES)
    advised = {"level": "should", "class": "safe"}
    writer.case("two/advised", [READ], [WRONG], files=FILES, **advised)
    writer.case("two/s3", [READ], [RIGHT], files=FILES, features=["read", "s3"])
    writer.write_index()
    return writer


def run(corpus: CorpusWriter, *options: object, command: list[str] | None = None) -> int:
    given = ["--corpus", str(corpus.directory), *map(str, options)]
    return main([*given, "--", *(adapter_command() if command is None else command)])


TABLE = """\
scripted 1.0

class    passed    failed     known  advisory   skipped
core          1         1         0         0         1
safe          0         0         0         1         0

area     passed    failed     known  advisory   skipped
one           1         1         0         0         0
two           0         0         0         1         1
total         1         1         0         1         1

classes held: safe

FAILED one/wrong: expected shape [2], got [1]
    A test.
    specification: reading

advisory failure two/advised: expected shape [2], got [1]
    A test.
    specification: reading
"""


def test_text(corpus: CorpusWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(corpus) == 1
    assert capsys.readouterr().out == TABLE


def test_selections(corpus: CorpusWriter, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(corpus, "--only", "*/right", "--verbose") == 0
    assert capsys.readouterr().err == "         passed one/right\n"
    # A failure of `should` does not fail the run.
    assert run(corpus, "--area", "two") == 0
    capsys.readouterr()
    assert main(["--corpus", str(corpus.directory), "--list", "--only", "two/*"]) == 0
    assert capsys.readouterr().out == "two/advised\ntwo/s3\n"


def test_recording(corpus: CorpusWriter, tmp_path: Path) -> None:
    recorded = tmp_path / "known.json"
    assert run(corpus, "--record", recorded) == 0
    assert recorded.read_text() == (
        '{\n  "implementation": "scripted",\n  "failures": {\n'
        '    "one/wrong": "expected shape [2], got [1]",\n'
        '    "two/advised": "expected shape [2], got [1]"\n  }\n}\n'
    )
    assert run(corpus, "--expect", recorded) == 0
    listed = json.loads(recorded.read_text())
    listed["failures"]["one/right"] = "once failed"
    recorded.write_text(json.dumps(listed))
    assert run(corpus, "--expect", recorded) == 1


def test_a_record_is_the_same_in_every_run(corpus: CorpusWriter, tmp_path: Path) -> None:
    error = {"code": "unexpected", "phase": None, "message": "@HTTP@ @SOURCES@"}
    corpus.case("one/error", [READ], [{"answer": {"ok": False, "error": error}}], files=FILES)
    corpus.case("one/crash", [READ], [{"exit": 1, "stderr": "@S3@\n"}], files=FILES)
    fetched = {"fetch": [["GET", "@HTTP@/@HTTP2@", {}]], **RIGHT}
    corpus.case("one/path", [READ], [fetched], files=FILES, requests={"http": {"paths": []}})
    corpus.write_index()
    texts = set()
    for number in range(2):
        assert run(corpus, "--record", tmp_path / f"{number}.json") == 0
        texts.add((tmp_path / f"{number}.json").read_text())
    (text,) = texts
    assert "/@HTTP2@" in text


def test_json_and_badge(corpus: CorpusWriter, tmp_path: Path) -> None:
    run(corpus, "--json", tmp_path / "r.json", "--badge", tmp_path / "b.json")
    report = json.loads((tmp_path / "r.json").read_text())
    for result in report["results"]:
        assert result.pop("seconds") >= 0
    nothing = dict.fromkeys(
        ["passed", "known", "advisory", "skipped", "failed", "unexpected_pass"], 0
    )
    assert report == {
        "format": 1,
        "implementation": {
            "name": "scripted",
            "version": "1.0",
            "features": [
                "get_chunk",
                "hierarchy-http",
                "http",
                "limits",
                "list",
                "read",
                "validate",
            ],
        },
        "corpus_sha256": sha256((corpus.directory / "index.json").read_bytes()),
        "unexpected": 1,
        "problems": [],
        "summary": nothing | {"passed": 1, "failed": 1, "advisory": 1, "skipped": 1},
        "held": ["safe"],
        "classes": {
            "core": nothing | {"passed": 1, "failed": 1, "skipped": 1},
            "safe": nothing | {"advisory": 1},
        },
        "areas": {
            "one": nothing | {"passed": 1, "failed": 1},
            "two": nothing | {"advisory": 1, "skipped": 1},
        },
        "results": [
            {"id": "one/right", "level": "must", "class": "core", "outcome": "passed"},
            {
                "id": "one/wrong",
                "level": "must",
                "class": "core",
                "outcome": "failed",
                "message": "expected shape [2], got [1]",
            },
            {
                "id": "two/advised",
                "level": "should",
                "class": "safe",
                "outcome": "advisory",
                "message": "expected shape [2], got [1]",
            },
            {
                "id": "two/s3",
                "level": "must",
                "class": "core",
                "outcome": "skipped",
                "message": "lacks s3",
            },
        ],
    }
    assert json.loads((tmp_path / "b.json").read_text()) == {
        "schemaVersion": 1,
        "label": "chunk-manifest-json",
        "message": "safe \u00b7 1/3, 1 skipped",
        "color": "red",
    }


@pytest.mark.parametrize(
    ("only", "message", "color"),
    [
        # The badge of a class is complete; that of a part of one names none.
        ("*/right", "1/1", "green"),
        ("two/advised", "safe \u00b7 0/1", "yellow"),
    ],
)
def test_badges(corpus: CorpusWriter, tmp_path: Path, only: str, message: str, color: str) -> None:
    assert run(corpus, "--only", only, "--badge", tmp_path / "b.json") == 0
    badge = json.loads((tmp_path / "b.json").read_text())
    assert (badge["message"], badge["color"]) == (message, color)


def test_junit(corpus: CorpusWriter, tmp_path: Path) -> None:
    corpus.case("two/crash", [READ], [{"exit": 1, "stderr": "\x1b[31m<&>\x00"}], files=FILES)
    corpus.write_index()
    known = {"implementation": "scripted", "failures": {"one/right": "once", "three/gone": "?"}}
    (tmp_path / "known.json").write_text(json.dumps(known))
    assert run(corpus, "--junit", tmp_path / "j.xml", "--expect", tmp_path / "known.json") == 1
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    shown = {
        name: tuple(suite.get(count) for count in ("tests", "failures", "skipped"))
        for name, suite in suites.items()
    }
    assert shown == {
        "core": ("4", "3", "1"),
        "safe": ("1", "0", "1"),
        "expectations": ("1", "1", None),
    }
    held = {
        name: [(part.get("name"), part.get("value")) for part in suite.iter("property")]
        for name, suite in suites.items()
    }
    assert held == {"core": [("held", "false")], "safe": [("held", "true")], "expectations": []}
    found = {
        f"{test.get('classname')}/{test.get('name')}": [(part.tag, part.get("message"))]
        for test in root.iter("testcase")
        for part in test
    }
    assert found == {
        "one/right": [("failure", "unexpected_pass: the expectations list it as a failure: once")],
        "one/wrong": [("failure", "expected shape [2], got [1]")],
        "two/advised": [("skipped", "advisory: expected shape [2], got [1]")],
        "two/s3": [("skipped", "lacks s3")],
        "two/crash": [("failure", "the adapter ended with status 1")],
        "expectations/the expectations list three/gone, which is not a case": [
            ("failure", "the expectations list three/gone, which is not a case")
        ],
    }
    said = "A test.\nspecification: reading"
    assert run(corpus, "--junit", tmp_path / "j.xml", "--only", "one/*") == 1
    assert not [*ElementTree.parse(tmp_path / "j.xml").iter("property")]
    assert [part.text for part in root.iter("failure")] == [
        said,
        said,
        f"{said}\n\N{REPLACEMENT CHARACTER}[31m<&>\N{REPLACEMENT CHARACTER}",
        None,
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corpus", "/no/such"], "/no/such/index.json: cannot be loaded"),
        (["--only", "none/*"], "no case matches none/*"),
        (["--area", "none"], "no case matches none"),
        (["--record", "known.json", "--only", "one/*"], "--record must run all cases"),
        (["--record", "a", "--expect", "b"], "mutually exclusive"),
        (["--expect", "/no/such.json"], "/no/such.json: cannot be loaded"),
        (["--json", "/no/such/report.json"], "/no/such: no such directory"),
        (["--timeout", "0"], "--timeout must be positive"),
        (["--one-shot", "--features", "read,reed"], "unknown features ['reed']"),
        (["--only", "two/s3"], "nothing was tested"),
    ],
)
def test_usage_errors(
    corpus: CorpusWriter, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(corpus, *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", '{"failures": {}}', "{", '{"implementation": 1}'])
def test_malformed_expectations(corpus: CorpusWriter, tmp_path: Path, content: str) -> None:
    (tmp_path / "known.json").write_text(content)
    assert run(corpus, "--expect", tmp_path / "known.json") == 2


def test_as_a_program(corpus: CorpusWriter) -> None:
    """Nothing is imported but the standard library."""
    program = [sys.executable, "-S", "-W", "error", "-m", "conformance.runner"]
    program += ["--corpus", str(corpus.directory)]
    command = [*program, "--", *adapter_command()]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, TABLE, "")
    assert subprocess.run(program, capture_output=True, cwd=root, check=False).returncode == 2


# What an old Python loads before it can say that it is too old.
LOADED_FIRST = ("__init__.py", "runner/__init__.py", "runner/__main__.py")


@pytest.mark.parametrize("name", LOADED_FIRST)
def test_an_old_python_can_say_that_it_is_too_old(name: str) -> None:
    ast.parse((SUITE / name).read_text(encoding="utf-8"), feature_version=(3, 7))


def test_an_old_python_says_which_one_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 9))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SUITE / "runner" / "__main__.py"))
    assert ended.value.code == 2
    said = "error: the conformance runner needs Python 3.12 or later, and this is "
    assert capsys.readouterr().err.startswith(said)


# ------------------------------------------------------------------ one-shot


def tool_case(corpus: CorpusWriter, id: str, expect: dict[str, Any], **said: Any) -> None:
    corpus.case(
        id,
        [{"op": "read", "array": "a", "selection": None, "expect": expect}],
        files={"expected.bin": DATA, "hierarchy/a/print.json": json.dumps(said).encode()},
    )


def test_one_shot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = CorpusWriter(tmp_path)
    refusal = {"error": {"code": "invalid_entry", "phase": "manifest"}}
    tool_case(corpus, "a/nested", EXPECT, output="[[1], [-2]]")
    tool_case(corpus, "a/words", EXPECT, output="1 -2\n")
    tool_case(corpus, "a/refused", refusal, status=1, output="error: bad entry", errors="no")
    tool_case(corpus, "a/either", {"any_of": [refusal, EXPECT]}, output="1 -2")
    tool_case(corpus, "b/value", EXPECT, output="1 2")
    tool_case(corpus, "b/count", EXPECT, output="1")
    tool_case(corpus, "b/status", EXPECT, output="1 -2", status=1)
    tool_case(corpus, "b/text", EXPECT, output="array([1, -2])")
    tool_case(corpus, "b/not-refused", refusal, output="0 0")
    tool_case(corpus, "b/hang", EXPECT, seconds=60)
    corpus.case("c/part", [{**READ, "selection": [[0, 1]]}], files=FILES)
    corpus.case("c/list", [{"op": "list", "array": "a", "expect": {"chunks": []}}])
    corpus.case("c/open", [READ], files=FILES, open={"allow": [{"prefix": "@SOURCES@/"}]})
    corpus.case("c/zstd", [READ], files=FILES, features=["read", "zstd"])
    corpus.write_index()
    options = ["--one-shot", "--name", "tool", "--timeout", "3", "--json", tmp_path / "r.json"]
    assert run(corpus, *options, command=tool_command()) == 1
    capsys.readouterr()
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["implementation"]["name"] == "tool"
    assert {result["id"]: result.get("message", "") for result in report["results"]} == {
        "a/nested": "",
        "a/words": "",
        "a/refused": "",
        "a/either": "",
        "b/value": "value 1 differs: expected -2, got 2",
        "b/count": "expected 2 values, got 1",
        "b/status": "expected values, got status 1 and 2 values",
        "b/text": "expected values, got status 0 and no values",
        "b/not-refused": "expected an error, got status 0 and 2 values",
        "b/hang": "the command did not end in time",
        "c/part": "the command only reads whole arrays",
        "c/list": "the command only reads whole arrays",
        "c/open": "the command has no options for opening a hierarchy",
        "c/zstd": "lacks zstd",
    }
    assert [result["outcome"] for result in report["results"][10:]] == ["skipped"] * 4


PROGRAMS = {
    "false": "raise SystemExit(1)",
    "true": "",
    "cat": "import sys; sys.exit(sys.stderr.write('no such file\\n') and 1)",
    "brackets": "print('[' * 1_000_000)",
    "zero": "print(0)",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_command_that_reads_nothing_has_passed_nothing(
    tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = CorpusWriter(tmp_path)
    refusal = {"error": {"code": "invalid_entry", "phase": "manifest"}}
    nothing = {**EXPECT, "values": "empty.bin", "sha256": sha256(b""), "shape": [0]}
    step = {"op": "read", "array": "a", "selection": None}
    files = {"expected.bin": DATA, "empty.bin": b""}
    for name, expect in (
        ("refused", refusal),
        ("either", {"any_of": [refusal, EXPECT]}),
        ("empty", nothing),
        ("values", EXPECT),
    ):
        corpus.case(f"a/{name}", [{**step, "expect": expect}], files=files)
    corpus.write_index()
    command = [sys.executable, "-S", "-c", PROGRAMS[program]]
    assert run(corpus, "--one-shot", command=command) == 1
    assert re.search(r"^total +0 +4 ", capsys.readouterr().out, re.MULTILINE)


def test_a_command_that_always_hangs_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = CorpusWriter(tmp_path)
    for number in range(9):
        tool_case(corpus, f"a/{number}", EXPECT, seconds=60)
    corpus.write_index()
    assert run(corpus, "--one-shot", "--timeout", "0.3", command=tool_command()) == 2
    assert "the command did not answer 3 times in a row" in capsys.readouterr().err


@given(st.lists(st.integers() | st.floats() | st.booleans()))
def test_printed_values(values: list[Any]) -> None:
    expected = [str(value) for value in values]
    for output in (json.dumps(values), json.dumps([values]), " ".join(expected)):
        parsed = parse_values(output)
        assert parsed is not None
        assert [str(value) for value in parsed] == expected


# ------------------------------------------------------------------ the table


def test_table(corpus: CorpusWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = adapter_command(name="all", features=["read", "s3", "limits"])
    recorded = tmp_path / "known.json"
    run(corpus, "--json", tmp_path / "a.json", "--only", "one/*")
    run(corpus, "--json", tmp_path / "b.json", "--record", recorded, command=everything)
    capsys.readouterr()
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert table.main(paths) == 1
    assert capsys.readouterr().out == (
        "| class | scripted 1.0   | all 1.0             |\n"
        "| ----- | -------------- | ------------------- |\n"
        "| core  | 1/2 (1 failed) | 2/3 (1 known)       |\n"
        "| safe  | -              | held: 0/1 (1 known) |\n"
        "\n"
        "| area  | scripted 1.0   | all 1.0       |\n"
        "| ----- | -------------- | ------------- |\n"
        "| one   | 1/2 (1 failed) | 1/2 (1 known) |\n"
        "| two   | -              | 1/2 (1 known) |\n"
        "| total | 1/2 (1 failed) | 2/4 (2 known) |\n"
    )
    assert table.main(paths[1:]) == 0
    assert table.main([str(recorded)]) == 2


def test_a_skipped_area() -> None:
    counts = {"passed": 0, "failed": 0, "unexpected_pass": 0, "known": 0, "advisory": 0}
    report = {
        "implementation": {"name": "x", "version": ""},
        "held": [],
        "classes": {},
        "areas": {"a": counts | {"skipped": 3}},
        "summary": counts | {"passed": 2, "skipped": 3},
    }
    lines = table.render([report]).splitlines()
    assert lines[-2:] == ["| a     | skipped         |", "| total | 2/2 (3 skipped) |"]
