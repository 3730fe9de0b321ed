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

    Examples
    --------
    >>> GroupNode("ocean", {"title": "North Atlantic"}).path
    'ocean'
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

    Examples
    --------
    >>> parts = (Manifest.from_columns((4,), paths=f"{n}.nc", chunks=[[n]]) for n in range(4))
    >>> [part.paths for part in StreamedManifest((1,), parts).parts]
    [('0.nc',), ('1.nc',), ('2.nc',), ('3.nc',)]
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

    Examples
    --------
    >>> metadata = {
    ...     "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    ...     "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
    ...     "codecs": [{"name": "bytes"}],
    ... }
    >>> manifest = Manifest.from_columns((2,), paths="raw.bin", offsets=[0, 4], lengths=4)
    >>> node = ArrayNode("ocean/sst", metadata, manifest)
    >>> node.manifest.grid_shape
    (2,)
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

    Examples
    --------
    >>> print(RefusedNode("ocean/sst", "not_convertible", "a chunk has a filter mask").reason)
    a chunk has a filter mask
    """

    path: str
    code: str
    reason: str


type Node = GroupNode | ArrayNode | RefusedNode
