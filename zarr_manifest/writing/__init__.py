"""Authoring: new manifest arrays, and manifests for existing arrays."""

from zarr_manifest.writing.array_writer import ArrayWriter, Form
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, guarded_store
from zarr_manifest.writing.consolidated import (
    has_consolidated,
    update_consolidated,
    with_copies,
    without_copies,
)
from zarr_manifest.writing.document_names import is_document, with_token, without_token
from zarr_manifest.writing.document_removal import earlier_array, removable, unused_documents
from zarr_manifest.writing.new_documents import SMALL_MANIFEST, small_size
from zarr_manifest.writing.writing import create_array, write_manifest

__all__ = [
    "SMALL_MANIFEST",
    "ArrayWriter",
    "Form",
    "GuardedStore",
    "Stored",
    "create_array",
    "earlier_array",
    "guarded_store",
    "has_consolidated",
    "is_document",
    "removable",
    "small_size",
    "unused_documents",
    "update_consolidated",
    "with_copies",
    "with_token",
    "without_copies",
    "without_token",
    "write_manifest",
]
