"""How much data a run uses, and how often it measures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """The size of a run.

    `quick` finishes in two minutes and shows that everything works; its figures say little.
    `huge` adds what takes many minutes or gigabytes. `passes` is how often all cells are measured;
    each time in a fresh process, and in several that follow each other if it takes a moment.
    """

    quick: bool = False
    huge: bool = False
    passes: int = 3

    def pick[T](self, full: T, quick: T) -> T:
        """Return the value for a full run, or for a quick one."""
        return quick if self.quick else full

    @property
    def patience(self) -> float:
        """Seconds that one cell may take: after them, it is not measured again."""
        return self.pick(12.0, 1.0)

    @property
    def processes(self) -> int:
        """Processes that measure a cell in one pass, if each takes a `moment` at most."""
        return self.pick(4, 1)

    @property
    def moment(self) -> float:
        """Seconds of a process that differ much from one to the next."""
        return self.pick(2.0, 0.3)

    def rounds(self) -> Iterator[int]:
        """Count the repetitions within one process: a few, fewer if they take long."""
        deadline = time.monotonic() + self.pick(3.0, 0.3)
        for number in range(self.pick(7, 2)):
            if number and time.monotonic() > deadline:
                return
            yield number
