"""What is joined: nodes, and the values of those arrays by which their places are known."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import zarr
from zarr.buffer import cpu
from zarr.storage import MemoryStore, StorePath

from zarr_manifest.conversion.joining.comparing import axis_of, dimensions, is_coordinate
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, RefusedNode, whole
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import require_valid_array
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import NotConvertibleError, in_context
from zarr_manifest.format import TRANSFORMER_NAME, TRANSFORMERS, dump_node, join
from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.sources import Access

# Not all of its functions have known types.
_untyped_zarr: Any = zarr


@dataclass(slots=True)
class Input:
    """One of the files or hierarchies that are joined. Equal ones share what they consist of.

    Parameters
    ----------
    name : str
        Its name in messages.
    groups : sequence of GroupNode
        Its groups, parents first.
    arrays : mapping of str to ArrayNode
        Its arrays, by path, but for those that are loaded.
    refused : sequence of RefusedNode
        What cannot be read or expressed.
    allow : mapping of str to Access
        Where values may be read that are not loaded.
    loaded : mapping of str to Variable, optional
        By path, arrays that have been loaded, their values as stored. By default, the coordinates
        of dimensions are read when they are needed.
    stored : mapping of str to mapping
        What attributes do not say about the numbers of arrays; see ``FileTree.meanings``.
    paths : sequence of str
        Of all its arrays, in order.
    notes : mapping of str to sequence of str
        By path of a node.
    loadable : collection of str
        Names of arrays whose values count besides those of coordinates, if none is loaded.
    conditions : mapping of str to mapping
        By URL of an object that it refers to, what may be recorded of its state.
    """

    name: str
    groups: Sequence[GroupNode]
    arrays: Mapping[str, ArrayNode]
    refused: Sequence[RefusedNode] = ()
    allow: Mapping[str, Access] = field(default_factory=dict[str, Access])
    loaded: Mapping[str, Any] | None = None
    stored: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    paths: Sequence[str] = ()
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Any])
    loadable: Collection[str] = ()
    conditions: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, name: str, nodes: Iterable[Node], allow: Mapping[str, Access]) -> Input:
        """Return what consists of nodes."""
        every = list(nodes)
        arrays = {node.path.strip("/"): node for node in every if isinstance(node, ArrayNode)}
        others = [node for node in every if not isinstance(node, RefusedNode)]
        return cls(
            name,
            [node for node in every if isinstance(node, GroupNode)],
            arrays,
            [node for node in every if isinstance(node, RefusedNode)],
            allow,
            paths=tuple(arrays),
            notes={node.path.strip("/"): node.notes for node in others if node.notes},
        )

    def along(self, dim: str) -> Iterator[tuple[str, ArrayNode, int]]:
        """Yield the arrays along a dimension: path, node, and which of its axes it is."""
        for path, node in self.arrays.items():
            axis = axis_of(node, dim)
            if axis is not None:
                yield path, node, axis

    def knows(self, path: str) -> bool:
        """Whether the values of an array count, and not only where they are."""
        if self.loaded is not None:
            return path in self.loaded
        if path.rpartition("/")[2] in self.loadable:
            return path in self.arrays
        return path in self.arrays and is_coordinate(self.arrays[path])

    def dims(self, path: str) -> tuple[str | None, ...]:
        """Return the names of the dimensions of an array."""
        if self.loaded is not None and path in self.loaded:
            return tuple(self.loaded[path].dims)
        return tuple(dimensions(self.arrays[path]))

    def attributes(self, path: str) -> Mapping[Any, Any]:
        """Return the attributes of an array."""
        if self.loaded is not None and path in self.loaded:
            found: Mapping[Any, Any] = self.loaded[path].attrs
            return found
        stated: Mapping[str, Any] = self.arrays[path].metadata.get("attributes", {})
        return stated

    def values(self, path: str) -> Any:
        """Return the values of an array, as stored.

        Raises
        ------
        ManifestError
            They cannot be read.
        """
        return values_of(self.arrays[path], self.allow)

    def variable(self, path: str) -> Any:
        """Return an array as a variable of xarray, its values and attributes as stored.

        Raises
        ------
        ManifestError
            It cannot be read.
        ImportError
            xarray is not installed.
        """
        if self.loaded is not None and path in self.loaded:
            return self.loaded[path]
        return variable_of(self.arrays[path], self.allow)


class KnownInputs:
    """What the file before consists of: files mostly are alike, and there are many."""

    def __init__(self) -> None:
        self._variables: dict[str, Any] = {}
        self._others: dict[str, tuple[str, Any]] = {}

    def shared[T](self, name: str, value: T) -> T:
        """Return a value, or an equal one, in which values also have the same types."""
        about, found = self._others.get(name, (None, None))
        if found is value or about == repr(value):
            return cast("T", found)
        self._others[name] = repr(value), value
        return value

    def alike(self, found: Input) -> Input:
        """Return what is joined, which shares what is equal in the one before."""
        loaded = {path: self.variable(path, each) for path, each in (found.loaded or {}).items()}
        arrays = {
            path: replace(node, metadata=self.shared(f"{path}/zarr.json", node.metadata))
            for path, node in found.arrays.items()
        }
        return replace(
            found,
            groups=self.shared("groups", found.groups),
            arrays=arrays,
            loaded=loaded,
            stored=self.shared("stored", found.stored),
            paths=self.shared("paths", found.paths),
            notes=self.shared("notes", found.notes),
        )

    def variable(self, path: str, variable: Any) -> Any:
        """Return a variable, or an equal one."""
        other = self._variables.get(path)
        is_equal = (
            other is not None
            and variable.dtype == other.dtype
            and variable.encoding == other.encoding
            and variable.dims == other.dims
            and variable.shape == other.shape
            and bool((variable.values == other.values).all())
            and repr(variable.attrs) == repr(other.attrs)
        )
        if not is_equal:
            self._variables[path] = variable
        return self._variables[path]


@unstable_types_accepted
def values_of(node: ArrayNode, allow: Mapping[str, Access]) -> Any:
    """Return the values of an array, as stored, through a hierarchy in memory that has only it.

    Raises
    ------
    ManifestError
        They cannot be read.
    """
    with in_context(array=node.path):
        require_valid_array(node.metadata)
        manifest = json.loads(whole(node).dumps())
    declaration = {"name": TRANSFORMER_NAME, "configuration": {"manifest": manifest}}
    declared = dump_node({**node.metadata, TRANSFORMERS: [declaration]})
    # Writing a hierarchy would take longer than reading most coordinates.
    memory = MemoryStore({join(node.path, "zarr.json"): cpu.Buffer.from_bytes(declared)})
    store = ManifestStore(memory, allow=allow, read_only=True)
    # Opening it would read and decode metadata that are known.
    array = _untyped_zarr.Array.from_dict(StorePath(store, node.path), node.metadata)
    try:
        return np.asarray(array[...])
    except MemoryError as error:  # such as for the shape of a damaged file
        raise NotConvertibleError("no memory holds its values", array=node.path) from error


def variable_of(node: ArrayNode, allow: Mapping[str, Access]) -> Any:
    """Return an array as a variable of xarray, its values and attributes as stored.

    Raises
    ------
    ManifestError
        It cannot be read.
    """
    values, stated = values_of(node, allow), dict(node.metadata.get("attributes", {}))
    if "_FillValue" in stated:
        decode: Any = library("xarray.backends.zarr").FillValueCoder.decode
        stated["_FillValue"] = decode(stated["_FillValue"], values.dtype)
    return stored_variable(dimensions(node), values, stated)


def stored_variable(dims: Sequence[Any], values: Any, attributes: Mapping[str, Any]) -> Any:
    """Return a variable of xarray with values, and attributes of it, as they are stored.

    How they were encoded there says nothing about how to store them, unless they are texts.
    """
    encoding = {"dtype": values.dtype} if values.dtype.kind == "T" else {}
    xarray: Any = library("xarray", "comparing coordinates", extra="xarray")
    return xarray.Variable(dims, values, attributes, encoding)


def is_held(node: ArrayNode) -> bool:
    """Whether all chunks of an array are inline data."""
    if not isinstance(node.manifest, Manifest):
        return False
    _, inline, empty = references_of(node.manifest).counts()
    return not empty and inline == len(node.manifest) == math.prod(node.manifest.grid_shape)
