"""Files that are ready to be joined: where their chunks are, and values that are loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import zarr
from zarr.storage import StorePath

from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, explained
from zarr_manifest.conversion.joining import (
    Input,
    UnreadableValues,
    digest_of,
    loaded_variable,
    values_of,
)
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    held,
    refused,
    whole,
)
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual import array_node, or_refused
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import join
from zarr_manifest.locations import redact

if TYPE_CHECKING:
    import xarray as xr


@dataclass(slots=True)
class OpenedFile:
    """A file, ready to be joined with others.

    Parameters
    ----------
    url : str
        Its URL.
    tree : FileTree
        Its content.
    loaded : mapping of str to Variable
        By path, the arrays of which the values count.
    """

    url: str
    tree: FileTree
    loaded: Mapping[str, Any]

    def input(self, known: KnownArrays) -> Input:
        """Return what is joined, which shares what is equal in the file before."""
        tree = self.tree
        arrays: dict[str, ArrayNode] = {}
        refused = list(tree.refused)
        paths: list[str] = []
        notes: dict[str, Sequence[str]] = dict(tree.notes)
        for group in tree.groups:
            for name, array in group.arrays.items():
                path = join(group.path, name)
                if path not in self.loaded:
                    node = or_refused(path, partial(known.node, array=array, tree=tree))
                    if isinstance(node, RefusedNode):
                        refused.append(node)
                        continue
                    assert isinstance(node, ArrayNode)
                    arrays[path] = node
                    if node.notes:
                        notes[path] = [*notes.get(path, ()), *node.notes]
                paths.append(path)
        groups = [GroupNode(each.path, each.attributes) for each in tree.groups]
        name, stored = redact(self.url), tree.meanings
        return known.alike(
            Input(name, groups, arrays, refused, {}, self.loaded, stored, tuple(paths), notes)
        )


class KnownArrays:
    """What the file before consists of: files mostly are alike, and there are many."""

    def __init__(self) -> None:
        self._metadata: dict[str, tuple[Any, ArrayNode]] = {}
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

    def node(self, path: str, array: Any, tree: FileTree) -> ArrayNode:
        """Return the node for a ``ManifestArray``.

        Raises
        ------
        ManifestError
            There is none.
        """
        metadata, last = self._metadata.get(path, (None, None))
        grid = tree.chunk_grids.get(path)
        is_like = grid is None and (metadata is array.metadata or metadata == array.metadata)
        node = array_node(
            path,
            array,
            chunk_grid=grid,
            is_sparse=path in tree.sparse,
            like=last if is_like else None,
        )
        if grid is None:
            self._metadata[path] = array.metadata, node
        return node

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


def open_file(
    url: str,
    tree: FileTree,
    sources: Any,
    loadable: Collection[str] | None,
    concat_dim: str | None,
    loaded: Mapping[str, xr.Variable] | None = None,
) -> OpenedFile:
    """Return a file with the values that count.

    Parameters
    ----------
    url : str
        Its URL.
    tree : FileTree
        The parsed file.
    sources : FileSources
        Reads the variables to load.
    loadable : collection of str or None
        Names of variables to load; by default, one-dimensional coordinates named after
        their dimension, and the single value of a file along a new dimension.
    concat_dim : str or None
        Dimension along which files are concatenated.
    loaded : mapping of str to Variable, optional
        By path, variables that have been loaded, and need not be read.
    """
    found: dict[str, Any] = {}
    for group in tree.groups:
        for name, array in group.arrays.items():
            path, dims = join(group.path, name), array.metadata.dimension_names
            if path in tree.chunk_grids:  # VirtualiZarr has only regular ones
                continue
            if _is_wanted(name, dims, array.shape, loadable, concat_dim):
                known = (loaded or {}).get(path)
                found[path] = read_variable(array, sources) if known is None else known
    return OpenedFile(url, tree, found)


def _is_wanted(
    name: str,
    dims: Sequence[str | None] | None,
    shape: Sequence[int],
    loadable: Collection[str] | None,
    concat_dim: str | None,
) -> bool:
    """Whether the values of an array count."""
    if loadable is not None:
        return name in loadable
    return is_coordinate(name, dims) or (name == concat_dim and not shape)


def opened_nodes(
    url: str,
    nodes: Iterable[Node],
    sources: FileSources,
    loadable: Collection[str] | None,
    concat_dim: str | None,
) -> Input:
    """Return a Zarr hierarchy with the values that count, as :func:`open_file`.

    Parameters
    ----------
    url : str
        Its URL.
    nodes : iterable of Node
        Its nodes. Their manifests are held.
    sources, loadable, concat_dim
        As there.

    Raises
    ------
    ManifestError
        Values that count cannot be read.
    """
    found = Input.of(redact(url), (_held_or_refused(node) for node in nodes), {})
    loaded: dict[str, Any] = {}
    for path, node in found.arrays.items():
        stated = node.metadata
        name, dims = path.rpartition("/")[2], stated.get("dimension_names")
        if _is_wanted(name, dims, stated["shape"], loadable, concat_dim):
            values = _values(node, sources)
            loaded[path] = loaded_variable(found.dims(path), values, found.attributes(path))
    found.arrays = {path: node for path, node in found.arrays.items() if path not in loaded}
    found.loaded = loaded
    return found


def _held_or_refused(node: Node) -> Node:
    try:
        return held(node)
    except ManifestError as error:
        return refused(node.path, error)


def _values(node: ArrayNode, sources: FileSources) -> Any:
    """Return the values of an array, which is read where its references say."""
    return values_of(node, sources.readable_by_stores(whole(node).paths))


def is_coordinate(name: str, dims: Sequence[str | None] | None) -> bool:
    """Whether an array with these dimensions has the values of the one that it is named after."""
    return tuple(dims or ()) == (name,)


def read_variable(array: Any, sources: FileSources) -> xr.Variable:
    """Return a ``ManifestArray`` as a variable with its values, as stored."""
    # As stored: their meaning has to be compared with that in other files.
    values, dims = stored_values(array, sources), array.metadata.dimension_names or ()
    found: xr.Variable = loaded_variable(dims, values, array.metadata.attributes)
    return found


def stored_values(array: Any, sources: Any) -> Any:
    """Return the values of a ``ManifestArray``, all of whose chunks are read."""
    manifests: Any = library("virtualizarr.manifests")
    group = manifests.ManifestGroup(arrays={"values": array}, attributes={})
    at = StorePath(manifests.ManifestStore(group, registry=sources), "values")
    # Opening it would encode, list and decode metadata that are known.
    read: Any = zarr.Array(zarr.AsyncArray(array.metadata, at))[...]
    return np.asarray(read)


# Whether values are the same --------------------------------------------------------------


@unstable_types_accepted
def digests_of(arrays: Mapping[str, ArrayNode], sources: FileSources) -> dict[str, str]:
    """Return texts that are the same for arrays with the same values.

    Parameters
    ----------
    arrays : mapping of str to ArrayNode
        By path. All their chunks are read, one array at a time.
    sources : FileSources
        Reads them.

    Returns
    -------
    dict of str to str
        An `UnreadableValues` for those that cannot be read.
    """
    found: dict[str, str] = {}
    for path, node in arrays.items():
        try:
            found[path] = digest_of(_values(node, sources))
        except ManifestError as error:
            found[path] = UnreadableValues(error.message)
        except FOREIGN_ERRORS as error:
            found[path] = UnreadableValues(explained(error))
    return found
