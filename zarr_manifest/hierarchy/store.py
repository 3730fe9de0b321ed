"""ManifestStore: a zarr Store on top of any zarr Store.

Serves the chunks of manifest arrays, and hides their declarations from zarr. Leaves everything
else to the hierarchy's own store, as far as :mod:`zarr_manifest.hierarchy.changing` lets it change.
:mod:`zarr_manifest.hierarchy.readable_store` has the methods that read.
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec.structs import astuple
from zarr.abc.store import Store
from zarr.storage import LocalStore

from zarr_manifest.format import METADATA_NAMES, Configuration, Limits
from zarr_manifest.hierarchy.changing import (
    note_change,
    require_deletable,
    require_no_manifest_below,
    require_writable,
)
from zarr_manifest.hierarchy.following_manifests import FollowingManifests
from zarr_manifest.hierarchy.known_nodes import KnownNodes
from zarr_manifest.hierarchy.node_table import Remembered
from zarr_manifest.hierarchy.opened_array import OpenedArray, PickledArray
from zarr_manifest.hierarchy.readable_store import ReadableStore
from zarr_manifest.locations import (
    ReferencedLocation,
    UrlLocation,
    redact,
    suggest_prefixes,
    summarize,
    without_secrets,
)
from zarr_manifest.showing import html_table
from zarr_manifest.sources import (
    DEFAULT_MAX_GAP,
    Allow,
    access_by_prefix,
    describe_access,
    import_for_bulk,
    import_for_reading,
    in_own_loop,
    local_directories,
    may_be_remote,
)
from zarr_manifest.stores import (
    StoreLike,
    base_directory,
    hierarchy_sources,
    inside_store,
    local_store,
    open_hierarchy,
    same_place,
    store_name,
)
from zarr_manifest.zarr_internals import prepare_arrays, sync

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer
    from zarr.abc.codec import CodecPipeline

    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer, ConditionCheck, Verify


class ManifestStore(ReadableStore):
    """A hierarchy of manifest arrays and native arrays.

    Values of native arrays are written in place. All else that changes in a hierarchy with manifest
    arrays changes in an edit (:func:`zarr_manifest.edit`), and is refused here; a hierarchy without
    any is zarr's.

    Arrays that zarr opens from it read whole selections together, however they are opened. To
    debug a read, ``zarr.config.set({"zarr_manifest.bulk": False})`` before opening an array makes
    zarr read it chunk by chunk.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    allow : mapping of str to Access, or iterable of str, optional
        URL prefixes that may be read besides the hierarchy itself, and how: an
        obstore store, :func:`anonymous`, :func:`environment`, a mapping of
        obstore options, None (as in a list) for anonymous access, or a reader of
        your own (:class:`zarr_manifest.sources.RangeReader`) for any scheme.
        The longest prefix counts. A location that is a URL needs no authorisation,
        and is accessed as its prefix says, too: without credentials if none covers it.
    base : str or Path, optional
        Directory or URL that relative paths in all manifests resolve against,
        instead of the declared base; relative to the root of the hierarchy.
    verify : {"auto", "always", "never"}
        When to verify checksums: on whole-chunk reads, on every read, or never.
    conditions : {"check", "ignore"}
        Whether sources must have the state that entries record (``etag``, ``size``, ...). If
        ignored, a source that was replaced since is read as if it was the old one. The
        version that an entry names is the one that is read in any case.
    limits : Limits, optional
        Larger manifests are rejected.
    max_gap : int
        Bytes that may be read and discarded to merge two requests; -1 never merges.
    read_only : bool
        Whether the store refuses to be written to.

    Raises
    ------
    ValueError
        If `allow` contains something that is not a URL prefix.

    Examples
    --------
    >>> import json, pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(range(8)))
    >>> array = zarr.create_array(root / "a", shape=8, chunks=4, dtype="u1", compressors=None)
    >>> metadata = json.loads((root / "a" / "zarr.json").read_text())
    >>> metadata["storage_transformers"] = [{
    ...     "name": "chunk-manifest-json",
    ...     "configuration": {"manifest": {"1": {"path": "../raw.bin", "offset": 4, "length": 4}}},
    ... }]
    >>> _ = (root / "a" / "zarr.json").write_text(json.dumps(metadata))
    >>> zarr.open_array(ManifestStore(root), path="a", mode="r")[:]
    array([0, 0, 0, 0, 4, 5, 6, 7], dtype=uint8)
    """

    def __init__(
        self,
        location: StoreLike,
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        verify: Verify = "auto",
        conditions: ConditionCheck = "check",
        limits: Limits | None = None,
        max_gap: int = DEFAULT_MAX_GAP,
        read_only: bool = False,
    ) -> None:
        if verify not in ("auto", "always", "never"):
            raise ValueError(f"verify must be 'auto', 'always' or 'never', not {verify!r}")
        if conditions not in ("check", "ignore"):
            raise ValueError(f"conditions must be 'check' or 'ignore', not {conditions!r}")
        self._allow = access_by_prefix(allow)
        self._import(location)
        self._store = open_hierarchy(location, self._allow, read_only=read_only)
        self._base = base_directory(base)
        self._verify: Verify = verify
        self._conditions: ConditionCheck = conditions
        self._limits = Limits() if limits is None else limits
        self._max_gap = max_gap
        self._remembered = Remembered()
        self._token = os.urandom(16)
        super().__init__(read_only=self._store.read_only)
        self._connect()

    def _import(self, location: object) -> None:
        """Import what reading needs; `location` is that of the hierarchy, or its store."""
        urls = [*self._allow]
        # A store of obstore, or zarr's on top of one.
        store: object = getattr(location, "store", location)
        kind = type(store)
        if isinstance(location, str) and "://" in location:
            urls.append(location)
        elif kind.__name__ in ("HTTPStore", "WebStore"):
            urls.append("http:")
        import_for_reading(urls, is_object_store=kind.__module__.startswith("obstore"))

    def _connect(self) -> None:
        """Create what is not pickled: clients, and the arrays that were seen."""
        prepare_zarr()
        #: Where the bytes come from.
        self.sources = hierarchy_sources(self._store, self._allow, max_gap=self._max_gap)
        self._readable = self._seen(inside_store(self._store, local_directories(self._allow)))
        self._is_on_disk = self.sources.hierarchy_is_on_disk
        self._reads_remote = may_be_remote(self._allow)
        #: Whether the hierarchy, or any authorised location, is remote.
        self.may_be_remote = self._reads_remote or not self._is_on_disk
        # Where requests take no time, nothing is loaded in advance.
        self._following = None if self._is_on_disk else FollowingManifests()
        self._known: KnownNodes = KnownNodes(self._readable, self._transformer, self._remembered)
        self._is_only_read = self._store.read_only
        self._written_now: dict[object, frozenset[str]] = {}
        self._local = local_store(self._store)
        self._root = None if self._local is None else self._local.root

    def _seen(self, inside: Store) -> Store:
        """Return what this store shows of the hierarchy's own store, confined to its place."""
        return inside

    @property
    def _nodes(self) -> KnownNodes:
        # zarr can move a LocalStore beneath this one: nothing must be read where it was before.
        if self._local is not None and self._local.root is not self._root:
            self._token = os.urandom(16)
            alone = self._array_alone
            self._connect()
            self._known = (
                self._known if alone is None else OpenedArray.unpickled(self._known, alone)
            )
        return self._known

    def _of_array(self, path: str, metadata: Any) -> Self:
        """Return the store of an array that zarr opens with these metadata.

        For it, the array stays what it is now, whatever is committed or opened later, so that its
        manifest fits its shape. Native arrays that may be written change.
        """
        opener: Self = self if self._opener is None else self._opener
        nodes = None
        if self._is_only_read or path in opener._known.declared:
            nodes = OpenedArray.of(opener._known, path, metadata)
        if nodes is None:
            return opener
        own = object.__new__(type(self))
        vars(own).update(vars(opener), _opener=opener, _known=nodes)
        return own

    @property
    def _array_alone(self) -> PickledArray | None:
        known = self._known
        return known.to_pickle_alone() if isinstance(known, OpenedArray) else None

    def _transformer(
        self, path: str, metadata: dict[str, Any], configuration: Configuration
    ) -> ChunkManifestTransformer:
        return _for_arrays()[0](
            path,
            metadata,
            configuration,
            self.sources,
            self._store,
            base=self._base,
            verify=self._verify,
            conditions=self._conditions,
            limits=self._limits,
            following=self._following,
        )

    # What the store is -------------------------------------------------------

    _STATE = ("_allow", "_token", "_store")
    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "_base": None,
        "_conditions": "check",
        "_limits": Limits(),
        "_max_gap": DEFAULT_MAX_GAP,
        "_verify": "auto",
    }

    def __getstate__(self) -> dict[str, Any]:
        # Few objects, because each task of dask pickles and unpickles them.
        nodes = self._nodes
        if (alone := self._array_alone) is not None:
            return {**self._settings(), "_alone": astuple(alone)}
        # A worker that does not find a declaration, or another one, must know what there was.
        return {**self._settings(), "_remembered": nodes.to_pickle()}

    def _settings(self) -> dict[str, Any]:
        stated = ((name, getattr(self, name)) for name in self._DEFAULTS)
        changed = {name: value for name, value in stated if value != self._DEFAULTS[name]}
        return {name: getattr(self, name) for name in self._STATE} | changed

    def __setstate__(self, state: dict[str, Any]) -> None:
        alone = PickledArray(*state.pop("_alone")) if "_alone" in state else None
        remembered: Remembered = state.setdefault("_remembered", Remembered())
        token = state["_token"], alone is None
        # A directory that moves gets another token: comparing paths would take 15 µs.
        other = None if type(state["_store"]) is LocalStore else state["_store"]
        same = other, remembered.copied()
        known = _unpickled.pop(token, None)
        # The next task of a worker finds nodes, manifests and clients of the one before.
        store = known[1] if known is not None and known[0] == same else None
        if store is None:
            store = object.__new__(type(self))
            store._set(state)
        _unpickled[token] = same, store
        if len(_unpickled) > _MOST_UNPICKLED:
            _unpickled.popitem(last=False)
        vars(self).update(vars(store))
        if alone is not None:
            self._opener, self._known = store, OpenedArray.unpickled(store._nodes, alone)

    def _set(self, state: dict[str, Any]) -> None:
        for name, value in (self._DEFAULTS | state).items():
            setattr(self, name, value)
        self._import(self._store)
        self._connect()

    def __eq__(self, value: object) -> bool:
        """Whether another store, of this or any kind, has its objects in the same place.

        zarr asks before it overwrites an array with the values of another: neither settings
        matter then, nor whether the other is read through a ManifestStore.
        """
        if not isinstance(value, Store):
            return NotImplemented
        return same_place(self, value)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"manifest+{_name_of(str(self._store))}"

    def __repr__(self) -> str:
        allow = [redact(prefix) for prefix in self._allow]
        return f"ManifestStore({without_secrets(repr(self._store))}, {allow=})"

    def _repr_html_(self) -> str:
        """Show what was passed: nothing is read for it."""
        rows: list[tuple[str, str | list[str]]] = [
            ("Hierarchy", store_name(self._store)),
            ("May read", [f"{redact(p)}  {describe_access(a)}" for p, a in self._allow.items()]),
            ("Base", [] if self._base is None else redact(self._base)),
            ("Checksums", f"verified: {self._verify}"),
            ("Source conditions", "ignored" if self._conditions == "ignore" else "checked"),
        ]
        return html_table("ManifestStore", rows)

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return the same hierarchy, read-only or writable."""
        twin = object.__new__(type(self))
        store = self._store.with_read_only(read_only)
        # What one of them sees, or deletes, concerns the other.
        own = {"_store": store, "_token": os.urandom(16), "_remembered": self._remembered}
        twin._set({**self._settings(), **own})
        return twin

    @property
    def _supports_sync_io(self) -> bool:
        """Whether zarr may read without an event loop, which is one chunk after the other.

        Not if there is an array whose chunks may be far away: for those, requests must overlap.
        """
        return super()._supports_sync_io and not (self._reads_remote and self._nodes.declared)

    # In bulk -----------------------------------------------------------------

    async def owner_of_chunk(self, key: str) -> ChunkManifestTransformer | None:
        """Return the manifest array that a chunk belongs to; None for what is stored natively."""
        return await self._nodes.likely_array(key)

    def arrays_beside(self, path: str) -> list[ChunkManifestTransformer]:
        """Return the manifest arrays in the group of one that are known, in order."""
        opener = self if self._opener is None else self._opener
        return opener._known.manifest_arrays_in(path.rpartition("/")[0])

    @property
    def underneath(self) -> Store:
        """The hierarchy's own store, in which the declarations are visible."""
        return self._store

    async def manifest_array(self, path: str) -> ChunkManifestTransformer | None:
        """Return the manifest array at a path; None if there is none."""
        array = await self._nodes.array_at(path)
        return None if array is None or array.array_path != path else array

    # What it refers to -------------------------------------------------------

    def locations(self) -> Sequence[ReferencedLocation]:
        """Return the locations that the hierarchy refers to, without reading them.

        Loads the manifests but not the sources, so nothing needs to be authorised.

        Returns
        -------
        list of ReferencedLocation
            One per prefix, suitable for `allow`.

        Raises
        ------
        ManifestError
            There is no hierarchy, it cannot be listed, or a manifest cannot be loaded.
        """
        return sync(self._locations())

    async def _locations(self) -> Sequence[ReferencedLocation]:
        from zarr_manifest.hierarchy.inspected_hierarchy import InspectedHierarchy
        from zarr_manifest.hierarchy.walking import open_for_reading

        store = await open_for_reading(self._store)
        settings = self._allow, self._base, self._limits
        found = await InspectedHierarchy(store, self.sources, *settings).statistics()
        urls = [location for location, _, _ in found if isinstance(location, UrlLocation)]
        return summarize(found, suggest_prefixes(urls), self._allow)

    # Writing -----------------------------------------------------------------

    @contextmanager
    def writing_values(self, keys: Iterable[str]) -> Generator[None]:
        """Let chunks of native arrays be deleted, to which values are written meanwhile.

        Parameters
        ----------
        keys : iterable of str
            Their keys.
        """
        token = object()
        self._written_now[token] = frozenset(keys)
        try:
            yield
        finally:
            del self._written_now[token]

    def _is_written_now(self, key: str) -> bool:
        return any(key in keys for keys in list(self._written_now.values()))

    async def set(self, key: str, value: Buffer) -> None:
        """Write a native value; or metadata, in a hierarchy without manifest arrays."""
        self._check_writable()
        await require_writable(self._nodes, key)
        await self._readable.set(key, value)
        note_change(self._nodes, key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write a native value; without an event loop if it is of a known native array."""
        if not self._nodes.is_native(key) or key.rpartition("/")[2] in METADATA_NAMES:
            in_own_loop(self.set(key, value))
            return
        self._check_writable()
        self._synchronous.set_sync(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a native value, or metadata, as by `set`, unless its key has one."""
        self._check_writable()
        await require_writable(self._nodes, key)
        await self._readable.set_if_not_exists(key, value)
        if key.rpartition("/")[2] in METADATA_NAMES:
            self._nodes.note_absence(key.rpartition("/")[0])

    async def delete(self, key: str) -> None:
        """Delete a chunk that gets fill values; or, without manifest arrays, any value."""
        self._check_writable()
        if await require_deletable(self._nodes, key, is_written=self._is_written_now(key)):
            await self._readable.delete(key)
            note_change(self._nodes, key, None)

    def delete_sync(self, key: str) -> None:
        """Delete a value; without an event loop if values are written to a known native array."""
        if not (self._nodes.is_native(key) and self._is_written_now(key)):
            in_own_loop(self.delete(key))
            return
        self._check_writable()
        self._synchronous.delete_sync(key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete all keys below a prefix, in a hierarchy without manifest arrays."""
        self._check_writable()
        directory = prefix.rstrip("/")
        await require_no_manifest_below(self._nodes, directory)
        await self._readable.delete_dir(directory)
        self._nodes.deleted_below(directory)

    async def clear(self) -> None:
        """Delete everything, in a hierarchy without manifest arrays."""
        await self.delete_dir("")


# Stores that this process has unpickled, by token and whether it was for all arrays, the latest
# last; with the store underneath, and what was remembered. dask pickles one with every task.
_unpickled = OrderedDict[
    tuple[bytes, bool], tuple[tuple[Store | None, Remembered], ManifestStore]
]()
_MOST_UNPICKLED = 8


# zarr asks for it with every array.
_name_of = functools.lru_cache(16)(without_secrets)


def prepare_zarr() -> None:
    """Let zarr make its arrays of a ManifestStore with their own stores, and read in bulk."""
    prepare_arrays(_in_bulk)


def _in_bulk(usual: CodecPipeline) -> CodecPipeline:
    return _for_arrays()[1](usual)


type _Wrap = Callable[[CodecPipeline], CodecPipeline]


@functools.cache
def _for_arrays() -> tuple[type[ChunkManifestTransformer], _Wrap]:
    # Imported with the first array: servers are asked for metadata before, and stores are opened
    # for other purposes, too.
    import_for_bulk()
    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
    from zarr_manifest.pipeline import BulkCodecPipeline

    return ChunkManifestTransformer, BulkCodecPipeline
