"""The journal of a change to several nodes: what is there before, and what is to be there after.

Zarr finds nodes by their paths, so old and new nodes cannot lie side by side and be switched at
once. Before the first of them changes, the journal is written beside the root's metadata. Then
the groups above what changes get metadata that nobody can open (a placeholder), the root's
first; the nodes change; the groups get their new metadata, the root's last; documents that are
no longer used are removed, and at the end the journal. So whatever opens is old or new, and
any writer that finds the journal can finish the change, or undo it. Every step may be repeated.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import socket
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError
from zarr_manifest.format import is_possible_path, join, placeholder
from zarr_manifest.hierarchy import DeclaredArray
from zarr_manifest.stores import store_name
from zarr_manifest.writing import GuardedStore, Stored, earlier_array, is_document, removable

JOURNAL = "zarr.json.unfinished"

_EXPLANATION = (
    "Nodes of this hierarchy are being changed, or writing was interrupted: 'nodes' has the "
    "metadata of each before and after. If no process is writing it, run: "
    "zarr-manifest recover LOCATION --finish (or --undo)"
)

Side = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class Change:
    """The ``zarr.json`` of a node before and after; None if there is no node."""

    old: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True)
class Journal:
    """A change to several nodes.

    Parameters
    ----------
    writer : str
        Tells one writer from another.
    nodes : dict of str to Change
        By path, what changes, and the groups.
    groups : tuple of str
        Paths of the nodes that cannot be opened meanwhile: the groups above what changes, and
        so the root. None if only one node changes.
    old_documents, new_documents : tuple of str
        Keys of manifest documents to remove after the change, or after it has been undone.
    earlier_writers : tuple of str
        Those that were interrupted, and whose placeholders may be there.
    reached : {"old", "new"}, optional
        The side that all nodes have been brought to: only the documents in `unused` are left
        to remove, and there is no way back.
    unused : tuple of str
        Their keys.
    """

    writer: str
    nodes: Mapping[str, Change]
    groups: tuple[str, ...] = ()
    old_documents: tuple[str, ...] = ()
    new_documents: tuple[str, ...] = ()
    earlier_writers: tuple[str, ...] = ()
    reached: Side | None = None
    unused: tuple[str, ...] = ()

    # Storing it ---------------------------------------------------------------------------

    def dumps(self) -> bytes:
        """Return the journal as JSON.

        Examples
        --------
        >>> journal = Journal("1f2e", {"a": Change(None, b"{}")}, new_documents=("a/x.json",))
        >>> Journal.loads(journal.dumps()) == journal
        True
        """
        nodes = {p: _Node(_text(c.old), _text(c.new)) for p, c in self.nodes.items()}
        stored = _Stored(
            self.writer,
            nodes,
            list(self.groups),
            list(self.old_documents),
            list(self.new_documents),
            list(self.earlier_writers),
            self.reached,
            list(self.unused),
            explanation=_EXPLANATION,
            process=f"{os.getpid()} on {socket.gethostname()}",
        )
        return msgspec.json.format(msgspec.json.encode(stored), indent=1)

    @classmethod
    def loads(cls, body: bytes) -> Journal:
        """Return the journal that was stored as JSON.

        Raises
        ------
        InvalidConfigurationError
            It is none.
        """
        try:
            stored = msgspec.json.decode(body, type=_Stored)
            nodes = {p: Change(_bytes(n.old), _bytes(n.new)) for p, n in stored.nodes.items()}
        except (msgspec.MsgspecError, ValueError) as error:
            raise _not_a_journal(error) from error
        if stored.groups and not nodes.keys() >= {"", *stored.groups}:
            raise _not_a_journal("a group is not among its nodes")
        documents = [*stored.old_documents, *stored.new_documents, *stored.unused]
        # It may have come with somebody else's hierarchy, and is not to lead out of it.
        for key in [*filter(None, nodes), *documents]:
            if not is_possible_path(key) or "\0" in key:
                raise _not_a_journal(f"{key!r} is not a path in the hierarchy")
        return cls(
            stored.writer,
            nodes,
            tuple(stored.groups),
            tuple(stored.old_documents),
            tuple(stored.new_documents),
            tuple(stored.earlier_writers),
            stored.reached,
            tuple(stored.unused),
        )

    @classmethod
    def read(cls, store: GuardedStore) -> Journal | None:
        """Return the journal in a store, if there is one.

        Raises
        ------
        InvalidConfigurationError
            It is none.
        LocationNotAllowedError
            Something that it names lies behind a symbolic link.
        """
        body = store.read(JOURNAL).body
        if body is None:
            return None
        journal = cls.loads(body)
        journal.require_own(store, journal.nodes)
        return journal

    def require_own(self, store: GuardedStore, paths: Iterable[str]) -> None:
        """Refuse a change of nodes or documents behind a link, before anything is changed.

        Raises
        ------
        LocationNotAllowedError
        """
        for path in paths:
            store.require_own(join(path, "zarr.json"))
        for key in (*self.old_documents, *self.new_documents, *self.unused):
            store.require_own(key)

    # What it says -------------------------------------------------------------------------

    @property
    def is_first(self) -> bool:
        """Whether there was no hierarchy before."""
        return all(change.old is None for change in self.nodes.values())

    @property
    def changed(self) -> list[str]:
        """Paths of the nodes that the change creates, replaces or removes."""
        return sorted(path for path, change in self.nodes.items() if change.old != change.new)

    # Carrying it out ----------------------------------------------------------------------

    def write(self, store: GuardedStore) -> None:
        """Store the journal.

        Raises
        ------
        WriteConflictError
            There is another one.
        LocationNotAllowedError
            Something that it names lies behind a symbolic link.
        """
        # Where there was no node, there was no link either.
        self.require_own(store, (p for p, change in self.nodes.items() if change.old is not None))
        body = self.dumps()
        # A request that was retried because its response was lost conflicts with itself.
        if not store.create(JOURNAL, body) and store.read(JOURNAL).body != body:
            raise _another_writer(store)

    def taken_over(self, store: GuardedStore) -> Journal:
        """Return the journal under the name of a new writer; the earlier one gets an error."""
        writers = (*self.earlier_writers, self.writer)
        mine = replace(self, writer=uuid.uuid4().hex, earlier_writers=writers)
        mine._replace(store, self)
        return mine

    def _replace(self, store: GuardedStore, before: Journal) -> None:
        stored = store.read(JOURNAL)
        if stored.body is None or Journal.loads(stored.body) != before:
            raise _another_writer(store)
        store.replace(JOURNAL, stored, self.dumps())

    def bring(
        self, store: GuardedStore, side: Side, known: Mapping[str, Stored] | None = None
    ) -> None:
        """Bring every node to one side, and remove the documents and the journal.

        Parameters
        ----------
        store : GuardedStore
            The hierarchy's own store.
        side : {"old", "new"}
            The state to bring the nodes to.
        known : mapping of str to Stored, optional
            The ``zarr.json`` of nodes, by path, that need not be read again. Only its own
            writer knows them, before anything has changed.

        Raises
        ------
        WriteConflictError
            Another writer has changed a node since, so that the change cannot be finished.
            To undo it leaves such a node as it is.
        """
        switch = _Switch(store, self, side, dict(known or {}))
        groups = sorted(self.groups)
        for path in groups:
            try:
                switch.close(path)
            except WriteConflictError:
                if known and not path:  # nothing has changed so far
                    replace(self, reached="old", unused=self.new_documents).clean(store)
                raise
        # Members first: the copies in consolidated metadata follow them.
        for path in reversed(self.changed):
            if path not in self.groups:
                switch.change(path)
        for path in reversed(groups):
            switch.change(path)
        documents = self.old_documents if side == "new" else self.new_documents
        unused = tuple(key for key in documents if not switch.declares(key))
        done = replace(self, reached=side, unused=unused)
        if unused:
            done._replace(store, self)
        done.clean(store)

    def carry_out(self, store: GuardedStore, known: Mapping[str, Stored]) -> None:
        """Bring every node to the new side; on a failure, back to the old one.

        Parameters
        ----------
        store, known
            As of :meth:`bring`. The journal has been written.
        """
        try:
            self.bring(store, "new", known)
        except BaseException:
            with contextlib.suppress(Exception):
                if Journal.read(store) == self:
                    self.bring(store, "old")
            raise

    def clean(self, store: GuardedStore) -> None:
        """Remove the documents that are not used on the side reached, and the journal.

        What is no document stays, whatever the journal says.
        """
        if self.unused:
            bodies = [(p, body) for p, c in self.nodes.items() for body in (c.old, c.new)]
            for key in removable(store, self.unused, bodies):
                store.delete(key)
        store.delete(JOURNAL)


@dataclass(frozen=True)
class _Switch:
    """Brings nodes to one side, whichever side they are on."""

    store: GuardedStore
    journal: Journal
    side: Side
    known: dict[str, Stored]

    # Arrays that another writer has changed since.
    foreign: list[DeclaredArray] = field(default_factory=list[DeclaredArray])

    @functools.cached_property
    def closed(self) -> bytes:
        """The metadata of a group that cannot be opened meanwhile."""
        return placeholder(self.journal.writer)

    def close(self, path: str) -> None:
        """Put a placeholder in place of a node, if there is one, or if it is the root."""
        change = self.journal.nodes[path]
        writers = (self.journal.writer, *self.journal.earlier_writers)
        found = self._find(path, {change.old, change.new, *map(placeholder, writers)})
        if found is not None and (found.body is not None or not path):
            self._put(path, found, self.closed)

    def change(self, path: str) -> None:
        """Bring a node to the side."""
        change, closed = self.journal.nodes[path], self.closed
        wanted: bytes | None = getattr(change, self.side)
        expected = {change.old, change.new}
        if path in self.journal.groups:
            expected = {closed, wanted} if path else {closed}
            expected |= {None} & {change.old, change.new}
        elif (
            self.journal.groups
            and not self.store.can_hold
            and not self.store.holds("zarr.json", closed)
        ):
            raise _another_writer(self.store)
        found = self._find(path, expected)
        if found is not None:
            self._put(path, found, wanted)

    def declares(self, key: str) -> bool:
        """Whether a document is in use by an array that another writer has changed."""
        return any(is_document(array, key) for array in self.foreign)

    def _find(self, path: str, expected: set[bytes | None]) -> Stored | None:
        """Return a node that is as expected; None if it is to stay as it is."""
        key = join(path, "zarr.json")
        found = self.known.pop(path, None) or self.store.read(key)
        if found.body in expected:
            return found
        if self.side == "old":
            array, _ = earlier_array(path, found, self.store.root)
            self.foreign.extend([] if array is None else [array])
            return None
        raise WriteConflictError(
            "another writer has changed the node in the meantime",
            array=path,
            location=key,
            remedy="Its version was kept. Check what is there now, and try again.",
        )

    def _put(self, path: str, found: Stored, body: bytes | None) -> None:
        key = join(path, "zarr.json")
        if found.body == body:
            return
        if body is None:
            self.store.delete(key)
        else:
            self.store.replace(key, found, body)


def _not_a_journal(reason: object) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"{JOURNAL!r} is not the journal of an interrupted writer: {reason}",
        remedy="Remove it, and write the hierarchy again.",
    )


def _another_writer(store: GuardedStore) -> WriteConflictError:
    return WriteConflictError(
        "another writer is replacing the hierarchy",
        location=store_name(store.store),
        remedy="Check what is there when it has finished, and try again.",
    )


class _Node(msgspec.Struct):
    """The metadata of a node: text, or bytes that are no text, as ``{"base64": ...}``."""

    old: str | dict[str, str] | None
    new: str | dict[str, str] | None


class _Stored(msgspec.Struct):
    """A journal as stored."""

    writer: str
    nodes: dict[str, _Node]
    groups: list[str]
    old_documents: list[str]
    new_documents: list[str]
    earlier_writers: list[str] = []
    reached: Side | None = None
    unused: list[str] = []
    explanation: str = ""
    process: str = ""


def _text(body: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body or b"").decode()}


def _bytes(text: str | dict[str, str] | None) -> bytes | None:
    if isinstance(text, dict):
        return base64.b64decode(text.get("base64", ""), validate=True)
    return None if text is None else text.encode()
