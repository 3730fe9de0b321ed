"""VirtualiZarr's store, made from columns: it has no form of its own on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from zarr.abc.store import Store

from benchmarks.references import References


def store(directory: Path) -> Store:
    from virtualizarr.manifests import ManifestArray, ManifestGroup, ManifestStore

    references = References.load(directory)
    array = ManifestArray(references.metadata(), manifest(references))
    made: Store = ManifestStore(
        ManifestGroup({"data": array}), registry=registry(references.sources)
    )
    return made


def manifest(references: References) -> Any:
    """Return its chunk manifest, in memory."""
    from virtualizarr.manifests import ChunkManifest

    paths: Any = np.array(references.urls, np.dtypes.StringDType())[references.objects]
    return ChunkManifest.from_arrays(
        paths=paths.reshape(references.grid),
        offsets=references.offsets.astype(np.uint64).reshape(references.grid),
        lengths=references.lengths.astype(np.uint64).reshape(references.grid),
        validate_paths=False,
    )


def registry(sources: str) -> Any:
    """Return the stores for URLs of a prefix, and for files."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore, LocalStore

    stores: dict[str, Any] = {"file://": LocalStore()}
    if sources.startswith("http"):
        origin = "/".join(sources.split("/")[:3])
        stores[origin] = HTTPStore.from_url(origin, client_options={"allow_http": True})
    return ObjectStoreRegistry(stores)
