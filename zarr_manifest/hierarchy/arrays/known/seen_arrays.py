"""Seen arrays: what this store has been shown of the nodes of its hierarchy. Reads nothing.

An array that once declared a manifest never becomes a native one, or none, unless this store
itself has written or deleted it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from zarr.abc.store import Store

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    ArrayMetadata,
    Configuration,
    ancestors,
    arrays_in,
    impossible_member,
    is_placeholder,
    parse_declaration,
    parse_node,
    plain_kind,
    unfinished_error,
    without_declarations,
)
from zarr_manifest.hierarchy.arrays.known.contradictions import incomplete, not_a_path
from zarr_manifest.hierarchy.arrays.known.looks import Looks
from zarr_manifest.hierarchy.arrays.transformer import ChunkManifestTransformer
from zarr_manifest.hierarchy.keys import join
from zarr_manifest.hierarchy.underneath import store_name

__all__ = [
    "NATIVE",
    "UNSETTLED",
    "Array",
    "Build",
    "Native",
    "Remembered",
    "SeenArrays",
    "Told",
    "Unsettled",
    "declares",
    "fingerprint",
]


class Native(Struct, frozen=True):
    """An array whose chunks are in the store, under their own keys."""


NATIVE = Native()


class Unsettled:
    """An array of which different things have been seen; its metadata must be read again."""


UNSETTLED = Unsettled()

type Build = Callable[[str, dict[str, Any], Configuration], ChunkManifestTransformer]
type Array = Native | ChunkManifestTransformer | ManifestError


class Told(Struct, frozen=True):
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


class SeenArrays:
    """The arrays of a hierarchy that have been seen so far.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    build : callable
        Creates the transformer of an array from its path, metadata and configuration.
    remembered : Remembered
        What was seen before, to be added to.
    looks : Looks
        Which metadata need not be read again before they are replaced.
    """

    def __init__(self, store: Store, build: Build, remembered: Remembered, looks: Looks) -> None:
        self._store = store
        self._build = build
        self._looks = looks
        self.declared = remembered.declared
        self._outdated = remembered.outdated
        self._arrays: dict[str, Array | Unsettled] = {}
        self._groups: set[str] = set()  # as their own metadata say
        self._seen: dict[str, str] = {}
        self._own: dict[str, bool] = {}  # whether they declare a manifest
        self._told: dict[str, Told] = {}
        # Keys that manifests of deleted arrays referred to: zarr may delete a directory twice.
        self.kept: set[str] = set()

    # What zarr is shown ------------------------------------------------------------

    def reveal(self, path: str, body: bytes) -> bytes:
        """Record a node's ``zarr.json``, and return it without its declarations, for zarr.

        Raises
        ------
        ManifestError
            If the node is an array whose declaration cannot be honoured. For arrays
            in consolidated metadata, the error is raised when their chunks are read.
        """
        if self._note_plain(path, body):
            return body
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
            declaring |= bool(array.declaration)
            is_own = array.metadata is node
            known = self._note(join(path, array.path), array, None if is_own else path)
            if isinstance(known, ManifestError) and is_own:
                raise known.in_context()
            if isinstance(known, ChunkManifestTransformer):
                known.opened()
        if node.get("node_type") == "group":
            self._groups.add(path)
            self._looks.note(path)
        return without_declarations(node) if declaring else body

    def _note_plain(self, path: str, body: bytes) -> bool:
        """Record the metadata of a node if that they declare nothing is all there is to know."""
        if path in self.declared or path in self._told:
            return False
        kind = plain_kind(body)
        if kind is None:
            return False
        self._seen.pop(path, None)
        if kind == "array":
            self._groups.discard(path)
            self._own[path] = False
            self._arrays[path] = NATIVE
        else:
            self._own.pop(path, None)
            self._arrays.pop(path, None)
            self._groups.add(path)
        self._looks.note(path, body)
        return True

    def note_missing(self, path: str) -> None:
        """Record that there is no node with a ``zarr.json`` of its own at a path.

        An array that was native stays known: it may be open, and what it lacks is no fill value.
        """
        known = self._arrays.get(path)
        self.note_absence(path)
        if known is NATIVE:
            self._arrays.setdefault(path, NATIVE)
        self._looks.note(path)

    def note_absence(self, path: str) -> None:
        """Record that there is no array with metadata of its own at a path."""
        self._looks.forget(path)
        self._groups.discard(path)
        self._own.pop(path, None)
        self._seen.pop(path, None)
        if path in self.declared or path in self._told:
            self._arrays[path] = UNSETTLED
        else:
            self._arrays.pop(path, None)

    def require_finished(self, metadata: bytes | dict[str, Any] | None) -> None:
        """Refuse the metadata of a node below which nodes are being changed."""
        if is_placeholder(metadata):
            raise unfinished_error(store_name(self._store))

    def declares_nothing(self, path: str) -> bool:
        """Whether a node is known to be a group or a native array, by its own metadata."""
        if path in self._groups:
            return True
        is_own = path in self._own or path not in self._told
        return is_own and self._arrays.get(path) is NATIVE

    def was_just_seen(self, path: str, group: str | None = None) -> bool:
        """Whether a node is known to declare no manifest, so that there is nothing to restore.

        Parameters
        ----------
        path : str
            Path of the node.
        group : str, optional
            The group in whose consolidated metadata it is replaced, if not in its own.
        """
        if path in self.declared:
            return False
        if group is None or path in self._own:
            return self._looks.is_recent(path)
        told_so = self._told.get(path) == Told(group, declares=False)
        return told_so and self._looks.is_recent(group) and not self._is_outdated(group, path)

    def may_have_grown(self, path: str, shape: list[object]) -> bool:
        """Whether an array may have had a smaller shape than this before."""
        seen = self._looks.recent_shape(path)
        if seen is None or len(seen) != len(shape):
            return True
        return any(
            not isinstance(size, int) or size > old for size, old in zip(shape, seen, strict=True)
        )

    # What this store has changed ---------------------------------------------------

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
        for path in [path for path in list(self._groups) if path.startswith(below)]:
            self._groups.discard(path)
        self._looks.forget_below(below)
        self.deleted(prefix)

    def written(self, path: str, body: bytes) -> None:
        """Record a node's ``zarr.json`` that this store has just written."""
        self._forget(path)
        self._outdated.update((group, path) for group in ancestors(path))
        # Its consolidated metadata are new as well.
        self._outdated.difference_update([one for one in list(self._outdated) if one[0] == path])
        for other in [p for p, told in list(self._told.items()) if told.group == path]:
            self._told.pop(other, None)
        if self._note_plain(path, body):
            return
        node = parse_node(body) or {}
        for array in arrays_in(node):
            self._note(join(path, array.path), array, path if array.path else None)
        if node.get("node_type") == "group":
            self._groups.add(path)
            self._looks.note(path)

    def _forget(self, path: str) -> None:
        self._looks.forget(path)
        self.declared.discard(path)
        self._groups.discard(path)
        for known in (self._arrays, self._seen, self._own, self._told):
            known.pop(path, None)

    def _is_outdated(self, group: str, path: str) -> bool:
        """Whether this store has changed a node since the group's metadata described it."""
        if not self._outdated:
            return False
        return any((group, node) in self._outdated for node in (path, *ancestors(path)))

    # What arrays are ---------------------------------------------------------------

    def _note(self, path: str, array: ArrayMetadata, group: str | None = None) -> Array | Unsettled:
        """Record the metadata of an array: its own, or from a group's consolidated metadata."""
        self.require_finished(array.metadata)
        seen = fingerprint(array)
        known = self._arrays.get(path)
        if known is None or self._seen.get(path) != seen:
            known = self._interpret(path, array)
        declaring = not isinstance(known, Native)
        is_outdated = group is not None and self._is_outdated(group, path)
        if declaring and not is_outdated:
            self.declared.add(path)
        if group is None:
            self._groups.discard(path)
            self._own[path] = declaring
            if not declaring:
                self._looks.note(path)
        else:
            self._told[path] = Told(group, declaring)
        own, told = self._own.get(path), self._told.get(path)
        is_native_somewhere = own is False or (told is not None and not told.declares)
        if (path in self.declared and is_native_somewhere) or (is_outdated and own != declaring):
            self._seen.pop(path, None)
            self._arrays[path] = UNSETTLED
            return UNSETTLED
        self._seen[path] = seen
        self._arrays[path] = known
        return known

    def _interpret(self, path: str, array: ArrayMetadata) -> Array:
        try:
            configuration = parse_declaration(array.metadata)
            if configuration is None:
                return NATIVE
            return self._build(path, array.undeclared, configuration)
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
        if isinstance(known, Unsettled):
            known = self._interpret(path, array)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known if isinstance(known, ChunkManifestTransformer) else None


def fingerprint(array: ArrayMetadata) -> str:
    """Return a text that differs for different metadata."""
    # Not indented, which the json module does ten times as slowly: inline manifests are long.
    return json.dumps(array.metadata)


def declares(array: ArrayMetadata) -> bool:
    """Whether an array has a declaration, be it one that cannot be honoured."""
    try:
        return parse_declaration(array.metadata) is not None
    except ManifestError:
        return True
