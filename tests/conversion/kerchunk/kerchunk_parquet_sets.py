"""Reference sets in kerchunk's Parquet layout, for the tests: by fsspec, and row by row."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from zarr.storage import FsspecStore

# fsspec takes missing chunks for the path nan where texts are those of pandas 3, in sets that it
# wrote itself, too. fastparquet settles, when it is imported, which texts it makes.
with warnings.catch_warnings(action="ignore"), pd.option_context("future.infer_string", False):
    import fastparquet as fastparquet

__all__ = [
    "chunk_references",
    "open_with_fsspec",
    "write_rows",
    "write_set",
    "write_with_fsspec",
    "zarray",
]

type Value = bytes | Sequence[Any]
"""What a row says: inline bytes, ``[url]``, or ``[url, offset, size]``."""


def zarray(shape: Sequence[int], chunks: Sequence[int], **members: Any) -> dict[str, Any]:
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": "<i2",
        "compressor": None,
        "filters": None,
        "fill_value": -1,
        "order": "C",
    }
    return document | members


def write_rows(
    file: Path,
    rows: Sequence[Value | None],
    *,
    columns: Sequence[str] = ("path", "offset", "size", "raw"),
    dictionary: bool = False,
    row_group_size: int | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
) -> None:
    """Write a file of references; None is a missing chunk."""
    kinds = kinds or {}
    references = [row if isinstance(row, list | tuple) else None for row in rows]
    text = pa.string()
    values: dict[str, tuple[list[Any], pa.DataType]] = {
        "path": (
            [None if r is None else r[0] for r in references],
            pa.dictionary(pa.int32(), text) if dictionary else text,
        ),
        "offset": ([r[1] if r is not None and len(r) > 1 else 0 for r in references], pa.int64()),
        "size": ([r[2] if r is not None and len(r) > 1 else 0 for r in references], pa.int64()),
        "raw": ([row if isinstance(row, bytes) else None for row in rows], pa.binary()),
    }
    table = pa.table(
        {name: pa.array(values[name][0], kinds.get(name, values[name][1])) for name in columns}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, row_group_size=row_group_size)


def write_set(
    root: Path,
    documents: Mapping[str, Any],
    references: Mapping[str, Mapping[int, Value]],
    *,
    record_size: int,
    padded: bool = True,
    **options: Any,
) -> Path:
    """Write a set whose arrays have references by the number of the chunk in C order."""
    root.mkdir(parents=True, exist_ok=True)
    document = {"metadata": dict(documents), "record_size": record_size}
    (root / ".zmetadata").write_text(json.dumps(document))
    for path, values in references.items():
        for record in sorted({number // record_size for number in values}):
            rows = [values.get(record * record_size + row) for row in range(record_size)]
            while not padded and rows and rows[-1] is None:
                rows.pop()
            write_rows(root / path / f"refs.{record}.parq", rows, **options)
    return root


def write_with_fsspec(
    root: Path,
    references: Mapping[str, Any],
    *,
    record_size: int,
    engine: str = "fastparquet",
    categorical_threshold: int = 10,
) -> Path:
    """Write a set as kerchunk does (``refs_to_dataframe`` has no say in the engine)."""
    mapper = LazyReferenceMapper.create(
        str(root),
        record_size=record_size,
        engine=engine,
        categorical_threshold=categorical_threshold,
    )
    for key in sorted(references):
        mapper[key] = references[key]
    mapper.flush()
    return root


def open_with_fsspec(root: Path, *, engine: str | None = None) -> zarr.Group:
    """Open a set as its users do: zarr over fsspec's ``ReferenceFileSystem``."""
    where = str(root) if engine is None else LazyReferenceMapper(str(root), engine=engine)
    filesystem = fsspec.filesystem("reference", fo=where, remote_protocol="file", asynchronous=True)
    store = FsspecStore(filesystem, read_only=True)
    return zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=False)


def chunk_references(hierarchy: Path, source: Path, *, inline_below: int = 0) -> dict[str, Any]:
    """Move the chunks of a Zarr v2 hierarchy into one file, and return references to it."""
    references: dict[str, Any] = {}
    chunks = bytearray(b"header")
    for file in sorted(hierarchy.rglob("*")):
        if not file.is_file() or file.name == ".zmetadata":
            continue
        key, content = file.relative_to(hierarchy).as_posix(), file.read_bytes()
        if file.name.startswith(".z"):
            references[key] = content.decode()
        elif len(content) < inline_below:
            references[key] = content
        else:
            references[key] = [f"file://{source}", len(chunks), len(content)]
            chunks += content
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(chunks)
    return references
