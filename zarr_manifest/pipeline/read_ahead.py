"""Read ahead: tasks that read one chunk each share requests for blocks of chunks.

dask's threads take tasks in descending runs, several at a time, so nobody can say which chunk is
next; but after reads of two close chunks within a short time, those around them usually follow.
Then a block of the chunk grid is requested together, and tasks that ask for its chunks share the
answer. So do those who read the same chunk of one array after the other, as a time step of a
dataset is loaded: arrays count as another dimension of the grid.

Reading ahead never changes what is read. Bytes are fetched, and compared with conditions and
checksums, like those of any selection. A chunk that cannot be read ahead is read, or refused, when
it is wanted. Local files are not read ahead: it would save nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import verify_checksum
from zarr_manifest.hierarchy import ChunkManifestTransformer, LocatedChunks, ManifestStore
from zarr_manifest.sources import ManyRanges, RangeError, Receiver, read_ranges

#: Bytes that may have been read ahead, for all arrays that an event loop reads.
MOST_BYTES_AHEAD = 64 * 1024 * 1024

# Selections of more chunks gain little from others.
_MOST_WANTED = 4

# Chunks of a block: at first, and once many have been used, of this array or of the one before.
_FIRST_BLOCK = 12
_LARGEST_BLOCK = 48
_MOST_BYTES_OF_BLOCK = 8 * 1024 * 1024

# Chunks are close if they are read within so many seconds, and so many steps along each dimension.
_SECONDS = 2.0
_STEPS = 16
_RECENT = 8

# Chunks of an array that are remembered, so that none is read ahead twice.
_MOST_KNOWN = 100_000

# Seconds after which unused bytes are dropped.
_LONGEST = 30.0

# Bytes of an array that may be read in vain, besides as many as were of use.
_TOLERATED = 16 * 1024 * 1024

type Index = tuple[int, ...]


def block_around(
    index: Index, recent: Iterable[Index], counts: Sequence[int], *, most: int
) -> list[Index]:
    """Return the chunks of the aligned block around one, which is among them.

    The block extends along the dimensions in which recent reads differ, the last one first.

    Parameters
    ----------
    index : tuple of int
        Grid index of the chunk.
    recent : iterable of tuple of int
        Those that were read before.
    counts : sequence of int
        Number of chunks along each dimension.
    most : int
        Chunks of a block.

    Examples
    --------
    >>> block_around((5, 1), [(7, 1)], (9, 4), most=4)
    [(4, 1), (5, 1), (6, 1), (7, 1)]
    >>> block_around((5, 1), [(5, 3), (4, 3)], (9, 4), most=8)
    [(4, 0), (4, 1), (4, 2), (4, 3), (5, 0), (5, 1), (5, 2), (5, 3)]
    """
    varies = np.any(np.array([index, *recent], np.int64) != np.array(index), axis=0).tolist()
    spans: list[range] = []
    for position, count, differs in zip(index[::-1], counts[::-1], varies[::-1], strict=True):
        size = min(most, count) if differs else 1
        start = position // size * size
        spans.insert(0, range(start, min(start + size, count)))
        most //= size
    grid = np.stack(np.meshgrid(*spans, indexing="ij"), axis=-1).reshape(-1, len(index))
    return [tuple(each) for each in grid.tolist()]


class _ChunkAhead(Struct, eq=False):
    """A chunk that is read ahead.

    Attributes
    ----------
    reads : _Reads
        The array's.
    index : tuple of int
        Its grid index.
    body : Future of bytes or None
        None if it cannot be read ahead.
    size : int
        Bytes that it takes, once they are known.
    read_at : float
        When it was requested.
    """

    reads: _Reads
    index: Index
    body: asyncio.Future[bytes | None]
    read_at: float
    size: int = 0

    def set_body(self, body: bytes | None) -> None:
        """Give the bytes, or None, to all who wait for the chunk."""
        if not self.body.done():
            self.body.set_result(body)


class _Reads(Struct, eq=False):
    """What was read of one array, and what is read ahead of it.

    Attributes
    ----------
    chunks : dict of tuple of int to _ChunkAhead
        Those that are read ahead, and that nobody has asked for.
    recent : deque of (float, tuple of int)
        When the latest reads were, and of which chunks.
    known : set of tuple of int
        Chunks that were read, or read ahead, since the same chunk was read twice.
    first_block : int
        Number of chunks that are read ahead together at first.
    used_chunks, used, in_vain : int
        Chunks, and bytes, that were read ahead and used; bytes that nobody asked for.
    has_failed : bool
        Whether a chunk could not be read ahead.
    """

    chunks: dict[Index, _ChunkAhead] = field(default_factory=dict[Index, _ChunkAhead])
    recent: deque[tuple[float, Index]] = field(
        default_factory=lambda: deque[tuple[float, Index]](maxlen=_RECENT)
    )
    known: set[Index] = field(default_factory=set[Index])
    first_block: int = _FIRST_BLOCK
    used_chunks: int = 0
    used: int = 0
    in_vain: int = 0
    has_failed: bool = False

    @property
    def pays(self) -> bool:
        """Whether reading ahead is worth it."""
        return not self.has_failed and self.in_vain <= max(self.used, _TOLERATED)

    @property
    def largest_block(self) -> int:
        """Number of chunks that may be read ahead together: the more, the more were of use."""
        size = self.first_block
        while size < _LARGEST_BLOCK and self.used_chunks >= 2 * size:
            size *= 2
        return min(size, _LARGEST_BLOCK)

    def of_next_array(self) -> _Reads:
        """Return how reading another array begins: as much at once as was of use of this one."""
        was_of_use = 0 if self.chunks else len(self.known)
        return _Reads(first_block=max(was_of_use, _FIRST_BLOCK))

    def may_want(self, index: Index) -> bool:
        """Whether a chunk may be read ahead, as far as is known of the array."""
        return self.pays and index not in self.known

    def note(self, indices: Iterable[Index], now: float) -> None:
        """Remember that chunks have been read."""
        for index in indices:
            self.recent.append((now, index))
            if index in self.known or len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known.add(index)

    def close_to(self, index: Index, now: float) -> list[Index]:
        """Return the chunks close to one that were read a short time ago."""
        return [
            each
            for at, each in self.recent
            if now - at <= _SECONDS
            and each != index
            and max(abs(a - b) for a, b in zip(each, index, strict=True)) <= _STEPS
        ]


class _Taken(Struct, frozen=True):
    """A chunk that was read alone, and of how many arrays in turn; keeps no array alive."""

    array: ref[ChunkManifestTransformer]
    index: Index
    at: float
    count: int


class ReadAhead:
    """Chunks that are read before they are asked for, of all arrays that an event loop reads."""

    _of_loops: ClassVar[dict[asyncio.AbstractEventLoop, ReadAhead]] = {}

    def __init__(self) -> None:
        self._arrays = WeakKeyDictionary[ChunkManifestTransformer, _Reads]()
        self._latest = _Reads()
        self._taken = deque[_Taken](maxlen=_RECENT)
        self._held: dict[_ChunkAhead, None] = {}  # the oldest first
        self._bytes = 0
        self._reading: set[asyncio.Task[None]] = set()
        self._dropping: asyncio.TimerHandle | None = None

    @classmethod
    def of_running_loop(cls) -> ReadAhead:
        """Return that of the event loop that runs this."""
        loop = asyncio.get_running_loop()
        found = cls._of_loops.get(loop)
        if found is None:
            for other in [each for each in cls._of_loops if each.is_closed()]:
                del cls._of_loops[other]
            found = cls._of_loops[loop] = cls()
        return found

    @property
    def nbytes(self) -> int:
        """Bytes that have been, or are being, read ahead."""
        return self._bytes

    async def take(
        self,
        store: ManifestStore,
        array: ChunkManifestTransformer,
        indices: npt.NDArray[np.int64],
        located: LocatedChunks,
    ) -> dict[int, bytes]:
        """Return the bytes of those chunks of a selection that are read ahead, by position.

        Chunks around them may be read ahead from now on.

        Parameters
        ----------
        store, array
            What is read.
        indices : ndarray of int64
            Grid indices of the chunks.
        located : LocatedChunks
            Where they are.
        """
        is_on_disk, objects = store.sources.is_on_disk, located.ranges.objects
        if not 0 < len(located.ranged) <= _MOST_WANTED or all(
            is_on_disk(source.location) for source in objects
        ):
            return {}
        reads = self._latest = self._reads_of(array)
        positions: dict[Index, int] = {
            tuple(indices[position].tolist()): position for position in located.ranged.tolist()
        }
        now = time.monotonic()
        if len(positions) > 1 or not self._begin_in_turn(store, array, next(iter(positions)), now):
            for index in positions:
                if index not in reads.chunks and self._begin(
                    store, array, reads, index, located, now
                ):
                    break
        # Read a chunk as usual the second time.
        taken = {index: chunk for index in positions if (chunk := reads.chunks.pop(index, None))}
        reads.note(positions.keys() - taken.keys(), now)
        reads.recent.extend((now, index) for index in taken)
        found: dict[int, bytes] = {}
        for index, chunk in taken.items():
            # Not awaited itself: cancelling one reader cancels no other.
            await asyncio.wait([chunk.body])
            body = chunk.body.result()
            if self._drop(chunk) and body is not None:
                reads.used_chunks += 1
                reads.used += len(body)
            if body is not None:
                found[positions[index]] = body
        return found

    def _reads_of(self, array: ChunkManifestTransformer) -> _Reads:
        reads = self._arrays.get(array)
        if reads is None:
            reads = self._arrays[array] = self._latest.of_next_array()
        return reads

    # Blocks -------------------------------------------------------------------

    def _begin(
        self,
        store: ManifestStore,
        array: ChunkManifestTransformer,
        reads: _Reads,
        index: Index,
        located: LocatedChunks,
        now: float,
    ) -> bool:
        """Begin to read the block around a chunk, if that may pay."""
        close = reads.close_to(index, now)
        if not close or not reads.pays:
            return False
        typical = int((located.ranges.stops - located.ranges.starts).max())
        most = min(reads.largest_block, _MOST_BYTES_OF_BLOCK // max(1, typical))
        if most < 2:
            return False
        block = [
            each
            for each in block_around(index, close, array.grid_shape, most=most)
            if each == index or each not in reads.known
        ]
        block = array.in_same_document(index, block)
        if len(block) < 2:
            return False
        self._start(store, [(array, block)], now)
        return True

    def _begin_in_turn(
        self, store: ManifestStore, array: ChunkManifestTransformer, index: Index, now: float
    ) -> bool:
        """Begin to read the same chunk of the arrays around one; say whether it is their turn."""
        has_others = any(each.array() is array and each.index != index for each in self._taken)
        before = [
            each
            for each in self._taken
            if each.index == index and each.array() is not array and now - each.at <= _SECONDS
        ]
        count = max((each.count for each in before), default=0) + 1
        self._taken.append(_Taken(ref(array), index, now, count))
        if not before or has_others:
            return False
        beside = store.arrays_beside(array.array_path)
        alike = [each for each in beside if each.grid_shape == array.grid_shape]
        numbers = {each: number for number, each in enumerate(alike)}
        here = numbers.get(array)
        if here is None:
            return False
        others = [numbers[each] for taken in before if (each := taken.array()) in numbers]
        close = [(number,) for number in others if abs(number - here) <= _STEPS]
        if not close:
            return False
        if index not in self._reads_of(array).chunks:
            most = next((size for size in (4, 12, 24) if count < size), _LARGEST_BLOCK)
            block = block_around((here,), close, (len(alike),), most=most)
            located = [alike[n] for (n,) in block if alike[n].manifest.is_at_hand(index)]
            wanted = [each for each in located if self._reads_of(each).may_want(index)]
            if array in wanted and len(wanted) > 1:
                self._start(store, [(each, [index]) for each in wanted], now)
        return True

    def _start(
        self,
        store: ManifestStore,
        wanted: Iterable[tuple[ChunkManifestTransformer, Sequence[Index]]],
        now: float,
    ) -> None:
        """Begin to read chunks of arrays together."""
        loop = asyncio.get_running_loop()
        found: list[tuple[ChunkManifestTransformer, list[_ChunkAhead]]] = []
        for array, indices in wanted:
            reads = self._reads_of(array)
            chunks = [_ChunkAhead(reads, each, loop.create_future(), now) for each in indices]
            reads.chunks |= zip(indices, chunks, strict=True)
            reads.known.update(indices)
            found.append((array, chunks))
        task = loop.create_task(self._read(store, found))
        # The event loop keeps only weak references to tasks.
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(
        self,
        store: ManifestStore,
        wanted: Sequence[tuple[ChunkManifestTransformer, Sequence[_ChunkAhead]]],
    ) -> None:
        arriving: list[_ChunkAhead] = []
        checksums: list[str | None] = []
        parts: list[ManyRanges] = []
        every = [chunk for _, chunks in wanted for chunk in chunks]
        # Only tasks that want a chunk get its error.
        try:
            for array, chunks in wanted:
                try:
                    located = await array.locate(
                        np.array([each.index for each in chunks], np.int64)
                    )
                except ManifestError:
                    chunks[0].reads.has_failed = True
                    continue
                rows = self._reserve(chunks, located, sum(each.size for each in arriving))
                parts.append(located.ranges.of_rows(rows))
                positions: list[int] = located.ranged[rows].tolist()
                arriving += [chunks[position] for position in positions]
                checksums += [located.checksums.get(position) for position in positions]
            for chunk in set(every).difference(arriving):
                chunk.set_body(None)
            if arriving:
                receiver = _AheadReceiver(arriving, checksums)
                await read_ranges(store.sources, ManyRanges.joined(parts), receiver)
        except RangeError as failed:
            arriving[failed.row].reads.has_failed = True
        finally:
            for chunk in every:
                if not chunk.body.done():
                    chunk.set_body(None)
                    self._drop(chunk)

    def _reserve(
        self, chunks: Sequence[_ChunkAhead], located: LocatedChunks, total: int
    ) -> npt.NDArray[np.int64]:
        """Free memory, and return the ranges for which it is enough, besides so many bytes."""
        rows: list[int] = []
        sizes: list[int] = (located.ranges.stops - located.ranges.starts).tolist()
        positions: list[int] = located.ranged.tolist()
        for row, (position, size) in enumerate(zip(positions, sizes, strict=True)):
            if total + size > _MOST_BYTES_OF_BLOCK or not self._make_room(size):
                continue
            total += size
            chunk = chunks[position]
            chunk.size = size
            self._held[chunk] = None
            self._bytes += size
            rows.append(row)
        self._drop_later()
        return np.array(rows, np.int64)

    # What is held ---------------------------------------------------------------

    def _make_room(self, size: int) -> bool:
        while self._bytes + size > MOST_BYTES_AHEAD:
            oldest = next(iter(self._held), None)
            if oldest is None or not oldest.body.done():
                return False
            self._drop_unused(oldest)
        return True

    def _drop(self, chunk: _ChunkAhead) -> bool:
        """Free the memory of a chunk, unless that has been done."""
        if chunk.reads.chunks.get(chunk.index) is chunk:
            del chunk.reads.chunks[chunk.index]
        if chunk not in self._held:
            return False
        del self._held[chunk]
        self._bytes -= chunk.size
        return True

    def _drop_unused(self, chunk: _ChunkAhead) -> None:
        if self._drop(chunk):
            chunk.reads.in_vain += chunk.size

    def _drop_later(self) -> None:
        if self._held and self._dropping is None:
            loop = asyncio.get_running_loop()
            self._dropping = loop.call_later(_LONGEST, self._drop_old)

    def _drop_old(self) -> None:
        self._dropping = None
        now = time.monotonic()
        for chunk in list(self._held):
            if chunk.body.done() and now - chunk.read_at >= _LONGEST:
                self._drop_unused(chunk)
        self._drop_later()


class _AheadReceiver(Receiver):
    """Takes the bytes of chunks that are read ahead, in the threads that have read them."""

    def __init__(self, chunks: Sequence[_ChunkAhead], checksums: Sequence[str | None]) -> None:
        self._chunks = chunks
        self._checksums = checksums
        self._loop = asyncio.get_running_loop()

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Keep copies: they are small parts of what was read."""
        for row, body in zip(rows, bodies, strict=True):
            checksum = self._checksums[row]
            if checksum is not None:
                verify_checksum(checksum, body)
            self._loop.call_soon_threadsafe(self._chunks[row].set_body, bytes(body))
