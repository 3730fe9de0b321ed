"""Reading in bulk, switched on for arrays that zarr opens from manifest stores."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.integrations.array_creation import add_hook, remove_hook
from zarr_manifest.integrations.codec_pipeline import BulkCodecPipeline

__all__ = ["read_in_bulk", "reading_in_bulk"]


def read_in_bulk(array: Any) -> None:
    """Let an array that zarr has opened from a :class:`ManifestStore` read in bulk.

    Others are left as they are.

    Parameters
    ----------
    array : zarr.AsyncArray
        Changed in place: its codec pipeline is used within a :class:`BulkCodecPipeline`.
    """
    usual = array.codec_pipeline
    if isinstance(array.store_path.store, ManifestStore) and not isinstance(
        usual, BulkCodecPipeline
    ):
        # zarr's class is frozen.
        object.__setattr__(array, "codec_pipeline", BulkCodecPipeline(usual))


class _InStore:
    """Lets the arrays of one store read in bulk."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store

    def before(self, metadata: Any, store_path: Any) -> None:
        """Refuse nothing."""

    def after(self, array: Any) -> None:
        """Let an array read in bulk if it is in the store."""
        if isinstance(array.store_path.store, ManifestStore) and (
            array.store_path.store == self._store
        ):
            read_in_bulk(array)


@contextmanager
def reading_in_bulk(store: ManifestStore) -> Generator[None]:
    """Let the arrays that are opened from a store meanwhile read in bulk, also later."""
    hook = _InStore(store)
    add_hook(hook)
    try:
        yield
    finally:
        remove_hook(hook)
