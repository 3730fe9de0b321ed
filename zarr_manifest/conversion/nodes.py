"""What importers yield: the nodes of a hierarchy, and what could not become one.

Importers read one format and know nothing of writing; writing knows nothing of
formats. This is all that they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zarr_manifest.manifest import Manifest

__all__ = ["ArrayNode", "GroupNode", "Node", "RefusedNode", "StreamedManifest"]


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A group.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends; ``""`` for the root.
    attributes : dict
        JSON values.
    """

    path: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamedManifest:
    """A manifest that is too large to be held at once.

    Parameters
    ----------
    partition_shape : tuple of int
        Number of chunks of a partition along every dimension.
    parts : iterable of Manifest
        One for each partition that has entries, in any order, each once. All
        have the shape of the whole chunk grid.
    """

    partition_shape: tuple[int, ...]
    parts: Iterable[Manifest]


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """An array whose chunks lie elsewhere.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends; ``""`` for the root.
    metadata : dict
        Zarr v3 metadata document, without storage transformers.
    manifest : Manifest or StreamedManifest
        Where its chunks are.
    notes : tuple of str
        What was decided where the input leaves a choice, in sentences.
    """

    path: str
    metadata: dict[str, Any]
    manifest: Manifest | StreamedManifest
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node that cannot be expressed; the others are converted all the same.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends.
    code : str
        Code of the error.
    reason : str
        Why, as a sentence.
    """

    path: str
    code: str
    reason: str


type Node = GroupNode | ArrayNode | RefusedNode
