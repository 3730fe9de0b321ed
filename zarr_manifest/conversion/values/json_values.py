"""Parsed JSON of unknown content: what kind of value it is, and how to show it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import cast

__all__ = ["as_array", "as_object", "brief"]


def as_array(value: object) -> list[object] | None:
    """Return the items of a JSON array, or None if `value` is not one."""
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None


def as_object(value: object) -> Mapping[str, object] | None:
    """Return `value` if it is a JSON object, else None."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def brief(value: object) -> str:
    """Return a value as text for a message: never long."""
    return reprlib.repr(value)
