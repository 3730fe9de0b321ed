"""Parallel parsing of many files: on VirtualiZarr's executors, or the caller's; never on forks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Literal

from zarr_manifest.conversion.virtual import library

__all__ = ["Parallel", "in_parallel"]

type Parallel = Literal["dask", "lithops", False] | Executor


def in_parallel[R](
    work: Callable[[str], R], urls: Iterable[str], parallel: Parallel
) -> Iterator[R]:
    """Yield the result for every file, in the order of the files.

    Raises
    ------
    ValueError
        The workers are forks of this process.
    """
    get_executor: Any = library("virtualizarr.parallel").get_executor
    executor = get_executor(parallel)
    checked = _NotForked(work)
    if isinstance(executor, Executor):
        # The caller's, who shuts it down.
        yield from executor.map(checked, urls)
        return
    with executor() as made:
        yield from made.map(checked, urls)


@dataclass(frozen=True)
class _NotForked[R]:
    """Does the work, unless the worker is a fork of the process that asks for it.

    If that process has used obstore before, the fork lacks obstore's threads and would
    wait for them forever; only the parent process can know.
    """

    work: Callable[[str], R]
    wanted_by: int = field(default_factory=os.getpid)

    def __call__(self, url: str) -> R:
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid == self.wanted_by and _is_fork():
            raise ValueError(
                "files cannot be read in forked processes, which lack the threads of obstore: "
                'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
            )
        return self.work(url)


def _is_fork() -> bool:
    if "fork" not in multiprocessing.get_all_start_methods():
        return False
    return isinstance(
        multiprocessing.current_process(), multiprocessing.get_context("fork").Process
    )
