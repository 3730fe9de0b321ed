"""Known arrays: which of them owns a chunk key, and what it declares.

Remembers every array that it has seen. A worker that received a pickled store has
only the paths of those that declared a manifest: it finds the owner of a key by reading
the ``zarr.json`` files above it, and a declaration that is no longer there is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    ArrayMetadata,
    Configuration,
    ancestors,
    arrays_in,
    impossible_member,
    is_placeholder,
    owner_candidates,
    parse_declaration,
    parse_node,
    unfinished_error,
    without_declarations,
)
from zarr_manifest.hierarchy.arrays.contradictions import (
    contradiction,
    incomplete,
    not_a_path,
    only_consolidated,
    vanished,
)
from zarr_manifest.hierarchy.arrays.shared_calls import SharedCalls
from zarr_manifest.hierarchy.arrays.transformer import ChunkManifestTransformer
from zarr_manifest.hierarchy.keys import METADATA_NAMES, join
from zarr_manifest.hierarchy.underneath import store_name
from zarr_manifest.sources import (
    Call,
    Steps,
    run_async,
    run_sync,
)

__all__ = [
    "KnownArrays",
    "Native",
    "Remembered",
]


class Native(Struct, frozen=True):
    """An array whose chunks are in the store, under their own keys.

    Parameters
    ----------
    told_by : str or None
        Path of the group whose consolidated metadata say so, if the array's own have not
        been read.
    """

    told_by: str | None = None


_NATIVE = Native()


class _Unsettled:
    """An array of which different things have been seen; its metadata must be read again."""


_UNSETTLED = _Unsettled()

type _Build = Callable[[str, dict[str, Any], list[Any], Configuration], ChunkManifestTransformer]
type _Array = Native | ChunkManifestTransformer | ManifestError


class _Told(Struct, frozen=True):
    """What the consolidated metadata of a group say of an array."""

    group: str
    declares: bool


class Remembered(Struct, frozen=True):
    """What a store shares with its read-only views, and takes along when it is pickled.

    Parameters
    ----------
    declared : set of str
        Paths of the arrays that have been seen to declare a manifest.
    outdated : set of tuple
        A group, and the path of a node below it that this store has written or deleted
        since the group's consolidated metadata were written.
    """

    declared: set[str] = field(default_factory=set[str])
    outdated: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (set(self.declared), set(self.outdated)))


class KnownArrays:
    """The arrays of a hierarchy that have been seen so far.

    Own metadata and consolidated metadata may contradict each other, and either may change:
    an array that once declared a manifest never becomes a native one, or none, unless this
    store itself has written or deleted it.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    build : callable
        Creates the transformer of an array from its path, metadata, declared
        transformers and configuration.
    remembered : Remembered
        What was seen before, to be added to.
    """

    def __init__(self, store: Store, build: _Build, remembered: Remembered) -> None:
        self._store = store
        self._build = build
        self.declared = remembered.declared
        self._outdated = remembered.outdated
        self._arrays: dict[str, _Array | _Unsettled] = {}
        self._seen: dict[str, str] = {}
        self._own: dict[str, bool] = {}  # whether they declare a manifest
        self._told: dict[str, _Told] = {}
        self._settling = SharedCalls[str, _Array | None]()
        # Keys that manifests of deleted arrays referred to: zarr may delete a directory twice.
        self.kept: set[str] = set()

    # What was seen -----------------------------------------------------------------

    def reveal(self, path: str, body: bytes) -> bytes:
        """Record a node's ``zarr.json``, and return it without its declarations, for zarr.

        Raises
        ------
        ManifestError
            If the node is an array whose declaration cannot be honoured. For arrays
            in consolidated metadata, the error is raised when their chunks are read.
        """
        try:
            node = parse_node(body)
        except ManifestError as error:
            raise error.in_context(array=path) from error.__cause__
        if node is None or node.get("node_type") != "array":
            self.note_absence(path)
        if node is None:
            if not body.strip() or body.lstrip().startswith(b"{"):
                raise incomplete(path)
            return body
        impossible = impossible_member(node)
        if impossible is not None:
            raise not_a_path(path, impossible)
        declaring = False
        for array in arrays_in(node):
            declaring |= array.declared != []
            is_own = array.metadata is node
            known = self._note(join(path, array.path), array, None if is_own else path)
            if isinstance(known, ManifestError) and is_own:
                raise known.in_context()
            if isinstance(known, ChunkManifestTransformer):
                known.opened()
        return without_declarations(node) if declaring else body

    def note_absence(self, path: str) -> None:
        """Record that there is no array with metadata of its own at a path."""
        self._own.pop(path, None)
        self._seen.pop(path, None)
        if path in self.declared or path in self._told:
            self._arrays[path] = _UNSETTLED
        else:
            self._arrays.pop(path, None)

    def deleted(self, path: str) -> None:
        """Forget a node whose ``zarr.json`` this store has deleted."""
        self._forget(path)
        self._outdated.update((group, path) for group in ancestors(path))

    def deleted_below(self, prefix: str) -> None:
        """Forget the arrays at and below a path, which this store has deleted."""
        below = f"{prefix}/" if prefix else ""
        for path in {*list(self._arrays), *list(self._told), *list(self.declared)}:
            if path.startswith(below):
                self._forget(path)
        self.deleted(prefix)

    def written(self, path: str, body: bytes) -> None:
        """Record a node's ``zarr.json`` that this store has just written."""
        self._forget(path)
        self._outdated.update((group, path) for group in ancestors(path))
        # Its consolidated metadata are new as well.
        self._outdated.difference_update([one for one in list(self._outdated) if one[0] == path])
        for other in [p for p, told in list(self._told.items()) if told.group == path]:
            self._told.pop(other, None)
        for array in arrays_in(parse_node(body) or {}):
            self._note(join(path, array.path), array, path if array.path else None)

    def _forget(self, path: str) -> None:
        self.declared.discard(path)
        for known in (self._arrays, self._seen, self._own, self._told):
            known.pop(path, None)

    def _is_outdated(self, group: str, path: str) -> bool:
        """Whether this store has changed a node since the group's metadata described it."""
        if not self._outdated:
            return False
        return any((group, node) in self._outdated for node in (path, *ancestors(path)))

    def _note(
        self, path: str, array: ArrayMetadata, group: str | None = None
    ) -> _Array | _Unsettled:
        """Record the metadata of an array: its own, or from a group's consolidated metadata."""
        self.require_finished(array.metadata)
        fingerprint = _fingerprint(array)
        known = self._arrays.get(path)
        if known is None or self._seen.get(path) != fingerprint:
            known = self._interpret(path, array)
        declares = not isinstance(known, Native)
        is_outdated = group is not None and self._is_outdated(group, path)
        if declares and not is_outdated:
            self.declared.add(path)
        if group is None:
            self._own[path] = declares
        else:
            self._told[path] = _Told(group, declares)
        own, told = self._own.get(path), self._told.get(path)
        is_native_somewhere = own is False or (told is not None and not told.declares)
        if (path in self.declared and is_native_somewhere) or (is_outdated and own != declares):
            self._seen.pop(path, None)
            self._arrays[path] = _UNSETTLED
            return _UNSETTLED
        if isinstance(known, Native):
            known = _NATIVE if own is not None or told is None else Native(told.group)
        self._seen[path] = fingerprint
        self._arrays[path] = known
        return known

    def require_finished(self, metadata: bytes | dict[str, Any] | None) -> None:
        """Refuse the metadata of a node below which nodes are being changed."""
        if is_placeholder(metadata):
            raise unfinished_error(store_name(self._store))

    def _interpret(self, path: str, array: ArrayMetadata) -> _Array:
        try:
            configuration = parse_declaration(array.declared)
            if configuration is None:
                return _NATIVE
            metadata = {k: v for k, v in array.metadata.items() if k != "storage_transformers"}
            return self._build(path, metadata, array.declared, configuration)
        except ManifestError as error:
            return error.in_context(array=path)

    def manifest_array(
        self, path: str, array: ArrayMetadata, *, is_own: bool
    ) -> ChunkManifestTransformer | None:
        """Return an array that was found if it declares a manifest.

        Raises
        ------
        ManifestError
            Its declaration cannot be honoured.
        """
        known = self._note(path, array) if is_own else self._interpret(path, array)
        if isinstance(known, _Unsettled):
            known = self._interpret(path, array)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known if isinstance(known, ChunkManifestTransformer) else None

    # Whose chunk is it -------------------------------------------------------------

    def known_native(self, key: str) -> bool:
        """Whether a key is already known to be a chunk of a native array."""
        if key.endswith("zarr.json"):
            return False  # another writer may have given the array a manifest
        return type(self._arrays.get(next(owner_candidates(key), key))) is Native

    def certainly_missing(self, key: str) -> Steps[bool]:
        """Whether a key that the store does not have, and that no manifest array owns, is missing.

        If only consolidated metadata have said so far that its array is native, the array's
        own are read.

        Raises
        ------
        ManifestError
            They contradict each other, or there are no own metadata.
        """
        path = next(owner_candidates(key), key)
        known = self._arrays.get(path)
        if not isinstance(known, Native) or known.told_by is None:
            return True
        if key.rpartition("/")[2] in METADATA_NAMES:
            return True
        yield from self._settled(path)
        return self.known_native(key)

    def owner(self, key: str) -> Steps[tuple[ChunkManifestTransformer, tuple[int, ...]] | None]:
        """Find the manifest array and the chunk that a key names.

        Returns
        -------
        tuple or None
            Transformer and grid index; None for keys that are served by the
            hierarchy's own store.

        Raises
        ------
        ManifestError
            If the owner's declaration cannot be honoured, or is no longer there.
        """
        if key.rpartition("/")[2] in METADATA_NAMES:
            return None
        for path in owner_candidates(key):
            array = yield from self._discover(path)
            if array is None:
                continue
            if isinstance(array, Native):
                return None
            index = array.index_of(key[len(path) :].lstrip("/"))
            return None if index is None else (array, index)
        return None

    def owner_of_missing(
        self, key: str
    ) -> Steps[tuple[ChunkManifestTransformer, tuple[int, ...]] | None]:
        """Find the owner of a key that the store does not have; see :meth:`certainly_missing`."""
        if (yield from self.certainly_missing(key)):
            return None
        return (yield from self.owner(key))

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
        return None

    def _discover(self, path: str) -> Steps[Native | ChunkManifestTransformer | None]:
        """Look for an array at a path; None if there is none."""
        known = self._arrays.get(path)
        if known is None and path not in self.declared:
            node = parse_node((yield from self._stored(join(path, "zarr.json"))) or b"")
            if node is not None and node.get("node_type") == "array":
                known = self._note(path, ArrayMetadata("", node))
            elif (yield from self._is_v2(path)):
                known = self._arrays[path] = _NATIVE
            else:
                return None
        if known is None or isinstance(known, _Unsettled):
            known = yield from self._settled(path)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known

    # Reading again -----------------------------------------------------------------

    def _settled(self, path: str) -> Steps[_Array | None]:
        """Find out what an array is by reading its metadata again, once for all who ask."""
        settled: _Array | None = yield Call(
            lambda: self._settling.get(path, lambda: run_async(self._settle(path))),
            lambda: self._settling.get_sync(path, lambda: run_sync(self._settle(path))),
        )
        return settled

    def _settle(self, path: str) -> Steps[_Array | None]:
        body = yield from self._stored(join(path, "zarr.json"))
        self.require_finished(body)
        own = array = _array_in(body)
        told, member = self._told.get(path), None
        if told is not None and (own is None or _declares(own) != told.declares):
            member = yield from self.consolidated(told.group, path)
            if member is None:
                self._told.pop(path, None)
            else:
                self._told[path] = _Told(told.group, _declares(member))
        is_outdated = told is not None and self._is_outdated(told.group, path)
        if own is not None:
            differs = member is not None and _declares(member) != _declares(own)
            if told is not None and differs and not is_outdated:
                raise contradiction(path, told.group, _declares(own))
            if path in self.declared and not _declares(own):
                raise vanished(path, body)
        elif not is_outdated and body is None and member is not None and _declares(member):
            array = member  # only consolidated metadata describe it
        elif path in self.declared:
            raise vanished(path, body)
        elif told is not None and not (yield from self._is_v2(path)):
            raise only_consolidated(path, body, told.group)
        return self._keep(path, own, array)

    def _keep(
        self, path: str, own: ArrayMetadata | None, array: ArrayMetadata | None
    ) -> _Array | None:
        self.note_absence(path)
        self._arrays.pop(path, None)
        if own is not None:
            self._own[path] = _declares(own)
        if array is None:
            return None
        if _declares(array):
            self.declared.add(path)
        self._seen[path] = _fingerprint(array)
        known = self._arrays[path] = self._interpret(path, array)
        return known

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

    def _stored(self, key: str) -> Steps[bytes | None]:
        prototype = default_buffer_prototype()
        store: Any = self._store
        found: Buffer | None = yield Call(
            lambda: store.get(key, prototype), lambda: store.get_sync(key, prototype=prototype)
        )
        return None if found is None else found.to_bytes()


def _array_in(body: bytes | None) -> ArrayMetadata | None:
    node = None if body is None else parse_node(body)
    is_array = node is not None and node.get("node_type") == "array"
    return ArrayMetadata("", node) if node is not None and is_array else None


def _fingerprint(array: ArrayMetadata) -> str:
    # Not indented, which the json module does ten times as slowly: inline manifests are long.
    return json.dumps(array.metadata)


def _declares(array: ArrayMetadata) -> bool:
    """Whether an array has a declaration, be it one that cannot be honoured."""
    try:
        return parse_declaration(array.declared) is not None
    except ManifestError:
        return True
