"""kerchunk's Parquet layout, as nodes of a hierarchy.

``.zmetadata`` holds the metadata of all nodes, and the references of an array are rows of
the Parquet files in its directory. Large arrays are read while they are written.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarr_manifest.conversion.kerchunk.local_paths import require_local_path
from zarr_manifest.conversion.kerchunk.parquet.files import RefsFiles, parquet, refs_number
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, UrlRewriting, relative_path_notes
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    Node,
    RefusedNode,
    StreamedManifest,
    not_convertible,
    refused,
)
from zarr_manifest.conversion.values import as_object, brief
from zarr_manifest.conversion.zarr2 import ArrayPlan, is_metadata_key, plan_nodes
from zarr_manifest.errors import (
    InvalidJSONError,
    ManifestError,
    NotConvertibleError,
    SourceError,
    SourceNotFoundError,
    in_context,
)
from zarr_manifest.manifest import Manifest, join_references
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, access_by_prefix

_METADATA = ".zmetadata"

# References per partition of a streamed manifest: a document of about ten megabytes.
_PARTITION = 100_000


def read_kerchunk_parquet(
    references: str | Path,
    *,
    rewrite: Mapping[str, str] | None = None,
    stream_above: int = 1_000_000,
    allow: Allow = None,
) -> Iterator[Node]:
    """Read a kerchunk reference set in the Parquet layout.

    Parameters
    ----------
    references : str or Path
        The directory with ``.zmetadata``: a path, or a ``file:`` URL.
    rewrite : mapping of str to str, optional
        Replacements for URL prefixes. A prefix that no URL has is reported as a
        :class:`RefusedNode` of the root, once all references have been read.
    stream_above : int
        Arrays with more chunks than this get a partitioned manifest, which is read while
        it is written.
    allow : mapping of str to Access, or iterable of str, optional
        As for :func:`read_kerchunk`. Parquet is read from the local file system only,
        which needs no access.

    Returns
    -------
    iterator of Node
        Groups before their members. What cannot be expressed is a
        :class:`RefusedNode`; an array that is streamed may raise while its
        partitions are read.

    Raises
    ------
    ManifestError
        ``source_not_found``, ``source_error``, ``invalid_json`` or ``not_convertible``:
        there is no valid reference set.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.
    ImportError
        pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from zarr_manifest import create_array
    >>> from zarr_manifest.conversion import export_kerchunk_parquet
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> entries = {"0": {"path": "s3://bucket/f.nc", "offset": 100, "length": 8}}
    >>> create_array(root / "h.zarr", "t", entries, shape=8, chunks=8, dtype="u1")
    >>> _ = export_kerchunk_parquet(root / "h.zarr", root / "references.parq")
    >>> for node in read_kerchunk_parquet(root / "references.parq"):
    ...     print(type(node).__name__, repr(node.path))
    GroupNode ''
    ArrayNode 't'
    """
    access_by_prefix(allow)  # raises as everywhere
    parquet()
    root = require_local_path(references, "reference sets in Parquet are only read")
    return _Importer(root, *_open(root), UrlRewriting(rewrite), stream_above).nodes()


# The set as a whole ----------------------------------------------------------------


def _open(root: Path) -> tuple[dict[str, Any], int]:
    """Return the metadata documents of a set, and its ``record_size``."""
    file = root / _METADATA
    try:
        found: object = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        if not root.exists():
            raise SourceNotFoundError("there is no such directory", location=str(root)) from error
        raise NotConvertibleError(
            f"this is not a kerchunk reference set in Parquet: it has no file '{_METADATA}'",
            location=str(root),
            remedy="If the reference set is in JSON, name the file itself.",
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"'{_METADATA}' is not JSON: {error}", location=str(file)) from error
    except OSError as error:
        raise SourceError(f"'{_METADATA}' cannot be read: {error}", location=str(file)) from error
    document = as_object(found)
    documents = None if document is None else as_object(document.get("metadata"))
    if document is None or documents is None:
        raise NotConvertibleError(
            f"'{_METADATA}' is not an object with an object 'metadata': {brief(found)}",
            location=str(file),
        )
    return dict(documents), _record_size(document, file)


def _record_size(document: Mapping[str, object], file: Path) -> int:
    if "record_size" not in document:
        raise NotConvertibleError(
            f"'{_METADATA}' has no member 'record_size'",
            location=str(file),
            remedy="If this is a Zarr v2 hierarchy with consolidated metadata, import it as one.",
        )
    size = document["record_size"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise NotConvertibleError(
            f"'record_size' of '{_METADATA}' is {brief(size)}, not a positive integer",
            location=str(file),
        )
    return size


# Manifests: one for a whole array, or one for each of its partitions ----------------
# Each partition is a contiguous run in C order, so that files are read one after the other.


def contiguous_partition_shape(grid_shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the shape of blocks that are contiguous runs of chunks in C order.

    Parameters
    ----------
    grid_shape : sequence of int
        Number of chunks along every dimension.
    most : int
        Maximum number of chunks in a block.

    Examples
    --------
    >>> contiguous_partition_shape((365, 10, 20), 1000)
    (5, 10, 20)
    >>> contiguous_partition_shape((365, 10, 20), 50)
    (1, 2, 20)
    """
    shape: list[int] = []
    for n in reversed(grid_shape):
        along = max(1, min(n, most))
        # Before a dimension that is split, only one row: more would not be contiguous.
        most = most // along if along == n else 1
        shape.append(along)
    return tuple(reversed(shape))


@dataclass(slots=True)
class RefsPartitions:
    """The references of an array as one manifest per partition; can be iterated repeatedly.

    Parameters
    ----------
    path : str
        Path of the array, for messages.
    partition_shape : tuple of int
        As :func:`contiguous_partition_shape` returns it.
    files : RefsFiles
        The files with the references.

    Attributes
    ----------
    was_read : bool
        Whether it has been iterated to the end.
    """

    path: str
    partition_shape: tuple[int, ...]
    files: RefsFiles
    was_read: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Manifest]:
        """Yield the partitions that have references, in C order."""
        with in_context(array=self.path):
            blocks = (
                block
                for batch in self.files.batches()
                for block in batch.blocks(self.partition_shape)
            )
            for _, parts in itertools.groupby(blocks, key=lambda block: block[0]):
                yield Manifest(join_references((part for _, part in parts), self.files.grid_shape))
            self.was_read = True


# Its nodes ---------------------------------------------------------------------------


@dataclass
class _Importer:
    root: Path
    documents: dict[str, Any]
    record_size: int
    rewriting: UrlRewriting
    stream_above: int
    _streams: list[RefsPartitions] = field(default_factory=list[RefsPartitions])
    _owned: set[str] = field(default_factory=set[str])

    def nodes(self) -> Iterator[Node]:
        urls = SourceUrls(self.rewriting)
        strays: dict[str, list[str]] = {}
        for key in self.documents:
            if not is_metadata_key(key):
                strays.setdefault(key.rpartition("/")[0], []).append(key)
        for plan in plan_nodes(self.documents):
            self._owned.add(plan.path)
            inside = strays.pop(plan.path, [])
            if inside and not isinstance(plan, RefusedNode):
                data = f"data of it, under {brief(inside[0])}"
                yield not_convertible(plan.path, f"'{_METADATA}' contains {data}: that is unknown")
            else:
                yield self._array(plan, urls) if isinstance(plan, ArrayPlan) else plan
        for key in itertools.chain.from_iterable(strays.values()):
            yield not_convertible(key, f"it is in '{_METADATA}', but is not a metadata document")
        yield from self._without_metadata()
        # A caller that collects nodes before writing them has not seen all URLs.
        if all(stream.was_read for stream in self._streams):
            yield from self.rewriting.refused()

    def _array(self, plan: ArrayPlan, urls: SourceUrls) -> Node:
        try:
            files = RefsFiles(self.root / plan.path, self.record_size, plan.grid_shape, urls)
            notes = (*plan.notes, *_notes(files))
            at_most = min(files.chunk_count, len(files.present()) * files.record_size)
            manifest: Manifest | StreamedManifest
            if at_most <= self.stream_above:
                manifest = Manifest(join_references(files.batches(), plan.grid_shape))
            else:
                most = min(_PARTITION, self.stream_above)
                shape = contiguous_partition_shape(plan.grid_shape, most)
                parts = RefsPartitions(plan.path, shape, files)
                next(files.batches(), None)  # for the notes
                manifest = StreamedManifest(shape, parts)
                self._streams.append(parts)
        except ManifestError as error:
            return refused(plan.path, error)
        notes += tuple(relative_path_notes(files.relative))
        return ArrayNode(plan.path, plan.metadata, manifest, notes)

    def _without_metadata(self) -> Iterator[RefusedNode]:
        """Yield the directories with references but without metadata."""
        for directory, _, names in os.walk(self.root):
            path = Path(directory).relative_to(self.root).as_posix()
            path = "" if path == "." else path
            if any(refs_number(name) is not None for name in names) and path not in self._owned:
                yield not_convertible(path, f"it has references, but no '.zarray' in '{_METADATA}'")


def _notes(files: RefsFiles) -> Iterator[str]:
    references, beyond = files.outside()
    if references:
        yield (
            f"dropped {counted(references, 'reference')} past the end of the chunk "
            "grid, as kerchunk's readers do"
        )
    if beyond:
        yield (
            f"did not read {counted(len(beyond), 'file')} of references past the "
            f"end of the chunk grid, from refs.{beyond[0]}.parq on"
        )
