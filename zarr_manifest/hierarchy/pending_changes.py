"""The changes that are being written, as the groups said that a store has read. Pure.

Usually one, of the root; of a group below, if the root has no consolidated metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zarr_manifest.format import PendingChange, Standing, join, parse_pending


class PendingChanges(dict[str, PendingChange]):
    """Changes by the path of the group whose copies count; empty but for moments."""

    def note(self, group: str, body: bytes | None, node: dict[str, Any] | None) -> None:
        """Record what a group's ``zarr.json`` says, given as stored and parsed.

        Raises
        ------
        InvalidConfigurationError
            It does not say it validly.
        """
        self.pop(group, None)
        if body is not None and node is not None and (pending := parse_pending(node)):
            self[group] = PendingChange(pending, body)

    def standing(self, path: str, own: bytes | None) -> Standing:
        """Return what counts of a node, given its own ``zarr.json``."""
        for change, member in self.of(path):
            if (found := change.standing(member, own)) != "own":
                return found
        return "own"

    def counting(self, path: str, own: bytes | None) -> bytes | None:
        """Return a node's ``zarr.json`` that counts; None if the node does not exist."""
        for change, member in self.of(path):
            if change.standing(member, own) != "own":
                return change.counting(member, own)
        return own

    def of(self, path: str) -> Iterator[tuple[PendingChange, str]]:
        """Yield the changes of a node, and its path in their groups, the topmost first."""
        for group, change in sorted(self.items()):
            member = _below(group, path)
            if member in change.pending:
                yield change, member

    def in_doubt(self) -> Iterator[str]:
        """Yield the paths of nodes that may be there without own metadata, or not be there with."""
        for group, change in self.items():
            for member in change.in_doubt():
                yield join(group, member)

    def added_below(self, directory: str) -> list[tuple[str, set[str]]]:
        """Return the nodes at and below a path that exist even without own metadata.

        By the path of the group whose copies they are; not of groups at or below the path.
        """
        found: list[tuple[str, set[str]]] = []
        for group, change in self.items():
            place = _below(group, directory)
            added = {member for member in change.added() if _is_within(member, place)}
            if place and added:
                found.append((group, added))
        return found

    def names_in(self, directory: str) -> set[str]:
        """Return the names in a directory of nodes in or below which there is a change."""
        paths = (join(group, member) for group, change in self.items() for member in change.pending)
        names = (_below(directory, path) for path in paths)
        return {name.partition("/")[0] for name in names if name}


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _below(group: str, path: str) -> str:
    """Return a path relative to a group above it; ``""`` if the group is not."""
    if not group:
        return path
    return path[len(group) + 1 :] if path.startswith(f"{group}/") else ""
