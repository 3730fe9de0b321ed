"""kerchunk's Parquet layout, as nodes of a hierarchy.

``.zmetadata`` holds the metadata of all nodes, and the references of an array are rows of
the Parquet files in its directory. Large arrays are read while they are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarr_manifest.conversion.kerchunk.local_paths import require_local_path
from zarr_manifest.conversion.kerchunk.parquet.files import RefsFiles, parquet, refs_number
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, relative_path_notes
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    StreamedManifest,
    refused,
)
from zarr_manifest.conversion.values import as_object, brief
from zarr_manifest.conversion.zarr2 import ArrayPlan, Plan, is_metadata_key, plan_nodes
from zarr_manifest.errors import (
    InvalidJSONError,
    ManifestError,
    NotConvertibleError,
    SourceError,
    SourceNotFoundError,
    in_context,
)
from zarr_manifest.manifest import Manifest, References, join_references
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
    return _Importer(root, *_open(root), SourceUrls(rewrite), stream_above).nodes()


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


def whole_manifest(
    grid_shape: tuple[int, ...], files: RefsFiles
) -> tuple[Manifest, frozenset[str]]:
    """Return the references of an array, and the relative file paths among them.

    Raises
    ------
    ManifestError
        They cannot be read, or no manifest can express them.
    """
    batches = list(files.batches())
    relative = frozenset[str]().union(*(batch.relative for batch in batches))
    return Manifest(join_references((each.references for each in batches), grid_shape)), relative


@dataclass(slots=True)
class RefsPartitions:
    """The references of an array as one manifest per partition; can be iterated repeatedly.

    Parameters
    ----------
    path : str
        Path of the array, for messages.
    grid_shape : tuple of int
        Number of chunks along every dimension.
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
    grid_shape: tuple[int, ...]
    partition_shape: tuple[int, ...]
    files: RefsFiles
    was_read: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Manifest]:
        """Yield the partitions that have references, in C order."""
        with in_context(array=self.path):
            pending: list[References] = []
            owner: tuple[int, ...] = ()
            for batch in self.files.batches():
                for index, part in batch.references.blocks(self.partition_shape):
                    if index != owner and pending:
                        yield Manifest(join_references(pending, self.grid_shape))
                        pending = []
                    owner = index
                    pending.append(part)
            if pending:
                yield Manifest(join_references(pending, self.grid_shape))
            self.was_read = True

    def first_relative(self) -> frozenset[str]:
        """Return the relative file paths among the first references."""
        return next((batch.relative for batch in self.files.batches()), frozenset[str]())


# Its nodes ---------------------------------------------------------------------------


@dataclass
class _Importer:
    root: Path
    documents: dict[str, Any]
    record_size: int
    urls: SourceUrls
    stream_above: int
    _streams: list[RefsPartitions] = field(default_factory=list[RefsPartitions])
    _owned: set[str] = field(default_factory=set[str])

    def nodes(self) -> Iterator[Node]:
        documents = {key: each for key, each in self.documents.items() if is_metadata_key(key)}
        strays = [key for key in self.documents if not is_metadata_key(key)]
        for plan in plan_nodes(documents):
            self._owned.add(plan.path)
            yield self._node(plan, strays)
        owned = {key.rpartition("/")[0] for key in strays} & self._owned
        for key in strays:
            if key.rpartition("/")[0] not in owned:
                yield _refused(key, f"it is in '{_METADATA}', but is not a metadata document")
        yield from self._without_metadata()
        # A caller that collects nodes before writing them has not seen all URLs.
        if all(stream.was_read for stream in self._streams):
            yield from self.urls.refused_rewrites()

    def _node(self, plan: Plan, strays: list[str]) -> Node:
        if isinstance(plan, RefusedNode):
            return plan
        inside = [key for key in strays if key.rpartition("/")[0] == plan.path]
        if inside:
            return _refused(
                plan.path,
                f"'{_METADATA}' contains data of it, under {brief(inside[0])}: that is unknown",
            )
        if isinstance(plan, GroupNode):
            return plan
        try:
            return self._array(plan)
        except ManifestError as error:
            return refused(plan.path, error)

    def _array(self, plan: ArrayPlan) -> ArrayNode:
        files = RefsFiles(self.root / plan.path, self.record_size, plan.grid_shape, self.urls)
        notes = (*plan.notes, *_notes(files))
        at_most = min(files.chunk_count, len(files.present()) * files.record_size)
        if at_most <= self.stream_above:
            manifest, relative = whole_manifest(plan.grid_shape, files)
            found = relative_path_notes(relative)
            return ArrayNode(plan.path, plan.metadata, manifest, (*notes, *found))
        shape = contiguous_partition_shape(plan.grid_shape, min(_PARTITION, self.stream_above))
        parts = RefsPartitions(plan.path, plan.grid_shape, shape, files)
        notes += tuple(relative_path_notes(parts.first_relative()))
        self._streams.append(parts)
        return ArrayNode(plan.path, plan.metadata, StreamedManifest(shape, parts), notes)

    def _without_metadata(self) -> Iterator[RefusedNode]:
        """Yield the directories with references but without metadata."""
        for directory, _, names in os.walk(self.root):
            path = Path(directory).relative_to(self.root).as_posix()
            path = "" if path == "." else path
            if any(refs_number(name) is not None for name in names) and path not in self._owned:
                yield _refused(path, f"it has references, but no '.zarray' in '{_METADATA}'")


def _refused(path: str, reason: str) -> RefusedNode:
    return RefusedNode(path, NotConvertibleError.code, reason)


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
