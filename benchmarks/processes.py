"""Each cell in a process of its own, which has imported zarr and this package, and nothing else.

The processes are forks of one that has imported them, because imports take longer than most of
what is measured.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.measuring import Measured

_PRELOADED = ["benchmarks.rows"]


class FailedInProcess(Exception):
    """What was measured failed: the message is the error, `traceback` says where."""

    def __init__(self, error: str, where: str = "") -> None:
        super().__init__(error)
        self.traceback = where


def in_fresh_process(work: Callable[..., Measured], *arguments: object) -> Measured:
    """Call a function of a module in a new process, and return what it returns.

    Raises
    ------
    FailedInProcess
        If it raises, or if the process dies.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, work, arguments))
    process.start()
    there.close()
    try:
        succeeded, answer = here.recv()
    except EOFError:
        process.join()
        raise FailedInProcess(f"its process ended with {process.exitcode}") from None
    process.join()
    if not succeeded:
        raise FailedInProcess(*answer)
    found: Measured = answer
    return found


def _answer(there: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        answer: tuple[bool, object] = True, work(*arguments)
    except Exception as error:
        summary = traceback.format_exception_only(error)[0].splitlines()[0]
        answer = False, (summary, traceback.format_exc())
    there.send(answer)
