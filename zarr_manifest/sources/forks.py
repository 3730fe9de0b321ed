"""Work for other processes, but not for forks of this one, which lack the threads of obstore."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

from msgspec import Struct, field


class Unforked[T, R](Struct, frozen=True):
    """Does the work, unless the worker is a fork of the process that asks for it.

    If that process has used obstore before, the fork lacks obstore's threads and would
    wait for them forever; only the parent process can know.
    """

    work: Callable[[T], R]
    wanted_by: int = field(default_factory=os.getpid)

    def __call__(self, item: T) -> R:
        """Do the work for one item."""
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid == self.wanted_by and _is_fork():
            raise ValueError(
                "files cannot be read in forked processes, which lack the threads of obstore: "
                'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
            )
        return self.work(item)


def _is_fork() -> bool:
    if "fork" not in multiprocessing.get_all_start_methods():
        return False
    return isinstance(
        multiprocessing.current_process(), multiprocessing.get_context("fork").Process
    )
