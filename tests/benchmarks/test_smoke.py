"""The command runs: one group of rows, with little data, each cell in a process of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import cases
from benchmarks.__main__ import SAVED, main
from benchmarks.cases import Group
from benchmarks.effort import Effort
from benchmarks.results import Results
from benchmarks.rows import GROUPS

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


def test_what_is_measured_again_adds_to_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved = Results(Effort(quick=True, passes=1), numbers={"R5 read": {cases.US: {"wall": 1.0}}})
    saved.save(SAVED)
    native = GROUPS["native"]
    efforts: list[Effort] = []

    def group(effort: Effort) -> Group:
        efforts.append(effort)
        return replace(native(effort), cases=())

    monkeypatch.setitem(GROUPS, "native", group)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "native", "--again", "--passes", "2"])
    assert main() == 0
    assert efforts[0] == Effort(quick=True, passes=2)
    assert Results.load(SAVED) == saved


def test_unknown_names_are_usage_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "unknown: nothing" in capsys.readouterr().err
