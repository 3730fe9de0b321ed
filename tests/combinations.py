"""One rule, met in many ways: all of them are tested, but only a few before each commit."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["combinations", "crossed"]

_PARAMETER = type(pytest.param())


def combinations(ways: Iterable[Any], besides: Collection[Any]) -> list[Any]:
    """Return parameters of a test; `make check` tries only those that are named here again."""
    ways = list(ways)
    assert all(way in ways for way in besides)
    return [
        way if way in besides else pytest.param(way, marks=pytest.mark.combinations) for way in ways
    ]


def crossed(ways: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return pairs of parameters; before the thorough tier, only those with a first one are tried.

    So each way is met with the first of the others, and each of the others with the first way.
    """
    pairs = []
    for (number, way), (other_number, other) in itertools.product(
        enumerate(ways), enumerate([*others])
    ):
        parts = [part for part in (way, other) if isinstance(part, _PARAMETER)]
        marks = [mark for part in parts for mark in part.marks]
        if number and other_number:  # two ways, which `tests/conftest.py` leaves out
            marks += [pytest.mark.combinations] * 2
        values = [part.values[0] if isinstance(part, _PARAMETER) else part for part in (way, other)]
        pairs.append(pytest.param(*values, marks=marks))
    return pairs
