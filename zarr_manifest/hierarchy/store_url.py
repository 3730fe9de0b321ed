"""What the root of a hierarchy's store is called in references, if it has a name at all."""

from __future__ import annotations

import os
from typing import Any, cast

from obstore.store import AzureStore, GCSStore, S3Store
from obstore.store import LocalStore as ObstoreLocalStore
from zarr.abc.store import Store
from zarr.storage import LocalStore, ObjectStore

from zarr_manifest.locations import UrlLocation

__all__ = ["store_urls"]

_SERVICES: tuple[tuple[type[Any], str, tuple[str, ...]], ...] = (
    (S3Store, "bucket", ("s3",)),
    (GCSStore, "bucket", ("gs", "gcs")),
    (AzureStore, "container_name", ("az", "azure")),
)


def store_urls(store: Store) -> list[UrlLocation]:
    """Return the URLs of the directory that a store's keys are relative to.

    Buckets of one name are taken for the same one, whatever server they are on.

    Examples
    --------
    >>> print(store_urls(LocalStore("/data/h.zarr"))[0])
    file:///data/h.zarr
    """
    if isinstance(store, LocalStore):
        return _directories(str(store.root))
    if not isinstance(store, ObjectStore):
        return []
    inner: Any = cast(Any, store).store
    if isinstance(inner, ObstoreLocalStore):
        return _directories(str(inner.prefix)) if inner.prefix is not None else []
    prefix = str(inner.prefix or "").strip("/") if hasattr(inner, "prefix") else ""
    for kind, member, schemes in _SERVICES:
        if isinstance(inner, kind):
            return [UrlLocation(scheme, str(inner.config[member]), prefix) for scheme in schemes]
    return []


def _directories(path: str) -> list[UrlLocation]:
    """Return a directory by the name that was given, and by its own."""
    names = dict.fromkeys([os.path.abspath(path), os.path.realpath(path)])  # noqa: PTH100
    return [UrlLocation("file", "", name.lstrip("/")) for name in names]
