"""Mutants that misread which documents a split manifest has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.adapters.mutants.broken_rules import change_configurations
from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import names_outside, parse_canonical
from zarr_manifest.hierarchy import declared_array
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.inspection import validation

_PLACE = "partition-names/*"


@broken_in(_PLACE)
def lost_documents_are_empty() -> None:
    """Take a document that the declaration names, and that is lost, for one without entries."""
    replace(DeclaredArray, "has_document", lambda _: lambda _self, block: block is None or None)


@broken_in(_PLACE)
def all_is_ignored() -> None:
    """Take "all" for the absence of partitions."""

    def make(has_document: Any) -> Any:
        def changed(self: DeclaredArray, block: Any) -> bool | None:
            if block is not None and self.configuration.partitions == "all":
                return None
            return has_document(self, block)  # type: ignore[no-any-return]

        return changed

    replace(DeclaredArray, "has_document", make)


@broken_in(_PLACE)
def unnamed_documents_are_asked_for() -> None:
    """Ask for the documents of blocks that are not said to have one."""

    def make(has_document: Any) -> Any:
        return lambda self, block: has_document(self, block) or None

    replace(DeclaredArray, "has_document", make)


@broken_in("partition-names/outside-*")
def named_outside_the_grid_refused() -> None:
    """Refuse names outside the grid of blocks when reading."""

    def make(interpret: Any) -> Any:
        def changed(configuration: Any, chunk_grid: Any) -> Any:
            found = yield from interpret(configuration, chunk_grid)
            partitions, named = found
            if partitions is not None and names_outside(partitions, named or ()):
                yield InvalidConfigurationError("a name is outside the grid")
            return found

        return changed

    replace(declared_array, "_interpret_partitions", make)


@broken_in("partition-names/outside-the-grid-validate")
def names_outside_the_grid_unreported() -> None:
    """Report no names outside the grid of blocks."""
    replace(validation, "names_outside", lambda _: lambda _partitions, _named: [])


def _change_names(change: Callable[[tuple[str, ...], int], tuple[str, ...]]) -> None:
    """Let a function change the names in ``partitions`` before they are checked."""

    def make(interpret: Any) -> Any:
        return lambda names, ndim: interpret(change(names, ndim), ndim)

    replace(declared_array, "interpret_partition_names", make)


@broken_in(_PLACE)
def blocks_may_be_named_twice() -> None:
    """Accept a name that stands in ``partitions`` twice."""
    _change_names(lambda names, _: tuple(dict.fromkeys(names)))


@broken_in(_PLACE)
def block_names_with_leading_zeros() -> None:
    """Take "00" in ``partitions`` for "0"."""

    def canonical(name: str) -> str:
        return ".".join(str(int(n)) if n.isdecimal() else n for n in name.split("."))

    _change_names(lambda names, _: tuple(map(canonical, names)))


@broken_in(_PLACE)
def foreign_block_names_dropped() -> None:
    """Drop what is no name of a block from ``partitions``."""

    def change(names: tuple[str, ...], ndim: int) -> tuple[str, ...]:
        return tuple(name for name in names if parse_canonical(name, ndim) is not None)

    _change_names(change)


@broken_in(_PLACE)
def partitions_without_shape_ignored() -> None:
    """Ignore ``partitions`` without ``partition_shape``."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        kept = "partition_shape" in stated
        return {k: v for k, v in stated.items() if kept or k != "partitions"}

    change_configurations(change)


@broken_in(_PLACE)
def partitions_of_another_type_ignored() -> None:
    """Ignore ``partitions`` that is neither "all" nor a list of strings."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        names = stated.get("partitions", "all")
        usable = names == "all" or (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        )
        return {k: v for k, v in stated.items() if usable or k != "partitions"}

    change_configurations(change)
