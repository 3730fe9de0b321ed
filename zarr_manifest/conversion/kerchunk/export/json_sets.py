"""A hierarchy as a kerchunk reference set in JSON.

Metadata becomes text, as kerchunk writes it; inline chunks become base64, unless they are
printable ASCII. Chunks of native arrays are objects with a URL, and become references.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.export.nodes import ExportedArray, export_nodes, urls_of
from zarr_manifest.conversion.kerchunk.local_paths import new_target
from zarr_manifest.conversion.nodes import ConversionReport, Progress
from zarr_manifest.conversion.zarr2 import Zarr2Metadata
from zarr_manifest.format import Limits, grid_indices
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.manifest import Columns, References, TextColumns
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike


def export_kerchunk_json(
    location: StoreLike,
    target: str | Path,
    *,
    overwrite: bool = False,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> ConversionReport:
    """Export a hierarchy to a kerchunk reference set, in one JSON file of version 1.

    Sources are not read. References to objects in the hierarchy's own store, the chunks
    of native arrays among them, become absolute URLs. Explicitly empty chunks become encoded
    fill values.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    target : str or Path
        A file: a path, or a ``file:`` URL.
    overwrite : bool
        Replace an existing reference set in JSON, once all is written.
    allow, base, limits
        As for :class:`ManifestStore`; `allow` is needed for manifest documents outside the
        hierarchy, and for a URL that is not public.
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

    Examples
    --------
    >>> import json, pathlib, tempfile, zarr
    >>> from zarr_manifest import write_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_group(root)
    >>> _ = zarr.create_array(root / "a", shape=4, chunks=2, dtype="u1", compressors=None)
    >>> write_manifest(root, "a", {(0,): {"path": "s3://b/f%20g", "offset": 8, "length": 2}})
    >>> target = root.with_suffix(".json")
    >>> print(export_kerchunk_json(root, target))
    1 group, 1 array, 1 reference to 2 B
    >>> json.loads(target.read_text())["refs"]["a/0"]
    ['s3://b/f g', 8, 2]
    """
    report = ConversionReport()
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    with (
        new_target(target, is_directory=False, overwrite=overwrite) as path,
        path.open("xb") as file,
    ):
        members = MembersFile(file)

        def add_group(path: str, metadata: Zarr2Metadata) -> None:
            members.add(_documents(path, metadata))

        def add_array(node: ExportedArray) -> None:
            with members.all_or_none():
                below = f"{node.path}/" if node.path else ""
                for block in map(node.load, node.blocks):
                    members.add(members_of(block, below))
                members.add(_documents(node.path, node.finish(report)))

        file.write(b'{"version": 1, "refs": {')
        export_nodes(hierarchy, report, progress, add_group, add_array)
        file.write(b"}}")
    return report


def _documents(path: str, metadata: Zarr2Metadata) -> list[bytes]:
    return [member(key, json.dumps(each)) for key, each in metadata.documents(path).items()]


# Number of references that are written at a time: they fit into a processor's cache.
_BATCH_SIZE = 2**14

# In a column, all texts take the space of the longest: fewer lines are written at a time then.
_MOST_BYTES = 2**23

_BETWEEN = b", "


def member(key: str, value: object) -> bytes:
    """Return a member of an object."""
    return f"{json.dumps(key)}: {json.dumps(value)}".encode()


def members_of(references: References, below: str) -> Iterator[bytes | memoryview]:
    """Yield references, so many at a time, with what belongs between them.

    Parameters
    ----------
    references : References
        With URLs as paths.
    below : str
        What their keys begin with.

    Examples
    --------
    >>> import numpy as np
    >>> from zarr_manifest.manifest import references_from_columns
    >>> references = references_from_columns(
    ...     (2, 2), numbers=np.array([0, 3]), paths="s3://b/f", offsets=[8, 0], lengths=[2, -1]
    ... )
    >>> [bytes(members) for members in members_of(references, "a/")]
    [b'"a/0.0": ["s3://b/f", 8, 2], "a/1.1": ["s3://b/f"]']
    """
    urls = _in_json(references.paths)
    key = json.dumps(below).encode()[:-1]
    starts = range(0, len(references), _BATCH_SIZE)
    waiting = [range(len(references))[start : start + _BATCH_SIZE] for start in reversed(starts)]
    while waiting:
        rows = waiting.pop()
        columns = references.columns(slice(rows.start, rows.stop))
        table, numbers = urls_of(urls, columns.path_numbers)
        inline = np.flatnonzero(numbers < 0)
        # Of a byte, JSON has two at most: those of a quotation mark.
        longest = 2 * int(columns.lengths[inline].max(initial=0)) + len('"base64:"')
        half = len(rows) // 2
        if half and len(rows) * max(longest, *map(len, table), 0) > _MOST_BYTES:
            waiting += [rows[half:], rows[:half]]
            continue
        if inline.size:
            numbers = numbers.copy()
            numbers[inline] = np.arange(len(table), len(table) + len(inline))
            extras = dict(references.extras_of(rows))
            data = (extras[row].data or b"" for row in inline.tolist())
            table += [json.dumps(_text(each)).encode() for each in data]
        indices = grid_indices(references.grid_shape, columns.numbers)
        yield _lines(columns, key, table, numbers, indices)


def _lines(
    columns: Columns,
    key: bytes,
    table: Sequence[bytes],
    numbers: npt.NDArray[np.integer],
    indices: npt.NDArray[np.int64],
) -> memoryview:
    """Return references with what is between them, given the beginning of the value of each."""
    has_url = columns.path_numbers >= 0
    is_range = has_url & (columns.lengths > 0)
    of_urls, of_ranges = (None if each.all() else each for each in (has_url, is_range))
    lines = TextColumns(len(indices))
    lines.constant(key if indices.shape[1] else key + b"0")
    for dimension in range(indices.shape[1]):
        lines.constant(b"." if dimension else b"")
        lines.numbers(indices[:, dimension])
    lines.constant(b'": ')
    lines.texts(table, numbers)
    for values in (columns.offsets, np.maximum(columns.lengths, 0)):
        lines.constant(_BETWEEN, of_ranges)
        lines.numbers(values, of_ranges)
    lines.constant(b"]", of_urls)
    lines.constant(_BETWEEN)
    return memoryview(lines.text())[: -len(_BETWEEN)]


def _in_json(texts: Sequence[str]) -> list[bytes]:
    """Return the beginnings of lists that begin with texts."""
    encoded = json.dumps(list(texts)).encode()
    if b"\\" in encoded:
        return [json.dumps([text]).encode()[:-1] for text in texts]
    # Nothing was escaped, so that no text has a quotation mark.
    return [b'["%b"' % text for text in encoded[2:-2].split(b'", "')] if texts else []


def _text(data: bytes) -> str:
    """Return inline data as the text that kerchunk makes of it."""
    text = data.decode("ascii", "replace")
    if data.isascii() and text.isprintable() and not text.startswith("base64:"):
        return text
    return f"base64:{base64.b64encode(data).decode('ascii')}"


class MembersFile:
    """An object whose members are being written.

    Parameters
    ----------
    file : binary file
        Where they go, from its position on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._is_empty = True

    def add(self, members: Iterable[bytes | memoryview]) -> None:
        """Write members, or several together with their separators."""
        for member in members:
            if not self._is_empty:
                self._file.write(b", ")
            self._file.write(member)
            self._is_empty = False

    @contextmanager
    def all_or_none(self) -> Generator[None]:
        """Take back what was added within, if anything is raised."""
        end, was_empty = self._file.tell(), self._is_empty
        try:
            yield
        except BaseException:
            self._file.seek(end)
            self._file.truncate()
            self._is_empty = was_empty
            raise
