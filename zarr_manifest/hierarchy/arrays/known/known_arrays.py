"""Known arrays: where the value of a key is read from, and what the array declares that owns it.

What has not been seen is read. A worker that received a pickled store has only the paths of the
arrays that declared a manifest: it finds the owner of a key by reading the ``zarr.json`` files
above it, and a declaration that is no longer there is an error.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    ArrayMetadata,
    ancestors,
    arrays_in,
    likely_owner,
    owner_candidates,
    parse_node,
    plain_kind,
)
from zarr_manifest.hierarchy.arrays.known.contradictions import (
    contradiction,
    no_longer_native,
    only_consolidated,
    vanished,
)
from zarr_manifest.hierarchy.arrays.known.looks import Looks
from zarr_manifest.hierarchy.arrays.known.seen_arrays import (
    NATIVE,
    Array,
    Build,
    Native,
    Remembered,
    SeenArrays,
    Told,
    Unsettled,
    declares,
    fingerprint,
)
from zarr_manifest.hierarchy.arrays.shared_calls import SharedCalls
from zarr_manifest.hierarchy.arrays.transformer import ChunkManifestTransformer
from zarr_manifest.hierarchy.keys import METADATA_NAMES, join, node_of_metadata
from zarr_manifest.hierarchy.underneath import list_names
from zarr_manifest.hierarchy.zarr_internals import sync
from zarr_manifest.sources import (
    Call,
    Steps,
    run_async,
    run_sync,
)

__all__ = ["Chunk", "KnownArrays", "Metadata", "Route"]


class Chunk(Struct, frozen=True):
    """A key that names a chunk of a manifest array.

    Parameters
    ----------
    array : ChunkManifestTransformer
        The array.
    index : tuple of int
        Grid index of the chunk.
    """

    array: ChunkManifestTransformer
    index: tuple[int, ...]


class Metadata(Struct, frozen=True):
    """A key that names the ``zarr.json`` of a node.

    Parameters
    ----------
    path : str
        Path of the node.
    """

    path: str


type Route = Native | Chunk | Metadata
"""Where a value is read from: the hierarchy's own store, a manifest, or that store, but revealed.

A value that the store does not have may still be a chunk of a manifest array; see
:meth:`KnownArrays.route_of_absent`.
"""

_NO_CHUNKS = tuple(METADATA_NAMES)


class KnownArrays(SeenArrays):
    """The arrays of a hierarchy: those that have been seen, and others as they are needed.

    Own metadata and consolidated metadata may contradict each other, and either may change.

    Parameters
    ----------
    store, build, remembered, looks
        As of :class:`SeenArrays`.
    """

    def __init__(self, store: Store, build: Build, remembered: Remembered, looks: Looks) -> None:
        super().__init__(store, build, remembered, looks)
        self._settling = SharedCalls[str, Array | None]()
        self._reading_again = SharedCalls[str, bytes | None]()

    # Where a key is read -----------------------------------------------------------

    def route(self, key: str) -> Route | None:
        """Return where the value of a key is read from; None if metadata must be read to tell."""
        if key.endswith(_NO_CHUNKS):
            return self._route_of_metadata(key)
        path = likely_owner(key)
        array = self._arrays.get(path)
        if type(array) is Native:
            return array
        if isinstance(array, ChunkManifestTransformer):
            return _route_in(array, path, key)
        return None

    def find_route(self, key: str) -> Steps[Route]:
        """Find out where the value of a key is read from.

        Raises
        ------
        ManifestError
            If the declaration of the array that owns it cannot be honoured, or is no longer there.
        """
        if key.endswith(_NO_CHUNKS) and (route := self._route_of_metadata(key)) is not None:
            return route
        for path in owner_candidates(key):
            array = yield from self._discover(path)
            if isinstance(array, Native):
                return array
            if array is not None:
                return _route_in(array, path, key)
        return NATIVE

    def route_of_absent(self, key: str) -> Steps[Route]:
        """Find out where a key is read from that the hierarchy's own store does not have.

        A chunk of a native array that is absent reads as fill values only if the array is
        still native: its metadata are read again after the chunk, once for all chunks that
        are absent at the same moment.

        Raises
        ------
        ManifestError
            The array is there no longer, or its metadata contradict each other.
        """
        path = likely_owner(key)
        if key.endswith(_NO_CHUNKS):
            return NATIVE
        if self._arrays.get(path) is not NATIVE:
            return NATIVE if path not in self._arrays else (yield from self.find_route(key))
        body = yield from self._stored_later(join(path, "zarr.json"))
        if body is not None and plain_kind(body) == "array":
            self._own[path] = False
            return NATIVE
        if body is None and path not in self._told:
            if (yield from self._is_v2(path)):
                return NATIVE
            raise no_longer_native(path, body)
        settled = yield from self._settled(path)
        route = yield from self.find_route(key)
        if isinstance(settled, Native) or isinstance(route, Chunk):
            return route
        self._arrays[path] = NATIVE  # so that the next read of it is refused, too
        raise no_longer_native(path, body)

    def _route_of_metadata(self, key: str) -> Route | None:
        path = node_of_metadata(key)
        if path is not None:
            return Metadata(path)
        # Not of a key that only ends like a name of metadata.
        return NATIVE if key.rpartition("/")[2] in METADATA_NAMES else None

    def known_native(self, key: str) -> bool:
        """Whether a key is already known to be a chunk of a native array."""
        return type(self.route(key)) is Native

    def owner(self, key: str) -> Steps[Chunk | None]:
        """Find the manifest array and the chunk that a key names.

        Returns
        -------
        Chunk or None
            None for keys that are served by the hierarchy's own store.

        Raises
        ------
        ManifestError
            As of :meth:`find_route`.
        """
        route = yield from self.find_route(key)
        return route if isinstance(route, Chunk) else None

    def array_at(self, path: str) -> Steps[ChunkManifestTransformer | None]:
        """Return the manifest array at or above a path, or None.

        Raises
        ------
        ManifestError
            If its declaration cannot be honoured, or is no longer there.
        """
        for ancestor in [path, *ancestors(path)]:
            array = yield from self._discover(ancestor)
            if array is not None:
                return array if isinstance(array, ChunkManifestTransformer) else None
            if ancestor in self._groups:
                return None  # no array is above a group
        return None

    def _discover(self, path: str) -> Steps[Native | ChunkManifestTransformer | None]:
        """Look for an array at a path; None if there is none."""
        known = self._arrays.get(path)
        if known is None and path not in self.declared:
            if path in self._groups:
                return None
            node = parse_node((yield from self._stored(join(path, "zarr.json"))) or b"")
            if node is not None and node.get("node_type") == "array":
                known = self._note(path, ArrayMetadata("", node))
            elif node is not None and node.get("node_type") == "group":
                self._groups.add(path)
                self._looks.note(path)
                return None
            elif (yield from self._is_v2(path)):
                known = self._arrays[path] = NATIVE
            else:
                return None
        if known is None or isinstance(known, Unsettled):
            known = yield from self._settled(path)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known

    # Reading again -----------------------------------------------------------------

    def _settled(self, path: str) -> Steps[Array | None]:
        """Find out what an array is by reading its metadata again, once for all who ask."""
        settled: Array | None = yield Call(
            lambda: self._settling.get(path, lambda: run_async(self._settle(path))),
            lambda: self._settling.get_sync(path, lambda: run_sync(self._settle(path))),
        )
        return settled

    def _settle(self, path: str) -> Steps[Array | None]:
        body = yield from self._stored(join(path, "zarr.json"))
        self.require_finished(body)
        own = array = _array_in(body)
        told, member = self._told.get(path), None
        if told is not None and (own is None or declares(own) != told.declares):
            member = yield from self.consolidated(told.group, path)
            if member is None:
                self._told.pop(path, None)
            else:
                self._told[path] = Told(told.group, declares(member))
        is_outdated = told is not None and self._is_outdated(told.group, path)
        if own is not None:
            differs = member is not None and declares(member) != declares(own)
            if told is not None and differs and not is_outdated:
                raise contradiction(path, told.group, declares(own))
            if path in self.declared and not declares(own):
                raise vanished(path, body)
        elif not is_outdated and body is None and member is not None and declares(member):
            array = member  # only consolidated metadata describe it
        elif path in self.declared:
            raise vanished(path, body)
        elif told is not None and not (yield from self._is_v2(path)):
            raise only_consolidated(path, body, told.group)
        return self._keep(path, own, array)

    def _keep(
        self, path: str, own: ArrayMetadata | None, array: ArrayMetadata | None
    ) -> Array | None:
        self.note_absence(path)
        self._arrays.pop(path, None)
        if own is not None:
            self._own[path] = declares(own)
        if array is None:
            return None
        if declares(array):
            self.declared.add(path)
        self._seen[path] = fingerprint(array)
        known = self._arrays[path] = self._interpret(path, array)
        return known

    def has_met_members(self, group: str) -> bool:
        """Whether this store has just called :meth:`meet_members`."""
        return self._looks.is_recent(f"{group}/")

    def meet_members(self, group: str) -> Steps[None]:
        """Read the metadata of a group's members that this store has not just seen.

        Raises
        ------
        ManifestError
            The store cannot be listed.
        """
        if self.has_met_members(group):
            return
        names: list[str] = yield Call(
            lambda: list_names(self._store, group), lambda: sync(list_names(self._store, group))
        )
        members = [join(group, name) for name in names if name not in METADATA_NAMES]
        calls = [self._meet(path) for path in members if not self.was_just_seen(path)]
        yield Call(lambda: asyncio.gather(*map(run_async, calls)), lambda: [*map(run_sync, calls)])
        self._looks.note(f"{group}/")  # no path of a node ends like this

    def _meet(self, path: str) -> Steps[None]:
        try:
            body = yield from self._stored(join(path, "zarr.json"))
            if body is not None:
                self.reveal(path, body)
        except ManifestError:
            pass  # it cannot be opened anyway

    def own(self, path: str) -> Steps[ArrayMetadata | None]:
        """Read the metadata of an array from its own ``zarr.json``; None if there is none."""
        body = yield from self._stored(join(path, "zarr.json"))
        self.require_finished(body)
        return _array_in(body)

    def consolidated(self, group: str, path: str) -> Steps[ArrayMetadata | None]:
        """Read the metadata of an array from a group's consolidated metadata."""
        node = parse_node((yield from self._stored(join(group, "zarr.json"))) or b"") or {}
        found = (a for a in arrays_in(node) if a.path and join(group, a.path) == path)
        return next(found, None)

    def _is_v2(self, path: str) -> Steps[bool]:
        return (yield from self._stored(join(path, ".zarray"))) is not None

    def _stored_later(self, key: str) -> Steps[bytes | None]:
        """Read a value after this moment, once for all who ask meanwhile."""
        body: bytes | None = yield Call(
            lambda: self._reading_again.get_later(key, lambda: run_async(self._stored(key))),
            lambda: self._reading_again.get_later_sync(key, lambda: run_sync(self._stored(key))),
        )
        return body

    def _stored(self, key: str) -> Steps[bytes | None]:
        prototype = default_buffer_prototype()
        store: Any = self._store
        found: Buffer | None = yield Call(
            lambda: store.get(key, prototype), lambda: store.get_sync(key, prototype=prototype)
        )
        return None if found is None else found.to_bytes()


def _route_in(array: ChunkManifestTransformer, path: str, key: str) -> Route:
    """Return the route of a key below a manifest array, of which it may not be a chunk."""
    index = array.index_of(key[len(path) :].lstrip("/"))
    return NATIVE if index is None else Chunk(array, index)


def _array_in(body: bytes | None) -> ArrayMetadata | None:
    node = None if body is None else parse_node(body)
    is_array = node is not None and node.get("node_type") == "array"
    return ArrayMetadata("", node) if node is not None and is_array else None
