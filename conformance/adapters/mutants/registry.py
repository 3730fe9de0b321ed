"""The table of mutants, and how they patch the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zarr

__all__ = ["MUTANTS", "Mutant", "broken_in", "read_chunk_by_chunk", "register", "replace"]


@dataclass(frozen=True)
class Mutant:
    """One way in which the adapter can be broken."""

    name: str
    noticed_in: tuple[str, ...]
    """Where the corpus must notice: in each of these areas, or cases (``paths/empty-*``)."""
    what: str
    """What is broken."""
    apply: Callable[[], None]


MUTANTS: dict[str, Mutant] = {}


def broken_in(*places: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that breaks the package; its name and docstring describe the mutant.

    `places` are areas, or globs of ids of cases: each of them must notice.
    """

    def describe(apply: Callable[[], None]) -> Callable[[], None]:
        assert apply.__doc__
        return register(apply.__name__.replace("_", "-"), apply.__doc__, *places)(apply)

    return describe


def register(
    name: str, what: str, *places: str
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a function that breaks the package as a table says."""

    def add(apply: Callable[[], None]) -> Callable[[], None]:
        assert name not in MUTANTS
        MUTANTS[name] = Mutant(name, places, what, apply)
        return apply

    return add


def read_chunk_by_chunk() -> None:
    """Let zarr ask for each chunk alone, which is where some mutants are broken."""
    zarr.config.set({"zarr_manifest.bulk": False})


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put something else in the place of a member; `make` receives the original.

    Raises
    ------
    LookupError
        The package has changed: the mutant would be none.
    """
    if not hasattr(owner, name):
        raise LookupError(f"{owner.__name__} has no {name!r} to be broken")
    setattr(owner, name, make(getattr(owner, name)))
