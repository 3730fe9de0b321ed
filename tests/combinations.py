"""One rule, met in many ways: all of them are tested, but only a few before each commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["combinations"]


def combinations(ways: Iterable[Any], besides: Collection[Any]) -> list[Any]:
    """Return parameters of a test; `make check` tries only those that are named here again."""
    ways = list(ways)
    assert all(way in ways for way in besides)
    return [
        way if way in besides else pytest.param(way, marks=pytest.mark.combinations) for way in ways
    ]
