"""A hierarchy whose arrays change along a dimension: what is written of it, as one commit.

The documents of partitions to which nothing is added stay as they are, and are not read.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store

from zarr_manifest.conversion.concatenation.inputs import Input, opened_input
from zarr_manifest.conversion.concatenation.joining import JoinedArray
from zarr_manifest.conversion.concatenation.overlap import whole
from zarr_manifest.conversion.concatenation.placing import Joint, Placement
from zarr_manifest.conversion.files import StoredParts
from zarr_manifest.conversion.nodes import ArrayNode, StreamedManifest
from zarr_manifest.conversion.target import SourcePaths
from zarr_manifest.errors import ManifestError, WriteConflictError
from zarr_manifest.format import (
    DIGEST_PLACEHOLDER,
    ArrayMetadata,
    Configuration,
    interpret_declaration,
    parse_canonical,
    strict,
)
from zarr_manifest.hierarchy import (
    InspectedHierarchy,
    Partition,
    nodes_of,
    store_underneath,
)
from zarr_manifest.locations import Base, UrlLocation, quote_path
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.sources import Access
from zarr_manifest.stores import open_hierarchy, store_urls
from zarr_manifest.writing import ArrayWriter, Change, Form, give_way, guarded_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ObjectStore

# Others may append at the same time: each goes after the one before.
_MOST_ATTEMPTS = 40

# Number of arrays of which documents are read or written at the same time.
CONCURRENT_ARRAYS = 16


def repeatedly[T](attempt: Callable[[], T]) -> T:
    """Return what an attempt returns; repeat it if another writer came first.

    Raises
    ------
    WriteConflictError
        Others came first each time.
    """
    for number in itertools.count(1):
        try:
            return attempt()
        except WriteConflictError as error:
            give_way(error, number, _MOST_ATTEMPTS)
    raise AssertionError  # the last attempt has returned or raised


@dataclass(frozen=True)
class Growing:
    """A hierarchy as it was read, and its change.

    Parameters
    ----------
    change : Change
        Nothing is written of it so far.
    hierarchy : InspectedHierarchy
        The hierarchy.
    existing : Input
        Its nodes.
    """

    change: Change
    hierarchy: InspectedHierarchy
    existing: Input

    @classmethod
    def open(
        cls,
        location: str | Path | ObjectStore | Store,
        allow: Mapping[str, Access],
        *,
        sole_writer: bool = False,
    ) -> Growing:
        """Read a hierarchy.

        Raises
        ------
        SourceNotFoundError
            There is none.
        ManifestError
            It cannot be read or written.
        """
        own = store_underneath(open_hierarchy(location, allow))
        change = Change(guarded_store(own, sole_writer=sole_writer))
        # What another writer changes from now on is a conflict.
        documents = {path: found.body or b"" for path, found in change.nodes().items()}
        # Only a listing of everything finds nodes of Zarr v2, and those outside of groups.
        is_all = documents and not change.others()
        found = nodes_of(documents) if is_all else None
        hierarchy = InspectedHierarchy.open(location, allow=allow)
        return cls(change, hierarchy, opened_input(hierarchy, location, found))

    def set_all(self, arrays: Iterable[tuple[JoinedArray, ArrayNode | None]]) -> list[int]:
        """Write the documents of arrays, and let the change declare them.

        Parameters
        ----------
        arrays : iterable of (JoinedArray, ArrayNode or None)
            Each array as it will be, and the first part of its present chunks, if they stay where
            they are.

        Returns
        -------
        list of int
            For each, the number of references that were written.
        """
        # Waiting for stores takes longer than all else.
        with ThreadPoolExecutor(CONCURRENT_ARRAYS) as threads:
            return list(threads.map(self._set_named, *zip(*arrays, strict=True)))

    def _set_named(self, array: JoinedArray, kept: ArrayNode | None) -> int:
        try:
            return self._set(array, kept)
        except ManifestError as error:
            raise error.in_context(array=array.path) from error.__cause__

    def commit(self) -> None:
        """Change all arrays at once.

        Raises
        ------
        WriteConflictError
            Another writer has changed one of them since they were read.
        """
        self.change.commit()

    def _set(self, array: JoinedArray, kept: ArrayNode | None) -> int:
        stated = self.change.node(array.path) or {}
        declared = strict(interpret_declaration(stated))
        node = array.node()
        metadata = {**stated, **node.metadata}
        paths, base = self._paths(array.path, declared)
        if declared is None:
            form = Form(base=base, lock=not ArrayMetadata("", metadata).is_unlocked)
        else:
            form = Form.as_declared(declared, metadata, base)
        partial: tuple[dict[Partition, str], Any] | None = None
        if declared is not None and array.joint is not None and kept is not None:
            partial = _partial(declared, array.joint, kept)
        checksums, manifest = ({}, node.manifest) if partial is None else partial
        writer = ArrayWriter(self.change.store, array.path, metadata, form, checksums)
        written = 0
        if isinstance(manifest, Manifest):
            found = references_of(manifest)
            writer.write(paths.rewritten(found)[0])
            written = len(found)
        elif form.partition_shape is None:
            found = whole(ArrayNode(array.path, node.metadata, manifest))
            writer.write(paths.rewritten(found)[0])
            written = len(found)
        else:
            parts = (paths.rewritten(references_of(part))[0] for part in manifest.parts)
            for part in writer.write_parts(parts):
                written += len(part)
        self.change.set(array.path, writer.metadata)
        return written

    @functools.cached_property
    def roots(self) -> list[UrlLocation]:
        """The URLs of the root."""
        return store_urls(self.hierarchy.store)

    @functools.cached_property
    def _known_paths(self) -> dict[str | None, SourcePaths]:
        return {}

    def _paths_from(self, base: str | None) -> SourcePaths:
        """Return what rewrites paths to resolve against a base, relative to the root."""
        if base not in self._known_paths:
            self._known_paths[base] = SourcePaths(self.roots, base)
        return self._known_paths[base]

    def _paths(self, path: str, declared: Configuration | None) -> tuple[SourcePaths, str | None]:
        """Return what rewrites paths to resolve against the array's base, and this base."""
        if declared is None:
            found = self._paths_from(None)
            return found, found.base_of(path)
        stated = declared.base
        base = Base.parse(stated, directory=path, root=self.hierarchy.sources.root)
        if base.scheme and base.root is None:
            return self._paths_from(stated), stated
        directory = base.path.rpartition("/")[0]
        if base.scheme:
            assert base.root is not None
            directory = posixpath.relpath(f"/{directory}", f"/{base.root.path}")
        reference = f"./{quote_path(directory)}/" if directory else "./"
        return self._paths_from(reference), stated


def _partial(
    stated: Configuration, joint: Joint, kept: ArrayNode
) -> tuple[dict[Partition, str], StreamedManifest] | None:
    """Return the checksums of the documents that stay, and the other partitions.

    None if all documents have to be written.
    """
    first = joint.placements[0]
    parts = kept.manifest.parts if isinstance(kept.manifest, StreamedManifest) else None
    if first.node is not kept or first.nbytes or not isinstance(parts, StoredParts):
        return None
    checksums = _checksums(stated, len(joint.grid_shape))
    if checksums is None or stated.partition_shape is None:
        return None
    axis, rows = joint.axis, stated.partition_shape[joint.axis]
    begin = first.stop // rows * rows
    own: dict[Partition, str] = {
        index: each for index, each in checksums.items() if index[axis] * rows < begin
    }
    used: Sequence[Placement] = joint.placements[1:]
    if begin < first.stop:
        at_joint = range(begin, first.stop)
        node = ArrayNode(
            kept.path,
            kept.metadata,
            StreamedManifest(stated.partition_shape, parts.along(axis, at_joint), is_in_order=True),
        )
        used = [Placement(node, 0, first.stop, chunks=at_joint), *used]
    manifest = joint.manifest(used, partition_shape=stated.partition_shape)
    assert isinstance(manifest, StreamedManifest)  # it has a partition shape
    return own, manifest


def _checksums(stated: Configuration, ndim: int) -> dict[tuple[int, ...], str] | None:
    """Return the checksums of documents by partition; None unless they are named by digest."""
    named = stated.partitions
    if isinstance(stated.manifest, bytes) or DIGEST_PLACEHOLDER not in stated.manifest:
        return None
    if named is None or isinstance(named, str | tuple):
        return None
    found: dict[tuple[int, ...], str] = {}
    for name, checksum in named.items():
        index = parse_canonical(name, ndim)
        if index is not None:
            found[index] = checksum
    return found
