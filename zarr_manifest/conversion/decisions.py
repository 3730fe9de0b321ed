"""What a conversion decided where its input left a choice, and what it refused, by array."""

from __future__ import annotations

from dataclasses import dataclass, field

from zarr_manifest.conversion.refusals import NotConvertibleError

__all__ = ["Decisions"]


@dataclass(frozen=True)
class Decisions:
    """Collects the notes about one array, and words the refusals of it.

    Parameters
    ----------
    path : str
        Path of the array in its hierarchy; ``""`` is an array at the root.
    """

    path: str
    notes: list[str] = field(default_factory=list[str])

    def note(self, sentence: str) -> None:
        """Record a decision; `sentence` has no full stop."""
        self.notes.append(f"array {self.path!r}: {sentence}")

    def refusal(self, problem: str, *, remedy: str | None = None) -> NotConvertibleError:
        """Return the error to raise."""
        return NotConvertibleError(problem, array=self.path, remedy=remedy)
