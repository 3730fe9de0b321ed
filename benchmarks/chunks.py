"""The same encoded chunks twice: as Zarr keeps them natively, and one after the other in objects.

The values are those of `values`, so that every participant can be checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from numcodecs import Zstd
from zarr.errors import ZarrUserWarning

from benchmarks.references import References

#: Bytes before the first chunk of an object, like the header of a file.
HEADER = 4096


def values(shape: tuple[int, ...], *, compressible: bool = False) -> npt.NDArray[np.int32]:
    """Return fields (of all dimensions but the first) that differ by their number."""
    field = np.random.default_rng(0).integers(0, 2**30, shape[1:], np.int32)
    if compressible:
        field %= 256
    return field + np.arange(shape[0], dtype=np.int32).reshape(-1, *[1] * (len(shape) - 1))


def check(references: References, found: Any) -> None:
    """Raise if what was read is not what was written; looks at some of the fields.

    Raises
    ------
    AssertionError
        If it differs.
    """
    assert found.shape[0] == references.shape[0], found.shape
    some = np.unique(np.linspace(0, len(found) - 1, 20).astype(int))
    first = values((1, *references.shape[1:]), compressible=references.zstd)
    expected = first + some.astype(np.int32).reshape(-1, *[1] * (first.ndim - 1))
    expected = expected[(slice(None), *map(slice, found.shape[1:]))]
    np.testing.assert_array_equal(found[some], expected)


def total(references: References) -> int:
    """Return the sum of all values."""
    count = references.shape[0]
    first = values((1, *references.shape[1:]), compressible=references.zstd)
    return count * int(first.sum(dtype=np.int64)) + first.size * (count * (count - 1) // 2)


def write_chunks(
    directory: Path,
    shape: tuple[int, ...],
    *,
    objects: int,
    sources: str = "",
    native: str = "",
    zstd: bool = False,
) -> References:
    """Write a chunk for each field, natively and into objects; return references to the latter.

    `sources` and `native` are the URLs at which others will find the directories of those names;
    by default, they are files.
    """
    chunks = (1, *shape[1:])
    per_object = -(-shape[0] // objects)
    template = References(
        shape=shape,
        chunks=chunks,
        dtype="<i4",
        urls=(),
        objects=np.arange(shape[0], dtype=np.int32) // per_object,
        offsets=np.zeros(shape[0], np.int64),
        lengths=np.zeros(shape[0], np.int64),
        sources=sources or f"{(directory / 'sources').as_uri()}/",
        native=native or str(directory / "native.zarr"),
        zstd=zstd,
    )
    template.create_array(directory / "native.zarr")
    (directory / "sources").mkdir()
    encoded = _encoded(template)
    rest = "/".join(["0"] * (len(shape) - 1))
    for number in range(objects):
        path = directory / f"sources/{number:03}.nc"
        with path.open("wb") as source:
            source.write(bytes(HEADER))
            for index, chunk in islice(encoded, per_object):
                template.offsets[index], template.lengths[index] = source.tell(), len(chunk)
                source.write(chunk)
                native_chunk = directory / f"native.zarr/data/c/{index}/{rest}"
                native_chunk.parent.mkdir(parents=True)
                native_chunk.write_bytes(chunk)
    consolidate(directory / "native.zarr")
    urls = tuple(f"{template.sources}{number:03}.nc" for number in range(objects))
    return replace(template, urls=urls)


def write_shards(
    directory: Path,
    shape: tuple[int, ...],
    inner: tuple[int, ...],
    *,
    objects: int,
    sources: str,
    native: str,
) -> References:
    """Write a shard into each object, and natively; the same values as `write_chunks`."""
    shard = (shape[0] // objects, *shape[1:])
    references = References(
        shape=shape,
        chunks=shard,
        dtype="<i4",
        urls=tuple(f"{sources}{number:03}.nc" for number in range(objects)),
        objects=np.arange(objects, dtype=np.int32),
        offsets=np.full(objects, HEADER, np.int64),
        lengths=np.zeros(objects, np.int64),
        sources=sources,
        native=native,
        inner=inner,
    )
    references.create_array(directory / "native.zarr")[:] = values(shape)
    consolidate(directory / "native.zarr")
    (directory / "sources").mkdir()
    rest = "/".join(["0"] * (len(shape) - 1))
    for number in range(objects):
        body = (directory / f"native.zarr/data/c/{number}/{rest}").read_bytes()
        (directory / f"sources/{number:03}.nc").write_bytes(bytes(HEADER) + body)
        references.lengths[number] = len(body)
    return references


def consolidate(hierarchy: Path) -> None:
    """Write consolidated metadata; zarr warns that other readers may not know them."""
    with warnings.catch_warnings(action="ignore", category=ZarrUserWarning):
        zarr.consolidate_metadata(hierarchy)


def _encoded(references: References) -> Iterator[tuple[int, bytes]]:
    codec: Any = Zstd(level=1)
    fields = values((1, *references.shape[1:]), compressible=references.zstd)
    for number in range(references.shape[0]):
        field = (fields + np.int32(number)).tobytes()
        yield number, codec.encode(field) if references.zstd else field
