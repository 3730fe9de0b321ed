"""The URLs of a store, and of the objects in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from zarr.abc.store import Store
from zarr.storage import LocalStore, ObjectStore

from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.locations import (
    UrlLocation,
    local_location,
)
from zarr_manifest.sources import urls_of

__all__ = ["object_url", "store_urls"]


def object_url(roots: Sequence[UrlLocation], key: str) -> UrlLocation:
    """Return the URL of an object in a hierarchy's own store.

    Parameters
    ----------
    roots : sequence of UrlLocation
        From :func:`store_urls`.
    key : str
        Its key.

    Raises
    ------
    NotConvertibleError
        The store has no URL.
    """
    if not roots:
        raise NotConvertibleError(
            "it refers to objects in the hierarchy's own store, which has no URL",
            remedy="Open the hierarchy from files or from an object store.",
        )
    root = roots[0]
    path = f"{root.path}/{key}" if root.path else key
    return UrlLocation(root.scheme, root.authority, path, root.query)


def store_urls(store: Store) -> list[UrlLocation]:
    """Return the URLs of the directory that a store's keys are relative to.

    See :func:`urls_of`.

    Examples
    --------
    >>> print(store_urls(LocalStore("/data/h.zarr"))[0])
    file:///data/h.zarr
    """
    if isinstance(store, LocalStore):
        return _directories(str(store.root))
    if not isinstance(store, ObjectStore):
        return []
    from obstore.store import LocalStore as ObstoreLocalStore

    inner: Any = cast(Any, store).store
    if isinstance(inner, ObstoreLocalStore):
        return _directories(str(inner.prefix)) if inner.prefix is not None else []
    return urls_of(inner)


def _directories(path: str) -> list[UrlLocation]:
    """Return a directory by its given path, and by its real path."""
    names = dict.fromkeys([os.path.abspath(path), os.path.realpath(path)])  # noqa: PTH100
    return [found for name in names if (found := local_location(Path(name))) is not None]
