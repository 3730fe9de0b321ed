"""The command runs: one group of rows, with little data, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation import ROOT

pytestmark = pytest.mark.slow


def run(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    # A directory of its own: results are kept in the current one.
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def test_a_group_is_measured_and_shown_again(tmp_path: Path) -> None:
    done = run("native", "--quick", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "R5 append, native array" in done.stdout
    assert "R5 CPU of listing, of native" in done.stdout
    again = run("native", "--saved", directory=tmp_path)
    assert again.stdout == done.stdout


def test_unknown_names_are_usage_errors(tmp_path: Path) -> None:
    done = run("nothing", directory=tmp_path)
    assert done.returncode == 2
    assert "unknown: nothing" in done.stderr
