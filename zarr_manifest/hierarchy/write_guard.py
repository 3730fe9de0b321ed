"""What may be written and deleted: native values and metadata, and no chunk of a manifest array.

Decides, and leaves writing and deleting to the store.
"""

from __future__ import annotations

from zarr.abc.buffer import Buffer

from zarr_manifest.errors import ReadOnlyError
from zarr_manifest.hierarchy.nodes import METADATA_NAMES, Nodes, parent_of_document
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.sources import Call, Steps

__all__ = ["deletable", "writable"]


def writable(nodes: Nodes, key: str, value: Buffer) -> Steps[Buffer]:
    """Refuse chunks of manifest arrays, and return the value with metadata completed."""
    path = parent_of_document(key)
    if path is not None and hasattr(value, "to_bytes"):
        document = value.to_bytes()
        restored = yield from nodes.restore(path, document)
        return value if restored is document else type(value).from_bytes(restored)
    if key.rpartition("/")[2] not in METADATA_NAMES and not nodes.known_native(key):
        owner = yield from nodes.owner(key)
        if owner is not None:
            raise _read_only(*owner)
    return value


def deletable(nodes: Nodes, key: str) -> Steps[bool]:
    """Refuse referenced chunks; say whether there is anything to delete."""
    if key.rpartition("/")[2] in METADATA_NAMES or nodes.known_native(key):
        return True
    owner = yield from nodes.owner(key)
    if owner is None:
        return True
    array, index = owner
    reference = yield Call(lambda: array.names(index), lambda: array.names_sync(index))
    if reference is not None and not reference.is_empty:
        raise _read_only(array, index)
    return False


def _read_only(array: ChunkManifestTransformer, index: tuple[int, ...]) -> ReadOnlyError:
    return ReadOnlyError(
        "chunks of a manifest array cannot be written or deleted",
        array=array.array_path,
        chunk=".".join(map(str, index)) or "0",
        remedy="Copy the array to a native one, and write there. To shrink an array and keep its "
        "references, use its async_array.resize(shape, delete_outside_chunks=False).",
    )
