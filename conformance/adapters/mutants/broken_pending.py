"""Mutants that take the wrong one of two copies of metadata."""

from __future__ import annotations

from typing import Any

import zarr

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import precedence
from zarr_manifest.hierarchy import known_nodes
from zarr_manifest.inspection import validation


@broken_in("pending/written-since", "pending/not-named")
def copies_do_not_count() -> None:
    """Take metadata from the nodes' own, where the root has copies."""

    def make(open_group: Any) -> Any:
        return lambda *rest, **options: open_group(*rest, **{**options, "use_consolidated": False})

    replace(zarr, "open_group", make)


@broken_in(
    "pending/behind-own-metadata", "pending/created-own-metadata", "pending/removed-own-metadata"
)
def pending_ignored() -> None:
    """Take all own metadata for what they are."""
    replace(precedence, "parse_pending", lambda _: lambda root: {})


@broken_in("pending/behind-below-the-root-own-metadata", "pending/behind-below-the-root-validate")
def pending_below_the_root_ignored() -> None:
    """Look for ``pending`` in the root alone."""

    def make(note: Any) -> Any:
        return lambda changes, group, *rest: None if group else note(changes, group, *rest)

    replace(precedence.PendingChanges, "note", make)


@broken_in("pending/behind-the-root-and-a-group-own-metadata")
def copies_of_the_lowest_group_count() -> None:
    """Let the copies of a group go before those of the groups above it."""

    def make(of: Any) -> Any:
        return lambda changes, path: reversed([*of(changes, path)])

    replace(precedence.PendingChanges, "of", make)


@broken_in("pending/gone-validate", "pending/gone-below-the-root-validate")
def metadata_that_are_gone_unreported() -> None:
    """Take own metadata that are gone for ones that never were, even when validating."""
    replace(validation, "interpret_pending", lambda _: lambda group: iter(()))


@broken_in("pending/of-another-form-*-own-metadata")
def pending_of_another_form_ignored() -> None:
    """Take a ``pending`` that cannot be understood for none, and own metadata for what counts."""

    def make(parse: Any) -> Any:
        def changed(root: Any) -> Any:
            try:
                return parse(root)
            except InvalidConfigurationError:
                return {}

        return changed

    replace(precedence, "parse_pending", make)
    replace(known_nodes, "_agree", lambda _: lambda own, copy: True)


def _change_standing(of_named: Any) -> None:
    """Say otherwise what counts of a node that is named: from that, its own, and its copy."""

    def make(standing: Any) -> Any:
        def changed(change: Any, path: str, own: bytes | None) -> Any:
            found = standing(change, path, own)
            is_named = path in change.pending
            return of_named(found, own, path in change._copies) if is_named else found

        return changed

    replace(precedence.PendingChange, "standing", make)


@broken_in("pending/written-since-own-metadata", "pending/written-since-its-removal-own-metadata")
def whatever_pending_names_is_behind() -> None:
    """Take own metadata for behind because ``pending`` names their node."""
    _change_standing(lambda _found, _own, copied: "copy" if copied else "absent")


@broken_in("pending/created-own-metadata")
def absent_metadata_are_not_behind() -> None:
    """Take a node without metadata of its own for none, though ``pending`` says null."""
    _change_standing(lambda found, own, _copied: "own" if own is None else found)


@broken_in("pending/removed-own-metadata")
def removed_nodes_are_there() -> None:
    """Take the own metadata of a node that is being removed."""
    _change_standing(lambda found, _own, copied: found if copied else "own")
