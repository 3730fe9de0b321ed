"""Where the chunks of the inputs are in the array that they become. Pure but for lazy manifests.

A large manifest is streamed: its partitions are placed one after the other. Only those at a joint
are held.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zarr_manifest.conversion.fitting import MOST_REFERENCES, common_length
from zarr_manifest.conversion.joining.placed_references import (
    all_have_size,
    count_pieces,
    in_pieces,
    placed,
)
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    StreamedManifest,
    grid_of,
    inline_manifest,
    parts_of,
    whole,
)
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtual import checked_metadata
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import element_size
from zarr_manifest.manifest import Manifest, References, join_references, references_of
from zarr_manifest.showing import counted


@dataclass(frozen=True)
class Placement:
    """The chunks of one input, in the grid of the array that it becomes a part of.

    Parameters
    ----------
    node : ArrayNode
        The array in the input.
    start : int
        Where its first chunk is along the axis.
    count : int
        Number of its chunks along the axis, or of pieces of these.
    pieces : int
        Number of pieces into which each of its chunks is split.
    nbytes : int
        Size of such a piece; 0 if chunks are not split.
    chunks : range, optional
        Which of its chunks are used, by their position along the axis; all by default.
    rewrite : callable, optional
        Takes its references, with URLs as paths, and returns them as they are written.
    """

    node: ArrayNode
    start: int
    count: int
    pieces: int = 1
    nbytes: int = 0
    chunks: range | None = None
    rewrite: Callable[[References], References] | None = None

    @property
    def stop(self) -> int:
        """Where the chunks of the next input are."""
        return self.start + self.count

    def parts(self, grid_shape: tuple[int, ...], axis: int) -> Iterator[References]:
        """Yield the references of the input's manifest, part by part, in the new grid."""
        for part in map(references_of, parts_of(self.node.manifest)):
            found = part if self.rewrite is None else self.rewrite(part)
            if self.nbytes:
                own = (*part.grid_shape[:axis], self.count, *part.grid_shape[axis + 1 :])
                found = in_pieces(found, own, axis, pieces=self.pieces, nbytes=self.nbytes)
            yield placed(found, grid_shape, axis, chunks=self.chunks, shift=self.start)


def chunk_shape(node: ArrayNode) -> tuple[int, ...]:
    """Return the shape of the chunks of an array.

    Raises
    ------
    NotConvertibleError
        They differ in length.
    """
    if (regular := grid_of(node.metadata).regular) is None:
        raise NotConvertibleError("its chunks differ in length, and such arrays are not joined")
    return regular


def chunks_of(node: ArrayNode, axis: int, values: range | None = None) -> range:
    """Return the chunks along a dimension that have some of the values, by default all."""
    chunk = chunk_shape(node)[axis]
    values = range(node.metadata["shape"][axis]) if values is None else values
    return range(values.start // chunk, -(-values.stop // chunk))


@dataclass(frozen=True)
class Joint:
    """An array whose chunks are those of the inputs, together along an axis.

    Parameters
    ----------
    path : str
        Its path.
    metadata : dict
        Its metadata.
    axis : int
        The dimension.
    placements : sequence of Placement
        Of the inputs that are not empty along it.
    notes : tuple of str
        What was done to make them fit.
    """

    path: str
    metadata: dict[str, Any]
    axis: int
    placements: Sequence[Placement]
    notes: tuple[str, ...] = ()

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return grid_of(self.metadata).counts

    def node(self) -> ArrayNode:
        """Return the array as a node."""
        return ArrayNode(self.path, self.metadata, self.manifest(), self.notes)

    def each_alone(self) -> list[References]:
        """Return the references of each input, as if there were no others."""
        found: list[References] = []
        for each in self.placements:
            shape = (*self.grid_shape[: self.axis], each.count, *self.grid_shape[self.axis + 1 :])
            parts = replace(each, start=0).parts(shape, self.axis)
            found.append(join_references(parts, shape))
        return found

    def manifest(self, partition_shape: Sequence[int] | None = None) -> Manifest | StreamedManifest:
        """Return the manifest of the array.

        Parameters
        ----------
        partition_shape : sequence of int, optional
            Number of chunks in a partition; by default, that of the first input that has several.
        """
        if partition_shape is None:
            shapes = (
                each.node.manifest.partition_shape
                for each in self.placements
                if isinstance(each.node.manifest, StreamedManifest) and not each.nbytes
            )
            partition_shape = next(shapes, None)
        grid_shape = self.grid_shape
        if partition_shape is None:
            every = (each.parts(grid_shape, self.axis) for each in self.placements)
            return Manifest(join_references(itertools.chain.from_iterable(every), grid_shape))
        shape = tuple(partition_shape)
        parts = _JoinedParts(self.placements, grid_shape, self.axis, shape)
        return StreamedManifest(shape, parts)


@dataclass(frozen=True)
class _JoinedParts:
    """The partitions of a joined manifest; placed anew each time they are iterated."""

    placements: Sequence[Placement]
    grid_shape: tuple[int, ...]
    axis: int
    shape: tuple[int, ...]

    def __iter__(self) -> Iterator[Manifest]:
        waiting: dict[tuple[int, ...], list[References]] = {}
        for place in self.placements:
            for part in place.parts(self.grid_shape, self.axis):
                done = self._rows_done(place, part)
                yield from self._complete(waiting, place.stop, done)
                for index, block in part.blocks(self.shape):
                    waiting.setdefault(index, []).append(block)
            yield from self._complete(waiting, place.stop, None)
        yield from self._complete(waiting, None, None)

    def _rows_done(self, place: Placement, part: References) -> int:
        """Return up to where along the first dimension no further references will come.

        From this input, whose partitions are in C order.
        """
        manifest = place.node.manifest
        if not len(part) or not isinstance(manifest, StreamedManifest) or place.nbytes:
            return 0
        if not manifest.is_in_order:
            return 0
        row = int(part.columns(slice(0, 1)).numbers[0]) // math.prod(self.grid_shape[1:])
        shift = place.start if self.axis == 0 else 0
        rows = manifest.partition_shape[0]
        return (row - shift) // rows * rows + shift

    def _complete(
        self,
        waiting: dict[tuple[int, ...], list[References]],
        stop: int | None,
        done: int | None,
    ) -> Iterator[Manifest]:
        """Yield the partitions to which nothing will be added, and remove them.

        Parameters
        ----------
        waiting : dict
            References by partition.
        stop : int or None
            Where the input ends along the axis; None for the last.
        done : int or None
            As of `_rows_done`; None at the end of the input.
        """
        for index in list(waiting):
            end = (index[self.axis] + 1) * self.shape[self.axis]
            is_shared = stop is not None and end > stop
            is_open = done is not None and (index[0] + 1) * self.shape[0] > done
            if not is_shared and not is_open:
                yield Manifest(join_references(waiting.pop(index), self.grid_shape))


def without_chunks(like: ArrayNode, shape: Sequence[int]) -> ArrayNode:
    """Return an array of another shape, all chunks of which are missing."""
    metadata = {**like.metadata, "shape": list(shape)}
    return ArrayNode(like.path, metadata, inline_manifest(grid_of(metadata).counts))


def stacked(nodes: Sequence[ArrayNode], dim: str) -> list[ArrayNode]:
    """Return arrays with a new dimension, the first, of which each has one value.

    Raises
    ------
    NotConvertibleError
        Chunks differ in length, or codecs are for arrays without it.
    """
    found: list[ArrayNode] = []
    known: dict[int, dict[str, Any]] = {}  # most arrays share their metadata
    for node in nodes:
        if id(node.metadata) not in known:
            known[id(node.metadata)] = _with_dimension(node, dim)
        references = whole(node)
        grid_shape = (1, *references.grid_shape)
        manifest = Manifest(references.replaced(grid_shape=grid_shape))
        found.append(ArrayNode(node.path, known[id(node.metadata)], manifest, node.notes))
    return found


def _with_dimension(node: ArrayNode, dim: str) -> dict[str, Any]:
    stated = node.metadata
    chunks = (1, *chunk_shape(node))
    names = stated.get("dimension_names") or [None] * len(stated["shape"])
    return checked_metadata(
        {
            **stated,
            "shape": [1, *stated["shape"]],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "dimension_names": [dim, *names],
        }
    )


# Whether they fit -------------------------------------------------------------------------


def fit(nodes: Sequence[ArrayNode], axis: int, names: Sequence[str]) -> Joint:
    """Return how the chunks of arrays fit together along an axis.

    Parameters
    ----------
    nodes : sequence of ArrayNode
        In the order of concatenation; alike but for their lengths along the axis and their chunks.
    axis : int
        The dimension.
    names : sequence of str
        Their names in messages.

    Raises
    ------
    NotConvertibleError
        They do not.
    """
    known: dict[int, tuple[int, ...]] = {}  # most arrays share their metadata
    for node in nodes:
        if id(node.metadata) not in known:
            known[id(node.metadata)] = chunk_shape(node)
    chunks = [known[id(node.metadata)] for node in nodes]
    lengths: list[int] = [node.metadata["shape"][axis] for node in nodes]
    for name, shape in zip(names, chunks, strict=True):
        if (shape[:axis], shape[axis + 1 :]) != (chunks[0][:axis], chunks[0][axis + 1 :]):
            raise NotConvertibleError(_other_chunks(names[0], chunks[0], name, shape))
    used = [number for number, length in enumerate(lengths) if length] or [0]
    piece = common_length(
        [lengths[n] for n in used], [chunks[n][axis] for n in used], [n == used[-1] for n in used]
    )
    first = chunks[used[0]][axis]
    joined = _along(nodes[0].metadata["shape"], axis, sum(lengths))
    metadata = {**nodes[0].metadata, "shape": joined}
    if piece in (first, None) and all(chunks[n][axis] == first for n in used):
        metadata["chunk_grid"] = nodes[used[0]].metadata["chunk_grid"]
        return Joint(nodes[0].path, metadata, axis, _one_after_the_other(nodes, axis, used, first))
    assert piece is not None  # some are not empty
    for n in used:
        if chunks[n][axis] != first:
            problem = _other_chunks(names[used[0]], chunks[used[0]], names[n], chunks[n])
            break
    else:
        n = next(n for n in used[:-1] if lengths[n] % first)
        below = lengths[n] // first * first
        would_do = f"{below:,} or {below + first:,}" if below else f"{first:,}"
        problem = (
            f"{names[n]} has {counted(lengths[n], 'value')} along it, so that what follows would "
            f"begin inside a chunk of {first:,}; {would_do} would do"
        )
    return _split(nodes, axis, used, piece, metadata, problem)


def _other_chunks(first: str, ours: Sequence[int], other: str, theirs: Sequence[int]) -> str:
    text = f"unlike {first}, which has chunks of {brief(tuple(ours))}"
    return f"{text}, {other} has chunks of {brief(tuple(theirs))}"


def _along(shape: Sequence[int], axis: int, length: int) -> list[int]:
    return [*shape[:axis], length, *shape[axis + 1 :]]


def _one_after_the_other(
    nodes: Sequence[ArrayNode], axis: int, used: Sequence[int], chunk: int
) -> list[Placement]:
    found: list[Placement] = []
    for n in used:
        start = found[-1].stop if found else 0
        found.append(Placement(nodes[n], start, -(-nodes[n].metadata["shape"][axis] // chunk)))
    return found


def _split(
    nodes: Sequence[ArrayNode],
    axis: int,
    used: Sequence[int],
    piece: int,
    metadata: dict[str, Any],
    problem: str,
) -> Joint:
    """Return how pieces of uncompressed chunks fit together; raise the problem if none do."""
    codecs: Sequence[Any] = metadata["codecs"]
    names = [codec if isinstance(codec, str) else codec["name"] for codec in codecs]
    item = element_size(metadata)
    first = chunk_shape(nodes[used[0]])
    if names != ["bytes"] or not item or math.prod(first[:axis]) != 1:
        raise NotConvertibleError(problem)
    row = math.prod(first[axis + 1 :]) * item
    shape = _along(first, axis, piece)
    count = math.prod(-(-n // size) for n, size in zip(metadata["shape"], shape, strict=True))
    if count > MOST_REFERENCES:
        raise NotConvertibleError(
            f"{problem}; splitting chunks into pieces of {brief(tuple(shape))}, which would fit, "
            f"takes {count:,} references, more than {MOST_REFERENCES:,}"
        )
    placements: list[Placement] = []
    checksums = before = after = 0
    for place, n in zip(_one_after_the_other(nodes, axis, used, piece), used, strict=True):
        chunk, length = chunk_shape(nodes[n])[axis], nodes[n].metadata["shape"][axis]
        pieces = -(-min(chunk, length) // piece)
        for part in map(references_of, parts_of(nodes[n].manifest)):
            if chunk != piece and not all_have_size(part, chunk * row):
                raise NotConvertibleError(problem)
            checksums += sum(len(rows) for e, rows in part.extras() if e.checksum is not None)
            own = count_pieces(part, axis, pieces, place.count)
            before, after = before + own[0], after + own[1]
        placements.append(place)
        if chunk != piece:
            placements[-1] = replace(place, pieces=pieces, nbytes=piece * row)
    metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": shape}}
    note = (
        f"its uncompressed chunks were split into pieces of {brief(tuple(shape))}, which fit into "
        f"one chunk grid: {after:,} references instead of {before:,}"
    )
    if checksums:
        note += f"; the checksums of {counted(checksums, 'chunk')} were left out"
    return Joint(nodes[0].path, metadata, axis, placements, (note,))
