"""Writing a manifest: its documents, and the declaration in the array's metadata.

Everything is checked, by the checks of readers, before anything is written.
"""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest._chunk_keys import format_canonical, parse_canonical
from zarr_manifest._configuration import (
    TRANSFORMER_NAME,
    Configuration,
    interpret_declaration,
    is_ours,
)
from zarr_manifest._declarations import ArrayDocument, declare, dump_node, parse_node
from zarr_manifest._declared_array import DeclaredArray, interpret_array
from zarr_manifest._document import Entry, Limits, encode_document, interpret_document
from zarr_manifest._document_codecs import DocumentCodec, complete_codec, encode_body
from zarr_manifest._findings import collect, strict
from zarr_manifest._locations import Base, StoreLocation
from zarr_manifest._manifest_documents import Partition, interpret_document_of
from zarr_manifest._nodes import METADATA_NAMES, join
from zarr_manifest._opening import open_hierarchy
from zarr_manifest._partitions import PLACEHOLDER
from zarr_manifest._store_source import can_list
from zarr_manifest._zarr_internals import ensure_open, sync
from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidEntryError,
    InvalidPathError,
    LimitExceededError,
    ManifestError,
)
from zarr_manifest.manifest import Manifest
from zarr_manifest.store import store_underneath

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Entries", "write_manifest"]

type Entries = (
    Manifest | Mapping[str, Mapping[str, Any]] | Mapping[tuple[int, ...], Mapping[str, Any]]
)


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
) -> None:
    """Make an array of a hierarchy refer to chunks that lie elsewhere.

    The array's metadata must be there (``zarr.create_array`` writes it); chunks
    that it has of its own are not read any more. Everything is checked first.
    Then the documents are written, then ``zarr.json`` with the declaration, and
    at the end documents of partitions that an earlier write left under the same
    template, and that hold nothing now, are removed. Whoever reads meanwhile, or
    after a crash, may see old entries, and never chunks that are missing because
    their document is not there yet; writing again repairs it. For that reason, an
    array whose manifest has another `partition_shape` so far needs other names for
    its documents. Other documents that are not referred to any more stay. The same
    arguments give the same bytes.

    This is not atomic, and two writers of one array at the same time spoil each
    other's work. Metadata that was consolidated has to be consolidated again.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    array_path : str
        Path of the array in the hierarchy; ``""`` when it is its root.
    entries : Manifest or mapping
        What the manifest says of each chunk: by chunk key or grid index, a
        mapping with the members of an entry (specification, "Entries"). `data`
        may be bytes. Chunks that are absent are missing chunks.
    manifest : str, optional
        URL reference of the document, relative to the array, in the hierarchy's
        own store; with `partition_shape`, it contains ``{partition}``. By default
        ``./manifest.json``, or ``./manifest/{partition}.json``.
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

    Raises
    ------
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
    if manifest is None:
        whole = partition_shape is None
        manifest = "./manifest.json" if whole else f"./manifest/{PLACEHOLDER}.json"
    configuration: dict[str, Any] = {"manifest": {} if inline else manifest}
    if base is not None:
        configuration["base"] = base
    if codecs:
        configuration["codecs"] = [
            dict(codec) if isinstance(codec, Mapping) else codec for codec in codecs
        ]
    if partition_shape is not None:
        configuration["partition_shape"] = [int(n) for n in partition_shape]
    store = open_hierarchy(location, {})
    # zarr makes a directory that does not exist, unless it is told to read only.
    there = store if isinstance(location, Store) else open_hierarchy(location, {}, read_only=True)
    sync(_write(there, store, array_path.strip("/"), entries, configuration))


async def _write(
    there: Store, store: Store, path: str, entries: Entries, configuration: dict[str, Any]
) -> None:
    await ensure_open(there)
    hierarchy = store_underneath(store)
    try:
        document = await _array_document(store_underneath(there), path)
        array = _interpret(path, document, configuration)
        manifest = _interpret_entries(array, entries)
        bodies = _documents(array, manifest)
        _require_same_partitions(_earlier(path, document), array, bodies)
    except ManifestError as error:
        raise error.in_context(array=path) from error.__cause__
    if isinstance(array.configuration.manifest, bytes):
        configuration["manifest"] = json.loads(manifest.dumps())
    declare(document, _stack(document.declared, configuration))
    for key, body in bodies.items():
        await _put(hierarchy, key, body)
    # Not past a ManifestStore, which has to forget what the document said before.
    await _put(store, join(path, "zarr.json"), dump_node(document.metadata))
    for key in [key async for key in _documents_there(hierarchy, array)]:
        if key not in bodies:
            await hierarchy.delete(key)


# Checking ------------------------------------------------------------------------


async def _array_document(store: Store, path: str) -> ArrayDocument:
    found = await store.get(join(path, "zarr.json"), default_buffer_prototype())
    node = None if found is None else parse_node(found.to_bytes())
    if node is None or node.get("node_type") != "array":
        raise InvalidConfigurationError(
            "there is no Zarr v3 array at this path",
            remedy="Create it first, with zarr.create_array: that writes no chunks.",
        )
    return ArrayDocument("", node)


def _interpret(path: str, document: ArrayDocument, configuration: dict[str, Any]) -> DeclaredArray:
    """Check the declaration, and complete its codecs."""
    interpreted = strict(interpret_declaration(_stack(document.declared, configuration)))
    assert interpreted is not None  # it has ours, and nothing is wrong with it
    codecs = tuple(complete_codec(codec) for codec in interpreted.codecs)
    if codecs:
        configuration["codecs"] = [_stated(codec) for codec in codecs]
    complete = Configuration(
        interpreted.manifest, interpreted.base, codecs, interpreted.partition_shape
    )
    array = strict(interpret_array(path, document.metadata, complete))
    assert array is not None  # nothing is wrong with it
    return array


def _stated(codec: DocumentCodec) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    return {"name": codec.name} | ({"configuration": configuration} if configuration else {})


def _stack(declared: Any, configuration: dict[str, Any]) -> list[Any]:
    """Return the storage transformers with ours, in place of an earlier one of ours."""
    ours = {"name": TRANSFORMER_NAME, "configuration": configuration}
    if not isinstance(declared, list):
        raise InvalidConfigurationError("'storage_transformers' is not a list")
    stack: list[object] = []
    for item in [*cast("list[object]", declared), ours]:
        if not is_ours(item):
            stack.append(item)
        elif ours not in stack:
            stack.append(ours)
    return stack


def _interpret_entries(array: DeclaredArray, entries: Entries) -> Manifest:
    """Check entries as if a validator read them."""
    if isinstance(entries, Manifest):
        document = entries.dumps()
    else:
        document = json.dumps(_by_key(entries), default=_as_json).encode()
    plain = DeclaredArray(
        array.path,
        array.metadata,
        Configuration(document, array.configuration.base),
        array.encoding,
        array.chunk_grid,
        None,
        array.base,
    )
    loaded = strict(interpret_document_of(plain, None, document, _UNLIMITED, validating=True))
    assert loaded is not None  # nothing is wrong with it
    return loaded.manifest


_UNLIMITED = Limits(manifest_bytes=2**62, entries=2**62, inline_bytes=2**62)

_MEMBERS = frozenset(Entry.__struct_fields__)


def _by_key(entries: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    by_key: dict[str, dict[str, Any]] = {}
    for chunk, entry in entries.items():
        key = chunk if isinstance(chunk, str) else format_canonical([int(i) for i in chunk])
        if key in by_key:
            raise InvalidChunkKeyError("the entries name this chunk twice", chunk=key)
        unknown = sorted(set(entry) - _MEMBERS)
        if unknown:
            raise InvalidEntryError(
                f"the entry has an unknown member {unknown[0]!r}",
                chunk=key,
                remedy=f"Known are: {', '.join(sorted(_MEMBERS))}.",
            )
        by_key[key] = dict(entry)
    return by_key


def _as_json(value: object) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, SupportsIndex):
        return operator.index(value)  # of numpy
    raise TypeError(f"an entry cannot have a value of type {type(value).__name__}")


# Documents -----------------------------------------------------------------------


def _documents(array: DeclaredArray, manifest: Manifest) -> dict[str, bytes]:
    """Return the documents of the manifest as they are stored, by key."""
    if isinstance(array.configuration.manifest, bytes):
        return {}
    parts: dict[Partition, list[tuple[str, Entry]]] = {}
    if array.partitions is None:
        parts[None] = []
    _key(array, (0,) * array.ndim)
    for index, reference in manifest.items():
        partition = None if array.partitions is None else array.partitions.owner(index)
        item = (format_canonical(index), reference.entry())
        parts.setdefault(partition, []).append(item)
    return {_key(array, partition): _encode(array, items) for partition, items in parts.items()}


def _encode(array: DeclaredArray, items: list[tuple[str, Entry]]) -> bytes:
    document = encode_document(items)
    try:
        # A reader with the default limits must be able to read it.
        strict(interpret_document(document, Limits()))
    except LimitExceededError as error:
        raise LimitExceededError(
            error.problem, remedy="Split the manifest: partition_shape=..., or smaller partitions."
        ) from error
    return encode_body(array.configuration.codecs, document)


def _key(array: DeclaredArray, partition: Partition) -> str:
    """Return where in the hierarchy's store a document is to be written."""
    location = array.document(partition)
    if not isinstance(location, StoreLocation):
        raise InvalidPathError(
            "the document is not in the hierarchy's own store, and cannot be written there",
            location=str(location) if not isinstance(location, bytes) else None,
            remedy="Refer to it relative to the array, as in './manifest.json'.",
        )
    key = location.key
    below = f"{array.path}/" if array.path else ""
    is_chunk = key.startswith(below) and array.encoding.decode(key[len(below) :]) is not None
    if key.rpartition("/")[2] in METADATA_NAMES or is_chunk:
        raise InvalidPathError(
            "the document would replace metadata, or a chunk of the array",
            location=key,
            remedy="Give it another name, such as './manifest.json'.",
        )
    return key


def _earlier(path: str, document: ArrayDocument) -> DeclaredArray | None:
    """Return what the array declares so far, if readers can make anything of it."""
    configuration, problems = collect(interpret_declaration(document.declared))
    if configuration is None or problems:
        return None
    array, problems = collect(interpret_array(path, document.metadata, configuration))
    return None if problems else array


def _require_same_partitions(
    earlier: DeclaredArray | None, array: DeclaredArray, keys: Iterable[str]
) -> None:
    """Refuse to overwrite documents that the present declaration understands in another way.

    Until ``zarr.json`` is replaced, readers would take a document of a smaller
    partition for that of a larger one, and the rest of its chunks for missing.
    """
    if earlier is None:
        return
    if earlier.configuration.partition_shape == array.configuration.partition_shape:
        return
    for key in keys:
        if _is_document(earlier, key):
            raise InvalidConfigurationError(
                "a document of the manifest that the array has now would be replaced by one of "
                "another partition_shape, and whoever reads meanwhile would miss chunks",
                location=key,
                remedy="Choose other names for the documents: manifest=...",
            )


async def _documents_there(store: Store, array: DeclaredArray) -> AsyncIterator[str]:
    """Yield the keys of partition documents, whoever wrote them, under the array's template."""
    if array.partitions is None:
        return
    if not can_list(store):
        for partition in array.partitions:
            key = _key(array, partition)
            if await store.exists(key):
                yield key
        return
    # What precedes the partition in the key of every document.
    directory = _around_partition(array)[0].rpartition("/")[0]
    async for key in store.list_prefix(f"{directory}/" if directory else ""):
        if _is_document(array, key):
            yield key


def _is_document(array: DeclaredArray, key: str) -> bool:
    """Whether a key of the hierarchy's store is that of a manifest document of an array."""
    location = array.document((0,) * array.ndim)
    if not isinstance(location, StoreLocation):
        return False
    if array.partitions is None:
        return key == location.key
    before, after = _around_partition(array)
    between = key[len(before) : len(key) - len(after)]
    is_partition = parse_canonical(between, array.ndim) is not None
    return key.startswith(before) and key.endswith(after) and is_partition


def _around_partition(array: DeclaredArray) -> tuple[str, str]:
    """Return what stands before and after the partition in the keys of documents."""
    marker = "the-place-of-the-partition"
    template = array.configuration.manifest
    assert isinstance(template, str)  # an inline manifest has no partitions
    reference = template.replace(PLACEHOLDER, marker)
    location = Base.parse("./", directory=array.path).resolve(reference)
    assert isinstance(location, StoreLocation)  # as those of all its documents are
    before, _, after = location.key.partition(marker)
    return before, after


async def _put(store: Store, key: str, body: bytes) -> None:
    await store.set(key, default_buffer_prototype().buffer.from_bytes(body))
