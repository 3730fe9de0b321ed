"""Writing references: entry by entry in a stream, or from columns; memory beyond what is given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import batched
from pathlib import Path

from zarr.buffer import default_buffer_prototype

from benchmarks import cases
from benchmarks.cases import PEAK, Case, Group, Quantity, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, measure
from benchmarks.participants import fsspec_references, icechunk_repository, ours
from benchmarks.references import References, consecutive
from benchmarks.rows.opening import PARTITION
from zarr_manifest import write_manifest
from zarr_manifest.conversion import ArrayNode, StreamedManifest, write_hierarchy

CPU_PER_MILLION = Quantity("cpu per million", "CPU s / 10^6")
#: References that are written to warm up.
FEW = 1000

_ABSENT = dict.fromkeys((cases.NATIVE, cases.NATIVE_FUSED, cases.TENSORSTORE), "has no references")

type _Writer = Callable[[References, Path], None]


def group(effort: Effort) -> Group:
    count = effort.pick(10**6, 10**5)
    in_memory = {cases.VIRTUALIZARR: "has no form of its own on disk"}
    whole = {**_ABSENT, **in_memory, cases.FSSPEC_PARQUET: "is written reference by reference only"}
    partitions = {**whole, cases.FSSPEC_JSON: "has no partitions"}
    made = [
        _case("write entries", count, "in partitions, entry by entry", _BY_ENTRY, partitions),
        _case("write stream", count, "in partitions, one after the other", _STREAMED, partitions),
        _case("write document", count, "from columns, one document", _WHOLE, whole),
        _case("write partitions", count, "from columns, in partitions", _PARTITIONED, partitions),
    ]
    if effort.huge:
        alone = {cases.US: _stream_ours}
        absent = partitions | dict.fromkeys((cases.ICECHUNK, cases.FLOOR), "not at this size")
        made.append(_case("write huge", 10**8, "in partitions, one after the other", alone, absent))
    return Group("writing", tuple(made), prepare)


def _case(
    name: str, count: int, how: str, writers: Mapping[str, _Writer], reasons: Mapping[str, str]
) -> Case:
    return Case(
        name,
        f"write {count:,} {how}",
        (CPU_PER_MILLION, PEAK),
        partial(_write, writers, count),
        tuple(writers),
        {column: reason for column, reason in reasons.items() if column not in writers},
    )


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    yield


def _references(count: int) -> References:
    return consecutive(count, "file:///archive/")


# What writes --------------------------------------------------------------------------


def _enter_ours(references: References, directory: Path) -> None:
    references.create_array(directory / "a.zarr")
    entries = (
        ((number,), {"path": path, "offset": offset, "length": length})
        for number, path, offset, length in _rows(references)
    )
    write_manifest(directory / "a.zarr", "data", entries, partition_shape=(PARTITION,))


def _enter_icechunk(references: References, directory: Path) -> None:
    """Hand over as many at a time as are in a manifest."""
    from icechunk import VirtualChunkSpec

    session = icechunk_repository.create(references, directory / "repository", PARTITION)
    specs = (
        VirtualChunkSpec([number], path, offset, length)
        for number, path, offset, length in _rows(references)
    )
    for some in batched(specs, PARTITION):
        session.store.set_virtual_refs("data", list(some))
    session.commit("references")


def _stream_ours(references: References, directory: Path) -> None:
    """Make columns of one partition at a time, as does what has an index too large for memory."""
    documents = references.metadata().to_buffer_dict(default_buffer_prototype())
    metadata = json.loads(documents["zarr.json"].to_bytes())
    manifests = (ours.manifest_of(part, start) for start, part in _parts(references))
    node = ArrayNode("data", metadata, StreamedManifest((PARTITION,), manifests))
    report = write_hierarchy(directory / "a.zarr", [node])
    if report.references != len(references):
        raise AssertionError(report)


def _stream_icechunk(references: References, directory: Path) -> None:
    session = icechunk_repository.create(references, directory / "repository", PARTITION)
    for start, part in _parts(references):
        icechunk_repository.set_references(session, part, start)
    session.commit("references")


def _parts(references: References) -> Iterator[tuple[int, References]]:
    """Yield the number of the first reference of each partition, and the references."""
    for start in range(0, len(references), PARTITION):
        rows = slice(start, start + PARTITION)
        yield (
            start,
            replace(
                references,
                objects=references.objects[rows],
                offsets=references.offsets[rows],
                lengths=references.lengths[rows],
            ),
        )


def _rows(references: References) -> Iterator[tuple[int, str, int, int]]:
    """Yield number, path, offset and length of each reference, as from an index."""
    for start in range(0, len(references), PARTITION):
        part = slice(start, start + PARTITION)
        columns = (references.objects, references.offsets, references.lengths)
        for number, row in enumerate(
            zip(*(column[part].tolist() for column in columns), strict=True), start
        ):
            yield number, references.urls[row[0]], row[1], row[2]


def _write_partitions(references: References, directory: Path) -> None:
    ours.write_partitioned(references, directory, PARTITION)


def _write_split(references: References, directory: Path) -> None:
    icechunk_repository.write_split(references, directory, PARTITION)


_BY_ENTRY: dict[str, _Writer] = {
    cases.US: _enter_ours,
    cases.ICECHUNK: _enter_icechunk,
    cases.FSSPEC_PARQUET: fsspec_references.write_parquet,
    cases.FLOOR: _write_partitions,
}
_STREAMED: dict[str, _Writer] = {
    cases.US: _stream_ours,
    cases.ICECHUNK: _stream_icechunk,
    cases.FLOOR: _write_partitions,
}
_WHOLE: dict[str, _Writer] = {
    cases.US: ours.write,
    cases.ICECHUNK: icechunk_repository.write,
    cases.FSSPEC_JSON: fsspec_references.write_json,
    cases.FLOOR: ours.write,
}
_PARTITIONED: dict[str, _Writer] = {
    cases.US: _write_partitions,
    cases.ICECHUNK: _write_split,
    cases.FLOOR: _write_partitions,
}


def _write(writers: Mapping[str, _Writer], count: int, task: Task) -> Measured:
    write = writers[task.column]
    directory = task.directory / "written"
    directory.mkdir()
    try:
        (directory / "few").mkdir()
        write(_references(FEW), directory / "few")
        (directory / "many").mkdir()
        references = _references(count)
        work: Callable[[], object] = partial(write, references, directory / "many")
        if task.column == cases.FLOOR:
            work()
            work = _rewriting(directory / "many")
        taken = measure(work)
        return {**taken, "cpu per million": taken["cpu"] / count * 1e6}
    finally:
        shutil.rmtree(directory)


def _rewriting(directory: Path) -> Callable[[], None]:
    """Return what writes the bytes of our documents again, which are at hand."""
    documents = [path for path in directory.rglob("*") if path.is_file()]
    bodies = {path.with_suffix(".again"): path.read_bytes() for path in documents}

    def put_all() -> None:
        for path, body in bodies.items():
            path.write_bytes(body)

    return put_all
