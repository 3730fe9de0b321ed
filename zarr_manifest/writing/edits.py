"""What an edit is to change: metadata of nodes, and entries of chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from zarr_manifest.format import ArrayMetadata, join, parse_node

type Index = tuple[int, ...]


class WrittenChunk(Struct, frozen=True):
    """A chunk that was written as an object in the hierarchy's store.

    Parameters
    ----------
    key : str
        Key of the object.
    length : int
        Its number of bytes.
    checksum : str
        Their checksum.
    """

    key: str
    length: int
    checksum: str

    def entry(self, path: str) -> dict[str, Any]:
        """Return the entry that refers to it by a path."""
        where = {"path": path, "offset": 0, "length": self.length}
        return {**where, "checksum": self.checksum}


# An entry as in a manifest, or what will be one; None if the chunk is missing.
type Edited = Mapping[str, Any] | WrittenChunk | None


@dataclass(slots=True)
class Edits:
    """What is to change in a hierarchy.

    Parameters
    ----------
    before : dict of str to (bytes or None)
        By path, the ``zarr.json`` of nodes as first seen; None where there was none.
    after : dict of str to (bytes or None)
        By path, their new metadata; None if the node is removed.
    entries : dict of str to dict
        By path of an array, the entries of chunks that change.
    created : set of str
        Paths of arrays that are new, or put in place of others.
    adopted : dict of str to dict
        By path of a native array, its metadata as first seen, with a manifest of its own chunks.
    has_ended : bool
        Whether nothing can be changed any more.
    """

    before: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    after: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    entries: dict[str, dict[Index, Edited]] = field(default_factory=dict[str, dict[Index, Edited]])
    created: set[str] = field(default_factory=set[str])
    adopted: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    has_ended: bool = False

    def remove(self, path: str) -> None:
        """Let there be no node at a path."""
        if self.before.get(path) is None:
            self.after.pop(path, None)
        else:
            self.after[path] = None
        self.entries.pop(path, None)
        self.created.discard(path)
        self.adopted.pop(path, None)

    def removed_natives(self) -> list[str]:
        """Return the paths of native arrays that are removed, whose chunks have no use then."""
        removed = [path for path, body in self.after.items() if body is None]
        return [path for path in removed if is_native(self.first(path))]

    def first(self, path: str) -> dict[str, Any] | None:
        """Return the metadata of a node as first seen."""
        body = self.before.get(path)
        return None if body is None else parse_node(body)


def is_native(node: dict[str, Any] | None) -> bool:
    """Whether metadata are those of an array without a manifest."""
    is_array = node is not None and node.get("node_type") == "array"
    return is_array and not ArrayMetadata("", node or {}).declaration


def coordinates_of(path: str, node: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of the other arrays that are called like an array's dimensions."""
    group = path.rpartition("/")[0]
    for name in node.get("dimension_names") or ():
        if isinstance(name, str) and name and "/" not in name and join(group, name) != path:
            yield join(group, name)
