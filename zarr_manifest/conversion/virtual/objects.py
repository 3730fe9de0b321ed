"""A hierarchy as VirtualiZarr's objects: datasets and trees of virtual variables.

Metadata and manifest documents are read, and no chunk.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual.columns import ChunkColumns
from zarr_manifest.conversion.virtual.optional_library import library
from zarr_manifest.errors import (
    Advice,
    ManifestError,
    NotConvertibleError,
    Setting,
    SourceNotFoundError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    ChunkGrid,
    Limits,
    parse_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    DeclaredArray,
    LoadedManifest,
    ensure_open,
    every_partition,
    fetch_document,
    interpret_array,
    interpret_document_of,
    join,
    list_keys,
    open_hierarchy,
    store_underneath,
    store_urls,
    sync,
)
from zarr_manifest.locations import Location, StoreLocation, UrlLocation
from zarr_manifest.sources import (
    Allow,
    Sources,
    access_by_prefix,
    can_list,
    hierarchy_reader,
    in_order,
    run_async,
    store_name,
)

if TYPE_CHECKING:
    import xarray as xr
    from obstore.store import ObjectStore

__all__ = ["to_virtual_dataset", "to_virtual_datatree"]

type Hierarchy = str | Path | ObjectStore | Store

_DOCUMENT = "zarr.json"

# Sizes of native chunks that are asked for at the same time.
_AT_ONCE = 32


def to_virtual_dataset(
    location: str | Path | ObjectStore | Store,
    group: str = "",
    *,
    allow: Allow = None,
    drop_variables: Iterable[str] = (),
) -> xr.Dataset:
    """Return one group of a hierarchy as a virtual dataset.

    Chunks that are explicitly empty are missing in it, and read as fill values all
    the same. Checksums, entity tags and times of the last change are left out:
    VirtualiZarr has no place for them.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy.
    group : str
        Path of the group.
    allow : optional
        As for :class:`ManifestStore`: needed for manifest documents outside of it.
    drop_variables : iterable of str
        Names of arrays to leave out.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr cannot express some of the arrays: names all, with the reasons.
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
    found = _Hierarchy.open(location, allow, drop_variables).group(group.strip("/"), deep=False)
    dataset: xr.Dataset = found.to_virtual_dataset()
    return dataset


def to_virtual_datatree(
    location: str | Path | ObjectStore | Store,
    *,
    allow: Allow = None,
    drop_variables: Iterable[str] = (),
) -> xr.DataTree:
    """Return a hierarchy as a virtual tree of datasets; see :func:`to_virtual_dataset`.

    Parameters
    ----------
    location, allow
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
    found = _Hierarchy.open(location, allow, drop_variables).group("", deep=True)
    tree: xr.DataTree = found.to_virtual_datatree()
    return tree


@dataclass
class _Hierarchy:
    store: Store
    sources: Sources
    roots: list[UrlLocation]
    dropped: frozenset[str]
    refused: list[str] = field(default_factory=list[str])

    @classmethod
    def open(cls, location: Hierarchy, allow: Allow, drop_variables: Iterable[str]) -> _Hierarchy:
        access = access_by_prefix(allow)
        read_only = not isinstance(location, Store)
        store = store_underneath(open_hierarchy(location, access, read_only=read_only))
        sync(ensure_open(store))
        if not can_list(store):
            raise NotConvertibleError(
                "the hierarchy's store cannot be listed", location=store_name(store)
            )
        sources = Sources(access, hierarchy_reader(store))
        dropped = frozenset(name.strip("/") for name in drop_variables)
        return cls(store, sources, store_urls(store), dropped)

    @unstable_types_accepted
    def group(self, path: str, *, deep: bool) -> Any:
        """Return a ``ManifestGroup``."""
        if self._node(path) is None:
            raise SourceNotFoundError(
                "there is no such group", location=f"{store_name(self.store)}/{path}".rstrip("/")
            )
        found = self._group(path, "", deep)
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

    def _group(self, path: str, inside: str, deep: bool) -> Any:
        manifests: Any = library("virtualizarr.manifests", "virtual datasets")
        node = self._node(path) or {}
        arrays: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for name in self._members(path):
            member = self._node(join(path, name))
            at = join(inside, name)
            if member is None or at in self.dropped:
                continue
            if member.get("node_type") == "group":
                if deep:
                    groups[name] = self._group(join(path, name), at, deep)
                continue
            try:
                arrays[name] = self._array(join(path, name), member)
            except ManifestError as error:
                self.refused.append(f"{at!r}: {error.problem}")
        attributes = dict(node.get("attributes", {}))
        return manifests.ManifestGroup(arrays=arrays, groups=groups, attributes=attributes)

    def _node(self, path: str) -> dict[str, Any] | None:
        found = sync(self.store.get(join(path, _DOCUMENT), default_buffer_prototype()))
        return None if found is None else parse_node(found.to_bytes())

    def _members(self, path: str) -> list[str]:
        async def names() -> list[str]:
            return [name async for name in self.store.list_dir(path)]

        return sorted(name.strip("/") for name in sync(names()) if name != _DOCUMENT)

    # Arrays --------------------------------------------------------------------

    def _array(self, path: str, metadata: dict[str, Any]) -> Any:
        manifests: Any = library("virtualizarr.manifests")
        document = ArrayMetadata("", metadata)
        configuration = parse_declaration(document.declared)
        plain = {name: value for name, value in metadata.items() if name != "storage_transformers"}
        grid = ChunkGrid.from_metadata(plain)
        if grid is None or grid.regular is None:
            raise NotConvertibleError("its chunk grid is not regular")
        columns = ChunkColumns(grid.counts)
        if configuration is None:
            self._add_native(path, plain, grid, columns)
        else:
            array = strict(interpret_array(path, plain, configuration))
            assert array is not None  # nothing is wrong with it
            for loaded in self._documents(array):
                columns.add(loaded.manifest, list(map(self._url, loaded.locations)))
        try:
            parsed = ArrayV3Metadata.from_dict(plain)
            return manifests.ManifestArray(parsed, columns.chunk_manifest())
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            raise NotConvertibleError(str(error)) from error

    def _documents(self, array: DeclaredArray) -> Iterator[LoadedManifest]:
        limits = Limits()
        for partition in every_partition(array, limits):
            if partition is not None and not array.has_partition(partition):
                continue
            body = sync(run_async(fetch_document(array, partition, self.sources)))
            if body is None:
                continue
            loaded = strict(interpret_document_of(array, partition, body, limits))
            assert loaded is not None  # nothing is wrong with it
            yield loaded

    def _add_native(
        self, path: str, metadata: dict[str, Any], grid: ChunkGrid, columns: ChunkColumns
    ) -> None:
        encoding = ChunkKeyEncoding(metadata, len(grid.counts))
        encoding.learn(grid)
        below = f"{path}/" if path else ""

        async def sized() -> list[tuple[str, int]]:
            keys = await list_keys(self.store, below)

            async def size(key: str) -> tuple[str, int]:
                return key, await self.store.getsize(key)

            calls = (functools.partial(size, key) for key in keys if not key.endswith(_DOCUMENT))
            return [found async for found in in_order(calls, _AT_ONCE)]

        for key, length in sync(sized()):
            index = encoding.decode(key[len(below) :])
            if index is not None and all(i < n for i, n in zip(index, grid.counts, strict=True)):
                columns.put(index, self._url(StoreLocation(key)), 0, length)

    def _url(self, location: Location) -> str:
        """Return a location as VirtualiZarr has it: names in object stores are not encoded."""
        if isinstance(location, StoreLocation):
            if not self.roots:
                raise NotConvertibleError(
                    "it refers to the hierarchy's own store, which has no URL",
                    remedy="Open the hierarchy from where it lies in files or in a bucket.",
                )
            root = self.roots[0]
            location = UrlLocation(
                root.scheme, root.authority, join(root.path, location.key), root.query
            )
        is_plain = not any(mark in location.path for mark in "%?#")
        if location.scheme in ("file", "http", "https") or not is_plain:
            return location.url
        return f"{location.origin}/{location.path}"
