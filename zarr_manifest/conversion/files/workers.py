"""Work on many files: here, on VirtualiZarr's executors, or the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from typing import Any, Literal

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.errors import Advice, Setting, SourceError
from zarr_manifest.locations import redact

# Of files of which one ended a worker.
_MOST_NAMED = 3

type Parallel = Literal["dask", "lithops", False] | Executor


def in_parallel[T, R](
    work: Callable[[T], R], items: Sequence[T], urls: Sequence[str], parallel: Parallel
) -> Iterator[R]:
    """Yield the result for every file, in the order of the files.

    Parameters
    ----------
    work : callable
        Takes one of the items, and is sent to the workers.
    items : sequence
        One for each file; may be the URLs themselves.
    urls : sequence of str
        Of the files.
    parallel : {"dask", "lithops", False} or Executor
        What does the work.

    Raises
    ------
    SourceError
        A worker ended without an answer; or the workers are forks of this process, which lack the
        threads of obstore.
    """
    get_executor: Any = library("virtualizarr.parallel").get_executor
    executor = get_executor(parallel)
    if isinstance(executor, Executor):
        # The caller's, who shuts it down.
        yield from _mapped(executor, work, items, urls)
        return
    with executor() as made:
        yield from made.map(work, items)


def _mapped[T, R](
    executor: Executor, work: Callable[[T], R], items: Sequence[T], urls: Sequence[str]
) -> Iterator[R]:
    done = 0
    try:
        for found in executor.map(work, items):
            done += 1
            yield found
    except BrokenExecutor as error:
        unread = urls[done:]
        more = len(unread) - _MOST_NAMED
        names = [repr(redact(url)) for url in unread[:_MOST_NAMED]]
        listed = ", ".join([*names, f"and {more:,} more"] if more > 0 else names)
        which = f"one of {listed}" if len(unread) > 1 else listed
        raise SourceError(
            f"a worker ended without an answer while it read {which}",
            remedy=Advice(
                "It may lack memory, or a file may be damaged: to find out which, read the files "
                "one by one, without ",
                Setting("parallel"),
                ".",
            ),
        ) from error
