"""Calls made in threads, in order, as memory allows.

Requests, and encoding and compressing documents, happen mostly outside the interpreter. So a few of
them are under way at the same time: the more, the smaller they are.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

# Number of calls under way at the same time: of small ones, for stores that take their time, ...
_MOST = 64

# ... and of large ones, which the processors work on, and which need memory.
_FEW = max(2, min(4, os.cpu_count() or 1))

# Calls are small if their total weight is not above this: the rows of documents.
_LIGHT = 2**15


class Call[T](NamedTuple):
    """Something to do.

    Attributes
    ----------
    weight : int
        How much memory it needs, in any unit: the number of rows of a document, or 0 of little.
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
    remaining = iter(calls)
    first = list(itertools.islice(remaining, 2))
    if len(first) == 1:
        yield first[0].make()  # without the start of a thread
        return
    pending: deque[tuple[int, Future[T]]] = deque()
    load = 0
    with ThreadPoolExecutor(_MOST, "zarr-manifest-writing") as pool:
        try:
            for call in itertools.chain(first, remaining):
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
