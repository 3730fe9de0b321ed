"""Opening a hierarchy and reading its first chunk: one document, partitions, a great many.

Each process has opened a small hierarchy before, so that imports and threads do not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import zarr
from numcodecs import Zstd

from benchmarks import cases
from benchmarks.cases import CPU_SECONDS, PEAK, SECONDS, Case, Group, Quantity, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, measure
from benchmarks.participants import PARTICIPANTS, icechunk_repository, ours, virtual_zarr
from benchmarks.participants.fsspec_references import write_parquet
from benchmarks.references import (
    CHUNK_BYTES,
    PER_OBJECT,
    Places,
    References,
    consecutive,
    first_chunk,
)

#: Entries in a partition, a split manifest and a record.
PARTITION = 10_000
#: Chunks of the array with a great many, of which one partition is written.
GREAT_MANY = 100_000_000

_NO_DOCUMENT = "Parquet reference sets are always in partitions"
_NO_PARTITIONS = "its references are always read as a whole"
_IN_MEMORY = "has no form of its own on disk; what it is made from is read as a whole"


def group(effort: Effort) -> Group:
    count = f"{effort.pick(10**6, 10**5):,}"
    documents = (cases.US, *_NATIVE, cases.ICECHUNK, cases.VIRTUALIZARR, cases.FSSPEC_JSON)
    partitioned = (cases.US, *_NATIVE, cases.ICECHUNK, cases.FSSPEC_PARQUET, cases.FLOOR)
    reasons = {cases.FSSPEC_JSON: _NO_PARTITIONS, cases.VIRTUALIZARR: _IN_MEMORY}
    return Group(
        "opening",
        (
            Case(
                "O1",
                f"O1 open one document of {count} entries, first chunk",
                (CPU_SECONDS, PEAK),
                partial(open_first_chunk, "large", WHOLE),
                (*documents, cases.FLOOR),
                {cases.FSSPEC_PARQUET: _NO_DOCUMENT},
            ),
            Case(
                "O2",
                f"O2 open {count} entries in partitions, first chunk",
                (CPU_SECONDS, PEAK),
                partial(open_first_chunk, "large", PARTITIONED),
                partitioned,
                reasons,
            ),
            Case(
                "O3",
                f"O3 open {GREAT_MANY:,} entries in partitions, first chunk",
                (SECONDS, PEAK),
                partial(open_first_chunk, "great-many", PARTITIONED),
                partitioned,
                reasons,
            ),
            Case(
                "O4",
                f"O4 held per reference, {count} of one document",
                (Quantity("per reference", "B"),),
                _hold,
                (cases.US, cases.ICECHUNK, cases.VIRTUALIZARR, cases.FSSPEC_JSON, cases.FLOOR),
                {
                    **dict.fromkeys((*_NATIVE,), "has no references"),
                    cases.FSSPEC_PARQUET: _NO_DOCUMENT,
                },
            ),
            Case(
                "O4 partitions",
                f"O4 held per reference, {count} of all partitions",
                (Quantity("per reference", "B"),),
                _hold_partitions,
                (cases.US, cases.ICECHUNK, cases.FSSPEC_PARQUET),
                {**reasons, **dict.fromkeys(_NATIVE, "has no references")},
            ),
        ),
        prepare,
    )


_NATIVE = (cases.NATIVE, cases.NATIVE_FUSED, cases.TENSORSTORE)


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    write(directory / "small", 1000)
    write(directory / "large", effort.pick(10**6, 10**5))
    write(directory / "great-many", PARTITION, grid=GREAT_MANY)
    yield


def write(directory: Path, count: int, grid: int | None = None) -> References:
    """Write references in all forms; of the chunks, only the first of each partition is there."""
    codec: Any = Zstd(level=1)
    chunk: bytes = codec.encode(bytes(range(256)) * (CHUNK_BYTES // 256))
    sources, native = directory / "sources/2024", directory / "native.zarr"
    sources.mkdir(parents=True)
    for number in range(0, count, PARTITION):
        (sources / f"source-{number // PER_OBJECT:06}.nc").write_bytes(chunk)
    (native / "data/c").mkdir(parents=True)
    (native / "data/c/0").write_bytes(chunk)
    prefix = f"{sources.parent.as_uri()}/"
    plain = consecutive(count, prefix, grid=grid, real=chunk, every=PARTITION)
    references = replace(plain, native=str(native))
    references.create_array(native)
    references.save(directory)
    # More than are named one by one have no checksums.
    names = None if grid is None else "./manifest/{partition}.json"
    _write_partitions(references, directory, names)
    if grid is not None:
        _declare_all(directory)
        return references
    for column in (cases.US, cases.ICECHUNK, cases.FSSPEC_JSON):
        participant = PARTICIPANTS[column]
        if participant.write is not None and not participant.lacks:
            participant.write(references, directory)
    return references


def _declare_all(directory: Path) -> None:
    """Let the declaration be that of a manifest all of whose partitions are there."""
    path = directory / ours.PARTITIONED / "data/zarr.json"
    metadata = json.loads(path.read_text())
    metadata["storage_transformers"][0]["configuration"]["partitions"] = "all"
    path.write_text(json.dumps(metadata))


def _write_partitions(references: References, directory: Path, names: str | None) -> None:
    ours.write_partitioned(references, directory, PARTITION, names)
    if not PARTICIPANTS[cases.ICECHUNK].lacks:
        icechunk_repository.write_split(references, directory, PARTITION)
    if not PARTICIPANTS[cases.FSSPEC_PARQUET].lacks:
        write_parquet(references, directory)


# What opens ---------------------------------------------------------------------------


def _parse_references(directory: Path) -> Any:
    """Let VirtualiZarr read a reference set, the only form that it reads."""
    from virtualizarr.parsers import KerchunkJSONParser

    path = (directory / "references.json").as_uri()
    store = KerchunkJSONParser()(path, virtual_zarr.registry(Places.load(directory).sources))
    return zarr.open_group(store, mode="r")["data"]


WHOLE: dict[str, Callable[[Path], Any]] = {
    **{column: each.open for column, each in PARTICIPANTS.items()},
    cases.VIRTUALIZARR: _parse_references,
}
PARTITIONED: dict[str, Callable[[Path], Any]] = {
    **{column: each.open for column, each in PARTICIPANTS.items()},
    cases.US: ours.open_partitioned,
    cases.ICECHUNK: icechunk_repository.open_split,
}


def open_first_chunk(name: str, openers: dict[str, Callable[[Path], Any]], task: Task) -> Measured:
    PARTICIPANTS[task.column].configure()
    if task.column == cases.FLOOR:
        partitioned = openers is PARTITIONED
        return _read_document(task.directory / name, partitioned=partitioned)

    def open_and_read(directory: Path) -> Any:
        array = openers[task.column](directory)
        chunk = first_chunk(array)
        if bytes(chunk[:3]) != b"\x00\x01\x02":
            raise AssertionError(f"{task.column} read {chunk}")
        return array

    open_and_read(task.directory / "small")
    return measure(lambda: open_and_read(task.directory / name))


def _read_document(directory: Path, *, partitioned: bool) -> Measured:
    if partitioned:
        (document,) = (directory / ours.PARTITIONED / "data/manifest").glob("0[-.]*")
    else:
        (document,) = (directory / ours.NAME / "data").glob("manifest-*.json")
    return {**measure(document.read_bytes), "document": document.stat().st_size}


def _hold(task: Task) -> Measured:
    if task.column == cases.FLOOR:
        references = References.load(task.directory / "large")
        columns = (references.objects, references.offsets, references.lengths)
        return {"per reference": sum(column.nbytes for column in columns) / len(references)}
    held = open_first_chunk("large", WHOLE, task)["kept"]
    return {"per reference": held / task.effort.pick(10**6, 10**5)}


def _hold_partitions(task: Task) -> Measured:
    PARTICIPANTS[task.column].configure()
    first_chunk(PARTITIONED[task.column](task.directory / "small"))
    count = task.effort.pick(10**6, 10**5)

    def open_and_touch_all() -> Any:
        array = PARTITIONED[task.column](task.directory / "large")
        for start in range(0, count * CHUNK_BYTES, PARTITION * CHUNK_BYTES):
            array[start : start + CHUNK_BYTES]
        return array

    return {"per reference": measure(open_and_touch_all)["kept"] / count}
