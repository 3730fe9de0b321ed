"""Removal of what nothing in a hierarchy refers to any more.

Writers never overwrite a manifest document or a chunk that they named by its digest: what they
replace stays until it is removed here. What a writer has just written is not referred to yet, and
is left alone because it is young.

An object is removed only if its name proves that it was written by digest: its content has this
digest. So only what is to be removed has to be read, and files of strangers stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import re
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, NamedTuple

from msgspec.structs import replace

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    ReadOnlyError,
    Setting,
    WriteConflictError,
    in_context,
)
from zarr_manifest.format import (
    KNOWN_CODECS,
    METADATA_NAMES,
    NODE_METADATA,
    ArrayMetadata,
    DocumentCodec,
    Limits,
    ancestors,
    decode_body,
    explain_object,
    join,
    strict,
)
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    DeclaredArray,
    InspectedHierarchy,
    ManifestDocuments,
    Node,
    Partition,
    copies_in,
    list_nodes,
    store_underneath,
)
from zarr_manifest.locations import Location, StoreLocation
from zarr_manifest.showing import counted, size
from zarr_manifest.sources import MOMENTARY, Allow, access_by_prefix, in_order
from zarr_manifest.stores import (
    Listing,
    StoreLike,
    can_list,
    not_listable,
    open_hierarchy,
    store_name,
)
from zarr_manifest.writing.own_objects import Content, OwnObjects, own_objects
from zarr_manifest.zarr_internals import sync

type UnusedKind = Literal["manifest document", "chunk", "momentary file"]

# A name with the first digits of a document's digest, and nothing that would make it a longer word.
_DIGITS = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{16}(?![0-9A-Za-z])")

_CHUNK = re.compile(r"(?:.*/)?chunks/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
# In a place for chunks that hierarchies share.
_SHARED_CHUNK = re.compile(r"sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")

# What the names of momentary files end with, after the name of what they belong to.
_ENDINGS = re.compile(rf"(?:{'|'.join(map(re.escape, (*MOMENTARY, '.held')))})+$")

# The key of a native chunk, within its array.
_NATIVE_CHUNK = re.compile(r"c|(?:c[/.])?[0-9]+(?:[/.][0-9]+)*")


@dataclass(frozen=True, slots=True)
class UnusedObject:
    """An object that nothing in its hierarchy refers to.

    Parameters
    ----------
    key : str
        Its key in the hierarchy's own store.
    kind : {"manifest document", "chunk", "momentary file"}
        What it was; a momentary file was left by a writer that was killed.
    nbytes : int
        Its size.
    """

    key: str
    kind: UnusedKind
    nbytes: int


@dataclass(slots=True)
class CleaningReport:
    """What was removed from a hierarchy, or would be.

    Parameters
    ----------
    unused : list of UnusedObject
        What was removed, by key; what would be, if it was only asked for.
    young : int
        Number of objects that are named by digest, and too young to be looked at.
    kept : list of (str, str)
        Keys of objects whose names look as if they were named by digest, and why they stay.

    Examples
    --------
    >>> print(CleaningReport([UnusedObject("a/manifest-0123456789abcdef.json", "chunk", 2000)]))
    1 chunk, 2.0 kB
    """

    unused: list[UnusedObject] = field(default_factory=list[UnusedObject])
    young: int = 0
    kept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def nbytes(self) -> int:
        """Size of all that is not used, in bytes."""
        return sum(each.nbytes for each in self.unused)

    def __str__(self) -> str:
        kinds = itertools.groupby(sorted(each.kind for each in self.unused))
        counts = [counted(sum(1 for _ in each), kind) for kind, each in kinds]
        return ", ".join([*counts, size(self.nbytes)]) if counts else "nothing"


def clean(
    location: StoreLike,
    *,
    older_than: timedelta | float = timedelta(days=7),
    dry_run: bool = False,
    used_by: Iterable[StoreLike] | None = None,
    no_others: bool = False,
    allow: Allow = None,
    limits: Limits | None = None,
) -> CleaningReport:
    """Remove what nothing in a hierarchy refers to any more.

    Writers replace a hierarchy's manifest documents and chunks by others with other names. The
    earlier ones stay, for readers that opened the hierarchy before. This function removes
    manifest documents and chunks that are named by their digest, and files that killed writers
    left beside others, if no ``zarr.json`` of the hierarchy names them: neither a node's own
    nor a copy in consolidated metadata, nor a manifest that these declare. If one of all these
    cannot be read, nothing is removed.

    Files of others stay: each object is read first, and must have the digest that its name
    states. Nothing outside the hierarchy is removed, and nothing behind symbolic links. Name the
    hierarchy's root: groups above `location`, and other hierarchies, are not looked at.

    Writers may work meanwhile, because whatever they write, or refer to again, is young. So
    with a small `older_than`, make sure that there are none.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    older_than : timedelta or float
        What was written less than this ago stays; a number is in seconds. The times are those
        of the store, compared with this machine's clock.
    dry_run : bool
        Whether to find out what is not used, and not remove it.
    used_by : iterable of str, Path, obstore store or zarr Store, optional
        Hierarchies that share chunks, which are in `location`: see `chunks_in` of :func:`edit`.
        What none of them refers to is removed with `no_others` only: not while one is written.
    no_others : bool
        Promise that no other hierarchies use these chunks.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`: of the hierarchy, and of
        manifest documents outside it.
    limits : Limits, optional
        As for :class:`ManifestStore`.

    Returns
    -------
    CleaningReport

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError
        The store cannot be listed.
    WriteConflictError
        The store does not say when objects were written, and `older_than` is not 0.
    ReadOnlyError
        The store was opened for reading only.
    ManifestError
        The metadata of a node, or a manifest, cannot be read. Nothing was removed.
    ValueError
        `older_than` is negative.

    Examples
    --------
    >>> import hashlib, pathlib, tempfile, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> zarr_manifest.create_array(root, "a", {}, shape=4, chunks=4, dtype="u1")
    >>> digest = hashlib.sha256(b"{}").hexdigest()
    >>> _ = (root / f"a/manifest-{digest[:16]}.json").write_bytes(b"{}")
    >>> print(clean(root))
    nothing
    >>> print(clean(root, older_than=0))
    1 manifest document, 2 B
    """
    age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    if not age >= 0:
        raise ValueError(f"older_than must not be negative, not {older_than!r}")
    now = time.time()
    opened = open_hierarchy(location, access_by_prefix(allow))
    hierarchy = InspectedHierarchy.open(opened, allow=allow, limits=limits)
    own = store_underneath(opened)
    if opened.read_only and not dry_run:
        raise ReadOnlyError(
            "the store is open for reading only, and nothing can be removed",
            location=store_name(own),
            remedy=Advice("To see what is not used, pass ", Setting("dry_run", True), "."),
        )
    if not can_list(own):
        raise not_listable(own, "so it is unknown what nothing refers to")
    objects = own_objects(own)
    if age and not objects.has_times:
        raise WriteConflictError(
            f"this {type(own).__name__} does not say when objects were written, so that what a "
            "writer is about to refer to is unknown",
            location=store_name(own),
            remedy=Advice("If nobody is writing, pass ", Setting("older_than", 0), "."),
        )
    # The declared base counts, whatever base a reader has told its store.
    cleaning = _Cleaning(replace(hierarchy, base=None), objects, now - age)
    if used_by is None:
        return sync(cleaning.run(dry_run=dry_run))
    users = (InspectedHierarchy.open(each, allow=allow, limits=limits) for each in used_by)
    cleaning.users = [replace(each, base=None) for each in users]
    return sync(cleaning.run_shared(dry_run=dry_run or not no_others))


@dataclass(slots=True)
class _Cleaning:
    """One pass over a hierarchy.

    What may be unused is in `unused`, by key, until a reference to it is found. Files that exist
    for a moment are in `momentary`, by the key of what they belong to.
    """

    hierarchy: InspectedHierarchy
    objects: OwnObjects
    written_before: float
    users: Sequence[InspectedHierarchy] = ()
    unused: dict[str, UnusedKind] = field(default_factory=dict[str, UnusedKind])
    momentary: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    report: CleaningReport = field(default_factory=CleaningReport)
    _names: dict[str, list[str]] | None = None

    async def run(self, *, dry_run: bool) -> CleaningReport:
        metadata = await self._list()
        nodes, manifests = await self._read(
            None if self.objects.is_directory else Listing(metadata, [], [])
        )
        self._take_momentary(nodes, manifests)
        self._keep_linked(self.objects.linked)
        for manifest in manifests:
            for location in manifest.locations():
                self._keep(location)
        if self.unused:
            await self._keep_sources(manifests)
        return await self._removed(dry_run=dry_run)

    async def run_shared(self, *, dry_run: bool) -> CleaningReport:
        """Do the same in a place for chunks, which hierarchies use that are elsewhere."""
        async for found in self.objects.listed():
            if _SHARED_CHUNK.fullmatch(found.key) is None:
                continue
            if self._is_young(found.modified):
                self.report.young += 1
            else:
                self.unused[found.key] = "chunk"
        for user in self.users:
            reading = _Cleaning(user, self.objects, self.written_before, self.users, self.unused)
            await reading._keep_sources((await reading._read())[1])
        return await self._removed(dry_run=dry_run)

    async def _read(
        self, listing: Listing | None = None
    ) -> tuple[list[Node], list[_NamedManifest]]:
        """Return the nodes of the hierarchy, and the manifests that they declare."""
        nodes = await list_nodes(
            self.hierarchy.store,
            directories=self.hierarchy.directories,
            as_stored=True,
            listing=listing,
        )
        return nodes, [
            _NamedManifest(documents, await documents.partitions())
            for documents in map(self.hierarchy.documents, self._arrays(nodes))
        ]

    async def _removed(self, *, dry_run: bool) -> CleaningReport:
        calls = (
            functools.partial(self._remove, key, kind, dry_run=dry_run)
            for key, kind in sorted(self.unused.items())
        )
        async for removed in in_order(calls, CONCURRENCY):
            self.report.unused += [] if removed is None else [removed]
        self.report.kept.sort()
        return self.report

    # What may be unused ------------------------------------------------------------------

    async def _list(self) -> list[str]:
        """Note what may be unused, and return the keys of all metadata documents."""
        metadata: list[str] = []
        async for found in self.objects.listed():
            key = found.key
            if key.rpartition("/")[2] in NODE_METADATA:
                metadata.append(key)
            elif key.endswith(MOMENTARY) and self.objects.is_directory:
                if not self._is_young(found.modified):
                    self.momentary.setdefault(_ENDINGS.sub("", key), []).append(key)
            elif (kind := _kind_of(key)) is not None:
                if self._is_young(found.modified):
                    self.report.young += 1
                else:
                    self.unused[key] = kind
        return metadata

    def _is_young(self, modified: float | None) -> bool:
        return modified is not None and modified > self.written_before

    def _take_momentary(self, nodes: Iterable[Node], manifests: Iterable[_NamedManifest]) -> None:
        """Note those files that exist for a moment beside what writers of hierarchies write."""
        if not self.momentary:
            return
        documents = {
            location.key
            for manifest in manifests
            for location in manifest.locations()
            if isinstance(location, StoreLocation)
        }
        arrays = {node.path for node in nodes if node.kind == "array"}
        for key, found in self.momentary.items():
            if (
                key.rpartition("/")[2] in METADATA_NAMES
                or key in documents
                or _kind_of(key) is not None
                or _is_native_chunk(key, arrays)
            ):
                self.unused |= dict.fromkeys(found, "momentary file")

    # What refers to it -------------------------------------------------------------------

    def _arrays(self, nodes: Sequence[Node]) -> Iterator[DeclaredArray]:
        """Yield the arrays with manifests, as their own metadata and all copies declare them."""
        known = {node.path: node for node in nodes}
        for node in nodes:
            yield from self._array(node, join(node.path, "zarr.json") if node.is_own else None)
            for copy in copies_in(node):
                if not _refers_alike(copy, known.get(copy.path)):
                    yield from self._array(copy, join(node.path, "zarr.json"))

    def _array(self, node: Node, where: str | None) -> Iterator[DeclaredArray]:
        with in_context(array=node.path, location=where):
            if node.problem is not None:
                raise node.problem
            array = strict(self.hierarchy.declaration(node))
        if array is not None:
            yield array

    async def _keep_sources(self, manifests: Iterable[_NamedManifest]) -> None:
        """Keep what entries of manifests refer to, chunks among them."""
        calls = (
            functools.partial(each.documents.partition, partition)
            for each in manifests
            for partition in each.partitions
        )
        async for loaded in in_order(calls, CONCURRENCY):
            for location in loaded.locations:
                self._keep(location)
        for each in manifests:
            await each.documents.check_missing()

    def _keep(self, location: Location) -> None:
        if isinstance(location, StoreLocation) and not self.users:
            self.unused.pop(location.key, None)
            return
        # Perhaps another name of the hierarchy's own store.
        if self._names is None:
            self._names = {}
            for key in self.unused:
                self._names.setdefault(key.rpartition("/")[2], []).append(key)
        path = location.key if isinstance(location, StoreLocation) else location.path
        for key in self._names.get(path.rpartition("/")[2], ()):
            self.unused.pop(key, None)

    def _keep_linked(self, targets: Iterable[str]) -> None:
        """Keep what symbolic links lead to: references may be written through them."""
        linked = frozenset(targets)
        for key in [key for key in self.unused if not linked.isdisjoint([key, *ancestors(key)])]:
            del self.unused[key]

    # Removing ----------------------------------------------------------------------------

    async def _remove(self, key: str, kind: UnusedKind, *, dry_run: bool) -> UnusedObject | None:
        """Remove an object if its content is that of its name, and return what it was."""
        most = self.hierarchy.limits.manifest_bytes if kind == "manifest document" else 0
        content = await self.objects.read(key, most)
        if content is None:
            return None  # somebody else has removed it
        problem = await asyncio.to_thread(self._not_by_digest, key, kind, content)
        if problem is not None:
            self.report.kept.append((key, problem))
            return None
        is_free = not self._is_young(content.modified)
        if is_free and not dry_run:
            is_momentary = kind == "momentary file"
            remove = self.objects.remove_momentary if is_momentary else self.objects.remove
            is_free = await remove(key, content)
        self.report.young += not is_free
        return UnusedObject(key, kind, content.size) if is_free else None

    def _not_by_digest(self, key: str, kind: UnusedKind, content: Content) -> str | None:
        """Return why an object was not written by digest; None if it was."""
        name = key.rpartition("/")[2]
        if kind == "chunk" and content.digest != name:
            return "its bytes have another digest than its name states"
        if kind == "manifest document":
            if not any(map(content.digest.startswith, _DIGITS.findall(name))):
                return "its bytes have another digest than its name states"
            if not _is_document(content.body, self.hierarchy.limits.manifest_bytes):
                return "it is not a manifest document"
        return None


class _NamedManifest(NamedTuple):
    """The manifest of an array, and the partitions whose documents make it up."""

    documents: ManifestDocuments
    partitions: Iterable[Partition]

    def locations(self) -> Iterator[Location]:
        """Yield where the documents are that the declaration names."""
        return self.documents.array.locations(self.partitions)


def _kind_of(key: str) -> Literal["manifest document", "chunk"] | None:
    """Return what an object is according to its key; None unless that states a digest."""
    if _CHUNK.fullmatch(key):
        return "chunk"
    return "manifest document" if _DIGITS.search(key.rpartition("/")[2]) else None


def _is_native_chunk(key: str, arrays: Container[str]) -> bool:
    path = next((path for path in ancestors(key) if path in arrays), None)
    return path is not None and _NATIVE_CHUNK.fullmatch(key[len(path) :].lstrip("/")) is not None


def _refers_alike(copy: Node, own: Node | None) -> bool:
    """Whether a copy of a node's metadata refers to nothing that its own does not refer to."""
    if own is None or own.problem is not None or copy.problem is not None:
        return False
    return ArrayMetadata("", own.metadata).of_chunks == ArrayMetadata("", copy.metadata).of_chunks


def _is_document(body: bytes | None, limit: int) -> bool:
    """Whether bytes are those of a manifest document, however it is encoded."""
    if body is None:
        return False
    orders = (itertools.permutations(KNOWN_CODECS, n) for n in range(len(KNOWN_CODECS) + 1))
    for names in itertools.chain.from_iterable(orders):
        with contextlib.suppress(ManifestError):
            document = decode_body(tuple(map(DocumentCodec, names)), body, limit)
            if explain_object(bytes(document)) is None:
                return True
    return False
