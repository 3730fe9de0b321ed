"""A hierarchy opened for inspection: its nodes and their manifests.

Used to describe, validate, repair and export hierarchies. Metadata is read as stored, with the
declarations that a ManifestStore hides from zarr. Sources are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from zarr.abc.store import Store

from zarr_manifest.errors import in_context
from zarr_manifest.format import ChunkGrid, Findings, Limits, interpret_declaration, strict
from zarr_manifest.hierarchy.declared_array import ChunkKeyEncoding, DeclaredArray, interpret_array
from zarr_manifest.hierarchy.manifest_documents import ManifestDocuments
from zarr_manifest.hierarchy.store import ManifestStore
from zarr_manifest.hierarchy.walking import Node, list_nodes, open_for_reading
from zarr_manifest.locations import Location
from zarr_manifest.sources import Access, Allow, Sources, access_by_prefix, local_directories
from zarr_manifest.stores import (
    StoreLike,
    base_directory,
    can_list,
    hierarchy_sources,
    link_outside,
    list_inside,
    not_listable,
    open_hierarchy,
)
from zarr_manifest.zarr_internals import sync


class InspectedHierarchy(Struct, frozen=True):
    """A hierarchy, and the reader's settings for it.

    Parameters
    ----------
    store : Store
        Its own store, not a ManifestStore.
    sources : Sources
        Where manifest documents come from.
    allow : mapping of str to Access
        What may be read besides the store, and how.
    base : str or None
        What relative paths in manifests resolve against, instead of the declared base.
    limits : Limits
        Larger manifests are refused.
    """

    store: Store
    sources: Sources
    allow: Mapping[str, Access]
    base: str | None
    limits: Limits

    def __repr__(self) -> str:
        # Without `allow`: options may be keys.
        return f"<InspectedHierarchy: {self.store!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.store, self.allow, self.base, self.limits)

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("store", self.store)]

    @staticmethod
    def open(
        location: StoreLike,
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        limits: Limits | None = None,
    ) -> InspectedHierarchy:
        """Open a hierarchy, without creating anything.

        Parameters
        ----------
        location : str, Path, obstore store or zarr Store
            The hierarchy. The settings of a ManifestStore are the defaults of the others.
        allow, base, limits
            As for :class:`ManifestStore`.

        Raises
        ------
        SourceNotFoundError
            There is no such directory.
        TypeError, ValueError
            The location is not usable, or `allow` contains something that is not a URL prefix.
        """
        access, directory = access_by_prefix(allow), base_directory(base)
        if isinstance(location, ManifestStore):
            store_access, store_base, store_limits = _settings(location)
            access = store_access if allow is None else access
            directory = store_base if base is None else directory
            limits = limits or store_limits
        read_only = not isinstance(location, Store)
        found = store_underneath(open_hierarchy(location, access, read_only=read_only))
        store = sync(open_for_reading(found))
        return _opened(store, access, directory, limits or Limits())

    @property
    def directories(self) -> tuple[str, ...]:
        """The authorised directories, into which symbolic links may lead."""
        return local_directories(self.allow)

    async def nodes(self, below: str = "", *, deep: bool = True) -> list[Node]:
        """Return the nodes; see :func:`list_nodes`."""
        return await list_nodes(self.store, below, deep=deep, directories=self.directories)

    def declaration(self, node: Node) -> Findings[DeclaredArray | None]:
        """Yield what is wrong with the declaration of an array, and return the array.

        The array is None if it has no manifest, or if its declaration is not usable.
        """
        array = node.array
        if array is None:
            return None
        configuration = yield from interpret_declaration(array.metadata)
        if configuration is None:
            return None
        return (
            yield from interpret_array(
                node.path,
                array.undeclared,
                configuration,
                base=self.base,
                schemes=self.sources.other_schemes,
                root=self.sources.root,
            )
        )

    def documents(self, array: DeclaredArray) -> ManifestDocuments:
        """Return the manifest of an array, whose documents are read on demand."""
        return ManifestDocuments(array, self.sources, self.store, self.limits)

    async def statistics(self) -> list[tuple[Location, int, int]]:
        """Return what all manifests refer to; see :meth:`LoadedManifest.statistics`.

        An object that several documents refer to is returned once for each.

        Raises
        ------
        ManifestError
            The hierarchy cannot be listed, a node cannot be read, or a manifest cannot be loaded.
        """
        found: list[tuple[Location, int, int]] = []
        for node in await self.nodes():
            if node.problem is not None:
                raise node.problem.in_context()
            with in_context(array=node.path):
                array = strict(self.declaration(node))
            if array is not None:
                async for loaded in self.documents(array).every():
                    found += loaded.statistics()
        return found

    async def native_chunks(self, node: Node, grid: ChunkGrid) -> dict[tuple[int, ...], str]:
        """Return the keys of the chunks of a native array, by grid index.

        Raises
        ------
        LocationNotAllowedError
            Some of them may be behind a link that leads out of the hierarchy.
        SourceError
            The store cannot be listed.
        """
        if not can_list(self.store):
            raise not_listable(self.store, "so it is unknown which chunks exist")
        below = f"{node.path}/" if node.path else ""
        listing = await list_inside(self.store, below, self.directories)
        if listing.links:
            raise link_outside(node.path)
        names = (key[len(below) :] for key in listing.keys)
        found = ChunkKeyEncoding(node.metadata, len(grid.counts)).chunks_among(names, grid)
        return {index: below + name for index, name in found.items()}


def _opened(
    store: Store, allow: Mapping[str, Access], base: str | None, limits: Limits
) -> InspectedHierarchy:
    return InspectedHierarchy(store, hierarchy_sources(store, allow), allow, base, limits)


def store_underneath(store: Store) -> Store:
    """Return the hierarchy's own store, in which the declarations are visible."""
    return store.underneath if isinstance(store, ManifestStore) else store


def _settings(store: ManifestStore) -> tuple[dict[str, Access], str | None, Limits]:
    """Return `allow`, `base` and `limits` of a ManifestStore."""
    return store._allow, store._base, store._limits  # pyright: ignore[reportPrivateUsage]
