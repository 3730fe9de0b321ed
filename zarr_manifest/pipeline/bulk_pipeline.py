"""BulkCodecPipeline: the codec pipeline of arrays that zarr opens from a ManifestStore.

zarr hands a codec pipeline all chunks of a selection in one call. Those of a manifest array are
located, fetched and decoded in bulk; everything else is left to the pipeline that zarr would use
without this one. Values and errors are the same as chunk by chunk: that pipeline reads, or refuses,
all chunks that cannot be read here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import CodecPipeline
from zarr.storage import StorePath

from zarr_manifest.errors import ManifestError
from zarr_manifest.hierarchy import ChunkManifestTransformer, LocatedChunks, ManifestStore
from zarr_manifest.pipeline.decoding import chunk_decoder
from zarr_manifest.pipeline.delivery import (
    AnyRequest,
    Delivery,
    FetchedBody,
    UndecodableChunkError,
    WantedChunks,
    is_numpy_memory,
)
from zarr_manifest.pipeline.read_ahead import ReadAhead
from zarr_manifest.pipeline.shard_layout import shard_layout_of
from zarr_manifest.pipeline.sharding import ShardedSelection, UnreadableShardError
from zarr_manifest.sources import WHOLE, RangeError, in_decoding_thread, in_order, read_ranges
from zarr_manifest.zarr_internals import codecs_of

if TYPE_CHECKING:
    from zarr.abc.codec import Codec

# How many chunks are read concurrently that cannot be read together with others.
_MOST_ALONE = 10

# Encoded bytes that are held for zarr to decode, if it has to.
_MOST_PREFETCHED = 64 * 1024 * 1024

# A single chunk of at most so many encoded bytes is decoded, or copied if it is stored as it is,
# without handing it to a thread, which takes 0.1 ms.
_QUICKLY_DECODED = 64 * 1024
_QUICKLY_COPIED = 1024 * 1024


class BulkCodecPipeline(CodecPipeline):
    """Reads whole selections of manifest arrays together.

    Parameters
    ----------
    usual : CodecPipeline
        The pipeline that zarr would use otherwise: writes, and reads whatever is not a chunk of
        a manifest array.
    """

    def __init__(self, usual: CodecPipeline) -> None:
        self.usual = usual

    def __repr__(self) -> str:
        return f"BulkCodecPipeline({self.usual!r})"

    # An array that was opened with it equals the same array without it.

    def __eq__(self, other: object) -> bool:
        same: bool = self.usual == (other.usual if isinstance(other, BulkCodecPipeline) else other)
        return same

    def __hash__(self) -> int:
        return hash(self.usual)

    def __iter__(self) -> Iterator[Codec]:
        usual: Any = self.usual
        return iter(usual)

    # Reading -------------------------------------------------------------------

    async def read(
        self,
        batch_info: Iterable[tuple[Any, Any, Any, Any, bool]],
        out: Any,
        drop_axes: tuple[int, ...] = (),
    ) -> Any:
        """Read a selection: its chunks, and where they go in the output."""
        usual, batch = self.usual, list(batch_info)
        owned = await _owned_chunks(batch) if batch else None
        if owned is None:
            return await usual.read(batch, out, drop_axes)
        if usual.supports_partial_decode:
            return await _read_shards(usual, owned, batch, out, drop_axes)
        selection = _Selection(*owned, batch, out, drop_axes, usual)
        try:
            return await selection.read()
        except UndecodableChunkError as undecodable:
            # Raises the chunk's error; if there is none, only this module cannot decode it.
            prefetched = _prefetched(batch[undecodable.position], undecodable.body)
            await usual.read([prefetched], out, drop_axes)
            return await usual.read(batch, out, drop_axes)

    # Everything else is the usual pipeline's -------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Pipelines have more members than zarr declares, and sharding uses them.
        if name == "usual" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.usual, name)

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> Self:
        """Refuse: a pipeline of zarr is needed, which is made of codecs."""
        raise NotImplementedError

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        """Return the pipeline for arrays of a specification."""
        return type(self)(self.usual.evolve_from_array_spec(array_spec))

    @property
    def supports_partial_decode(self) -> bool:
        """Whether the usual pipeline decodes parts of chunks."""
        return self.usual.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        """Whether the usual pipeline encodes parts of chunks."""
        return self.usual.supports_partial_encode

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        """Check that all codecs are compatible with an array."""
        self.usual.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        """Return the size of an encoded chunk, in bytes."""
        return self.usual.compute_encoded_size(byte_length, array_spec)

    async def decode(self, chunk_bytes_and_specs: Any) -> Any:
        """Decode chunks."""
        return await self.usual.decode(chunk_bytes_and_specs)

    async def encode(self, chunk_arrays_and_specs: Any) -> Any:
        """Encode chunks."""
        return await self.usual.encode(chunk_arrays_and_specs)

    async def write(
        self,
        batch_info: Iterable[tuple[Any, Any, Any, Any, bool]],
        value: Any,
        drop_axes: tuple[int, ...] = (),
    ) -> None:
        """Write a selection, which only native arrays allow."""
        batch = list(batch_info)
        place: Any = batch[0][0] if batch else None
        store: object = getattr(place, "store", None)
        if not isinstance(store, ManifestStore):
            await self.usual.write(batch, value, drop_axes)
            return
        with store.writing_values(setter.path for setter, *_ in batch):
            await self.usual.write(batch, value, drop_axes)


async def _read_shards(
    usual: CodecPipeline,
    owned: _OwnedChunks,
    batch: Sequence[AnyRequest],
    out: Any,
    drop_axes: tuple[int, ...],
) -> Any:
    layout = shard_layout_of(usual, batch[0][1])
    if layout is None or not is_numpy_memory(out):
        return await usual.read(batch, out, drop_axes)
    selection = ShardedSelection(*owned, batch, out, drop_axes, usual, layout=layout)
    try:
        return await selection.read()
    except UnreadableShardError as unreadable:
        await usual.read([batch[unreadable.position]], out, drop_axes)
        return await usual.read(batch, out, drop_axes)


class _OwnedChunks(NamedTuple):
    """Chunks of one manifest array, and their grid indices."""

    store: ManifestStore
    array: ChunkManifestTransformer
    indices: npt.NDArray[np.int64]


def _prefetched(request: AnyRequest, body: memoryview) -> AnyRequest:
    """Return a request for a chunk whose encoded bytes have been read."""
    return (FetchedBody(body), *request[1:])


async def _owned_chunks(requests: Sequence[AnyRequest]) -> _OwnedChunks | None:
    """Return what is needed to read chunks in bulk; None if they are of a native array."""
    first = requests[0][0]
    if not isinstance(first, StorePath) or not isinstance(first.store, ManifestStore):
        return None
    array = await first.store.owner_of_chunk(first.path)
    if array is None:
        return None
    below = len(array.array_path) + 1 if array.array_path else 0
    indices = array.indices_of([request[0].path[below:] for request in requests])
    return None if indices is None else _OwnedChunks(first.store, array, indices)


class _Selection(WantedChunks):
    """Chunks that are read, and where their values go."""

    async def read(self) -> list[dict[str, str]]:
        """Read all chunks, and return zarr's result for each."""
        values, decoder = np.zeros(0), None
        if is_numpy_memory(self.out):
            values = self.out.as_numpy_array()
            decoder = chunk_decoder(codecs_of(self.usual), self.requests[0][1])
        delivery = Delivery(self.requests, values, self.drop_axes, decoder)
        if len(self.requests) == 1 and not self.store.may_be_remote:
            return [await self._read_one(delivery)]
        located = await self.array.locate(self.indices)
        if self.store.may_be_remote:
            ahead = await ReadAhead.of_running_loop().take(
                self.store, self.array, self.indices, located
            )
            located = located.with_bodies(ahead)
        delivery.checksums = located.checksums
        results = self._results(located)
        if located.inline:
            await in_decoding_thread(self._take_inline, located, delivery)
        await self._read_ranges(located, delivery)
        for position in await self._read_alone(located.alone, delivery):
            results[position] = self._fill(position)
        await self._decode_by_zarr(delivery)
        return results

    async def _read_one(self, delivery: Delivery) -> dict[str, str]:
        body = await self.array.get(tuple(self.indices[0].tolist()), WHOLE)
        if body is None:
            return self._fill(0)
        if len(body) <= (_QUICKLY_COPIED if delivery.is_verbatim else _QUICKLY_DECODED):
            delivery.deliver(0, body)
        else:
            await in_decoding_thread(delivery.deliver, 0, body)
        await self._decode_by_zarr(delivery)
        return {"status": "present"}

    def _take_inline(self, located: LocatedChunks, delivery: Delivery) -> None:
        for position, body in located.inline.items():
            try:
                delivery.verify(position, body)
            except ManifestError as error:
                raise self._in_chunk(error, position) from None
            delivery.deliver(position, body)

    async def _read_ranges(self, located: LocatedChunks, delivery: Delivery) -> None:
        """Read all ranges; if zarr has to decode what they hold, only so many at a time."""
        groups = [np.arange(len(located.ranged))]
        if delivery.decoder is None:
            sizes = located.ranges.stops - located.ranges.starts
            owners = np.cumsum(sizes) // _MOST_PREFETCHED
            groups = np.split(groups[0], np.flatnonzero(np.diff(owners)) + 1)
        for rows in groups:
            part = located.ranges.of_rows(rows)
            try:
                await read_ranges(self.store.sources, part, delivery.of(located.ranged[rows], part))
            except RangeError as failed:
                position = int(located.ranged[rows[failed.row]])
                raise self._in_chunk(failed.error, position) from failed.error.__cause__
            await self._decode_by_zarr(delivery)

    async def _read_alone(self, positions: Sequence[int], delivery: Delivery) -> list[int]:
        """Read chunks that cannot be read with others; return those that have no bytes."""
        missing: list[int] = []
        indices = map(tuple, self.indices[positions].tolist())
        calls = (functools.partial(self.array.get, index, WHOLE) for index in indices)
        async with aclosing(in_order(calls, _MOST_ALONE)) as bodies:
            turn = iter(positions)
            async for body in bodies:
                position = next(turn)
                if body is None:
                    missing.append(position)
                else:
                    await in_decoding_thread(delivery.deliver, position, body)
                if len(delivery.undecoded) == _MOST_ALONE:
                    await self._decode_by_zarr(delivery)
        return missing

    async def _decode_by_zarr(self, delivery: Delivery) -> None:
        bodies, delivery.undecoded = delivery.undecoded, {}
        if bodies:
            batch = [
                _prefetched(self.requests[position], body)
                for position, body in sorted(bodies.items())
            ]
            await self.usual.read(batch, self.out, self.drop_axes)
