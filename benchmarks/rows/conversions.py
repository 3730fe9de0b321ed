"""kerchunk reference sets in and out.

The results of importing differ: we write a hierarchy, while fsspec and VirtualiZarr keep objects in
memory. fsspec reads Parquet only when a chunk is asked for, so one of each record is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.cases import CPU_SECONDS, PEAK, Case, Group, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, measure
from benchmarks.participants import fsspec_references, lacking, ours
from benchmarks.references import CHUNK_BYTES, Places, consecutive

RECORD_SIZE = 100_000
FEW = 10_000

_JSON = "references.json"
_PARQUET = "references.parquet"
_PARQUET_LIBRARIES = ("fsspec", "fastparquet", "pyarrow", "kerchunk")
_OF_THE_OTHER = "reads the other form"
_ABSENT = {
    **dict.fromkeys((cases.NATIVE, cases.NATIVE_FUSED, cases.TENSORSTORE), "has no references"),
    cases.ICECHUNK: "imports through VirtualiZarr",
}
_NOT_EXPORTED = {
    **_ABSENT,
    cases.ICECHUNK: "does not export references",
    cases.VIRTUALIZARR: "exports what it has parsed, not what is stored",
}


def group(effort: Effort) -> Group:
    count = f"{_count(effort):,}"
    shown = (CPU_SECONDS, PEAK)
    forms = (
        ("JSON", _LOAD_JSON, _EXPORT_JSON, cases.FSSPEC_PARQUET, ()),
        ("Parquet", _LOAD_PARQUET, _EXPORT_PARQUET, cases.FSSPEC_JSON, _PARQUET_LIBRARIES),
    )
    made = []
    for form, loads, exports, other, libraries in forms:
        made += [
            Case(
                f"import {form}",
                f"import {count} kerchunk references, {form}",
                shown,
                partial(_work, loads),
                tuple(loads),
                {**_ABSENT, other: _OF_THE_OTHER},
                libraries,
            ),
            Case(
                f"export {form}",
                f"export {count} references, kerchunk {form}",
                shown,
                partial(_work, exports),
                tuple(exports),
                {cases.FSSPEC_JSON: "reads only", **_NOT_EXPORTED, other: _OF_THE_OTHER},
                libraries,
            ),
        ]
    return Group("conversions", tuple(made), prepare)


def _count(effort: Effort) -> int:
    return effort.pick(10**6, 10**5)


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    for name, count in (("few", FEW), ("many", _count(effort))):
        references = consecutive(count, f"{(directory / 'archive').as_uri()}/")
        target = directory / name
        target.mkdir()
        references.save(target)
        ours.write(references, target)
        fsspec_references.write_json(references, target)
        if not lacking(_PARQUET_LIBRARIES):
            fsspec_references.write_records(references, target / _PARQUET, RECORD_SIZE)
    yield


# What imports -------------------------------------------------------------------------


def _import_ours(name: str, directory: Path) -> None:
    from zarr_manifest.conversion import read_kerchunk, write_hierarchy

    report = write_hierarchy(directory / "imported.zarr", read_kerchunk(directory / name))
    if report.arrays != 1:
        raise AssertionError(report)


def _load_json(directory: Path) -> Any:
    from fsspec.implementations.reference import ReferenceFileSystem

    files = ReferenceFileSystem(str(directory / _JSON), remote_protocol="file")
    return files, len(files.references["data/7"])


def _load_parquet(directory: Path) -> Any:
    from fsspec.implementations.reference import ReferenceFileSystem

    files = ReferenceFileSystem(str(directory / _PARQUET), remote_protocol="file", lazy=True)
    shape = json.loads(files.references["data/.zarray"])["shape"]
    starts = range(0, shape[0] // CHUNK_BYTES, RECORD_SIZE)
    return files, [files.references[f"data/{number}"] for number in starts]


def _parse_json(directory: Path) -> Any:
    from virtualizarr.parsers import KerchunkJSONParser

    return KerchunkJSONParser()((directory / _JSON).as_uri(), _registry(directory))


def _parse_parquet(directory: Path) -> Any:
    from virtualizarr.parsers import KerchunkParquetParser

    return KerchunkParquetParser()(str(directory / _PARQUET), _registry(directory))


def _registry(directory: Path) -> Any:
    from benchmarks.participants import virtual_zarr

    return virtual_zarr.registry(Places.load(directory).sources)


def _read_file(directory: Path) -> Any:
    return (directory / _JSON).read_bytes()


def _read_records(directory: Path) -> Any:
    return [path.read_bytes() for path in (directory / _PARQUET).rglob("*.parq")]


# What exports -------------------------------------------------------------------------


def _export_json(directory: Path) -> None:
    from zarr_manifest.conversion import export_kerchunk_json

    export_kerchunk_json(directory / ours.NAME, directory / "exported.json")


def _export_parquet(directory: Path) -> None:
    from zarr_manifest.conversion import export_kerchunk_parquet

    target = directory / "exported.parquet"
    export_kerchunk_parquet(directory / ours.NAME, target, record_size=RECORD_SIZE)


def _export_with_kerchunk(directory: Path) -> None:
    """Let kerchunk make Parquet of a reference set in JSON: it exports nothing else."""
    from kerchunk.df import refs_to_dataframe

    refs = json.loads((directory / _JSON).read_text())
    refs_to_dataframe(refs, str(directory / "exported.parquet"), record_size=RECORD_SIZE)


type _Worker = Callable[[Path], object]

_LOAD_JSON: dict[str, _Worker] = {
    cases.US: partial(_import_ours, _JSON),
    cases.VIRTUALIZARR: _parse_json,
    cases.FSSPEC_JSON: _load_json,
    cases.FLOOR: _read_file,
}
_LOAD_PARQUET: dict[str, _Worker] = {
    cases.US: partial(_import_ours, _PARQUET),
    cases.VIRTUALIZARR: _parse_parquet,
    cases.FSSPEC_PARQUET: _load_parquet,
    cases.FLOOR: _read_records,
}
_EXPORT_JSON: dict[str, _Worker] = {cases.US: _export_json, cases.FLOOR: _export_json}
_EXPORT_PARQUET: dict[str, _Worker] = {
    cases.US: _export_parquet,
    cases.FSSPEC_PARQUET: _export_with_kerchunk,
    cases.FLOOR: _export_parquet,
}


def _work(workers: dict[str, _Worker], task: Task) -> Measured:
    work = workers[task.column]
    few, many = task.directory / "few", task.directory / "many"
    try:
        work(few)
        if task.column == cases.FLOOR and workers in (_EXPORT_JSON, _EXPORT_PARQUET):
            return _write_finished(workers, many)
        return measure(lambda: work(many))
    finally:
        for directory in (few, many):
            _remove_results(directory)


def _remove_results(directory: Path) -> None:
    for path in (*directory.glob("imported.*"), *directory.glob("exported.*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _write_finished(workers: dict[str, _Worker], directory: Path) -> Measured:
    """Encode and write a reference set that is in memory, in the library's own objects."""
    if workers is _EXPORT_JSON:
        import msgspec

        refs = msgspec.json.decode((directory / _JSON).read_bytes())
        target = directory / "exported.json"
        return measure(lambda: target.write_bytes(msgspec.json.encode(refs)))
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(path) for path in (directory / _PARQUET).rglob("*.parq")]
    target = directory / "exported.parquet"

    def write_tables() -> None:
        target.mkdir()
        for number, table in enumerate(tables):
            path = target / f"refs.{number}.parq"
            pyarrow.parquet.write_table(table, path, compression="zstd")

    return measure(write_tables)
