"""fsspec's reference file system: kerchunk reference sets, in JSON and in Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore

from benchmarks.references import Places, References

JSON = "references.json"
PARQUET = "references.parquet"
RECORD_SIZE = 10_000


def write_json(references: References, directory: Path) -> None:
    (directory / JSON).write_text(json.dumps({"version": 1, "refs": reference_set(references)}))


def reference_set(references: References) -> dict[str, Any]:
    """Return a kerchunk reference set: of Zarr v2; of v3 for shards, which v2 lacks."""
    if references.inner is None:
        refs: dict[str, Any] = {key: json.dumps(value) for key, value in metadata(references)}
        keys = (f"data/{key}" for key in references.chunk_keys())
    else:
        described = references.metadata().to_dict()
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        refs = {"zarr.json": json.dumps(group), "data/zarr.json": json.dumps(described)}
        keys = (f"data/c/{key.replace('.', '/')}" for key in references.chunk_keys())
    offsets, lengths = references.offsets.tolist(), references.lengths.tolist()
    located = zip(references.paths(), offsets, lengths, strict=True)
    return refs | dict(zip(keys, map(list, located), strict=False))


def metadata(references: References) -> list[tuple[str, dict[str, Any]]]:
    """Return the metadata documents of Zarr v2, by key."""
    array = {
        "zarr_format": 2,
        "shape": references.shape,
        "chunks": references.chunks,
        "dtype": references.dtype,
        "compressor": {"id": "zstd", "level": 1} if references.zstd else None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    dimensions = {"_ARRAY_DIMENSIONS": references.options["dimension_names"]}
    return [(".zgroup", {"zarr_format": 2}), ("data/.zarray", array), ("data/.zattrs", dimensions)]


def write_parquet(references: References, directory: Path) -> None:
    """Write a record of `RECORD_SIZE` references in each file."""
    write_records(references, directory / PARQUET, RECORD_SIZE)


def write_records(references: References, target: Path, record_size: int) -> None:
    """Write with fsspec's own writer, reference by reference."""
    import fsspec
    from fsspec.implementations.reference import LazyReferenceMapper

    target.mkdir()
    files = fsspec.filesystem("file")
    mapper = LazyReferenceMapper.create(str(target), fs=files, record_size=record_size)
    for key, value in metadata(references):
        mapper[key] = json.dumps(value).encode()
    rows = zip(
        references.chunk_keys(),
        references.paths(),
        references.offsets.tolist(),
        references.lengths.tolist(),
        strict=False,
    )
    for key, path, offset, length in rows:
        mapper[f"data/{key}"] = [path, offset, length]
    mapper.flush()


def json_store(directory: Path) -> Store:
    return _store(directory, JSON, lazy=False)


def parquet_store(directory: Path) -> Store:
    return _store(directory, PARQUET, lazy=True)


def _store(directory: Path, name: str, *, lazy: bool) -> Store:
    from fsspec.implementations.reference import ReferenceFileSystem

    protocol = Places.load(directory).sources.partition(":")[0]
    remote: Any = {"remote_protocol": protocol}
    if protocol == "http":
        remote["remote_options"] = {"asynchronous": True}
    files = ReferenceFileSystem(str(directory / name), asynchronous=True, lazy=lazy, **remote)
    return FsspecStore(files, path="", read_only=True)
