"""Groups of an older writer: repairs attributes that are not valid JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from zarr_manifest.conversion.older_writers.attributes import repair_attributes
from zarr_manifest.format import dump_node, join, parse_node
from zarr_manifest.writing import GuardedStore, Stored, update_consolidated

__all__ = ["OlderGroup", "groups_to_repair"]


@dataclass(frozen=True, slots=True)
class OlderGroup:
    """A group whose attributes were repaired in memory.

    Parameters
    ----------
    path : str
        Path of the group in its hierarchy.
    metadata : dict
        The new content of its ``zarr.json``.
    before : Stored
        Its ``zarr.json`` as stored.
    notes : list of str
        What was wrong, as sentences.
    """

    path: str
    metadata: dict[str, Any]
    before: Stored
    notes: list[str]

    @property
    def bodies(self) -> dict[str, bytes]:
        """The objects to write, by key."""
        return {join(self.path, "zarr.json"): dump_node(self.metadata)}

    def write(self, store: GuardedStore) -> None:
        """Replace its ``zarr.json`` with one put."""
        for key, body in self.bodies.items():
            store.replace(key, self.before, body)
        update_consolidated(store, self.path, self.metadata)


def groups_to_repair(store: GuardedStore, paths: Iterable[str]) -> Iterator[OlderGroup]:
    """Yield the groups that have attribute values that JSON lacks."""
    for path in sorted(set(paths)):
        before = store.read(join(path, "zarr.json"))
        node = None if before.body is None else parse_node(before.body)
        if node is not None and node.get("node_type") == "group":
            attributes, notes = repair_attributes(node)
            if notes:
                yield OlderGroup(path, node | {"attributes": attributes}, before, notes)
