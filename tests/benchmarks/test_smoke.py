"""The command runs: one group of rows, with little data, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.documentation import ROOT

pytestmark = pytest.mark.slow


def run(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    # A directory of its own: results are kept in the current one.
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def test_a_group_is_measured_and_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run("native", "--quick", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "R5 append, native array" in done.stdout
    assert "R5 CPU of listing, of native" in done.stdout
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "native", "--saved"])
    assert main() == 0
    assert capsys.readouterr().out == done.stdout


def test_unknown_names_are_usage_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "unknown: nothing" in capsys.readouterr().err
