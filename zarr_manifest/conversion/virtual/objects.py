"""A hierarchy as VirtualiZarr's objects: datasets and trees of virtual variables.

Reads metadata and manifest documents, but no chunks.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual.arrays import add_references, array_of_columns, columns_for
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import (
    Advice,
    ManifestError,
    NotConvertibleError,
    Setting,
    SourceNotFoundError,
)
from zarr_manifest.format import ArrayMetadata, ChunkGrid, Limits, ancestors, join, strict
from zarr_manifest.hierarchy import DeclaredArray, InspectedHierarchy, Node
from zarr_manifest.locations import Cloud, Location, StoreLocation, UrlLocation, kind_of
from zarr_manifest.sources import Allow, in_order
from zarr_manifest.stores import StoreLike, object_url, store_name, store_urls
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    import xarray as xr

# Number of native chunks whose sizes are requested at the same time.
_CONCURRENT_CALLS = 32


def to_virtual_dataset(
    location: StoreLike,
    group: str = "",
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    drop_variables: Iterable[str] = (),
) -> xr.Dataset:
    """Return one group of a hierarchy as a virtual dataset.

    Explicitly empty chunks are missing in it, and still read as fill values. Checksums,
    entity tags and modification times are left out: VirtualiZarr cannot express them.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy.
    group : str
        Path of the group.
    allow, base, limits
        As for :class:`ManifestStore`; `allow` is needed for manifest documents outside the
        hierarchy, and for a URL that is not public.
    drop_variables : iterable of str
        Names of arrays to leave out.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr cannot express some of the arrays; the message names all of them, with
        the reasons.
    ManifestError
        The hierarchy cannot be read.
    ImportError
        VirtualiZarr is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from zarr_manifest import create_array
    >>> root = tempfile.mkdtemp()
    >>> entries = {"0": {"path": "s3://bucket/f.nc", "offset": 100, "length": 8}}
    >>> options = {"shape": 8, "chunks": 8, "dtype": "u1", "dimension_names": ["x"]}
    >>> create_array(root, "t", entries, **options)
    >>> to_virtual_dataset(root)["t"].data.manifest.dict()["0"]["path"]
    's3://bucket/f.nc'
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    found = _Tree(hierarchy, _paths(drop_variables), deep=False).group(group.strip("/"))
    dataset: xr.Dataset = found.to_virtual_dataset()
    return dataset


def to_virtual_datatree(
    location: StoreLike,
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    drop_variables: Iterable[str] = (),
) -> xr.DataTree:
    """Return a hierarchy as a virtual tree of datasets; see :func:`to_virtual_dataset`.

    Parameters
    ----------
    location, allow, base, limits
        As there.
    drop_variables : iterable of str
        Paths of arrays to leave out.

    Examples
    --------
    >>> import tempfile
    >>> from zarr_manifest import create_array
    >>> root = tempfile.mkdtemp()
    >>> options = {"shape": 8, "chunks": 8, "dtype": "u1", "dimension_names": ["x"]}
    >>> create_array(root, "ocean/t", {"0": {"path": "s3://bucket/f.nc"}}, **options)
    >>> to_virtual_datatree(root, drop_variables=["ocean/t"]).groups
    ('/', '/ocean')
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    found = _Tree(hierarchy, _paths(drop_variables), deep=True).group("")
    tree: xr.DataTree = found.to_virtual_datatree()
    return tree


def _paths(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip("/") for name in names)


@dataclass
class _Tree:
    """The nodes at and below a group, by their paths relative to it."""

    hierarchy: InspectedHierarchy
    dropped: frozenset[str]
    deep: bool
    refused: list[str] = field(default_factory=list[str])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    members: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])

    @unstable_types_accepted
    def group(self, path: str) -> Any:
        """Return the group at a path as a ``ManifestGroup``."""
        for node in sync(self.hierarchy.nodes(path, deep=self.deep)):
            self._add(node.path.removeprefix(path).lstrip("/"), node)
        if not self.nodes:
            name = store_name(self.hierarchy.store)
            raise SourceNotFoundError("there is no such group", location=f"{name}/{path}")
        found = self._group("")
        if self.refused:
            raise NotConvertibleError(
                "VirtualiZarr cannot express " + "; ".join(self.refused),
                remedy=Advice(
                    "Leave them out: ",
                    Setting("drop_variables", python="drop_variables=[...]"),
                    ".",
                ),
            )
        return found

    def _add(self, at: str, node: Node) -> None:
        self.nodes[at] = node
        # Groups need no metadata of their own.
        for above in ancestors(at):
            name = at.removeprefix(above).lstrip("/").partition("/")[0]
            self.members.setdefault(above, {})[name] = None

    def _group(self, at: str) -> Any:
        manifests: Any = library("virtualizarr.manifests", "virtual datasets")
        arrays: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for name in self.members.get(at, ()):
            inside = join(at, name)
            member = self.nodes.get(inside, Node(inside))
            is_group = member.kind == "group"
            if inside in self.dropped or (is_group and not self.deep):
                continue
            with self._refusing(inside):
                member.require_v3()
                if is_group:
                    groups[name] = self._group(inside)
                else:
                    arrays[name] = self._array(member)
        node = self.nodes.get(at, Node(at))
        with self._refusing(at):
            _require_group(node)
        attributes = dict(node.metadata.get("attributes", {}))
        return manifests.ManifestGroup(arrays=arrays, groups=groups, attributes=attributes)

    @contextmanager
    def _refusing(self, at: str) -> Generator[None]:
        try:
            yield
        except ManifestError as error:
            self.refused.append(f"{at!r}: {error.problem} ({error.code})")

    # Arrays --------------------------------------------------------------------

    def _array(self, node: Node) -> Any:
        undeclared = ArrayMetadata("", node.metadata).undeclared
        array = strict(self.hierarchy.declaration(node))
        grid, columns = columns_for(undeclared)
        if array is None:
            sync(self._add_native(node, grid, columns))
        else:
            sync(self._add_documents(array, columns))
        if grid.shape and undeclared.get("dimension_names") is None:
            raise NotConvertibleError(
                "its dimensions have no names: its metadata has no 'dimension_names'"
            )
        return array_of_columns(undeclared, columns)

    async def _add_documents(self, array: DeclaredArray, columns: ManifestColumns) -> None:
        async for loaded in self.hierarchy.documents(array).every():
            add_references(columns, loaded.manifest, list(map(self._url, loaded.locations)))

    async def _add_native(self, node: Node, grid: ChunkGrid, columns: ManifestColumns) -> None:
        keys = await self.hierarchy.native_chunks(node, grid)
        calls = (functools.partial(self.hierarchy.store.getsize, key) for key in keys.values())
        sizes = [size async for size in in_order(calls, _CONCURRENT_CALLS)]
        for (index, key), size in zip(keys.items(), sizes, strict=True):
            columns.paths[index], columns.lengths[index] = self._url(StoreLocation(key)), size

    @functools.cached_property
    def _roots(self) -> list[UrlLocation]:
        return store_urls(self.hierarchy.store)

    def _url(self, location: Location) -> str:
        """Return a location in VirtualiZarr's form: names in object stores are not encoded."""
        if isinstance(location, StoreLocation):
            location = object_url(self._roots, location.key)
        is_unescaped = not any(mark in location.path for mark in "%?#")
        if not is_unescaped or not isinstance(kind_of(location.scheme), Cloud):
            return location.url
        return f"{location.origin}/{location.path}"


def _require_group(node: Node) -> None:
    node.require_v3()
    if node.kind == "array":
        raise NotConvertibleError("it is an array, not a group")
