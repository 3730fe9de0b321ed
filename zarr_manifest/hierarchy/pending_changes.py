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


def _below(group: str, path: str) -> str:
    """Return a path relative to a group above it; ``""`` if the group is not."""
    if not group:
        return path
    return path[len(group) + 1 :] if path.startswith(f"{group}/") else ""
