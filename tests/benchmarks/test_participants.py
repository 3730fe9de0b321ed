"""What is missing is a reason, not an error; and all read what was written."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import cases, runner
from benchmarks.cases import SECONDS, Case, Group, Task
from benchmarks.chunks import check, total, values, write_chunks
from benchmarks.effort import Effort
from benchmarks.measuring import Measured
from benchmarks.participants import PARTICIPANTS, Participant, lacking, write_all
from benchmarks.participants.bytes_alone import Objects
from benchmarks.results import Results
from benchmarks.rows.local_reads import WRITTEN


def test_missing_packages_are_named() -> None:
    assert lacking(["numpy", "no_such_package"]) == "not installed: no_such_package"
    assert lacking(["numpy"]) == ""


def test_who_is_missing_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Participant(lambda _: None, requires=("no_such_package",))
    monkeypatch.setitem(PARTICIPANTS, cases.TENSORSTORE, absent)

    def never(task: Task) -> Measured:
        raise AssertionError(task)

    case = Case("X", "x", (SECONDS,), never, (cases.TENSORSTORE,))
    other = Case("Y", "y", (SECONDS,), never, (cases.US,), requires=("neither_this",))
    results = Results(Effort(quick=True))
    group = Group("x", (case, other), lambda *_: nullcontext())
    runner.run_group(group, results.effort, results, lambda _: None)
    assert results.reason("X", cases.TENSORSTORE) == "not installed: no_such_package"
    assert results.reason("Y", cases.US) == "not installed: neither_this"
    assert results.failures == []


@pytest.mark.slow
# fsspec asks pandas for it.
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
@pytest.mark.parametrize("zstd", [False, True])
def test_all_read_the_same_values(tmp_path: Path, zstd: bool) -> None:
    references = write_chunks(tmp_path, (40, 16, 16), objects=4, zstd=zstd)
    write_all(references, tmp_path, WRITTEN)
    expected = values(references.shape, compressible=zstd)
    assert int(expected.sum(dtype="i8")) == total(references)
    for column, participant in PARTICIPANTS.items():
        found = participant.open(tmp_path)[:]
        if column != cases.FLOOR or not zstd:
            assert (found == expected).all(), column
            check(references, found)
    wrong = expected.copy()
    wrong[-1, -1, -1] += 1
    with pytest.raises(AssertionError):
        check(references, wrong)


def test_the_floor_reads_each_object_once(tmp_path: Path) -> None:
    references = write_chunks(tmp_path, (40, 16, 16), objects=4)
    assert len(Objects(references)._spans) == 4
