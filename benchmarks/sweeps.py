"""What the plots show: the cost of opening by the number of references, of reading by chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.cases import CPU_SECONDS, SECONDS, Case, Group, Task
from benchmarks.chunks import write_chunks
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, repeat
from benchmarks.participants import PARTICIPANTS, write_all
from benchmarks.rows import opening
from benchmarks.rows.local_reads import OBJECTS, WRITTEN

REFERENCES = tuple(10**n for n in range(3, 9))
#: Beyond, only the partition that is read exists, and there is no document of all.
_MOST_WRITTEN = 10**6
CHUNKS = (1, 10, 100, 1000, 5000, 20_000)

DOCUMENT_COLUMNS = (cases.US, cases.ICECHUNK, cases.FSSPEC_JSON)
PARTITIONED_COLUMNS = (cases.US, cases.ICECHUNK, cases.FSSPEC_PARQUET)
READ_COLUMNS = tuple(column for column in cases.COLUMNS if column != cases.FLOOR)


def open_document(count: int) -> str:
    return f"open document {count}"


def open_partitions(count: int) -> str:
    return f"open partitions {count}"


def read_chunks(count: int) -> str:
    return f"read {count}"


def opening_group(effort: Effort) -> Group:
    made = []
    for count in effort.pick(REFERENCES, REFERENCES[:3]):
        name = str(count)
        if count <= _MOST_WRITTEN:
            run = partial(opening.open_first_chunk, name, opening.WHOLE)
            made.append(_case(open_document(count), run, DOCUMENT_COLUMNS))
        run = partial(opening.open_first_chunk, name, opening.PARTITIONED)
        made.append(_case(open_partitions(count), run, PARTITIONED_COLUMNS))
    return Group("sweep of opening", tuple(made), _prepare_opening)


def reading_group(effort: Effort) -> Group:
    most = _most_chunks(effort)
    made = [
        _case(read_chunks(count), partial(_read, count), READ_COLUMNS)
        for count in takewhile(lambda count: count <= most, CHUNKS)
    ]
    return Group("sweep of reading", tuple(made), _prepare_reading)


SWEEPS = {"sweep of opening": opening_group, "sweep of reading": reading_group}


def _case(name: str, run: Any, columns: tuple[str, ...]) -> Case:
    return Case(name, name, (SECONDS, CPU_SECONDS), run, columns)


@contextmanager
def _prepare_opening(directory: Path, effort: Effort) -> Iterator[None]:
    opening.write(directory / "small", 1000)
    for count in effort.pick(REFERENCES, REFERENCES[:3]):
        if count <= _MOST_WRITTEN:
            opening.write(directory / str(count), count)
        else:
            opening.write(directory / str(count), opening.PARTITION, grid=count)
    yield


@contextmanager
def _prepare_reading(directory: Path, effort: Effort) -> Iterator[None]:
    written = write_chunks(directory, (_most_chunks(effort), 32, 32), objects=OBJECTS)
    write_all(written, directory, WRITTEN)
    yield


def _most_chunks(effort: Effort) -> int:
    return effort.pick(CHUNKS[-1], 1000)


def _read(count: int, task: Task) -> Measured:
    participant = PARTICIPANTS[task.column]
    participant.configure()
    array = participant.open(task.directory)
    array[:1]
    return repeat(lambda: array[:count], task.effort.rounds())
