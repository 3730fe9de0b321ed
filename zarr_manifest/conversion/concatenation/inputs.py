"""What is concatenated: hierarchies, files and nodes, with the values of their coordinates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import UnstableSpecificationWarning
from zarr.storage import MemoryStore, ObjectStore

from zarr_manifest.conversion.concatenation.comparing import axis_of
from zarr_manifest.conversion.concatenation.placing import chunks_of, documents_along
from zarr_manifest.conversion.files import (
    ZARR_FORMATS,
    FileSources,
    detect_format,
    files_named,
    hierarchy_nodes,
    read_files,
)
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, RefusedNode
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import write_hierarchy
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ChunkGrid
from zarr_manifest.hierarchy import InspectedHierarchy, ManifestStore
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.locations import AllowList, Base, UrlLocation, redact
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.sources import Access
from zarr_manifest.stores import store_name

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore

# Not all of its functions have known types.
_untyped_zarr: Any = zarr

# Number of sources, or arrays, of which documents are read or written at the same time.
CONCURRENT = 64

# Every manifest is held inline to read its values, however large.
_ANY_SIZE = 2**62

type Source = str | Path | ObstoreStore | Store | list[Node] | tuple[Node, ...]
"""A hierarchy, a file or a pattern for files; or nodes, such as those of ``read_virtual``."""


@dataclass(frozen=True)
class Input:
    """One of the hierarchies that are concatenated.

    Parameters
    ----------
    name : str
        What messages call it.
    nodes : dict of str to Node
        By path, parents first.
    allow : mapping of str to Access
        Where its values may be read.
    """

    name: str
    nodes: Mapping[str, Node]
    allow: Mapping[str, Access]

    @cached_property
    def arrays(self) -> dict[str, ArrayNode]:
        """Its arrays, by path."""
        return {path: node for path, node in self.nodes.items() if isinstance(node, ArrayNode)}

    def along(self, dim: str) -> Iterator[tuple[str, ArrayNode, int]]:
        """Yield the arrays along a dimension: path, node, and which of its axes it is."""
        for path, node in self.arrays.items():
            axis = axis_of(node, dim)
            if axis is not None:
                yield path, node, axis

    def begin_reading(self, dim: str, values: range) -> None:
        """Begin to read what manifests say of some values along a dimension, of all arrays."""
        for _, node, axis in self.along(dim):
            with suppress(NotConvertibleError):  # raised again where it is compared
                documents = documents_along(node, axis, chunks_of(node, axis, values))
                if documents is not None:
                    documents.begin()

    @property
    def groups(self) -> Iterator[GroupNode]:
        """Its groups, parents first."""
        return (node for node in self.nodes.values() if isinstance(node, GroupNode))

    @property
    def refused(self) -> Iterator[RefusedNode]:
        """What cannot be read or expressed."""
        return (node for node in self.nodes.values() if isinstance(node, RefusedNode))

    @unstable_types_accepted
    def values(self, path: str) -> Any:
        """Return the values of an array, as stored.

        Raises
        ------
        ManifestError
            They cannot be read.
        """
        store = self._store(path)
        return np.asarray(_untyped_zarr.open_array(store, path=path, mode="r")[...])

    def variable(self, path: str) -> Any:
        """Return an array as a variable of xarray, its values and attributes as stored.

        Raises
        ------
        ManifestError
            It cannot be read.
        ImportError
            xarray is not installed.
        """
        xarray: Any = library("xarray", "comparing coordinates", extra="xarray")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            dataset: Any = xarray.open_zarr(
                self._store(path),
                group=path.rpartition("/")[0],
                consolidated=False,
                zarr_format=3,
                chunks=None,
                decode_cf=False,
            )
            return dataset.variables[path.rpartition("/")[2]].load()

    def _store(self, path: str) -> ManifestStore:
        """Return a hierarchy in memory that has only this array."""
        memory = MemoryStore()
        report = write_hierarchy(memory, [self.arrays[path]], inline_below=_ANY_SIZE)
        for refused in report.refused:
            raise NotConvertibleError(refused.reason, array=path)
        return ManifestStore(memory, allow=self.allow, read_only=True)


def is_held(node: ArrayNode) -> bool:
    """Whether all chunks of an array are inline data."""
    grid = ChunkGrid.from_metadata(node.metadata)
    if grid is None or not isinstance(node.manifest, Manifest):
        return False
    _, inline, empty = references_of(node.manifest).counts()
    return not empty and inline == len(node.manifest) == int(np.prod(grid.counts))


@unstable_types_accepted  # also by threads, which restore the filters of each other
def open_inputs(
    sources: Iterable[Source], allow: Mapping[str, Access], scans: str | Path | None = None
) -> list[Input]:
    """Return what sources name, in their order; the files of a pattern are sorted.

    Several are read at the same time.

    Parameters
    ----------
    sources : iterable of Source
        The hierarchies, files and nodes. Nodes are called by their number.
    allow : mapping of str to Access
        How URLs are accessed, by prefix. The sources need no authorisation, but what hierarchies
        and nodes refer to.
    scans : str or Path, optional
        Where what is found in files is kept.

    Raises
    ------
    ManifestError
        One of them cannot be read.
    """
    files = FileSources(allow)
    found: list[tuple[int, Any]] = []
    for number, source in enumerate(sources, start=1):
        named = files_named([source], files) if isinstance(source, str | Path) else [source]
        found += [(number, each) for each in named]
    open_one = partial(_opened, files=files, scans=scans)
    with ThreadPoolExecutor(CONCURRENT) as threads:
        return list(threads.map(open_one, found))


def _opened(numbered: tuple[int, Any], files: FileSources, scans: str | Path | None) -> Input:
    number, source = numbered
    allow = files.allow
    if isinstance(source, list | tuple):
        return Input(f"input {number}", _by_path(cast("Sequence[Node]", source)), allow)
    if not isinstance(source, str) or detect_format(source, files) in ZARR_FORMATS:
        return opened_input(InspectedHierarchy.open(source, allow=allow), source)
    nodes = _by_path(read_files(source, scans=scans, allow=allow))
    return Input(redact(source), nodes, _with_access(allow, _location(source), None))


def opened_input(
    hierarchy: InspectedHierarchy,
    location: Any,
    found: Sequence[StoredNode] | None = None,
    each: Callable[[Node], None] | None = None,
) -> Input:
    """Return a hierarchy that was opened as an input.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        The hierarchy.
    location : str, Path, obstore store or zarr Store
        Where it was opened.
    found : sequence of Node, optional
        Its nodes, if they have been read.
    each : callable, optional
        Is called with each node as soon as it is known.
    """
    store: Any = hierarchy.store
    is_given = type(hierarchy.store) is ObjectStore and not isinstance(location, str | Path)
    given: Access = store.store if is_given else None
    readable = _with_access(hierarchy.allow, hierarchy.sources.root, given)
    nodes: dict[str, Node] = {}
    for node in hierarchy_nodes(hierarchy, location, found):
        nodes[node.path.strip("/")] = node
        if each is not None:
            each(node)
    return Input(store_name(store), nodes, readable)


def _by_path(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.path.strip("/"): node for node in nodes}


def _location(url: str) -> UrlLocation | None:
    found = Base.parse("./").resolve(url)
    return found if isinstance(found, UrlLocation) else None


def _with_access(
    allow: Mapping[str, Access], place: UrlLocation | None, given: Access
) -> Mapping[str, Access]:
    """Return `allow` with a place that was named, unless that is in it."""
    if place is None or (given is None and AllowList(allow).match(place) is not None):
        return allow
    return {**allow, UrlLocation(place.scheme, place.authority, place.path).url: given}
