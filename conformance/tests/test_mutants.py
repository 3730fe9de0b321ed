"""The corpus notices what it is there to notice: every mutant fails where it must.

That nothing fails without a mutation is what `make conformance` shows before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from conformance.adapters.mutants.registry import replace
from conformance.adapters.mutants.table import MUTANTS, Mutant
from conformance.generator.areas import AREAS
from conformance.runner.adapter_process import environment
from conformance.runner.cases import Corpus, load_corpus
from conformance.runner.expectations import load_expectations
from conformance.runner.results import Outcome, Result
from conformance.runner.run import run_suite

SUITE = Path(__file__).parents[1]
ATTACH = SUITE / "adapters" / "mutants" / "attach.py"
# What the unmutated adapter fails does not tell that a mutant is noticed.
KNOWN = load_expectations(SUITE / "expectations" / "python.json")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """All cases."""
    return load_corpus(SUITE)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[Path]:
    """The socket of a process that has imported the package, and forks."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "socket"
        command = [sys.executable, "-m", "conformance.adapters.mutants.fork_server", str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment()) as server:
            while not path.exists():
                assert server.poll() is None, "the fork server has ended"
                time.sleep(0.02)
            yield path
            assert server.stdin is not None
            server.stdin.close()


class _SeenEnoughError(Exception):
    """A mutant has been noticed."""


def _is_noticed(mutant: Mutant, place: str, corpus: Corpus, fork_server: Path) -> bool:
    """Whether a case of an area, or the case of an id, fails."""
    command = [sys.executable, "-I", "-S", str(ATTACH), str(fork_server), mutant.name]

    def progress(result: Result) -> None:
        if result.outcome in (Outcome.FAILED, Outcome.ADVISORY):
            # What the other cases say is of no interest, and takes time.
            raise _SeenEnoughError

    chosen = corpus.select([place if "/" in place else f"{place}/*"])
    try:
        run_suite(command, chosen, KNOWN, progress=progress)
    except _SeenEnoughError:
        return True
    return False


def test_a_patch_of_what_is_not_there_fails_loudly() -> None:
    package = ModuleType("package")
    with pytest.raises(LookupError, match="package has no 'moved'"):
        replace(package, "moved", lambda original: original)
    assert not hasattr(package, "moved")


def test_there_is_a_mutant_for_every_area() -> None:
    areas = {area.replace("_", "-") for area in AREAS}
    places = {place for mutant in MUTANTS.values() for place in mutant.noticed_in}
    assert areas == {place.partition("/")[0] for place in places}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_mutant_is_noticed(mutant: Mutant, corpus: Corpus, fork_server: Path) -> None:
    unnoticed = [
        place for place in mutant.noticed_in if not _is_noticed(mutant, place, corpus, fork_server)
    ]
    assert unnoticed == []
