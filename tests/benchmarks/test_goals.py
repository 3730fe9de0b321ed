"""Ratios against bounds, and whether the goals are about what the table has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cases
from benchmarks.cases import US
from benchmarks.effort import Effort
from benchmarks.goals import MET, NOT_MEASURED, NOT_MET, Cell, Goal, judge
from benchmarks.results import Results
from benchmarks.rows import GROUPS
from benchmarks.standing import goals

NATIVE = Cell("R1", cases.NATIVE, "wall")


def results(**wall: float) -> Results:
    made = Results(Effort())
    columns = {"us": US, "native": cases.NATIVE}
    for name, seconds in wall.items():
        made.add("R1", columns[name], {"wall": seconds})
    return made


@given(st.floats(0.001, 1e3), st.floats(0.001, 1e3), st.floats(0.1, 20))
def test_a_ratio_is_met_at_most_its_bound(ours: float, theirs: float, bound: float) -> None:
    found = results(us=ours, native=theirs)
    goal = Goal("time", "R1", "wall", bound, NATIVE)
    assert goal.value(US, found) == pytest.approx(ours / theirs)
    assert goal.verdict(US, found) == (MET if ours / theirs <= bound else NOT_MET)
    faster = Goal("speed", "R1", "wall", bound, NATIVE, speedup=True)
    assert faster.value(US, found) == pytest.approx(theirs / ours)
    assert faster.verdict(US, found) == (MET if theirs / ours >= bound else NOT_MET)
    beyond = Goal("more", "R1", "wall", bound, NATIVE, beyond=True)
    assert beyond.verdict(US, found) == (MET if ours - theirs <= bound else NOT_MET)


def test_without_another_number_the_bound_is_for_ours() -> None:
    goal = Goal("requests", "R1", "wall", 20, unit="")
    assert goal.verdict(US, results(us=20)) == MET
    assert goal.verdict(US, results(us=21)) == NOT_MET
    assert goal.verdict(US, results(native=1)) == NOT_MEASURED


def test_a_cell_without_a_column_is_ours() -> None:
    found = results(us=4.0)
    found.add("R1", US, {"cpu": 8.0})
    goal = Goal("cores", "R1", "wall", 1.5, Cell("R1", None, "cpu"), speedup=True)
    assert goal.value(US, found) == 2.0


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (results(us=9, native=3), NOT_MET),
        (results(us=1, native=3), MET),
        (results(us=1), NOT_MEASURED),
    ],
)
def test_each_goal_has_a_verdict(found: Results, verdict: str) -> None:
    (row,) = judge([Goal("speed", "R1", "wall", 3, NATIVE, speedup=True)], found).rows
    assert row[-1] == verdict


def test_measuring_again_keeps_the_least() -> None:
    found = results(us=2.0)
    found.add("R1", US, {"wall": 3.0, "cpu": 1.0})
    found.add("R1", US, {"wall": 1.5, "cpu": 4.0})
    assert found.numbers["R1"][US] == {"wall": 1.5, "cpu": 1.0}


@pytest.mark.parametrize("effort", [Effort(), Effort(quick=True), Effort(huge=True)], ids=str)
def test_goals_are_about_cells_of_the_table(effort: Effort) -> None:
    found = {case.name: case for make in GROUPS.values() for case in make(effort).cases}
    for goal in goals():
        assert US in found[goal.case].columns, goal
        if goal.to is not None:
            assert (goal.to.column or US) in found[goal.to.case].columns, goal


@pytest.mark.parametrize("effort", [Effort(), Effort(quick=True), Effort(huge=True)], ids=str)
def test_every_column_takes_part_or_says_why_not(effort: Effort) -> None:
    names = []
    for make in GROUPS.values():
        for case in make(effort).cases:
            names.append(case.name)
            absent = set(cases.COLUMNS) - set(case.columns) - {cases.FLOOR}
            assert absent == set(case.reasons) - set(case.columns) - {cases.FLOOR}, case.name
            assert set(case.columns) <= set(cases.COLUMNS)
    assert len(set(names)) == len(names)
