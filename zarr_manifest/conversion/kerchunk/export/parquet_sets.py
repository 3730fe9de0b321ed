"""A hierarchy as a kerchunk reference set in the Parquet layout, as fsspec reads it.

References are written file by file; ``.zmetadata``, without which it is not a set, last.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zarr_manifest.conversion.kerchunk.export.nodes import ExportedArray, export_nodes, urls_of
from zarr_manifest.conversion.kerchunk.local_paths import new_target
from zarr_manifest.conversion.kerchunk.parquet import arrow, parquet
from zarr_manifest.conversion.nodes import ConversionReport, Progress
from zarr_manifest.conversion.zarr2 import Zarr2Metadata
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import Limits, ancestors
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.manifest import References
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike


def export_kerchunk_parquet(
    location: StoreLike,
    target: str | Path,
    *,
    record_size: int = 10_000,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ConversionReport:
    """Export a hierarchy to a kerchunk reference set in Parquet.

    As :func:`export_kerchunk_json`.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy. Its native arrays are exported too.
    target : str or Path
        A directory: a path, or a ``file:`` URL.
    record_size : int
        Number of references per file.
    allow, base, limits
        As for :class:`ManifestStore`; `allow` is needed for manifest documents outside the
        hierarchy, and for a URL that is not public. Sources are not read.
    overwrite : bool
        Replace an existing reference set in Parquet, once all is written.
    progress : callable, optional
        Called after each block with the path of the array, the number of references so
        far, and None: how many there are is not known.

    Returns
    -------
    ConversionReport
        With the nodes that kerchunk cannot express, and notes on what it left out.

    Raises
    ------
    ManifestError
        There is no hierarchy, it cannot be read or listed, or the target exists and may not
        be replaced, or its directory does not exist.
    ImportError
        pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_group(root / "h").create_array("a", shape=4, chunks=2, dtype="i2")
    >>> print(export_kerchunk_parquet(root / "h", root / "refs.parq"))
    1 group, 1 array, 0 references
    """
    parquet()
    if record_size < 1:
        raise ValueError(f"record_size must be at least 1, not {record_size}")
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    with new_target(target, is_directory=True, overwrite=overwrite) as directory:
        export = _Export(directory, record_size)
        return export.run(hierarchy, progress)


@dataclass(slots=True)
class _Export:
    directory: Path
    record_size: int
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    report: ConversionReport = field(default_factory=ConversionReport)

    def run(self, hierarchy: InspectedHierarchy, progress: Progress | None) -> ConversionReport:
        export_nodes(hierarchy, self.report, progress, self._add_group, self._add_array)
        self._add_implicit_groups()
        self.directory.mkdir(parents=True, exist_ok=True)
        content = {"metadata": self.documents, "record_size": self.record_size}
        (self.directory / ".zmetadata").write_text(json.dumps(content))
        return self.report

    def _add_implicit_groups(self) -> None:
        """Add parent groups without metadata: Zarr v2 could not open them."""
        refused_paths = {node.path for node in self.report.refused}
        for path in [key.rpartition("/")[0] for key in self.documents]:
            for above in ancestors(path):
                below = f"{above}/" if above else ""
                is_array = f"{below}.zarray" in self.documents or above in refused_paths
                if not is_array and f"{below}.zgroup" not in self.documents:
                    self.documents[f"{below}.zgroup"] = {"zarr_format": 2}
                    self.report.groups += 1

    def _add_group(self, path: str, metadata: Zarr2Metadata) -> None:
        self.documents |= metadata.documents(path)

    def _add_array(self, array: ExportedArray) -> None:
        _require_addressable(array.path)
        try:
            self._write(array)
            self.documents |= array.finish(self.report).documents(array.path)
        except ManifestError:
            if (directory := self.directory / array.path).exists():
                shutil.rmtree(directory)
            raise

    def _write(self, array: ExportedArray) -> None:
        """Write references file by file.

        A file is a run of chunks in C order, while a manifest comes in blocks of the grid: a block
        is loaded for the first file that needs it, and dropped after the last one. So at most one
        row of blocks is in memory. Runs without references take no time, because a grid may have
        far more chunks than references.
        """
        held: list[References] = []
        # In C order, blocks come in the order of their first chunks.
        ahead = ((array.first_chunk(block), block) for block in array.blocks)
        coming = next(ahead, None)
        start: int | None = 0
        while start is not None:
            record = start // self.record_size
            start, stop = record * self.record_size, (record + 1) * self.record_size
            while coming is not None and coming[0] < stop:
                held.append(array.load(coming[1]))
                coming = next(ahead, None)
            parts = [part for each in held if len(part := each.between(start, stop))]
            if parts:
                self._write_file(self.directory / array.path / f"refs.{record}.parq", start, parts)
            rest = [(chunk, each) for each in held if (chunk := each.next_chunk(stop)) is not None]
            held = [each for _, each in rest]
            next_block = [] if coming is None else [coming[0]]
            start = min([*next_block, *(chunk for chunk, _ in rest)], default=None)

    def _write_file(self, file: Path, start: int, parts: Sequence[References]) -> None:
        pa = arrow()
        size = self.record_size
        # Missing chunks have no URL, like inline ones.
        codes = np.full(size, -1, np.int32)
        offsets, sizes = np.zeros(size, np.int64), np.zeros(size, np.int64)
        inline: dict[int, bytes] = {}
        urls: list[str] = []
        for part in parts:
            columns = part.columns()
            rows = columns.numbers - start
            own, path_numbers = urls_of(part.paths, columns.path_numbers)
            codes[rows] = np.where(path_numbers < 0, -1, path_numbers + len(urls))
            offsets[rows] = columns.offsets
            sizes[rows] = np.where(path_numbers < 0, 0, np.maximum(columns.lengths, 0))
            for position, extra in part.extras_of(range(len(part))):
                inline[rows.item(position)] = _escaped(extra.data or b"")
            urls += own
        without_url = codes < 0
        paths = pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=without_url if without_url.any() else None),
            pa.array(urls, pa.string()),
        )
        table = [paths, pa.array(offsets), pa.array(sizes), _binary(inline, size)]
        file.parent.mkdir(parents=True, exist_ok=True)
        # Without the schema of the table, readers find texts, not numbers of texts.
        with parquet().ParquetWriter(
            file,
            _schema(),
            compression="zstd",
            use_dictionary=["path"],
            write_statistics=False,
            store_schema=False,
        ) as writer:
            writer.write_table(pa.Table.from_arrays(table, schema=_schema()))
            writer.add_key_value_metadata({"pandas": json.dumps(_PANDAS)})


def _require_addressable(path: str) -> None:
    if not path:
        raise NotConvertibleError(
            "fsspec cannot find the references of an array at the root in Parquet",
            remedy="Export it as JSON.",
        )
    if any(name.startswith(".z") for name in path.split("/")):
        raise NotConvertibleError("fsspec takes names that begin with '.z' for metadata")


# The prefix of inline data that fsspec decodes.
_BASE64 = b"base64:"

_KINDS = {"path": "unicode", "offset": "int64", "size": "int64", "raw": "bytes"}
_PANDAS = {
    "index_columns": [],
    "column_indexes": [],
    "columns": [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": kind if kind == "int64" else "object",
            "metadata": None,
        }
        for name, kind in _KINDS.items()
    ],
}


def _binary(values: Mapping[int, bytes], size: int) -> Any:
    """Return a column with values in some rows."""
    pa = arrow()
    if not values:
        return pa.nulls(size, pa.binary())
    column: list[bytes | None] = [None] * size
    for row, value in values.items():
        column[row] = value
    return pa.array(column, pa.binary())


def _schema() -> Any:
    pa = arrow()
    return pa.schema(
        [
            pa.field("path", pa.dictionary(pa.int32(), pa.string())),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("raw", pa.binary()),
        ]
    )


def _escaped(data: bytes) -> bytes:
    """Return inline data in fsspec's form: as base64 if fsspec would take it for base64."""
    return _BASE64 + base64.b64encode(data) if data.startswith(_BASE64) else data
