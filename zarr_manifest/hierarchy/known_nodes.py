"""Known nodes: where the value of a key is read from, and which array owns the key.

Nodes that are not in the table are read. A worker that received a pickled store has only the
paths of the arrays that declared a manifest: it finds the owner of a key by reading the
``zarr.json`` files above it, and a declaration that is no longer there is an error.

A change is committed with the copies in a group, in general the root, and own metadata follow. So
whoever reads these one after the other may meet some of before and some of after a change. A reader
that has seen the copies knows what to expect: of what differs from it, the group is read again.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import (
    ManifestError,
    in_context,
)
from zarr_manifest.format import (
    METADATA_NAMES,
    ArrayMetadata,
    ancestors,
    arrays_in,
    dump_briefly,
    join,
    likely_owner,
    node_of_metadata,
    owner_candidates,
    parse_declaration,
    parse_node,
    undeclared_kind,
)
from zarr_manifest.hierarchy.contradictions import (
    changed_since,
    contradiction,
    no_longer_native,
    only_consolidated,
    replaced,
    vanished,
)
from zarr_manifest.hierarchy.node_table import (
    NATIVE,
    Array,
    BuildArray,
    Chunk,
    ConsolidatedCopy,
    Metadata,
    Native,
    NodeTable,
    Remembered,
    Route,
    Undecided,
    is_manifest_array,
)
from zarr_manifest.sources import SharedCalls
from zarr_manifest.stores import value_of

if TYPE_CHECKING:
    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer

# Number of metadata documents to read at the same time.
CONCURRENT_CALLS = 16

# Number of times that a member and its group are read until they belong to the same state.
_MOST_READINGS = 5

_NO_CHUNKS = tuple(METADATA_NAMES)


class KnownNodes(NodeTable):
    """The nodes of a hierarchy, read as they are needed.

    Own metadata and consolidated metadata may contradict each other, and either may change.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    build, remembered
        As of :class:`NodeTable`.
    """

    _is_of_array = False

    def __init__(self, store: Store, build: BuildArray, remembered: Remembered) -> None:
        super().__init__(build, remembered)
        self.store = store
        #: Whether all nodes have been met, and a call that meets them, shared by those who ask.
        self.has_met_all = False
        self.meeting = SharedCalls[str, None]()
        self._deciding = SharedCalls[tuple[int, str], Array | None]()
        self._reading_again = SharedCalls[str, bytes | None]()

    # Where a key is read -----------------------------------------------------------

    def route(self, key: str) -> Route | None:
        """Return where the value of a key is read from; None if metadata must be read to tell."""
        if key.endswith(_NO_CHUNKS):
            return self._route_of_metadata(key)
        path = likely_owner(key)
        state = self._states.get(path)
        array = None if state is None else state.array
        if type(array) is Native:
            return array
        if is_manifest_array(array):
            return _route_in(array, path, key)
        return None

    async def find_route(self, key: str) -> Route:
        """Find out where the value of a key is read from.

        Raises
        ------
        ManifestError
            If the declaration of the array that owns it cannot be honoured, or is no longer there.
        """
        if (route := self.route(key)) is not None:
            return route
        for path in owner_candidates(key):
            array = await self._discover(path)
            if isinstance(array, Native):
                return array
            if array is not None:
                return _route_in(array, path, key)
        return NATIVE

    async def route_of_absent(self, key: str) -> Route:
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
        known = self.state_of(path).array
        if known is None:
            return NATIVE
        if known is not NATIVE:
            route = await self.find_route(key)
            if isinstance(route, Native) and self.state_of(path).is_replaced:
                # Another reader of the array has found out since this one asked.
                raise no_longer_native(path, await self.metadata(path))
            return route
        body = await self._reading_again.get_later(path, lambda: self.metadata(path))
        if self._confirm_native(path, body):
            return NATIVE
        if body is None and self.state_of(path).copy is None:
            if await self._is_v2(path):
                return NATIVE
            raise no_longer_native(path, body)
        # An array that stays what it was does so for those, too, who read it meanwhile.
        nodes = self
        if self._is_of_array:
            nodes = copy.copy(self)
            nodes._states = {path: replace(self.state_of(path), expected=None)}
        decided = await nodes._decided(path)
        route = await nodes.find_route(key)
        # The indices of one array's chunks need not be those of the other's.
        if isinstance(decided, Native) or (isinstance(route, Chunk) and not self._is_of_array):
            return route
        self._state(path).array = NATIVE  # so that the next read of it is refused, too
        raise no_longer_native(path, body)

    def is_certainly_absent(self, key: str) -> bool:
        """Whether a known native key is absent as its array's metadata, read now, allow.

        Reads without an event loop; False if more must be read to tell.
        """
        path = likely_owner(key)
        known = self.state_of(path).array
        if key.endswith(_NO_CHUNKS) or known is not NATIVE:
            return known is None or self.is_native(key)
        body = self.remembered.changes.counting(path, self._stored_sync(join(path, "zarr.json")))
        if body is None and self.state_of(path).copy is None:
            return self._stored_sync(join(path, ".zarray")) is not None
        return self._confirm_native(path, body)

    def _confirm_native(self, path: str, body: bytes | None) -> bool:
        """Whether an array's own metadata, just read, say that it is still native."""
        if body is None or undeclared_kind(body) != "array":
            return False
        self._state(path).own = "native"
        return True

    def _route_of_metadata(self, key: str) -> Route | None:
        path = node_of_metadata(key)
        if path is not None:
            return Metadata(path)
        # Not of a key that only ends like a name of metadata.
        return NATIVE if key.rpartition("/")[2] in METADATA_NAMES else None

    def is_native(self, key: str) -> bool:
        """Whether a key is already known to be in the hierarchy's own store, as it is."""
        return type(self.route(key)) is Native

    async def owner(self, key: str) -> Chunk | None:
        """Find the manifest array and the chunk that a key names; None for native keys.

        Raises
        ------
        ManifestError
            As of :meth:`find_route`.
        """
        route = await self.find_route(key)
        return route if isinstance(route, Chunk) else None

    async def likely_array(self, key: str) -> ChunkManifestTransformer | None:
        """Return the manifest array of which a key is a chunk, if it is one; None if it is none.

        Raises
        ------
        ManifestError
            As of :meth:`find_route`.
        """
        state = self._states.get(likely_owner(key))
        array = None if state is None else state.array
        if type(array) is Native:
            return None
        if is_manifest_array(array):
            return array
        chunk = await self.owner(key)
        return None if chunk is None else chunk.array

    async def array_at(self, path: str) -> ChunkManifestTransformer | None:
        """Return the manifest array at or above a path, or None.

        Raises
        ------
        ManifestError
            If its declaration cannot be honoured, or is no longer there.
        """
        for ancestor in [path, *ancestors(path)]:
            array = await self._discover(ancestor)
            if array is not None:
                return array if is_manifest_array(array) else None
            if self.state_of(ancestor).own == "group":
                return None  # no array is above a group
        return None

    async def _discover(self, path: str) -> Native | ChunkManifestTransformer | None:
        """Return the array at a path; None if there is none."""
        known = self.state_of(path).array
        if known is None and path not in self.declared:
            if self.state_of(path).own == "group":
                return None
            if self.remembered.digests is not None:
                # Of no store but this may be known that its own metadata are behind.
                await self._see_groups_above(path)
            node = parse_node(await self.metadata(path) or b"")
            if node is not None and node.get("node_type") == "array":
                known = self._note(path, ArrayMetadata("", node))
            elif node is not None and node.get("node_type") == "group":
                self._state(path).own = "group"
                return None
            elif await self._is_v2(path):
                known = self._state(path).array = NATIVE
            else:
                return None
        if known is None or isinstance(known, Undecided):
            known = await self._decided(path)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known

    # Reading again -----------------------------------------------------------------

    async def _decided(self, path: str) -> Array | None:
        """Find out what an array is by reading its metadata again, once for all who ask."""
        return await self._deciding.get((id(self), path), lambda: self._decide(path))

    async def _decide(self, path: str) -> Array | None:
        stored = await self.stored(path)
        own = self._own_array(path, stored)
        expected = self.state_of(path).expected
        if expected is not None and (own is None or own.digest != expected):
            await self._see_groups_above(path)
            own = self._own_array(path, stored)
        copy, member = self.state_of(path).copy, None
        while copy is not None and (own is None or not _agree(own, copy.array)):
            member = (await self._copies_in(copy.group)).get(path)
            # The root, if it was read, may say that the array's own metadata are behind.
            own = self._own_array(path, stored)
            self._state(path).copy = None if member is None else _copy_of(copy.group, member)
            before, stored = stored, await self.stored(path)
            if stored == before:
                break
            # A change was committed between the two readings.
            own = self._own_array(path, stored)
            copy = self.state_of(path).copy
        array, body = own, self.remembered.changes.counting(path, stored)
        if own is not None:
            # What is behind counts as the topmost copy does, whatever others say.
            is_own = self.remembered.changes.standing(path, stored) == "own"
            if copy is not None and member is not None and is_own and not _agree(own, member):
                raise contradiction(path, copy.group, own.metadata, member.metadata)
            if path in self.declared and not _declares(own):
                raise vanished(path, body)
        elif body is None and member is not None and _declares(member):
            array = member  # only consolidated metadata describe it
        elif path in self.declared:
            raise vanished(path, body)
        elif copy is not None and not await self._is_v2(path):
            raise only_consolidated(path, body, copy.group)
        expected = self.state_of(path).expected  # unless it was shown meanwhile
        if array is not None and expected is not None and array.digest != expected:
            raise replaced(path)
        return self._keep(path, own, array)

    async def _see_groups_above(self, path: str) -> None:
        for group in reversed([*ancestors(path)]):
            await self.see_group(group)

    def _keep(
        self, path: str, own: ArrayMetadata | None, array: ArrayMetadata | None
    ) -> Array | None:
        """Record what an array was found to be, whatever was known before."""
        state = self._state(path)
        state.is_replaced |= state.array is NATIVE and array is not None and _declares(array)
        self.note_absence(path)
        state.array = None
        if own is not None:
            state.own = "manifest" if _declares(own) else "native"
        if array is None:
            return None
        if _declares(array):
            self.declared.add(path)
        return self._set_array(path, array)

    # One state of all members ------------------------------------------------------

    async def of_one_state(self, path: str, stored: bytes | None) -> bytes | None:
        """Return a node's own ``zarr.json`` that belongs to the copies that are known.

        If it differs from its copy, that of the group is read again. If a change was committed,
        all members are from then on as they are after it.

        Parameters
        ----------
        path : str
            Path of the node.
        stored : bytes or None
            Its own ``zarr.json`` as just read.

        Raises
        ------
        ManifestNotFoundError
            Other members have been opened that the change concerns, too.
        """
        groups = [group for group in ancestors(path) if self.state_of(group).described]
        for _ in range(_MOST_READINGS if groups else 0):
            with in_context(array=path):
                group = self._group_in_doubt(path, stored, groups)
            if group is None or not await self._have_moved(group, path):
                break
            stored = await self.stored(path)  # it may be from before the change
        if groups and stored is not None:
            self._state(path).is_shown = True
        return stored

    def _group_in_doubt(self, path: str, stored: bytes | None, groups: list[str]) -> str | None:
        """Return one of the groups whose copies an array's own metadata differ from, or None."""
        state = self.state_of(path)
        array = self._own_array(path, stored)
        if state.copy is None:
            return groups[-1] if array is not None and state.own is None else None
        if array is None:
            return state.copy.group
        is_known = dump_briefly(array.metadata) == state.made_of or state.copy.has(array)
        return None if is_known else state.copy.group

    async def _have_moved(self, group: str, path: str) -> bool:
        """Read the copies in a group again; return whether they are others."""
        copies = await self._copies_in(group)
        known = {each: self.state_of(each).copy for each in self.state_of(group).described or ()}
        moved = {
            each
            for each in known.keys() | copies.keys()
            if each not in copies or (copy := known.get(each)) is None or not copy.has(copies[each])
        }
        if not moved:
            return False
        open_before = sorted(each for each in moved - {path} if self.state_of(each).is_shown)
        if open_before:
            raise changed_since(path, open_before[0])
        self._forget_copies(group)
        for each, array in copies.items():
            self._note(each, array, group)
        return True

    # Metadata in the store --------------------------------------------------------

    async def _copies_in(self, group: str) -> dict[str, ArrayMetadata]:
        """Read the copies of arrays in a group's consolidated metadata, by path."""
        body = await self.metadata(group)
        node = parse_node(body or b"") or {}
        self.remembered.changes.note(group, body, node)
        return {join(group, array.path): array for array in arrays_in(node) if array.path}

    async def see_group(self, path: str) -> None:
        """Read which nodes' own metadata may be behind a group's copies.

        Raises
        ------
        ManifestError
            The group's ``zarr.json`` does not say it validly.
        """
        body = await self.metadata(path)
        # Not parsed without need: it may describe many nodes.
        node = parse_node(body) if body and b'"pending"' in body else None
        self.remembered.changes.note(path, body, node)

    async def _is_v2(self, path: str) -> bool:
        return await value_of(self.store, join(path, ".zarray")) is not None

    async def metadata(self, path: str) -> bytes | None:
        """Read the ``zarr.json`` that counts for a node."""
        return self.remembered.changes.counting(path, await self.stored(path))

    async def stored(self, path: str) -> bytes | None:
        """Read a node's own ``zarr.json``."""
        return await value_of(self.store, join(path, "zarr.json"))

    def _stored_sync(self, key: str) -> bytes | None:
        store: Any = self.store  # get_sync is not declared by ``Store``
        found = store.get_sync(key, prototype=default_buffer_prototype())
        return None if found is None else found.to_bytes()

    def _own_array(self, path: str, stored: bytes | None) -> ArrayMetadata | None:
        """Return the metadata of an array that count, given its own; None for anything else."""
        body = self.remembered.changes.counting(path, stored)
        node = None if body is None else parse_node(body)
        is_array = node is not None and node.get("node_type") == "array"
        return ArrayMetadata("", node) if node is not None and is_array else None


def _route_in(array: ChunkManifestTransformer, path: str, key: str) -> Route:
    """Return the route of a key below a manifest array, of which it may not be a chunk."""
    index = array.index_of(key[len(path) :].lstrip("/"))
    return NATIVE if index is None else Chunk(array, index)


def _agree(own: ArrayMetadata, copy: ArrayMetadata) -> bool:
    """Whether own metadata and a copy declare the same, or neither declares a manifest."""
    return own.agreed == copy.agreed or not (_declares(own) or _declares(copy))


def _copy_of(group: str, array: ArrayMetadata) -> ConsolidatedCopy:
    return ConsolidatedCopy(group, _declares(array), dump_briefly(array.metadata))


def _declares(array: ArrayMetadata) -> bool:
    """Whether an array has a declaration, be it one that cannot be honoured."""
    try:
        return parse_declaration(array.metadata) is not None
    except ManifestError:
        return True
