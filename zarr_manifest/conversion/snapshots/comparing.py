"""Two tables of references, chunk by chunk: bytes known to be equal, or to differ. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import NO_CONDITIONS, compute_checksum, grid_indices, number_chunks
from zarr_manifest.inspection import DIFFERENCES, ChunkMap
from zarr_manifest.manifest import Extras, References, Row, canonical_keys, path_table
from zarr_manifest.showing import counted

type Verdict = Literal["equal", "different", "unknown"]

type Numbers = npt.NDArray[np.int64]

type Referenced = tuple[str, int, int]

# How chunks may differ: that only one of two arrays has them, or else what is known of their bytes.
type ComparedKind = Literal["added", "removed", "equal", "different", "unknown"]
KINDS: tuple[ComparedKind, ...] = ("added", "removed", "equal", "different", "unknown")


@dataclass(frozen=True, slots=True, eq=False)
class ChunkDifference:
    """Chunks that are not the same in two arrays.

    Parameters
    ----------
    grid_shape : tuple of int
        The chunk grid in which chunks are numbered: the larger one along each dimension.
    before, after : list of (str, int, int)
        The objects that these chunks refer to in the old, and in the new array: each with the
        number of references, and of their bytes. A key of a hierarchy without a URL is marked.
    added, removed : ndarray of int64
        C-order numbers of the chunks that only the new, or only the old array has.
    equal, different, unknown : ndarray of int64
        Those that both have: elsewhere, and known to be equal; known to differ; or neither.
    """

    grid_shape: tuple[int, ...]
    added: Numbers
    removed: Numbers
    equal: Numbers
    different: Numbers
    unknown: Numbers
    before: list[Referenced] = field(default_factory=list[Referenced], repr=False)
    after: list[Referenced] = field(default_factory=list[Referenced], repr=False)

    @classmethod
    def joined(cls, grid_shape: tuple[int, ...], parts: Iterable[ChunkDifference]) -> Self:
        """Return the difference of arrays, given those of their parts."""
        every = list(parts)
        nothing = np.zeros(0, np.int64)
        return cls(
            grid_shape,
            **{
                kind: np.sort(np.concatenate([nothing, *(part.numbers(kind) for part in every)]))
                for kind in KINDS
            },
            before=[each for part in every for each in part.before],
            after=[each for part in every for each in part.after],
        )

    def numbers(self, kind: ComparedKind) -> Numbers:
        """Return the numbers of the chunks that differ in a way."""
        found: Numbers = getattr(self, kind)
        return found

    @property
    def counts(self) -> dict[ComparedKind, int]:
        """How many chunks differ, in each of these ways."""
        return {kind: len(self.numbers(kind)) for kind in KINDS}

    def keys(self, kind: ComparedKind, most: int | None = None) -> list[str]:
        """Return the canonical keys of the first chunks that differ in a way."""
        indices = grid_indices(self.grid_shape, self.numbers(kind)[:most])
        return list(canonical_keys(indices))

    def lines(self, most: int) -> Iterator[str]:
        """Yield how many chunks differ, in each way, and the keys of the first ones."""
        for kind, count in self.counts.items():
            keys = self.keys(kind, most)
            more = ", …" if count > len(keys) else ""
            if count:
                words = DIFFERENCES.words[kind]
                yield f"{counted(count, 'chunk')} {words}: {', '.join(keys)}{more}"

    def map(self, dimension_names: Sequence[str | None]) -> ChunkMap:
        """Return a map of the chunk grid."""
        found = ChunkMap(self.grid_shape, dimension_names, DIFFERENCES)
        for kind in KINDS:
            found.add_state(kind, self.numbers(kind))
        return found

    @property
    def verdict(self) -> Verdict:
        """Whether the chunks that both may have are known to be equal."""
        if len(self.added) or len(self.removed) or len(self.different):
            return "different"
        return "unknown" if len(self.unknown) else "equal"


def compare_references(old: References, new: References) -> ChunkDifference:
    """Compare references whose paths are equal only where they lead to the same object.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> old, new = (
    ...     references_of(Manifest.from_columns((3,), paths=["f", "g", name], lengths=4))
    ...     for name in ("f", "h")
    ... )
    >>> compare_references(old, old).unknown, compare_references(old, new).unknown
    (array([], dtype=int64), array([2]))
    """
    shape = tuple(map(max, old.grid_shape, new.grid_shape))
    before, after = _numbers(old, shape), _numbers(new, shape)
    both, rows, now = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    same = _are_alike(old, new, rows, now)
    others = np.flatnonzero(~same)
    verdicts: dict[Verdict, list[int]] = {"equal": [], "different": [], "unknown": []}
    for place, row, row_now in zip(
        others.tolist(), rows[others].tolist(), now[others].tolist(), strict=True
    ):
        ours, theirs = old.row(row), new.row(row_now)
        is_there = _place(old, ours) == _place(new, theirs)
        verdict = _verdict(ours, theirs, is_there=is_there)
        if verdict != "equal" or not is_there:
            verdicts[verdict].append(place)
    changed = np.array(sorted(itertools.chain(*verdicts.values())), np.int64)
    added = np.setdiff1d(after, before, assume_unique=True)
    removed = np.setdiff1d(before, after, assume_unique=True)
    return ChunkDifference(
        shape,
        added,
        removed,
        **{kind: both[np.array(places, np.int64)] for kind, places in verdicts.items()},
        before=_referenced(old, np.append(rows[changed], np.searchsorted(before, removed))),
        after=_referenced(new, np.append(now[changed], np.searchsorted(after, added))),
    )


def _referenced(table: References, rows: Numbers) -> list[Referenced]:
    return [each for each in table.statistics(rows) if each[1]] if len(rows) else []


def _numbers(table: References, shape: tuple[int, ...]) -> Numbers:
    numbers = table.columns().numbers
    if table.grid_shape == shape:
        return numbers
    return number_chunks(grid_indices(table.grid_shape, numbers), shape)


def _are_alike(
    old: References, new: References, rows: Numbers, now: Numbers
) -> npt.NDArray[np.bool_]:
    """Return which chunks have the same reference in both."""
    ours, theirs = old.columns(rows), new.columns(now)
    known = {path: number for number, path in enumerate(old.paths)}
    table = [known.get(path, len(known)) for path in new.paths]
    renumbered = path_table(table)[theirs.path_numbers]
    extras: dict[Extras, int] = {}
    same: npt.NDArray[np.bool_] = (
        (ours.offsets == theirs.offsets)
        & (ours.lengths == theirs.lengths)
        & (ours.path_numbers == renumbered)
        & (_extras(old, extras)[rows] == _extras(new, extras)[now])
    )
    return same


def _extras(table: References, known: dict[Extras, int]) -> Numbers:
    """Return which extras each row has, by number."""
    found = np.zeros(len(table), np.int64)
    for extra, rows in table.extras():
        found[rows] = known.setdefault(extra, len(known) + 1)
    return found


def _place(table: References, row: Row) -> tuple[object, ...]:
    """Return where the bytes of a chunk are."""
    if row.path_number < 0:
        return (row.path_number,)
    return table.paths[row.path_number], row.offset, _length(row)


def _length(row: Row) -> int | None:
    if row.length is None and row.data is None and row.conditions.size is not None:
        return row.conditions.size - row.offset
    return row.length


def _verdict(old: Row, new: Row, *, is_there: bool) -> Verdict:
    """Return what is known of the bytes of a chunk, which are in the same place, or are not."""
    if old.is_empty or new.is_empty:
        return "equal" if old.is_empty and new.is_empty else "different"
    if old.data is not None and new.data is not None:
        return _equal(old.data, new.data)
    for one, other in ((old, new), (new, old)):
        algorithm = "" if other.checksum is None else other.checksum.partition(":")[0]
        stated = one.checksum
        if algorithm and one.data is not None:
            stated = compute_checksum(algorithm, one.data)
        if algorithm and stated is not None and stated.startswith(f"{algorithm}:"):
            return _equal(stated, other.checksum)
    lengths = _length(old), _length(new)
    if None not in lengths and lengths[0] != lengths[1]:
        return "different"
    before, after = old.conditions, new.conditions
    if not is_there:
        return "unknown"
    if before.version is not None and after.version is not None:
        return "equal" if before.version == after.version else "unknown"
    is_exact = before.are_exact and after.are_exact and before.etag == after.etag is not None
    # Without conditions, one checksum alone may be that of an earlier state.
    is_alike = before == after and (before != NO_CONDITIONS or old.checksum == new.checksum)
    return "equal" if is_alike or is_exact else "unknown"


def _equal(one: Any, other: Any) -> Verdict:
    return "equal" if one == other else "different"
