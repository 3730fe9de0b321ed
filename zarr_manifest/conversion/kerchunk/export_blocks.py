"""Entries of a manifest as references of kerchunk: columns, and URLs as fsspec takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest._chunk_grid import number_chunks
from zarr_manifest._conditions import format_last_modified
from zarr_manifest._locations import Location, StoreLocation, UrlLocation
from zarr_manifest.conversion.kerchunk.urls import kerchunk_url
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.manifest import Manifest, Reference

__all__ = ["Block", "Exporter", "url_in_store"]

type _Integers = npt.NDArray[np.int64]


class Block(NamedTuple):
    """References of one block of the chunk grid, in C order of the chunks.

    Attributes
    ----------
    numbers : ndarray of int64, sorted
        C-order number of each row's chunk in the whole grid.
    url_numbers : ndarray of int64
        Index of each row's URL; -1 where the chunk is inline.
    offsets, sizes : ndarray of int64
        In bytes; both 0 for a whole object.
    urls : sequence of str
        As fsspec takes them.
    data : dict of int to bytes
        Inline chunks, by the number of the chunk.
    """

    numbers: _Integers
    url_numbers: _Integers
    offsets: _Integers
    sizes: _Integers
    urls: Sequence[str]
    data: dict[int, bytes]


def url_in_store(roots: Sequence[UrlLocation], key: str) -> str:
    """Return the URL of an object of the hierarchy's own store.

    Raises
    ------
    NotConvertibleError
        The store has no URL.
    """
    if not roots:
        raise NotConvertibleError(
            "the array refers to objects in the hierarchy's own store, which has no URL",
            remedy="Export from where the hierarchy lies in files, or in an object store.",
        )
    root = roots[0]
    path = f"{root.path}/{key}" if root.path else key
    return kerchunk_url(UrlLocation(root.scheme, root.authority, path, root.query))


@dataclass(slots=True)
class Exporter:
    """Turns the entries of one array into references.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along every dimension.
    roots : sequence of UrlLocation
        What the root of the hierarchy's store is called.
    encoded_fill_value : callable
        Returns the bytes of a chunk of fill values; None where explicitly empty
        chunks are to be missing.
    dropped : Counter
        What kerchunk has no place for, counted.
    """

    grid_shape: tuple[int, ...]
    roots: Sequence[UrlLocation]
    encoded_fill_value: Callable[[], bytes] | None = None
    dropped: Counter[str] = field(default_factory=Counter[str])

    def block(self, manifest: Manifest, locations: Sequence[Location]) -> Block:
        """Return the references of a manifest.

        Raises
        ------
        NotConvertibleError
            kerchunk cannot express an entry.
        """
        urls: dict[tuple[int, str | None], int] = {}
        names: list[str] = []
        rows: list[tuple[int, int, int]] = []
        indices: list[tuple[int, ...]] = []
        data: dict[tuple[int, ...], bytes] = {}
        for index, reference in manifest.items():
            inline = self._inline(reference)
            if inline is not None:
                data[index] = inline
                rows.append((-1, 0, 0))
            elif reference.is_empty:
                continue
            else:
                self._count_dropped(reference)
                version = reference.conditions.version
                url = (reference.path_number, version)
                if url not in urls:
                    urls[url] = len(names)
                    names.append(self._url(locations[reference.path_number], version))
                rows.append((urls[url], *_range(reference)))
            indices.append(index)
        columns = np.array(rows, np.int64).reshape(len(rows), 3)
        numbers = self._numbers(indices)
        return Block(
            numbers,
            columns[:, 0],
            columns[:, 1],
            columns[:, 2],
            names,
            dict(zip(self._numbers(list(data)).tolist(), data.values(), strict=True)),
        )

    def _numbers(self, indices: list[tuple[int, ...]]) -> _Integers:
        shape = (len(indices), len(self.grid_shape))
        return number_chunks(np.array(indices, np.int64).reshape(shape), self.grid_shape)

    def _inline(self, reference: Reference) -> bytes | None:
        if reference.data is not None:
            self._count_dropped(reference)
            return reference.data
        if not reference.is_empty:
            return None
        if self.encoded_fill_value is None:
            self.dropped["explicitly empty chunks are missing now, which read as fill values"] += 1
            return None
        self.dropped["explicitly empty chunks are encoded fill values now"] += 1
        return self.encoded_fill_value()

    def _count_dropped(self, reference: Reference) -> None:
        if reference.checksum is not None:
            self.dropped["checksums were left out"] += 1
        if reference.conditions.etag is not None:
            self.dropped["entity tags were left out"] += 1
        if format_last_modified(reference.conditions) is not None:
            self.dropped["times of modification were left out"] += 1

    def _url(self, location: Location, version: str | None) -> str:
        if isinstance(location, StoreLocation):
            if version is not None:
                self.dropped["object versions were left out"] += 1
            return url_in_store(self.roots, location.key)
        return kerchunk_url(location, version)


def _range(reference: Reference) -> tuple[int, int]:
    """Return offset and size; a size of 0 is the whole object."""
    if reference.length is not None:
        return reference.offset, reference.length
    if reference.offset:
        raise NotConvertibleError(
            "an entry goes from an offset to the end of its object: kerchunk needs a length",
            location=reference.path,
        )
    return 0, 0
