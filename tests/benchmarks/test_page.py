"""docs/performance.md is what the command wrote: every row, every goal, the machine, all plots."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks import cases, page, plots
from benchmarks.effort import Effort
from benchmarks.rows import GROUPS
from benchmarks.standing import goals
from tests.documentation import ROOT

TEXT = page.PAGE.read_text(encoding="utf-8")
#: The page says it if it was written in a quick run: its rows then have other sizes.
EFFORT = Effort(quick="**quick** run" in TEXT)


def test_every_row_is_there() -> None:
    for make in GROUPS.values():
        for case in make(EFFORT).cases:
            for quantity in case.quantities:
                assert f"\n| {case.title} | {quantity.unit} |" in TEXT


def test_every_column_is_there() -> None:
    assert f"| work |  | {' | '.join(cases.COLUMNS)} |" in TEXT


def test_every_goal_is_there_with_its_verdict() -> None:
    for goal in goals():
        (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| {goal.text} |")]
        assert line.split("|")[-2].strip() in ("met", "not met")


def test_nothing_had_failed() -> None:
    assert "failed: " not in TEXT
    assert "not installed" not in TEXT


def test_the_machine_is_named() -> None:
    machine = TEXT.partition("## The machine")[2]
    assert "cores" in machine
    assert "zarr 3." in machine


def test_what_matters_comes_first() -> None:
    before = TEXT.partition("## ")[0]
    assert before.count("\n- **") == 5
    assert "?" not in before


def test_plots_are_there_and_show_every_line() -> None:
    for name, expected in (
        (plots.SUMMARY, {cases.US, cases.NATIVE, cases.ICECHUNK}),
        (
            plots.OPENING,
            {"zarr-manifest, one document", "zarr-manifest, partitions", "Icechunk, split"},
        ),
        (plots.READING, {cases.US, cases.NATIVE, cases.TENSORSTORE}),
    ):
        assert f"]({name})" in TEXT
        drawn = ElementTree.parse(ROOT / "docs" / name)
        assert expected <= {
            element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")
        }
