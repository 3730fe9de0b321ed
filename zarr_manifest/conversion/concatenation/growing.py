"""A hierarchy whose arrays change along a dimension: what is written of it, as one commit.

The documents of partitions to which nothing is added stay as they are, and are not read.
"""

from __future__ import annotations

import functools
import math
import operator
import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from zarr_manifest.conversion.concatenation.concatenating import CONCURRENT, opened_input
from zarr_manifest.conversion.files import documents_along, is_as_written
from zarr_manifest.conversion.joining import Input, JoinedArray, Joint, Placement, chunks_of
from zarr_manifest.conversion.nodes import ArrayNode, Node, StreamedManifest, parts_of
from zarr_manifest.conversion.target import SourcePaths
from zarr_manifest.errors import NotConvertibleError, WriteConflictError, in_context
from zarr_manifest.format import (
    DIGEST_PLACEHOLDER,
    ArrayMetadata,
    Configuration,
    interpret_declaration,
    strict,
)
from zarr_manifest.hierarchy import InspectedHierarchy, Partition, nodes_of
from zarr_manifest.locations import Base, UrlLocation, quote_path
from zarr_manifest.manifest import References, references_of
from zarr_manifest.sources import Access
from zarr_manifest.stores import StoreLike, store_urls
from zarr_manifest.writing import (
    ArrayWriter,
    Change,
    Form,
    Stored,
    checksums_to_keep,
    guarded_store,
    repeatedly,
)

# Others may append at the same time: each goes after the one before.
_MOST_ATTEMPTS = 40

# What is written by default if nobody asks for another form.
_ONE_DOCUMENT = f"./manifest-{DIGEST_PLACEHOLDER}.json"

# Number of chunks in a partition along a dimension that grows: if there is one chunk along the
# others, and at least.
_LONGEST = 128
_SHORTEST = 16

# Most chunks in a partition; with this many documents, partitions become longer.
_MOST_CHUNKS = 2**17
_MANY_DOCUMENTS = 1000


def grow[T](attempt: Callable[[], T]) -> T:
    """Return what an attempt returns; repeat it if another writer came first.

    Raises
    ------
    WriteConflictError
        Others came first each time.
    """

    def conflict_or_result(_: int) -> T | WriteConflictError:
        try:
            return attempt()
        except WriteConflictError as error:
            return error

    return repeatedly(conflict_or_result, _MOST_ATTEMPTS)


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
        location: StoreLike,
        allow: Mapping[str, Access],
        *,
        sole_writer: bool = False,
        each: Callable[[Node], None] | None = None,
    ) -> Growing:
        """Read a hierarchy, and call a function with each node as soon as it is known.

        Raises
        ------
        SourceNotFoundError
            There is none.
        ManifestError
            It cannot be read or written.
        """
        change = Change(guarded_store(location, allow, sole_writer=sole_writer))
        # What another writer changes from now on is a conflict.
        documents = {path: found.body or b"" for path, found in change.nodes().items()}
        # Only a listing of everything finds nodes of Zarr v2, and those outside of groups.
        is_all = documents and not change.others()
        found = nodes_of(documents) if is_all else None
        hierarchy = InspectedHierarchy.open(location, allow=allow)
        return cls(change, hierarchy, opened_input(hierarchy, location, found, each))

    @contextmanager
    def as_it_is(self) -> Generator[None]:
        """Let what does not fit be a conflict if another writer changed the hierarchy meanwhile.

        Some nodes may have been read before it was changed, and others after.

        Raises
        ------
        WriteConflictError
        """
        try:
            yield
        except NotConvertibleError as error:
            now = Change(self.change.store).nodes()
            if self._bodies(now) == self._bodies(self.change.nodes()):
                raise
            raise WriteConflictError(
                "another writer has changed the hierarchy while it was read",
                location=self.existing.name,
                remedy="Try again.",
            ) from error

    @staticmethod
    def _bodies(nodes: Mapping[str, Stored]) -> dict[str, bytes | None]:
        return {path: found.body for path, found in nodes.items()}

    def has_dimension(self, path: str, dim: str) -> bool:
        """Whether a node is an array along a dimension, readable or not, or may be one."""
        stated = self.change.node(path) or {}
        is_damaged = self.change.read(path).body is not None and "node_type" not in stated
        return is_damaged or dim in (stated.get("dimension_names") or ())

    def set_all(
        self, arrays: Iterable[JoinedArray], replaced: Sequence[tuple[range, Input]] | None = None
    ) -> list[int]:
        """Write the documents of arrays, and let the change declare them.

        Parameters
        ----------
        arrays : iterable of JoinedArray
            Each array as it will be.
        replaced : sequence of (range, Input), optional
            The inputs besides the hierarchy, and the values along the dimension that each of them
            replaces, if all other present chunks stay where they are.

        Returns
        -------
        list of int
            For each, the number of references that were written.
        """
        # Waiting for stores takes longer than all else.
        with ThreadPoolExecutor(CONCURRENT) as threads:
            return list(threads.map(functools.partial(self._set_named, replaced), arrays))

    def _set_named(self, replaced: Sequence[tuple[range, Input]] | None, array: JoinedArray) -> int:
        with in_context(array=array.path):
            return self._set(array, replaced)

    def commit(self) -> None:
        """Change all arrays at once.

        Raises
        ------
        WriteConflictError
            Another writer has changed one of them since they were read.
        """
        self.change.commit()

    def _set(self, array: JoinedArray, replaced: Sequence[tuple[range, Input]] | None) -> int:
        stated = self.change.node(array.path) or {}
        declared = strict(interpret_declaration(stated))
        metadata = {**stated, **array.metadata}
        paths, base = self._paths(array.path, declared)
        if declared is None:
            form = Form(base=base, lock=not ArrayMetadata("", metadata).is_unlocked)
        else:
            form = Form.as_declared(declared, metadata, base)

        def rewrite(references: References) -> References:
            return paths.rewritten(references)[0]

        kept = dict[Partition, str]()
        if isinstance(array, Joint) and replaced is not None:
            if form.manifest in (None, _ONE_DOCUMENT):
                form = _partitioned(form, array)
            elif declared is not None:
                present = self.existing.arrays[array.path]
                new = [(place, each.arrays[array.path]) for place, each in replaced]
                kept, array = _changed_partitions(declared, array, present, new)
        if isinstance(array, ArrayNode):
            parts = map(rewrite, map(references_of, parts_of(array.manifest)))
        else:
            # What this hierarchy has is written as it is.
            placements = [
                each if is_as_written(each.node) else replace(each, rewrite=rewrite)
                for each in array.placements
            ]
            manifest = replace(array, placements=placements).manifest(form.partition_shape)
            parts = map(references_of, parts_of(manifest))
        writer = ArrayWriter(self.change.store, array.path, metadata, form, kept)
        written = writer.write_all(parts)
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


def _partitioned(form: Form, joint: Joint) -> Form:
    """Return a form with partitions along the dimension, if there are so many chunks along it.

    A document that grows is written each time: partitions that are full are not.
    """
    shape = growing_partitions(joint.grid_shape, joint.axis)
    if joint.grid_shape[joint.axis] <= shape[joint.axis]:
        return form
    return replace(form, manifest=None, partition_shape=shape)


def growing_partitions(counts: Sequence[int], axis: int) -> list[int]:
    """Return the shape of partitions for an array that grows along a dimension.

    An append writes half a partition, and a line for each partition into two ``zarr.json``: both
    together are fewest bytes if partitions are as long as the root of that which is between.

    Parameters
    ----------
    counts : sequence of int
        Number of chunks along each dimension.
    axis : int
        The dimension.

    Examples
    --------
    >>> growing_partitions((500, 1), 0), growing_partitions((3, 4, 500), 2)
    ([128, 1], [3, 4, 32])
    >>> growing_partitions((500_000, 100), 0), growing_partitions((500, 1000, 1000), 0)
    ([512, 100], [1, 250, 500])
    """
    shape = [max(1, count) for count in counts]
    shape[axis] = 1
    others = math.prod(shape)
    length = max(_SHORTEST, 2 ** round(math.log2(_LONGEST / math.sqrt(others))))
    while counts[axis] > length * _MANY_DOCUMENTS:
        length *= 2
    shape[axis] = max(1, min(length, _MOST_CHUNKS // others))
    while math.prod(shape) > _MOST_CHUNKS:
        longest = max(range(len(shape)), key=lambda n: shape[n])
        shape[longest] = -(-shape[longest] // 2)
    return shape


def _changed_partitions(
    stated: Configuration,
    joint: Joint,
    present: ArrayNode,
    new: Sequence[tuple[range, ArrayNode]],
) -> tuple[dict[Partition, str], Joint]:
    """Return the checksums of the documents that stay, and what is in the other partitions.

    None stays if documents are not named by their digests.

    Parameters
    ----------
    stated : Configuration
        The present declaration.
    joint : Joint
        The array as it will be.
    present : ArrayNode
        The array as it is.
    new : sequence of (range, ArrayNode)
        What is put into it, and which of the present values it replaces.
    """
    axis, grid_shape, shape = joint.axis, joint.grid_shape, stated.partition_shape
    checksums = checksums_to_keep(stated, len(grid_shape))
    if checksums is None or shape is None or documents_along(present, axis) is None:
        return {}, joint
    if joint.metadata["chunk_grid"] != present.metadata["chunk_grid"]:
        return {}, joint
    count, length = len(chunks_of(present, axis)), shape[axis]
    replaced = sorted(
        [chunks_of(present, axis, place) for place, _ in new], key=operator.attrgetter("start")
    )
    others = [*filter(len, replaced), range(count, grid_shape[axis])]
    changed = {n for each in others for n in range(each.start // length, -(-each.stop // length))}
    own: dict[Partition, str] = {
        index: each
        for index, each in checksums.items()
        if index is not None and index[axis] not in changed
    }
    # What stays in the other partitions is written with what is new there.
    used: list[Placement] = []
    for number in changed:
        block = range(number * length, min((number + 1) * length, count))
        for chunks in _outside(block, replaced):
            documents = documents_along(present, axis, chunks)
            assert documents is not None  # as above
            few = StreamedManifest(shape, documents.as_written(), is_in_order=True)
            part = ArrayNode(present.path, present.metadata, few)
            used.append(Placement(part, 0, chunks.stop, chunks=chunks))
    added = {id(node) for _, node in new}
    used += [each for each in joint.placements if id(each.node) in added]
    used.sort(key=lambda each: each.start if each.chunks is None else each.chunks.start)
    return own, replace(joint, placements=used)


def _outside(block: range, holes: Iterable[range]) -> Iterator[range]:
    """Yield the parts of a range that are outside others, which are in order.

    Examples
    --------
    >>> list(_outside(range(3, 9), [range(0, 4), range(6, 7)]))
    [range(4, 6), range(7, 9)]
    """
    start = block.start
    for hole in [*holes, range(block.stop, block.stop)]:
        if start < min(hole.start, block.stop):
            yield range(start, min(hole.start, block.stop))
        start = max(start, hole.stop)
