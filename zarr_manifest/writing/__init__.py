"""Authoring: changes of a hierarchy, new manifest arrays, and manifests for existing arrays."""

from zarr_manifest.writing.array_entries import entries
from zarr_manifest.writing.array_writer import (
    SMALL_MANIFEST,
    ArrayWriter,
    Form,
    checksums_to_keep,
    small_size,
)
from zarr_manifest.writing.cleaning import CleaningReport as CleaningReport
from zarr_manifest.writing.cleaning import UnusedObject as UnusedObject
from zarr_manifest.writing.cleaning import clean
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, guarded_store, repeatedly
from zarr_manifest.writing.editing import edit
from zarr_manifest.writing.edits import SMALL_CHUNK, chunk_name, chunk_place, is_native
from zarr_manifest.writing.recovering import recover
from zarr_manifest.writing.threads import Call, in_threads
from zarr_manifest.writing.writing import create_array, write_manifest
