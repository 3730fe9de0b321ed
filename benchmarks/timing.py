"""Times of several actions, repeated in turn, so that a disturbance affects all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Times:
    """Seconds that an action took in each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def ratio(self, baseline: Times) -> float:
        """Median of the ratios of one round each."""
        return median(a / b for a, b in zip(self.seconds, baseline.seconds, strict=True))


def interleaved(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Time every action once per round, in rotating order, after a warm-up round."""
    names = list(actions)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for action in actions.values():
        action()
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            start = time.perf_counter()
            actions[name]()
            taken[name].append(time.perf_counter() - start)
    return {name: Times(tuple(seconds)) for name, seconds in taken.items()}
