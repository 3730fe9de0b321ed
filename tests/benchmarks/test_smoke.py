"""The command runs: one group of rows, with little data, each cell in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main

pytestmark = pytest.mark.slow


def test_a_group_is_measured_and_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where results are kept
    monkeypatch.setattr(sys, "argv", ["benchmarks", "native", "--quick"])
    status, printed = main(), capsys.readouterr()
    assert status == 0, printed.err
    assert "R5 append, native array" in printed.out
    assert "R5 CPU of listing, of native" in printed.out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "native", "--saved"])
    assert main() == 0
    assert capsys.readouterr().out == printed.out


def test_unknown_names_are_usage_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "unknown: nothing" in capsys.readouterr().err
