"""References at another place of another chunk grid: moved along a dimension, cut, or split.

In columns, whatever their number. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from zarr_manifest.format import grid_indices, number_chunks
from zarr_manifest.manifest import (
    EMPTY,
    INLINE,
    TO_THE_END,
    ChunkNumbers,
    Extras,
    References,
    path_table,
)

# Members of conditions that tell two states of an object apart, besides its time.
_STATES = ("etag", "version", "size")


def placed(
    references: References,
    grid_shape: Sequence[int],
    axis: int,
    *,
    chunks: range | None = None,
    shift: int = 0,
) -> References:
    """Return references to some chunks, moved along a dimension into another grid.

    Parameters
    ----------
    references : References
        The references.
    grid_shape : sequence of int
        Number of chunks of the other grid.
    axis : int
        The dimension.
    chunks : range, optional
        Which chunks to keep, by their position along the axis; all by default.
    shift : int
        Added to this position.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> found = references_of(Manifest.from_columns((3, 1), paths="f", offsets=[[0], [8], [16]]))
    >>> moved = placed(found, (9, 1), 0, chunks=range(1, 3), shift=5)
    >>> moved.columns().numbers, moved.columns().offsets
    (array([6, 7]), array([ 8, 16]))
    """
    columns = references.columns()
    kept: Sequence[int] = range(len(references))
    if axis == 0 and chunks is None and tuple(grid_shape[1:]) == references.grid_shape[1:]:
        # As below, without computing with the places along other dimensions.
        numbers = columns.numbers + shift * math.prod(grid_shape[1:])
    else:
        indices = grid_indices(references.grid_shape, columns.numbers)
        if chunks is not None:
            inside = (indices[:, axis] >= chunks.start) & (indices[:, axis] < chunks.stop)
            if not inside.all():
                rows = np.flatnonzero(inside)
                indices, kept = indices[rows], rows.tolist()
                columns = references.columns(rows)
        if shift:
            indices[:, axis] += shift
        numbers = number_chunks(indices, grid_shape)
    return References(
        tuple(grid_shape),
        # The order of the chunks stays.
        ChunkNumbers.of(numbers),
        columns.offsets,
        columns.lengths,
        columns.path_numbers,
        references.paths,
        dict(references.extras_of(kept)),
    )


def in_pieces(
    references: References, grid_shape: Sequence[int], axis: int, *, pieces: int, nbytes: int
) -> References:
    """Return references to pieces of chunks, each of which is one run of bytes.

    Checksums are left out: they are those of whole chunks.

    Parameters
    ----------
    references : References
        To uncompressed chunks, of one run of rows along the axis.
    grid_shape : sequence of int
        Number of pieces along each dimension; those beyond it, past the end of the array, are
        left out.
    axis : int
        The dimension along which chunks are split.
    pieces : int
        Number of pieces of a chunk.
    nbytes : int
        Size of a piece.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> found = Manifest.from_columns((2,), paths="f", offsets=[100, 200], lengths=24)
    >>> split = in_pieces(references_of(found), (5,), 0, pieces=3, nbytes=8)
    >>> split.columns().offsets, split.columns().lengths
    (array([100, 108, 116, 200, 208]), array([8, 8, 8, 8, 8]))
    """
    columns = references.columns()
    count = len(references)
    old = np.repeat(np.arange(count), pieces)
    within = np.tile(np.arange(pieces), count)
    indices = grid_indices(references.grid_shape, columns.numbers)[old]
    indices[:, axis] = indices[:, axis] * pieces + within
    inside = indices[:, axis] < grid_shape[axis]
    old, within, numbers = old[inside], within[inside], number_chunks(indices[inside], grid_shape)
    order = np.argsort(numbers, kind="stable")
    old, within, numbers = old[order], within[order], numbers[order]
    path_numbers = columns.path_numbers[old]
    has_path, is_inline = path_numbers >= 0, path_numbers == INLINE
    offsets = np.where(has_path, columns.offsets[old] + within * nbytes, columns.offsets[old])
    lengths = np.where(has_path | is_inline, nbytes, columns.lengths[old])
    places: dict[int, list[int]] = {}
    for place, row in enumerate(old.tolist()):
        places.setdefault(row, []).append(place)
    extras: dict[int, Extras] = {}
    for row, extra in references.extras_of(range(count)):
        for place in places.get(row, ()):
            start = int(within[place]) * nbytes
            data = None if extra.data is None else extra.data[start : start + nbytes]
            kept = replace(extra, data=data, checksum=None)
            if kept != Extras():
                extras[place] = kept
    return References(
        tuple(grid_shape),
        ChunkNumbers.of(numbers),
        offsets,
        lengths,
        path_numbers,
        references.paths,
        extras,
    )


def count_pieces(references: References, axis: int, pieces: int, count: int) -> tuple[int, int]:
    """Return the number of chunks that have bytes, and that of their pieces within `count`.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> found = references_of(Manifest.from_columns((2,), paths="f"))
    >>> count_pieces(found, 0, pieces=3, count=5)
    (2, 5)
    """
    columns = references.columns()
    numbers = columns.numbers[columns.path_numbers != EMPTY]
    starts = grid_indices(references.grid_shape, numbers)[:, axis] * pieces
    return len(numbers), int(np.clip(count - starts, 0, pieces).sum())


def all_have_size(references: References, nbytes: int) -> bool:
    """Whether each chunk that is in an object or inline has a number of bytes, as far as is known.

    A chunk to the end of its object is not known to have another size.
    """
    columns = references.columns()
    with_bytes = (columns.path_numbers >= 0) | (columns.path_numbers == INLINE)
    lengths = columns.lengths[with_bytes]
    return bool(((lengths == nbytes) | (lengths == TO_THE_END)).all())


def are_same(ours: References, theirs: References) -> bool:
    """Whether references are to the same bytes: the same chunks, ranges, objects and data.

    Entity tags, versions, sizes and checksums count that both of them state; and times of objects,
    unless both have strong entity tags or versions.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> one, other = (
    ...     references_of(Manifest.from_columns((1,), paths="f", conditions={"f": {"size": size}}))
    ...     for size in (8, 9)
    ... )
    >>> are_same(one, one), are_same(one, other)
    (True, False)
    """
    if ours.grid_shape != theirs.grid_shape or len(ours) != len(theirs):
        return False
    one, other = ours.columns(), theirs.columns()
    columns = ((one.numbers, other.numbers), (one.offsets, other.offsets))
    if not all((mine == yours).all() for mine, yours in columns):
        return False
    if not (one.lengths == other.lengths).all() or not _same_paths(ours, theirs):
        return False
    nothing = Extras()
    mine, yours = ours.extras_by_row(), theirs.extras_by_row()
    return all(
        _agree(mine.get(row, nothing), yours.get(row, nothing)) for row in mine.keys() | yours
    )


def _same_paths(ours: References, theirs: References) -> bool:
    known = {path: number for number, path in enumerate(ours.paths)}
    table = [known.get(path, len(known)) for path in theirs.paths]
    renumbered = path_table(table)[theirs.columns().path_numbers]
    return bool((renumbered == ours.columns().path_numbers).all())


def _agree(ours: Extras, theirs: Extras) -> bool:
    if ours.data != theirs.data:
        return False
    one, other = ours.conditions, theirs.conditions
    stated = [(getattr(one, name), getattr(other, name)) for name in _STATES]
    stated.append((ours.checksum, theirs.checksum))
    if not (one.are_exact and other.are_exact):
        stated.append((one.last_modified, other.last_modified))
    return all(mine is None or yours is None or mine == yours for mine, yours in stated)
