"""Find and remove unused manifest documents.

They belong to an earlier declaration or an interrupted writer. Only documents in the array's own
directory are removed: others may be shared. A file is removed only if this package chose its name,
or if it can be read as a manifest: the declaration of a stranger may name anything, such as a file
with data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import cast

from msgspec.structs import replace

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    KNOWN_CODECS,
    ArrayMetadata,
    DocumentCodec,
    Limits,
    collect,
    interpret_declaration,
    is_declaration,
    join,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    Partition,
    PartitionKeys,
    interpret_array,
    interpret_document_of,
)
from zarr_manifest.locations import StoreLocation, UrlLocation
from zarr_manifest.manifest import References
from zarr_manifest.stores import can_list
from zarr_manifest.writing.conditional_put import GuardedStore, Stored
from zarr_manifest.writing.document_names import (
    DocumentNames,
    document_key,
    document_keys,
    document_test,
    is_own_name,
    partition_of,
)


def earlier_array(
    path: str, before: Stored, root: UrlLocation | None
) -> tuple[DeclaredArray | None, bool]:
    """Return an array's present declaration if it is valid, and whether there is one at all."""
    node = None if before.body is None else parse_node(before.body)
    if node is None or node.get("node_type") != "array":
        return None, False
    declared = ArrayMetadata("", node).transformers
    configuration, problems = collect(interpret_declaration(node))
    declares = isinstance(declared, list) and any(
        map(is_declaration, cast("list[object]", declared))
    )
    if configuration is None or problems:
        return None, declares
    array, problems = collect(interpret_array(path, node, configuration, root=root))
    return (None if problems else array), declares


def existing_documents(store: GuardedStore, array: DeclaredArray) -> list[str]:
    """Return the keys of all existing documents; the first one last."""
    first = None if array.partitions is None else (0,) * array.ndim
    try:
        first_key = document_key(array, first)
    except ManifestError:
        return []  # inline, or not in this store
    if array.partitions is None:
        return [first_key] if store.exists(first_key) else []
    names = PartitionKeys.of(array)
    assert names is not None  # like its first document, they are in this store
    found = store.keys_below(f"{names.directory}/" if names.directory else "")
    if found is None:
        keys = map(document_keys(array), array.partitions)
        found = [key for key in {*keys, first_key} if store.exists(key)]
    documents = filter(document_test(array), found)
    return sorted(documents, key=lambda key: key == first_key)


def left_behind(
    store: GuardedStore,
    array: DeclaredArray,
    references: Iterable[str],
    earlier: DeclaredArray | None,
) -> list[str]:
    """Return the keys of what interrupted writers of an array left behind, or are writing now.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    array : DeclaredArray
        The array.
    references : iterable of str
        References or templates that writers used, to which they may have added a token.
    earlier : DeclaredArray or None
        The array with its present declaration, whose documents are in use.
    """
    found: dict[str, None] = {}
    for names in dict.fromkeys(DocumentNames.of(array.path, text) for text in references):
        if names is None or not can_list(store.store):
            continue
        for name in store.names_in(names.directory):
            below = join(names.directory, name)
            if names.is_document(below):
                found[below] = None
            elif names.may_hold_documents(name):
                keys = store.keys_below(f"{below}/") or []
                found.update(dict.fromkeys(filter(names.is_document, keys)))
    # Thousands of documents may be in use: they are not read.
    is_used = None if earlier is None else document_test(earlier)
    unused = [key for key in found if is_used is None or not is_used(key)]
    return [
        key for key in unused if is_own_name(array.path, key) or _is_manifest(store, key, array)
    ]


def removable(
    store: GuardedStore, keys: Iterable[str], nodes: Iterable[tuple[str, bytes | None]]
) -> Iterator[str]:
    """Yield those of the keys that may be documents of arrays, and nothing else.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    keys : iterable of str
        What somebody says are documents.
    nodes : iterable of tuple
        Paths of nodes, and their ``zarr.json``, as it is or was.
    """
    declared = [
        array for path, body in nodes if (array := earlier_array(path, Stored(body), store.root)[0])
    ]
    for key in keys:
        for array in declared:
            below = f"{array.path}/" if array.path else ""
            if is_own_name(array.path, key) or (
                key.startswith(below) and store.exists(key) and _is_manifest(store, key, array)
            ):
                yield key
                break


def _is_manifest(store: GuardedStore, key: str, array: DeclaredArray) -> bool:
    """Whether an object can be read as a manifest of an array, however it is encoded."""
    for names in ((), *itertools.product(KNOWN_CODECS), *itertools.permutations(KNOWN_CODECS, 2)):
        codecs = tuple(DocumentCodec(name) for name in names)
        configuration = replace(array.configuration, codecs=codecs)
        whole = replace(array, configuration=configuration, partitions=None)
        if _manifest_in(store, key, whole, None) is not None:
            return True
    return False


def sources_in(array: DeclaredArray, manifest: References) -> set[str]:
    """Return the keys of those sources of an array that lie in its own directory."""
    below = f"{array.path}/" if array.path else ""
    locations = (array.base.resolve(path) for path in manifest.paths)
    keys = (location.key for location in locations if isinstance(location, StoreLocation))
    return {key for key in keys if key.startswith(below)}


def unused_documents(
    store: GuardedStore, array: DeclaredArray, keep: DeclaredArray | None = None
) -> list[str]:
    """Return the keys of an earlier declaration's documents that can be removed.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    array : DeclaredArray
        The array with its earlier declaration.
    keep : DeclaredArray, optional
        The array with its new one.
    """
    below = f"{array.path}/" if array.path else ""
    is_kept = None if keep is None else document_test(keep)
    keys = [
        key
        for key in existing_documents(store, array)
        if key.startswith(below) and (is_kept is None or not is_kept(key))
    ]
    data: set[str] = set()
    documents: list[str] = []
    for key in keys:
        if is_own_name(array.path, key):
            documents.append(key)
            continue
        manifest = _manifest_in(store, key, array, partition_of(array, key))
        if manifest is not None:
            documents.append(key)
            data |= sources_in(array, manifest)
    return [key for key in documents if key not in data]


def _manifest_in(
    store: GuardedStore, key: str, array: DeclaredArray, partition: Partition
) -> References | None:
    """Return the manifest in an object, or None if it is no manifest document of an array."""
    limits = Limits()
    if store.size(key) > limits.manifest_bytes:
        return None
    body = store.read(key).body
    try:
        loaded = strict(interpret_document_of(array, partition, body or b"", limits))
    except ManifestError:
        return None
    return None if loaded is None else loaded.manifest
