"""kerchunk references in and out: time, memory and size, compared with fsspec and VirtualiZarr.

All load the same reference set, each in its own process, which has loaded a small one before.
The results differ: we write a hierarchy, while fsspec and VirtualiZarr keep objects in memory;
fsspec reads Parquet only when a chunk is requested, so all chunks are requested. Then the
hierarchy is exported again; `manifest_size` measures opening it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.manifest_size import high_water_mark, resident
from benchmarks.tables import Table, mebibytes, ratio

COUNTS = (10_000, 100_000, 1_000_000)
CHUNK_BYTES = 1024
REFERENCES_PER_SOURCE = 1000
RECORD_SIZE = 100_000


def run(quick: bool) -> Iterator[Table]:
    count = COUNTS[1] if quick else COUNTS[2]
    with TemporaryDirectory() as directory:
        for name, size in (("small", COUNTS[0]), ("large", count)):
            write_json(Path(directory, f"{name}.json"), size)
            write_parquet(Path(directory, f"{name}.parquet"), size)
            write_hierarchy_of(Path(directory, f"{name}.json"))
        for kind in ("json", "parquet"):
            yield compare(Path(directory), kind, count)
        yield export(Path(directory), count)


def compare(directory: Path, kind: str, count: int) -> Table:
    size = stored_bytes(directory / f"large.{kind}")
    table = Table(
        f"{count:,} kerchunk references from {kind} ({mebibytes(size)}), a process each "
        "(ratio of times: below 1 is faster than fsspec)",
        ("loaded by", "time", "ratio", "peak memory", "written"),
    )
    results = {name: run_probe(name, directory, kind) for name in LOADERS}
    for name, result in results.items():
        table.add(
            name,
            f"{result['seconds']:.2f} s",
            ratio(result["seconds"] / results["fsspec"]["seconds"]),
            mebibytes(result["peak"]),
            mebibytes(result["written"]) if result["written"] else "-",
        )
    return table


def export(directory: Path, count: int) -> Table:
    table = Table(
        f"{count:,} references of a hierarchy to kerchunk, a process each",
        ("exported to", "time", "peak memory", "written"),
    )
    for name in EXPORTERS:
        result = run_probe(name, directory, "zarr")
        seconds = f"{result['seconds']:.2f} s"
        table.add(name, seconds, mebibytes(result["peak"]), mebibytes(result["written"]))
    return table


# The reference sets -----------------------------------------------------------------


def metadata(count: int) -> dict[str, Any]:
    return {
        ".zgroup": {"zarr_format": 2},
        "data/.zarray": {
            "zarr_format": 2,
            "shape": [count * CHUNK_BYTES],
            "chunks": [CHUNK_BYTES],
            "dtype": "|u1",
            "compressor": {"id": "zlib", "level": 1},
            "filters": None,
            "fill_value": 0,
            "order": "C",
        },
        "data/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]},
    }


def references(count: int) -> list[list[Any]]:
    """Return consecutive chunks of irregular lengths, like those of compression."""
    lengths = np.random.default_rng(0).integers(CHUNK_BYTES // 2, CHUNK_BYTES, count)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    offsets = starts - starts[np.arange(count) // REFERENCES_PER_SOURCE * REFERENCES_PER_SOURCE]
    ranges = zip(offsets.tolist(), lengths.tolist(), strict=True)
    return [
        [f"s3://archive/2024/source-{number // REFERENCES_PER_SOURCE:04}.nc", offset, length]
        for number, (offset, length) in enumerate(ranges)
    ]


def write_json(path: Path, count: int) -> None:
    refs: dict[str, Any] = {k: json.dumps(v) for k, v in metadata(count).items()}
    refs |= {f"data/{number}": reference for number, reference in enumerate(references(count))}
    path.write_text(json.dumps({"version": 1, "refs": refs}))


def write_parquet(path: Path, count: int) -> None:
    """Write with fsspec's own writer."""
    import fsspec
    from fsspec.implementations.reference import LazyReferenceMapper

    path.mkdir()
    mapper = LazyReferenceMapper.create(
        str(path), fs=fsspec.filesystem("file"), record_size=RECORD_SIZE
    )
    for key, value in metadata(count).items():
        mapper[key] = json.dumps(value).encode()
    for number, reference in enumerate(references(count)):
        mapper[f"data/{number}"] = reference
    mapper.flush()


def write_hierarchy_of(path: Path) -> None:
    from zarr_manifest.conversion import read_kerchunk, write_hierarchy

    write_hierarchy(path.with_suffix(".zarr"), read_kerchunk(path))


# The loaders ------------------------------------------------------------------------


def load_with_us(path: Path) -> int:
    from zarr_manifest.conversion import read_kerchunk, write_hierarchy

    with TemporaryDirectory() as directory:
        report = write_hierarchy(Path(directory, "data.zarr"), read_kerchunk(path))
        assert report.arrays == 1, report
        return stored_bytes(Path(directory))


def load_with_fsspec(path: Path) -> int:
    from fsspec.implementations.reference import ReferenceFileSystem

    files = ReferenceFileSystem(str(path), remote_protocol="file", lazy=path.is_dir())
    if path.is_dir():
        # Every record once: records are loaded as a whole.
        chunks = json.loads(files.references["data/.zarray"])["shape"][0] // CHUNK_BYTES
        for number in range(0, chunks, RECORD_SIZE):
            assert len(files.references[f"data/{number}"]) == 3
    assert len(files.references["data/7"]) == 3
    return 0


def load_with_virtualizarr(path: Path) -> int:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore, MemoryStore
    from virtualizarr.parsers import KerchunkJSONParser, KerchunkParquetParser

    registry = ObjectStoreRegistry({"file://": LocalStore(), "s3://archive": MemoryStore()})
    if path.is_dir():
        store = KerchunkParquetParser()(str(path), registry)
    else:
        store = KerchunkJSONParser()(f"file://{path}", registry)
    assert "data" in store.to_virtual_dataset()
    return 0


LOADERS: dict[str, Callable[[Path], int]] = {
    "zarr-manifest (into a hierarchy)": load_with_us,
    "fsspec": load_with_fsspec,
    "VirtualiZarr": load_with_virtualizarr,
}


# The exporters ----------------------------------------------------------------------


def export_json(hierarchy: Path) -> int:
    from zarr_manifest.conversion import export_kerchunk_json

    with TemporaryDirectory() as directory:
        target = Path(directory, "references.json")
        export_kerchunk_json(hierarchy, target)
        return stored_bytes(target)


def export_parquet(hierarchy: Path) -> int:
    from zarr_manifest.conversion import export_kerchunk_parquet

    with TemporaryDirectory() as directory:
        target = Path(directory, "references.parquet")
        export_kerchunk_parquet(hierarchy, target, record_size=RECORD_SIZE)
        return stored_bytes(target)


EXPORTERS: dict[str, Callable[[Path], int]] = {
    "JSON": export_json,
    "Parquet": export_parquet,
}


def run_probe(name: str, directory: Path, kind: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.importing", name, str(directory), kind]
    result: dict[str, float] = json.loads(subprocess.check_output(command))
    return result


def probe(name: str, directory: Path, kind: str) -> dict[str, float]:
    load = {**LOADERS, **EXPORTERS}[name]
    load(directory / f"small.{kind}")
    before = resident()
    start = time.perf_counter()
    written = load(directory / f"large.{kind}")
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": high_water_mark() - before, "written": written}


def stored_bytes(path: Path) -> int:
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
