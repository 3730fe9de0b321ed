"""The documents of a new manifest, encoded and written in threads.

Encoding, compressing and putting them happens mostly outside the interpreter. So it is done in
threads, of which a few are busy at the same time: the more, the smaller the documents are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from zarr_manifest.errors import Advice, LimitExceededError, Setting
from zarr_manifest.format import Limits, Partitions, encode_body, needs_every_document
from zarr_manifest.hierarchy import DeclaredArray, Partition
from zarr_manifest.manifest import References

_BYTES_PER_ROW = 100

# Smaller manifests are written into ``zarr.json``: a request of its own takes longer than its
# bytes do, also where they are read in vain.
SMALL_MANIFEST = 4096


# Number of calls under way at the same time: of small ones, for stores that take their time, ...
_MOST = 16

# ... and of large ones, which the processors work on, and which need memory.
_FEW = max(2, min(4, os.cpu_count() or 1))

# Calls are small if their total weight is not above this: the rows of documents.
_LIGHT = 2**15


def small_size(manifest: References, below: int = SMALL_MANIFEST) -> int | None:
    """Return the size of a manifest as a document, in bytes; None unless it is below a limit."""
    # An entry takes at least `"0":{}`: large manifests need not be encoded to find out.
    if len(manifest) * 6 >= below:
        return None
    size = len(manifest.dumps())
    return size if size < below else None


class NewDocuments:
    """The documents of one array's manifest.

    The first partition always has a document, even without entries: concurrent writers
    compete to create it. If very many others have entries, so have all: see
    :func:`partitions_to_fill`.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    manifest : References
        All of its references.

    Attributes
    ----------
    partitions : list of Partition
        The partitions that have a document, in order of writing, the first one first; only
        None if the manifest is not partitioned.

    Raises
    ------
    LimitExceededError
        If a reader with the default limits could not read one of them.
    """

    def __init__(self, array: DeclaredArray, manifest: References) -> None:
        self._array = array
        self._manifest = manifest
        self.partitions: list[Partition] = []
        for partition, part in self._with_entries():
            if part.most_encoded_bytes() > Limits().manifest_bytes or _is_too_large(part):
                encode_manifest(array, part)  # raises if it is indeed
            self.partitions.append(partition)
        if array.partitions is not None:
            first = (0,) * array.ndim
            if self.partitions[:1] != [first]:
                self.partitions.insert(0, first)
            self.partitions += partitions_to_fill(array.partitions, self.partitions)

    def _with_entries(self) -> Iterator[tuple[Partition, References]]:
        if self._array.partitions is None:
            return iter([(None, self._manifest)])
        return self._manifest.blocks(self._array.partitions.shape)

    def body(self, part: References | None) -> bytes:
        """Return a document as stored."""
        return empty_document(self._array) if part is None else encode_manifest(self._array, part)

    def parts(self) -> Iterator[tuple[Partition, References | None]]:
        """Yield the partitions that have a document, in this order, each with its references."""
        with_entries = self._with_entries()
        following = next(with_entries, None)
        for partition in self.partitions:
            if following is not None and following[0] == partition:
                yield following
                following = next(with_entries, None)
            else:
                yield partition, None


def weight(manifest: References | None) -> int:
    """Return how much memory a document needs while it is encoded, as a number of rows."""
    return 0 if manifest is None else len(manifest) + manifest.inline_bytes // _BYTES_PER_ROW


def partitions_to_fill(
    partitions: Partitions, written: Collection[Partition]
) -> Iterator[tuple[int, ...]]:
    """Return the partitions without entries that should have a document all the same.

    The declaration can then say that all have one, instead of a very long list.
    """
    if not needs_every_document(partitions, len(written)):
        return iter(())
    done = frozenset(written)
    return (index for index in partitions if index not in done)


def empty_document(array: DeclaredArray) -> bytes:
    """Return a document without entries as stored."""
    return encode_body(array.configuration.codecs, b"{}\n")


def encode_manifest(array: DeclaredArray, manifest: References) -> bytes:
    """Return one document as stored.

    Raises
    ------
    LimitExceededError
        If a reader with the default limits could not read it.
    """
    limits = Limits()
    document = manifest.dumps()
    for number, limit, unit in (
        (len(document), limits.manifest_bytes, "bytes"),
        (len(manifest), limits.entries, "entries"),
        (manifest.inline_bytes, limits.inline_bytes, "inline bytes"),
    ):
        if number > limit:
            raise LimitExceededError(
                f"the manifest has {number} {unit}, but readers have a limit of {limit}",
                remedy=Advice("Split it: ", Setting("partition_shape"), ", or smaller partitions."),
            )
    return encode_body(array.configuration.codecs, document)


def _is_too_large(manifest: References) -> bool:
    limits = Limits()
    return len(manifest) > limits.entries or manifest.inline_bytes > limits.inline_bytes


# Threads ---------------------------------------------------------------------------


class Call[T](NamedTuple):
    """Something to do.

    Attributes
    ----------
    weight : int
        How much memory it needs, in any unit: the number of rows of a document.
    make : callable
        Does it, in any thread.
    """

    weight: int
    make: Callable[[], T]


def in_threads[T](calls: Iterable[Call[T]]) -> Iterator[T]:
    """Make calls in threads, and yield their results in order.

    Calls are taken when there is room for them. If one fails, or the iterator is closed, those
    that are under way are waited for, and no others are made.

    Examples
    --------
    >>> list(in_threads(Call(1, lambda n=n: n * n) for n in range(4)))
    [0, 1, 4, 9]
    """
    pending: deque[tuple[int, Future[T]]] = deque()
    load = 0
    with ThreadPoolExecutor(_MOST, "zarr-manifest-writing") as pool:
        try:
            for call in calls:
                while not _has_room(len(pending), load + call.weight):
                    weight, result = pending.popleft()
                    load -= weight
                    yield result.result()
                load += call.weight
                pending.append((call.weight, pool.submit(call.make)))
            while pending:
                yield pending.popleft()[1].result()
        finally:
            for _, result in pending:
                result.cancel()


def _has_room(pending: int, load: int) -> bool:
    return pending < (_MOST if load <= _LIGHT else _FEW)
