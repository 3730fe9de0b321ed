"""Writing a manifest, for an existing array or together with a new one.

Everything is checked, with the readers' own checks, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidPathError,
    WriteConflictError,
    in_context,
)
from zarr_manifest.format import (
    NODE_NAMES,
    ancestors,
    dump_node,
    impossible_name,
    join,
    parse_node,
)
from zarr_manifest.hierarchy import InspectedHierarchy, ManifestStore
from zarr_manifest.sources import (
    Allow,
)
from zarr_manifest.stores import StoreLike
from zarr_manifest.writing.array_writer import ArrayWriter, Form
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import GuardedStore, guarded_store
from zarr_manifest.writing.given_entries import Entries, interpret_entries
from zarr_manifest.zarr_internals import sync

# Its annotations name types of packages that may not be installed.
_untyped_zarr: Any = zarr


def write_manifest(
    location: StoreLike,
    array_path: str,
    entries: Entries,
    *,
    manifest_url: str | None = None,
    inline: bool | None = None,
    base: str | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: Sequence[int] | None = None,
    lock: bool = True,
    sole_writer: bool = False,
    allow: Allow = None,
) -> None:
    """Make an existing array refer to chunks stored elsewhere.

    The array must exist already (``zarr.create_array`` writes its metadata;
    :func:`create_array` does both together). Any chunks of its own are no longer
    read.

    Everything is checked first. Then the documents are written, under names that nothing
    reads yet, and then the metadata that declare them, with one put. A reader sees either the
    old manifest or the new one, never a mixture; whoever opened the array before goes on
    reading the old one, whose documents stay until they are cleaned away. If two writers write
    the same array at the same time, one of them gets an error.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    array_path : str
        Path of the array in the hierarchy; ``""`` for the root.
    entries : Manifest, mapping, or iterable of pairs
        The entries, by chunk key or grid index; each is a mapping with the members
        of an entry (specification, "Entries"), in which `data` may be bytes. Absent
        chunks are missing chunks. Pairs of chunk and entry may also come from a
        generator. :meth:`Manifest.from_columns` makes a manifest from arrays of
        numbers.
    manifest_url : str, optional
        URL reference of the document, relative to the array and in the hierarchy's
        own store; with `partition_shape`, it contains ``{partition}``. By default
        ``./manifest-{digest}.json`` or ``./manifest/{partition}-{digest}.json``, with
        checksums in the declaration (specification, "Documents by digest"). A reference without
        ``{digest}`` declares no checksum, so that every reader of the core can read the array
        and people can edit the document, but a stale copy of it goes unnoticed. A name that is
        already in use for another document gets the digest.
    inline : bool, optional
        Whether to write the manifest into ``zarr.json`` instead, so that it needs no request of
        its own. By default, if it has less than 4 kB, and no option concerns its document:
        no `manifest_url`, `codecs` or `partition_shape`.
    base : str, optional
        URL reference that relative paths resolve against; the array's own location
        by default.
    codecs : sequence of str or mapping
        Codecs that encode the documents: ``gzip``, ``zstd``, ``crc32c``, by name or
        as in ``zarr.json``.
    partition_shape : sequence of int, optional
        Number of chunks in a partition along each dimension: every partition with
        entries gets a document of its own, and the declaration says which there are.
    lock : bool
        Lock out readers that do not know manifests: zarr without this package then refuses
        the array, instead of reading it as fill values (specification, "The lock").
    sole_writer : bool
        Promise that nobody else is writing to the array, for stores that cannot
        detect it. Not needed for directories, memory, or object stores with
        conditional puts (S3, Google Cloud Storage, Azure).
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The location
        needs no authorisation; it is accessed without credentials unless a prefix says
        otherwise. Referenced objects are not read.

    Raises
    ------
    SourceNotFoundError
        If there is no such directory.
    WriteConflictError
        If another writer wrote to the array meanwhile; its version is kept.
    ManifestError
        If a validator would report a problem; nothing is then written.
    ValueError, TypeError
        If `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(range(8)))
    >>> _ = zarr.create_array(root / "a", shape=8, chunks=4, dtype="u1", compressors=None)
    >>> entries = {(1,): {"path": "raw.bin", "offset": 4, "length": 4}}
    >>> write_manifest(root, "a", entries, base="../", inline=False)
    >>> print(next(root.glob("a/manifest-*.json")).read_text())
    {
    "1":{"path":"raw.bin","offset":4,"length":4}
    }
    <BLANKLINE>
    """
    path = _node_path(array_path)
    form = Form(manifest_url, inline, base, codecs, partition_shape, lock)
    hierarchy = InspectedHierarchy.open(location, allow=allow)
    store = guarded_store(location, hierarchy.allow, sole_writer=sole_writer)
    change = Change(store)
    node = change.node(path)
    if node is None or node.get("node_type") != "array":
        raise InvalidConfigurationError(
            "there is no Zarr v3 array at this path",
            array=path,
            remedy="Create it first with zarr.create_array, which writes no chunks.",
        )
    change.set(path, _with_manifest(store, path, node, entries, form))
    with in_context(array=path):
        change.commit()
    _notice(location, path)


def create_array(
    location: StoreLike,
    array_path: str,
    entries: Entries,
    *,
    shape: int | Sequence[int],
    chunks: int | Sequence[int],
    dtype: Any,
    manifest_url: str | None = None,
    inline: bool | None = None,
    base: str | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: Sequence[int] | None = None,
    lock: bool = True,
    sole_writer: bool = False,
    allow: Allow = None,
    **array_options: Any,
) -> None:
    """Create an array whose chunks are stored elsewhere.

    Works like :func:`write_manifest`. The array's ``zarr.json`` is written only once,
    complete, so that no reader sees the array without its manifest. Missing groups
    above it are created, and it is added to consolidated metadata above it.
    After an interruption, the same call finishes what is missing.

    Parameters
    ----------
    location, array_path, entries
        As for :func:`write_manifest`. There must not be a node at the path.
    shape, chunks, dtype
        As for ``zarr.create_array``.
    manifest_url, inline, base, codecs, partition_shape, lock, sole_writer, allow
        As for :func:`write_manifest`.
    **array_options
        Further options of ``zarr.create_array``: `compressors`, `filters`,
        `serializer`, `shards`, `fill_value`, `attributes`, `dimension_names`, ...
        Unlike there, `compressors` is None by default, because the chunks have
        already been written by other software.

    Raises
    ------
    WriteConflictError
        If there is a node at the path, or an array above it.
    ManifestError
        If a validator would report a problem; nothing is then written.
    ValueError, TypeError
        If `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(range(8)))
    >>> create_array(
    ...     root, "group/a", {"0": {"path": "raw.bin", "offset": 2}}, base="../../",
    ...     shape=6, chunks=6, dtype="u1",
    ... )
    >>> zarr.open_group(ManifestStore(root), mode="r")["group/a"][:]
    array([2, 3, 4, 5, 6, 7], dtype=uint8)
    """
    path = _node_path(array_path)
    form = Form(manifest_url, inline, base, codecs, partition_shape, lock)
    wrong = {"store", "name", "data", "overwrite", "zarr_format"} & set(array_options)
    if wrong:
        raise TypeError(f"create_array() got an unexpected argument {sorted(wrong)[0]!r}")
    options = {"compressors": None, **array_options}
    metadata = _metadata(shape=shape, chunks=chunks, dtype=dtype, **options)
    store = guarded_store(location, allow, sole_writer=sole_writer)
    change = Change(store)
    missing = _missing_parents(change, path)
    before = change.node(path)
    if before is not None and not missing:
        raise _existing_node(path)
    written = _with_manifest(store, path, metadata, entries, form)
    if before not in (None, written):
        raise _existing_node(path)
    change.set(path, written)
    if any(map(change.has_copies, ancestors(path))):
        for parent in missing:
            change.set_default(parent, _GROUP)
    with in_context(array=path):
        change.commit()
    # Otherwise the groups follow the array, which is nowhere else described.
    for parent in missing:
        store.create(join(parent, "zarr.json"), dump_node(_GROUP))
    _notice(location, path)


_GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}


def _node_path(array_path: str) -> str:
    path = array_path.strip("/")
    name = impossible_name(path)
    if name is not None:
        raise InvalidPathError(
            f"a node of Zarr v3 cannot have the name {name!r}",
            array=path,
            remedy=NODE_NAMES,
        )
    return path


def _metadata(**options: Any) -> dict[str, Any]:
    """Return the metadata that zarr writes for an array."""
    memory = MemoryStore()
    _untyped_zarr.create_array(memory, **options)
    document = guarded_store(memory).read("zarr.json").body
    node = None if document is None else parse_node(document)
    assert node is not None  # zarr has just written it
    return node


def _with_manifest(
    store: GuardedStore, path: str, metadata: dict[str, Any], entries: Entries, form: Form
) -> dict[str, Any]:
    """Write the documents of an array, and return its metadata with their declaration."""
    with in_context(array=path):
        writer = ArrayWriter(store, path, metadata, form)
        writer.write(interpret_entries(writer.array, entries))
    return writer.metadata


def _existing_node(path: str) -> WriteConflictError:
    return WriteConflictError(
        "there is already a node at this path",
        array=path,
        remedy="Delete it first; or, to replace the manifest of an existing array, use "
        "write_manifest.",
    )


def _missing_parents(change: Change, path: str) -> list[str]:
    """Return the groups above a node that do not exist, or are missing where they are described.

    Raises
    ------
    WriteConflictError
        There is an array above it.
    """
    missing: list[str] = []
    for parent in ancestors(path):
        node = change.node(parent)
        if node is None:
            missing.append(parent)
        elif node.get("node_type") == "array":
            raise WriteConflictError(
                f"{parent or '/'!r} is an array, and cannot have nodes below it",
                array=path,
                remedy="Choose another path.",
            )
    return missing


def _notice(location: object, path: str) -> None:
    """Let a ManifestStore notice what was written to the hierarchy's own store."""
    if isinstance(location, ManifestStore):
        sync(location.get(join(path, "zarr.json"), default_buffer_prototype()))
