"""The members of numcodecs configurations: which ones exist, and their possible values.

In numcodecs, a member that a codec does not know is an error, so only known ones reach the
v3 metadata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.values import brief

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zarr_manifest.conversion.nodes import Decisions

__all__ = ["CodecMembers"]


@dataclass(frozen=True)
class CodecMembers:
    """A numcodecs configuration, read member by member."""

    codec: str
    config: Mapping[str, object]
    decisions: Decisions

    def drop_all_but(self, known: Collection[str]) -> None:
        """Note the members that numcodecs would reject."""
        unknown = sorted(set(self.config) - {"id", *known})
        if unknown:
            self.decisions.note(
                f"codec {self.codec!r} has no member {', '.join(map(repr, unknown))}; left out"
            )

    def note_package(self, package: str) -> None:
        """Note the package that readers of the codec need."""
        self.decisions.note(f"codec {self.codec!r} needs the package {package} wherever it is read")

    def refusal(self, member: str, expected: str) -> Exception:
        """Return the error for a member of the wrong type or value."""
        found = brief(self.config[member]) if member in self.config else "missing"
        return self.decisions.refusal(
            f"member {member!r} of codec {self.codec!r} must be {expected}; it is {found}"
        )

    def integer(self, member: str, default: int) -> int:
        """Return an integer."""
        value = self.config.get(member, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refusal(member, "an integer")
        return value

    def level(self, member: str, default: int, low: int, high: int) -> int:
        """Return an integer that only affects encoding, clipped to its range."""
        value = self.integer(member, default)
        nearest = min(max(value, low), high)
        if nearest != value:
            self.decisions.note(
                f"member {member!r} of codec {self.codec!r} became {nearest}, because {value} is "
                "out of range; it does not affect reading"
            )
        return nearest

    def number(self, member: str) -> int | float:
        """Return a finite number; there is no default."""
        value = self.config.get(member)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refusal(member, "a number")
        if not math.isfinite(value):
            raise self.refusal(member, "a finite number")
        return value

    def choice(self, member: str, default: str, choices: Collection[str]) -> str:
        """Return one of several strings."""
        value = self.config.get(member, default)
        if not isinstance(value, str) or value not in choices:
            raise self.refusal(member, f"one of {', '.join(sorted(choices))}")
        return value

    def dtype(self, member: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """Return the numeric or time type that a member names; None is the same as missing."""
        value = self.config.get(member)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.refusal(member, "a numpy type string such as '<f4'")
        try:
            dtype: np.dtype[Any] = np.dtype(value)
        except (TypeError, ValueError, SyntaxError) as error:
            raise self.refusal(member, "a numpy type string such as '<f4'") from error
        if dtype.kind not in "biufcmM" or (dtype.kind in "fc" and dtype.itemsize > 16):
            raise self.refusal(member, "a type of numbers or times")
        return dtype

    def given(self, members: Collection[str]) -> dict[str, object]:
        """Return those of `members` that exist, unchanged; they must be scalars."""
        found = {member: self.config[member] for member in members if member in self.config}
        for member, value in found.items():
            if value is not None and not isinstance(value, int | float | str):
                raise self.refusal(member, "a number, a string or null")
        return found
