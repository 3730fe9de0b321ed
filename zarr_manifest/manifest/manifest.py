"""Manifest: the references of one array, as users create, read and write them."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import Limits, format_canonical, strict
from zarr_manifest.locations import redact
from zarr_manifest.manifest.decoding import interpret_manifest
from zarr_manifest.manifest.given_columns import (
    NumberedPaths,
    number_indices,
    references_from_columns,
)
from zarr_manifest.manifest.keys import Grid
from zarr_manifest.manifest.references import Columns, Reference, References
from zarr_manifest.showing import counted, html_table, size

# A notebook must not wait for the summary of all paths.
_MOST_PATHS = 10_000


class Manifest(Mapping[tuple[int, ...], Reference]):
    """The chunk references of one array: a mapping of grid index to reference.

    References are :class:`zarr_manifest.manifest.Reference`.

    Create one with :meth:`loads` or :meth:`from_columns`; it is immutable, and its
    chunks are in C order. Implements "Manifest document", "Chunk keys" and "Entries"
    of the specification.

    Examples
    --------
    >>> manifest = Manifest.loads(
    ...     b'{"0.1": {"path": "f.nc", "offset": 100, "length": 20}, "0.0": {}}', grid_shape=(1, 2)
    ... )
    >>> manifest.paths, list(manifest)
    (('f.nc',), [(0, 0), (0, 1)])
    >>> manifest[0, 1].offset
    100
    >>> manifest[0, 0].is_empty, (0, 2) in manifest
    (True, False)
    >>> manifest
    <Manifest of chunk grid (1, 2): 1 reference to 20 B in 1 object, 1 empty>
    """

    __slots__ = ("_references",)

    def __init__(self, references: References) -> None:
        self._references = references

    @classmethod
    def loads(
        cls,
        document: bytes,
        *,
        ndim: int | None = None,
        grid_shape: tuple[int, ...] | None = None,
        limits: Limits | None = None,
    ) -> Manifest:
        """Read a manifest document.

        Parameters
        ----------
        document : bytes
            UTF-8 JSON.
        ndim : int, optional
            Number of dimensions; not needed if `grid_shape` is given.
        grid_shape : tuple of int, optional
            Number of chunks along each dimension. Entries outside are ignored.
            By default, the grid is just large enough for the keys.
        limits : Limits, optional
            Larger documents are rejected.

        Raises
        ------
        ManifestError
            One of ``invalid_json``, ``invalid_manifest``, ``invalid_chunk_key``,
            ``invalid_entry``, ``unsupported_checksum``, ``limit_exceeded``.
        """
        if grid_shape is not None:
            ndim = len(grid_shape)
        if ndim is None:
            raise TypeError("either 'grid_shape' or 'ndim' is needed")
        grid = Grid(ndim, grid_shape)
        limits = Limits() if limits is None else limits
        return cls(strict(interpret_manifest(document, grid, limits)))

    @classmethod
    def from_columns(
        cls,
        grid_shape: tuple[int, ...],
        *,
        paths: str | npt.ArrayLike | NumberedPaths,
        offsets: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
        indices: npt.ArrayLike | None = None,
        data: Mapping[tuple[int, ...], bytes] | None = None,
        empty: Iterable[tuple[int, ...]] = (),
        checksums: Mapping[tuple[int, ...], str] | None = None,
        conditions: Mapping[str, Mapping[str, str | int]] | None = None,
    ) -> Manifest:
        """Create a manifest from columns of numbers.

        Arrays of 64-bit integers whose rows are in C order of the chunks are not copied: do not
        change them while the manifest is in use.

        Parameters
        ----------
        grid_shape : tuple of int
            Number of chunks along each dimension.
        paths : str or array of str
            URL references, one per row or one for all; ``""`` for a chunk without a path.
        offsets : array of int, optional
            First byte of each chunk in its object; 0 by default.
        lengths : array of int, optional
            Size of each chunk in bytes; -1, the default, means the rest of the object.
        indices : array of int, optional
            Grid index of each row, of shape (rows, dimensions). By default, the rows
            are all chunks of the grid, in C order.
        data : mapping of grid index to bytes, optional
            Encoded chunks to hold inline.
        empty : iterable of grid index
            Explicitly empty chunks. A chunk that has no path and is in neither
            `empty` nor `data` is missing.
        checksums : mapping of grid index to str, optional
            ``"<algorithm>:<hex>"`` for chunks with a path or inline data.
        conditions : mapping of str to mapping, optional
            ``etag``, ``last_modified``, ``version`` and ``size`` of an object, by path.

        Raises
        ------
        ManifestError
            One of ``invalid_chunk_key``, ``invalid_entry``, ``unsupported_checksum``.

        Examples
        --------
        >>> manifest = Manifest.from_columns(
        ...     (2, 2), paths="f.nc", offsets=[[0, 10], [20, 30]], lengths=10
        ... )
        >>> manifest[1, 0].offset
        20
        """
        by_number = functools.partial(_by_number, grid_shape)
        numbers = None if indices is None else number_indices(grid_shape, np.asarray(indices))
        return cls(
            references_from_columns(
                grid_shape,
                paths=paths,
                offsets=offsets,
                lengths=lengths,
                numbers=numbers,
                data=by_number(data or {}),
                empty=[*by_number(dict.fromkeys(empty))],
                checksums=by_number(checksums or {}),
                conditions=conditions,
            )
        )

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return self._references.grid_shape

    @property
    def paths(self) -> tuple[str, ...]:
        """Every distinct path, as written."""
        return self._references.paths

    @property
    def stated_bytes(self) -> int:
        """Total of the lengths given in entries, and of inline data, in bytes."""
        return self._references.stated_bytes

    def __repr__(self) -> str:
        return f"<Manifest of chunk grid {self.grid_shape}: {', '.join(self._counts())}>"

    def _repr_html_(self) -> str:
        return html_table(
            "Manifest",
            [
                ("Chunk grid", str(self.grid_shape)),
                ("Chunks", self._counts()),
                ("Objects below", self._directories()),
            ],
        )

    def _counts(self) -> list[str]:
        references, inline, empty = self._references.counts()
        total = self.stated_bytes - self._references.inline_bytes
        stated = f" to {size(total)}" if total else ""
        objects = counted(len(self.paths), "object")
        found = [f"{counted(references, 'reference')}{stated} in {objects}"]
        missing = math.prod(self.grid_shape) - len(self)
        others = {"inline": inline, "empty": empty, "missing": missing}
        return found + [f"{number:,} {kind}" for kind, number in others.items() if number]

    def _directories(self) -> list[str]:
        """Return the directories of objects, those with the most references first."""
        if len(self.paths) > _MOST_PATHS:
            return []
        found: Counter[str] = Counter()
        for path, references, _ in self._references.statistics():
            directory, slash, _ = redact(path).partition("?")[0].rpartition("/")
            found[directory + slash or "./"] += references
        return [f"{place}  {counted(number, 'reference')}" for place, number in found.most_common()]

    def __len__(self) -> int:
        return len(self._references)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self._references.indices()

    def __getitem__(self, index: Sequence[int]) -> Reference:
        if not self._is_index(index):
            raise KeyError(index)
        row = self._references.get(index)
        if row is None:
            raise KeyError(format_canonical(index))
        return self._references.reference(row)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Manifest) and self.grid_shape != other.grid_shape:
            return False
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def _is_index(self, index: object) -> bool:
        """Whether this could be the grid index of a chunk: lookups of anything else fail."""
        return (
            isinstance(index, Sequence)
            and len(cast("Sequence[object]", index)) == len(self.grid_shape)
            and all(isinstance(i, int | np.integer) for i in cast("Sequence[object]", index))
        )

    def items(self) -> ItemsView[tuple[int, ...], Reference]:
        """Return the grid index and reference of every chunk that the manifest names."""
        return _Items(self, self._references)

    def with_paths(self, paths: Sequence[str]) -> Manifest:
        """Return a manifest with different paths.

        Parameters
        ----------
        paths : sequence of str
            A replacement for each of :attr:`paths`; equal ones become one path.

        Examples
        --------
        >>> manifest = Manifest.from_columns((2,), paths=["file:///d/a.nc", "b.nc"])
        >>> manifest.with_paths(["a.nc", "b.nc"]).paths
        ('a.nc', 'b.nc')
        """
        return Manifest(self._references.with_paths(paths))

    def dumps(self) -> bytes:
        """Encode the manifest as a document: canonical keys in C order, one entry per line.

        Unknown members of entries are not kept. Equal manifests give equal bytes.

        Examples
        --------
        >>> manifest = Manifest.loads(b'{"1": {}, "0": {"length": 2, "path": "f"}}', ndim=1)
        >>> print(manifest.dumps().decode())
        {
        "0":{"path":"f","offset":0,"length":2},
        "1":{}
        }
        <BLANKLINE>
        """
        return self._references.dumps()

    def columns(self) -> Columns:
        """Return the references as columns of numbers, which must not be modified.

        Examples
        --------
        >>> manifest = Manifest.from_columns((3,), paths="f.nc", indices=[[2]], offsets=9)
        >>> numbers, offsets, lengths, path_numbers = manifest.columns()
        >>> numbers, offsets, lengths
        (array([2]), array([9]), array([-1]))
        """
        return self._references.columns()


class _Items(ItemsView[tuple[int, ...], Reference]):
    """Iterates over the rows, instead of looking up each chunk."""

    def __init__(self, manifest: Manifest, references: References) -> None:
        super().__init__(manifest)
        self._references = references

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Reference]]:
        for index, row in self._references.items():
            yield index, self._references.reference(row)


def _by_number[T](
    grid_shape: tuple[int, ...], by_index: Mapping[tuple[int, ...], T]
) -> dict[int, T]:
    """Return values by chunk number, which are given by grid index."""
    if not by_index:
        return {}
    indices = np.array(list(by_index), np.int64).reshape(len(by_index), len(grid_shape))
    return dict(zip(number_indices(grid_shape, indices).tolist(), by_index.values(), strict=True))


def references_of(manifest: Manifest) -> References:
    """Return the columns behind a manifest; for this package only."""
    return manifest._references  # pyright: ignore[reportPrivateUsage]
