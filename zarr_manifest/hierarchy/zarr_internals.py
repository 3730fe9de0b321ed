"""All the private names of zarr that this package depends on.

Kept in one place, so that a single test notices when a release of zarr moves them.
"""

from __future__ import annotations

import inspect
from types import ModuleType

import zarr
import zarr.storage._common as store_opening
from zarr.abc.store import Store
from zarr.core.sync import sync

__all__ = ["ensure_open", "opening_module", "supports_synchronous_io", "sync"]


def opening_module() -> ModuleType:
    """Return the module whose ``make_store`` turns paths and URLs into stores.

    Raises
    ------
    RuntimeError
        If this release of zarr opens stores in a different way.
    """
    make_store = getattr(store_opening, "make_store", None)
    make_store_path = getattr(store_opening, "make_store_path", None)
    opens_through_it = (
        inspect.iscoroutinefunction(make_store)
        and inspect.isfunction(make_store_path)
        and "make_store" in make_store_path.__code__.co_names
        and list(inspect.signature(make_store).parameters)
        == ["store_like", "mode", "storage_options"]
    )
    if not opens_through_it:
        raise RuntimeError(
            f"zarr {zarr.__version__} opens stores in a way that zarr_manifest.enable() does not "
            "support. Pass zarr_manifest.ManifestStore(location) to zarr.open instead."
        )
    return store_opening


async def ensure_open(store: Store) -> None:
    """Open a store unless it is open already: some kinds cannot be listed before that."""
    await store._ensure_open()  # pyright: ignore[reportPrivateUsage]


def supports_synchronous_io(store: Store) -> bool:
    """Whether zarr's synchronous codec pipeline may be used with a store."""
    names = ("get_sync", "set_sync", "delete_sync")
    return all(hasattr(store, name) for name in names) and bool(
        getattr(store, "_supports_sync_io", True)
    )
