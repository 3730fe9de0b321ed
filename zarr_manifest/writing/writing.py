"""Writing a manifest: for an array that is there, or together with a new one.

Everything is checked, by the checks of readers, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidPathError,
    ManifestError,
    WriteConflictError,
)
from zarr_manifest.format import ancestors, dump_node, impossible_name, parse_node
from zarr_manifest.hierarchy import (
    ManifestStore,
    ensure_open,
    join,
    open_hierarchy,
    store_underneath,
    sync,
)
from zarr_manifest.writing.array_writer import ArrayWriter, Form
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, guarded_store
from zarr_manifest.writing.consolidated import add_to_consolidated
from zarr_manifest.writing.entries import Entries, interpret_entries

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Entries", "create_array", "write_manifest"]

# Its annotations name types of packages that may not be there.
_untyped_zarr: Any = zarr


def write_manifest(
    location: str | Path | ObjectStore | Store,
    array_path: str,
    entries: Entries,
    *,
    manifest: str | None = None,
    inline: bool = False,
    base: str | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: Sequence[int] | None = None,
    sole_writer: bool = False,
) -> None:
    """Make an array of a hierarchy refer to chunks that lie elsewhere.

    The array's metadata must be there (``zarr.create_array`` writes it, and
    :func:`create_array` does both at once); chunks that it has of its own are not
    read any more. Everything is checked first. Then the documents are written, then
    ``zarr.json`` with the declaration, then its copies in consolidated metadata, and
    at the end documents are removed that the array declared before. Whoever opens it
    meanwhile, or after a crash, sees the old manifest or the new one, and never parts
    of both. Of two writers of one array at the same time, one gets an error.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    array_path : str
        Path of the array in the hierarchy; ``""`` when it is its root.
    entries : Manifest, mapping, or iterable of pairs
        What the manifest says of each chunk: by chunk key or grid index, a
        mapping with the members of an entry (specification, "Entries"). `data`
        may be bytes. Chunks that are absent are missing chunks. Pairs of chunk and
        entry may come one by one, from a generator.
        :meth:`Manifest.from_columns` makes a manifest from arrays of numbers.
    manifest : str, optional
        URL reference of the document, relative to the array, in the hierarchy's
        own store; with `partition_shape`, it contains ``{partition}``. By default
        ``./manifest.json``, or ``./manifest/{partition}.json``. A name that is in
        use for something else gets a suffix: ``./manifest-0123456789ab.json``.
    inline : bool
        Write the manifest into ``zarr.json`` instead.
    base : str, optional
        URL reference against which relative paths resolve; the array's own
        location by default.
    codecs : sequence of str or mapping
        Codecs that encode the documents: ``gzip``, ``zstd``, ``crc32c``, by name or
        as in ``zarr.json``.
    partition_shape : sequence of int, optional
        Number of chunks of a partition along every dimension: each that has
        entries gets a document of its own.
    sole_writer : bool
        The promise that nobody else writes to the array meanwhile, for stores in
        which that cannot be found out. Directories, memory, and object stores that
        put on conditions (S3, Google Cloud Storage, Azure) need none.

    Raises
    ------
    WriteConflictError
        Somebody else has written to the array meanwhile; theirs is what is there now.
    ManifestError
        What a validator would report of the result, and nothing is written.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(range(8)))
    >>> _ = zarr.create_array(root / "a", shape=8, chunks=4, dtype="u1", compressors=None)
    >>> write_manifest(root, "a", {(1,): {"path": "raw.bin", "offset": 4, "length": 4}}, base="../")
    >>> print((root / "a" / "manifest.json").read_text())
    {
    "1":{"path":"raw.bin","offset":4,"length":4}
    }
    <BLANKLINE>
    """
    path = _node_path(array_path)
    form = Form(manifest, inline, base, codecs, partition_shape)
    opened = open_hierarchy(location, {})
    # zarr makes a directory that does not exist, unless it is told to read only.
    there = opened if isinstance(location, Store) else open_hierarchy(location, {}, read_only=True)
    sync(ensure_open(there))
    store = guarded_store(store_underneath(opened), sole_writer=sole_writer)
    before = store.read(join(path, "zarr.json"))
    node = None if before.body is None else parse_node(before.body)
    if node is None or node.get("node_type") != "array":
        raise InvalidConfigurationError(
            "there is no Zarr v3 array at this path",
            array=path,
            remedy="Create it first, with zarr.create_array: that writes no chunks.",
        )
    _write(store, path, node, before, entries, form)
    _notice(opened, path)


def create_array(
    location: str | Path | ObjectStore | Store,
    array_path: str,
    entries: Entries,
    *,
    shape: int | Sequence[int],
    chunks: int | Sequence[int],
    dtype: Any,
    manifest: str | None = None,
    inline: bool = False,
    base: str | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: Sequence[int] | None = None,
    sole_writer: bool = False,
    **array_options: Any,
) -> None:
    """Make a new array whose chunks lie elsewhere.

    As :func:`write_manifest`; the array's ``zarr.json`` is written once, complete, so
    that nobody sees an array without its manifest. Groups above it that are missing
    are made after it, and consolidated metadata above it gets a copy.

    Parameters
    ----------
    location, array_path, entries
        As for :func:`write_manifest`. There must be no node at the path.
    shape, chunks, dtype
        As for ``zarr.create_array``.
    manifest, inline, base, codecs, partition_shape, sole_writer
        As for :func:`write_manifest`.
    **array_options
        More of ``zarr.create_array``: `compressors`, `filters`, `serializer`,
        `shards`, `fill_value`, `attributes`, `dimension_names`, ... Other than there,
        `compressors` are none by default: the chunks are as somebody else wrote them.

    Raises
    ------
    WriteConflictError
        There is a node at the path, or an array above it.
    ManifestError
        What a validator would report of the result, and nothing is written.

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
    form = Form(manifest, inline, base, codecs, partition_shape)
    wrong = {"store", "name", "data", "overwrite", "zarr_format"} & set(array_options)
    if wrong:
        raise TypeError(f"create_array() got an unexpected argument {sorted(wrong)[0]!r}")
    options = {"compressors": None, **array_options}
    metadata = _metadata(shape=shape, chunks=chunks, dtype=dtype, **options)
    opened = open_hierarchy(location, {})
    store = guarded_store(store_underneath(opened), sole_writer=sole_writer)
    before = store.read(join(path, "zarr.json"))
    if before.body is not None:
        raise WriteConflictError(
            "there is a node at this path already",
            array=path,
            remedy="Delete it first; or give an array that is there another manifest, with "
            "write_manifest.",
        )
    _require_no_array_above(store, path)
    _write(store, path, metadata, before, entries, form)
    _make_parents(store, path)
    add_to_consolidated(store, path, metadata)
    _notice(opened, path)


def _node_path(array_path: str) -> str:
    path = array_path.strip("/")
    name = impossible_name(path)
    if name is not None:
        raise InvalidPathError(
            f"a node of Zarr v3 cannot have the name {name!r}",
            array=path,
            remedy="A name is not empty, nor only dots, nor 'zarr.json', does not begin with '__', "
            "and has no backslash and no control character.",
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


def _write(
    store: GuardedStore,
    path: str,
    metadata: dict[str, Any],
    before: Stored,
    entries: Entries,
    form: Form,
) -> None:
    try:
        writer = ArrayWriter(store, path, metadata, before, form)
        writer.write(interpret_entries(writer.array, entries))
        writer.declare()
        writer.remove_earlier()
    except ManifestError as error:
        raise error.in_context(array=path) from error.__cause__


def _require_no_array_above(store: GuardedStore, path: str) -> None:
    for parent in ancestors(path):
        document = store.read(join(parent, "zarr.json")).body
        node = None if document is None else parse_node(document)
        if node is not None and node.get("node_type") == "array":
            raise WriteConflictError(
                f"{parent or '/'!r} is an array, which has no nodes below it",
                array=path,
                remedy="Choose another path.",
            )


def _make_parents(store: GuardedStore, path: str) -> None:
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    for parent in ancestors(path):
        store.create(join(parent, "zarr.json"), dump_node(group))


def _notice(opened: Store, path: str) -> None:
    """Let a ManifestStore see what was written beneath it."""
    if isinstance(opened, ManifestStore):
        sync(opened.get(join(path, "zarr.json"), default_buffer_prototype()))
