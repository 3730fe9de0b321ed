"""The table of a hierarchy's nodes: the state of each, and its origin.

Does no I/O. An array that once declared a manifest never becomes a native one, or none, unless
an edit through this store makes it one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.errors import ManifestError, in_context
from zarr_manifest.format import (
    ArrayMetadata,
    Configuration,
    PendingChanges,
    arrays_in,
    contradicted_members,
    dump_briefly,
    impossible_member,
    join,
    member_of,
    parse_declaration,
    parse_node,
    undeclared_kind,
    with_pending,
    without_declarations,
)
from zarr_manifest.hierarchy.contradictions import incomplete, not_a_path

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from zarr_manifest.hierarchy.opened_array import OpenedArray, PickledArray
    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer


class Native(Struct, frozen=True):
    """An array whose chunks are in the store, under their own keys."""


NATIVE = Native()


class Undecided:
    """An array of which different things have been seen; its metadata must be read again."""


UNDECIDED = Undecided()

type BuildArray = Callable[[str, dict[str, Any], Configuration], ChunkManifestTransformer]

type Array = Native | ChunkManifestTransformer | ManifestError
"""What reads an array's chunks, or the error that refuses it."""


_OTHERS = (Native, Undecided, ManifestError, NoneType)


def is_manifest_array(array: Array | Undecided | None) -> TypeIs[ChunkManifestTransformer]:
    """Whether this reads a manifest array; its class is imported with the first one."""
    return not isinstance(array, _OTHERS)


class ConsolidatedCopy(Struct, frozen=True):
    """What the consolidated metadata of a group say of an array.

    Parameters
    ----------
    group : str
        Path of the group.
    declares : bool
        Whether they declare a manifest.
    made_of : bytes
        The metadata that they have.
    """

    group: str
    declares: bool
    made_of: bytes

    @property
    def array(self) -> ArrayMetadata:
        """The metadata that they have, parsed."""
        return ArrayMetadata("", json.loads(self.made_of))

    def has(self, array: ArrayMetadata) -> bool:
        """Whether they say the same."""
        if dump_briefly(array.metadata) == self.made_of:
            return True
        return not contradicted_members(array.metadata, self.array.metadata)


class NodeState(Struct):
    """What is known of the node at a path, and where that is known from.

    Parameters
    ----------
    own : {"group", "native", "manifest"} or None
        What its own ``zarr.json`` says, as read or as this store has written it; None if there
        is none, or if it has not been read.
    copy : ConsolidatedCopy or None
        What a group's consolidated metadata say of an array.
    array : Array, Undecided or None
        What follows from both for its chunks; None if no array is known at the path.
    made_of : bytes
        The metadata that `array` was made of, as JSON.
    digest : bytes or None
        That of `made_of`, once it was asked for.
    expected : bytes or None
        Digest of what the array was when it was opened in the process that has pickled the store;
        None once it has been shown here.
    is_replaced : bool
        Whether different metadata of it were seen.
    is_shown : bool
        Whether its own metadata were shown to zarr since those of the group with copies.
    described : set of str or None
        Paths of the arrays of which the group's consolidated metadata have a copy.
    unpickled : (PickledArray, OpenedArray) or None
        The array as it was when another process opened it, for the next task of a worker.
    """

    own: Literal["group", "native", "manifest"] | None = None
    copy: ConsolidatedCopy | None = None
    array: Array | Undecided | None = None
    made_of: bytes = b""
    digest: bytes | None = None
    expected: bytes | None = None
    is_replaced: bool = False
    is_shown: bool = False
    described: set[str] | None = None  # an empty set takes as much as all the rest
    unpickled: tuple[PickledArray, OpenedArray] | None = None

    @property
    def metadata(self) -> ArrayMetadata:
        """The metadata that `array` was made of, parsed."""
        return ArrayMetadata("", json.loads(self.made_of))

    def known_digest(self) -> bytes | None:
        """Return the digest of what the array is, or was in another process; None if unknown."""
        if not self.made_of:
            return self.expected
        if self.digest is None:
            self.digest = self.metadata.digest
        return self.digest


UNKNOWN = NodeState()


class Remembered(Struct):
    """What was seen of a hierarchy, beyond what can be read again.

    Apart from the states of nodes, because it is pickled, and shared with the read-only twin of
    a store and with the stores of its arrays, which have states of their own.

    Parameters
    ----------
    declared : set of str
        Paths of the arrays that have been seen to declare a manifest.
    digests : dict of bytes, optional
        Only of a store that was pickled: by path, what an array was when it was opened.
    changes : PendingChanges
        The changes that were being written when the groups were last read; not pickled.
    """

    declared: set[str] = field(default_factory=set[str])
    digests: dict[str, bytes] | None = None
    changes: PendingChanges = field(default_factory=PendingChanges)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.declared, self.digests))

    def copied(self, digests: dict[str, bytes] | None = None) -> Remembered:
        """Return what is remembered now, without changes, and with other digests if given."""
        digests = self.digests if digests is None else digests
        return Remembered(set(self.declared), digests)


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
``KnownNodes.route_of_absent``.
"""


class NodeTable:
    """What is known of the nodes of a hierarchy, by path.

    Parameters
    ----------
    build : callable
        Creates the transformer of an array from its path, metadata and configuration.
    remembered : Remembered
        What was seen before, to be added to.
    """

    def __init__(self, build: BuildArray, remembered: Remembered) -> None:
        self._build = build
        self.remembered = remembered
        self.declared = remembered.declared
        self.has_copies = False  # as most hierarchies of native arrays
        expected = remembered.digests or {}
        self._states = {path: NodeState(expected=digest) for path, digest in expected.items()}

    def state_of(self, path: str) -> NodeState:
        """Return the state of a node, not to be changed."""
        return self._states.get(path, UNKNOWN)

    def _state(self, path: str) -> NodeState:
        """Return the state of a node, to be changed; made for nodes that have been seen only."""
        return self._states.setdefault(path, NodeState())

    def to_pickle(self) -> Remembered:
        """Return what a pickled store takes along, with the digests of known arrays."""
        digests = ((path, self.state_of(path).known_digest()) for path in [*self.declared])
        return self.remembered.copied({path: digest for path, digest in digests if digest})

    # What zarr is shown ------------------------------------------------------------

    def reveal(self, path: str, body: bytes) -> bytes:
        """Record a node's ``zarr.json``, and return it without its declarations, for zarr.

        Parameters
        ----------
        path : str
            Path of the node.
        body : bytes
            What counts of it: see :meth:`PendingChanges.counting`.

        Raises
        ------
        ManifestError
            If the node is an array whose declaration cannot be honoured. For arrays
            in consolidated metadata, the error is raised when their chunks are read, unless
            zarr would not open the group.
        """
        if self._note_undeclared(path, body):
            return body
        with in_context(array=path):
            node = parse_node(body)
            # Most nodes have no copies of others.
            if path in self.remembered.changes or (node and "consolidated_metadata" in node):
                self.remembered.changes.note(path, body, node)
        if node is None or node.get("node_type") != "array":
            self.note_absence(path)
        if node is None:
            if not body.strip() or body.lstrip().startswith(b"{"):
                raise incomplete(path)
            return body
        impossible = impossible_member(node)
        if impossible is not None:
            raise not_a_path(path, impossible)
        if "consolidated_metadata" in node:
            for each, state in [*self._states.items()]:
                state.is_shown &= not member_of(path, each)
        declaring = self._reveal_arrays(path, node)
        if node.get("node_type") == "group":
            self._state(path).own = "group"
        if path in self.remembered.changes:
            return without_declarations(with_pending(node, {}))
        return without_declarations(node) if declaring else body

    def _reveal_arrays(self, path: str, node: dict[str, Any]) -> bool:
        """Record the arrays that a node's metadata describe; return whether any declares."""
        declaring = False
        for array in arrays_in(node):
            declaring |= bool(array.declaration)
            is_own = array.metadata is node
            place = join(path, array.path)
            known = self._note(place, array, None if is_own else path)
            self._state(place).expected = None
            if isinstance(known, ManifestError) and (is_own or not _opens(array.undeclared)):
                raise known.in_context()
            if is_manifest_array(known):
                known.opened()
        return declaring

    def _note_undeclared(self, path: str, body: bytes) -> bool:
        """Record the metadata of a node if that they declare nothing is all there is to know."""
        state = self._states.get(path)
        if path in self.declared or (state is not None and state.copy is not None):
            return False
        kind = undeclared_kind(body)
        if kind is None:
            return False
        self.remembered.changes.pop(path, None)  # it has no copies
        state = state or self._state(path)
        state.own = "native" if kind == "array" else "group"
        state.array = NATIVE if kind == "array" else None
        state.made_of = b""
        return True

    def note_missing(self, path: str) -> None:
        """Record that there is no node with a ``zarr.json`` of its own at a path.

        An array that was native stays known: it may be open, and what it lacks is no fill value.
        """
        self.remembered.changes.pop(path, None)
        was_native = self.state_of(path).array is NATIVE
        self.note_absence(path)
        if was_native and self.state_of(path).array is None:
            self._state(path).array = NATIVE

    def note_absence(self, path: str) -> None:
        """Record that there is no array with metadata of its own at a path."""
        is_undecided = path in self.declared or self.state_of(path).copy is not None
        if not is_undecided and path not in self._states:
            return
        state = self._state(path)
        state.own, state.made_of = None, b""
        state.array = UNDECIDED if is_undecided else None

    def declares_nothing(self, path: str) -> bool:
        """Whether a node is known to be a group or a native array, by its own metadata."""
        state = self.state_of(path)
        if state.own == "group":
            return True
        return state.array is NATIVE and (state.own is not None or state.copy is None)

    def manifest_arrays_in(self, group: str) -> list[ChunkManifestTransformer]:
        """Return the manifest arrays of a group that are known, in order."""
        return [
            state.array
            for path, state in [*self._states.items()]
            if path.rpartition("/")[0] == group and is_manifest_array(state.array)
        ]

    # What this store has changed ---------------------------------------------------

    def deleted(self, path: str) -> None:
        """Forget a node whose ``zarr.json`` this store has deleted."""
        self.remembered.changes.pop(path, None)
        self._forget(path)

    def deleted_below(self, prefix: str) -> None:
        """Forget the arrays at and below a path, which this store has deleted."""
        below = f"{prefix}/" if prefix else ""
        for path in [*self._states, *self.declared]:
            if path == prefix or path.startswith(below):
                self._states.pop(path, None)
                self.declared.discard(path)
        for group in [*self.remembered.changes]:
            if group == prefix or group.startswith(below):
                self.remembered.changes.pop(group, None)

    def written(self, path: str, body: bytes) -> None:
        """Record a node's ``zarr.json`` that this store has just written."""
        self._forget(path)
        # Its consolidated metadata are new as well.
        self._forget_copies(path)
        if self._note_undeclared(path, body):
            return
        node = parse_node(body) or {}
        self.remembered.changes.note(path, body, node)
        for array in arrays_in(node):
            self._note(join(path, array.path), array, path if array.path else None)
        if node.get("node_type") == "group":
            self._state(path).own = "group"

    def _forget(self, path: str) -> None:
        """Forget a node, but not what was seen of others in it."""
        self.declared.discard(path)
        known = self._states.get(path)
        if known is not None:
            self._states[path] = NodeState(
                is_replaced=known.is_replaced, is_shown=known.is_shown, described=known.described
            )

    def _forget_copies(self, group: str) -> None:
        """Forget a group's consolidated metadata."""
        described = self.state_of(group).described
        if described:
            self._state(group).described = None
            for path in described:
                state = self.state_of(path)
                if state.copy is not None and state.copy.group == group:
                    state.copy = None

    # What arrays are ---------------------------------------------------------------

    def _note(self, path: str, array: ArrayMetadata, group: str | None = None) -> Array | Undecided:
        """Record the metadata of an array: its own, or from a group's consolidated metadata."""
        metadata = dump_briefly(array.metadata)
        state = self._state(path)
        known = state.array
        if known is None or isinstance(known, Undecided) or state.made_of != metadata:
            state.is_replaced |= known is not None
            known = self._interpret(path, array)
        declaring = not isinstance(known, Native)
        if declaring:
            self.declared.add(path)
        if group is None:
            state.own = "manifest" if declaring else "native"
        else:
            state.copy = ConsolidatedCopy(group, declaring, metadata)
            self.has_copies = True
            above = self._state(group)
            above.described = above.described or set()
            above.described.add(path)
        is_native_somewhere = state.own == "native" or (
            state.copy is not None and not state.copy.declares
        )
        is_contradicted = (
            group is None
            and path in self.declared
            and state.copy is not None
            and state.copy.made_of != metadata
            and state.copy.array.agreed != array.agreed
        )
        if is_contradicted or (path in self.declared and is_native_somewhere):
            state.array, state.made_of = UNDECIDED, b""
            return UNDECIDED
        state.array, state.made_of, state.digest = known, metadata, None
        return known

    def _set_array(self, path: str, array: ArrayMetadata) -> Array:
        """Let an array be what these metadata say."""
        state = self._state(path)
        state.made_of, state.digest = dump_briefly(array.metadata), None
        known = state.array = self._interpret(path, array)
        return known

    def _interpret(self, path: str, array: ArrayMetadata) -> Array:
        try:
            configuration = parse_declaration(array.metadata)
            if configuration is None:
                return NATIVE
            return self._build(path, array.undeclared, configuration)
        except ManifestError as error:
            return error.in_context(array=path)


def _opens(undeclared: dict[str, Any]) -> bool:
    """Whether zarr accepts the metadata of an array."""
    try:
        ArrayV3Metadata.from_dict(undeclared)
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return False
    return True
