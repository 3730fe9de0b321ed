"""The Parquet files of one array of a kerchunk set, read as columns of references.

``refs.N.parq`` holds the references of chunks N × record_size up to (N + 1) × record_size,
in C order of the chunk grid. Independent of metadata and manifests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json import ReferenceColumns, inline_bytes
from zarr_manifest.conversion.kerchunk.urls import SourceUrls
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.errors import NotConvertibleError, SourceError, in_context
from zarr_manifest.manifest import TO_THE_END, References
from zarr_manifest.showing import counted

# Rows in memory at a time: bounds memory even if a whole set is one file.
_BATCH = 2**16

_PURPOSE = "kerchunk's Parquet layout"
_COLUMNS = ("path", "offset", "size", "raw")
_FILE_NAME = re.compile(r"refs\.(0|[1-9][0-9]*)\.parq")

type _Integers = npt.NDArray[np.int64]


def arrow() -> Any:
    """Return the module ``pyarrow``."""
    return library("pyarrow", _PURPOSE, extra="kerchunk")


def parquet() -> Any:
    """Return the module ``pyarrow.parquet``."""
    return library("pyarrow.parquet", _PURPOSE, extra="kerchunk")


def refs_number(name: str) -> int | None:
    """Return the number of a file of references, or None for any other file.

    Examples
    --------
    >>> refs_number("refs.12.parq"), refs_number("refs.parq")
    (12, None)
    """
    found = _FILE_NAME.fullmatch(name)
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class RefsFiles:
    """The files of one array.

    Parameters
    ----------
    directory : Path
        The directory that contains them.
    record_size : int
        Number of references per file.
    grid_shape : tuple of int
        Number of chunks of the array along every dimension.
    to_reference : SourceUrls
        Turns kerchunk's paths into URL references.

    Attributes
    ----------
    relative : set of str
        Paths relative to the working directory, among those that were read.
    """

    directory: Path
    record_size: int
    grid_shape: tuple[int, ...]
    to_reference: SourceUrls
    relative: set[str] = field(default_factory=set[str], init=False)

    @property
    def chunk_count(self) -> int:
        """Number of chunks of the array."""
        return math.prod(self.grid_shape)

    def present(self) -> list[int]:
        """Return the numbers of existing files; chunks of others are missing.

        Raises
        ------
        SourceError
            The directory cannot be listed.
        """
        try:
            numbers = [refs_number(entry.name) for entry in self.directory.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SourceError(
                f"the directory of its references cannot be read: {error.strerror}"
            ) from error
        return sorted(number for number in numbers if number is not None)

    def batches(self) -> Iterator[References]:
        """Yield the references of all chunks in C order, in batches of limited size.

        Raises
        ------
        ManifestError
            A file cannot be read, or no manifest can express its references.
        """
        for record in self.present():
            first = record * self.record_size
            if first >= self.chunk_count:
                return
            for position, batch in self._batches(record, _COLUMNS):
                left = self.chunk_count - first - position
                within = batch.slice(0, max(0, min(left, len(batch))))
                if len(within):
                    yield self._interpret(record, first + position, within)

    def outside(self) -> tuple[int, list[int]]:
        """Return what lies past the end of the chunk grid, and is never read.

        Returns
        -------
        tuple of int and list of int
            Number of such references in the last file with chunks, and the files after it.
        """
        last, within = divmod(self.chunk_count, self.record_size)
        present = self.present()
        beyond = [record for record in present if record > last or (record == last and not within)]
        count = 0
        if within and last in present:
            for position, batch in self._batches(last, ("path", "raw")):
                padding = batch.slice(max(0, min(within - position, len(batch))))
                valid = [padding.column(name).is_valid() for name in padding.schema.names]
                stated = np.zeros(len(padding), np.bool_)
                for column in valid:
                    stated |= column.to_numpy(zero_copy_only=False)
                count += int(stated.sum())
        return count, beyond

    # A file ------------------------------------------------------------------

    def _batches(self, record: int, columns: tuple[str, ...]) -> Iterator[tuple[int, Any]]:
        """Yield all rows of a file in batches, each with its position in the file."""
        file = self.directory / f"refs.{record}.parq"
        try:
            metadata = parquet().read_metadata(file)
            there: list[str] = metadata.schema.names
            self._check(file, there, metadata.num_rows)
            names = [name for name in columns if name in there]
            # So each URL is processed once, however many references use it.
            encoded = [name for name in names if name == "path"]
            position = 0
            with parquet().ParquetFile(file, metadata=metadata, read_dictionary=encoded) as opened:
                for batch in opened.iter_batches(_BATCH, columns=names):
                    yield position, batch
                    position += len(batch)
        except (arrow().ArrowException, UnicodeDecodeError) as error:
            raise NotConvertibleError(
                f"{file.name} cannot be read as Parquet: {error}", location=str(file)
            ) from error
        except OSError as error:
            raise SourceError(f"{file.name} cannot be read: {error}", location=str(file)) from error

    def _check(self, file: Path, names: list[str], rows: int) -> None:
        if "path" not in names and "raw" not in names:
            raise NotConvertibleError(
                f"{file.name} has neither a column 'path' nor a column 'raw', only {names}",
                location=str(file),
            )
        if rows > self.record_size:
            raise NotConvertibleError(
                f"{file.name} has {rows} rows, more than the record_size of {self.record_size}",
                location=str(file),
                remedy="With another record_size, its rows would belong to other chunks.",
            )

    # Its rows ----------------------------------------------------------------

    def _interpret(self, record: int, first: int, batch: Any) -> References:
        with in_context(location=str(self.directory / f"refs.{record}.parq")):
            try:
                return self._interpreted(first, batch)
            except UnicodeDecodeError as error:
                raise NotConvertibleError("a text is not UTF-8") from error
            except arrow().ArrowException as error:
                raise NotConvertibleError(f"a column cannot be used: {error}") from error

    def _interpreted(self, first: int, batch: Any) -> References:
        offsets, sizes = _integers(batch, "offset"), _integers(batch, "size")
        columns = ReferenceColumns(np.empty(0, np.int32), offsets, sizes, self.to_reference)
        columns.take_urls(*_urls(batch))
        columns.inline = _inline(first, batch)
        # Inline data takes precedence over a reference, as in fsspec.
        columns.path_numbers[list(columns.inline)] = -1
        _require_ranges(first, columns.path_numbers >= 0, offsets, sizes)
        sizes[sizes == 0] = TO_THE_END
        self.relative.update(columns.relative)
        return columns.references(self.grid_shape, np.arange(first, first + len(batch)))


def _urls(batch: Any) -> tuple[list[str], _Integers]:
    """Return the URLs in use, and the number of each row's, from 1; 0 for none."""
    if "path" not in batch.schema.names or batch.column("path").null_count == len(batch):
        return [], np.zeros(len(batch), np.int64)
    column = batch.column("path")
    if not hasattr(column, "dictionary"):
        column = column.dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy().astype(np.int64)
    # A dictionary may contain more than the rows use: values since overwritten.
    used = np.unique(codes[codes >= 0])
    names = column.dictionary.take(arrow().array(used)).to_pylist()
    # One number per code, and at the end that of no URL.
    by_code = np.zeros(len(column.dictionary) + 1, np.int64)
    by_code[used] = np.arange(1, len(used) + 1)
    return [_text(name, column.dictionary.type) for name in names], by_code[codes]


def _text(name: object, kind: object) -> str:
    if isinstance(name, bytes):
        try:
            name = name.decode()
        except UnicodeDecodeError as error:
            raise NotConvertibleError(f"a path is not UTF-8: {name!r}") from error
    if not isinstance(name, str):
        raise NotConvertibleError(f"column 'path' holds {kind}, not strings")
    return name


def _inline(first: int, batch: Any) -> dict[int, bytes]:
    """Return the inline chunks, by row."""
    if "raw" not in batch.schema.names:
        return {}
    column = batch.column("raw")
    valid = column.is_valid()
    rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False)).tolist()
    data: dict[int, bytes] = {}
    for row, value in zip(rows, column.filter(valid).to_pylist(), strict=True):
        try:
            data[row] = inline_bytes(value)
        except NotConvertibleError as error:
            raise NotConvertibleError(f"chunk {first + row} in C order: {error.problem}") from error
    return data


def _integers(batch: Any, name: str) -> _Integers:
    """Return a column of numbers, with 0 for nulls."""
    if name not in batch.schema.names:
        return np.zeros(len(batch), np.int64)
    column = batch.column(name)
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":  # nulls turn integers into floats
        values = np.where(np.isnan(values), 0, values)
        if np.any(values != np.floor(values)) or np.any(np.abs(values) >= 2**53):
            raise NotConvertibleError(f"column {name!r} holds a number that is not an integer")
    elif values.dtype.kind == "O" and column.null_count == len(column):
        values = np.zeros(len(batch), np.int64)
    elif values.dtype.kind not in "iu" or (values.size and int(values.max()) >= 2**53):
        raise NotConvertibleError(f"column {name!r} holds {column.type}, not integers below 2^53")
    return values.astype(np.int64)


def _require_ranges(
    first: int, has_path: npt.NDArray[np.bool_], offsets: _Integers, sizes: _Integers
) -> None:
    for wrong, problem in (
        (offsets < 0, "a negative offset"),
        (sizes < 0, "a negative size"),
        (
            (sizes == 0) & (offsets > 0),
            "an offset and size 0: neither a byte range nor a whole object",
        ),
    ):
        found = np.flatnonzero(has_path & wrong)
        if len(found):
            raise NotConvertibleError(
                f"{counted(len(found), 'reference')} with {problem}; the first is for chunk "
                f"{first + int(found[0])} in C order"
            )
