"""The corpus notices what it is there to notice: every mutant fails in its areas.

That nothing fails without a mutation is what `make conformance` shows before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from conformance.adapters.mutants.registry import replace
from conformance.adapters.mutants.table import MUTANTS, Mutant
from conformance.generator.areas import AREAS
from conformance.runner.cases import Corpus, load_corpus
from conformance.runner.expectations import load_expectations
from conformance.runner.results import Outcome, Result
from conformance.runner.run import run_suite

SUITE = Path(__file__).parents[1]
# What the unmutated adapter fails does not tell that a mutant is noticed.
KNOWN = load_expectations(SUITE / "expectations" / "python.json")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """All cases."""
    return load_corpus(SUITE)


class _SeenEnoughError(Exception):
    """Every area of a mutant has noticed it."""


def _areas_that_notice(mutant: Mutant, corpus: Corpus) -> set[str]:
    command = [sys.executable, "-m", "conformance.adapters.mutants", mutant.name]
    noticed: set[str] = set()

    def progress(result: Result) -> None:
        if result.outcome is Outcome.FAILED:
            noticed.add(result.case.area)
        if noticed == set(mutant.areas):
            # What the other cases say is of no interest, and takes time.
            raise _SeenEnoughError

    try:
        run_suite(command, corpus.select(areas=mutant.areas), KNOWN, progress=progress)
    except _SeenEnoughError:
        return noticed
    return noticed


def test_a_patch_of_what_is_not_there_fails_loudly() -> None:
    package = ModuleType("package")
    with pytest.raises(LookupError, match="package has no 'moved'"):
        replace(package, "moved", lambda original: original)
    assert not hasattr(package, "moved")


def test_there_is_a_mutant_for_every_area() -> None:
    areas = {area.replace("_", "-") for area in AREAS}
    assert areas == {area for mutant in MUTANTS.values() for area in mutant.areas}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_mutant_fails_in_each_of_its_areas(mutant: Mutant, corpus: Corpus) -> None:
    assert _areas_that_notice(mutant, corpus) == set(mutant.areas)
