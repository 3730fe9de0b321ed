"""zarr's own stores, over a native copy of the chunks."""

from __future__ import annotations

from pathlib import Path

from zarr.abc.store import Store
from zarr.storage import LocalStore, ObjectStore

from benchmarks.references import Places


def store(directory: Path) -> Store:
    native = Places.load(directory).native
    if "://" not in native:
        return LocalStore(native, read_only=True)
    from obstore.store import HTTPStore

    web = HTTPStore.from_url(native, client_options={"allow_http": True})
    return ObjectStore(web, read_only=True)
