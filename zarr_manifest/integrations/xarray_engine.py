"""The xarray engine ``zarr-manifest``: xarray's own Zarr engine over a ManifestStore."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, ZarrBackendEntrypoint

from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.sources import Allow
from zarr_manifest.stores import store_as_zarr_would

# Of a ManifestStore, which says what they mean.
_SETTINGS = ("allow", "base", "verify", "conditions", "limits")


class ManifestBackendEntrypoint(BackendEntrypoint):
    """Open hierarchies with manifest arrays; ``xr.open_dataset(path, engine="zarr-manifest")``.

    Accepts ``allow``, ``base``, ``verify``, ``conditions`` and ``limits``, as in
    :class:`zarr_manifest.ManifestStore`, and all options of xarray's ``zarr`` engine; with
    ``storage_options``, fsspec opens the URL of the hierarchy. A ``ManifestStore`` has its own
    settings, and is opened without any of these; it needs no ``engine``.
    """

    description = "Open Zarr hierarchies with chunk manifests (zarr-manifest)"
    # By default xarray inspects the signature, and rejects **options there.
    open_dataset_parameters: ClassVar[Any] = (
        *inspect.signature(vars(ZarrBackendEntrypoint)["open_dataset"]).parameters,
        *_SETTINGS,
    )
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a ManifestStore; paths and URLs belong to xarray's own engine."""
        return isinstance(filename_or_obj, ManifestStore)

    def open_dataset(self, filename_or_obj: Any, *, allow: Allow = None, **options: Any) -> Dataset:
        """Open one group of a hierarchy as a dataset."""
        dataset: Dataset = _opened("open_dataset", filename_or_obj, allow, options)
        return dataset

    def open_datatree(
        self, filename_or_obj: Any, *, allow: Allow = None, **options: Any
    ) -> DataTree:
        """Open a hierarchy as a tree of datasets."""
        tree: DataTree = _opened("open_datatree", filename_or_obj, allow, options)
        return tree

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, allow: Allow = None, **options: Any
    ) -> dict[str, Dataset]:
        """Open every group of a hierarchy as a dataset, by path."""
        groups: dict[str, Dataset] = _opened("open_groups_as_dict", filename_or_obj, allow, options)
        return groups


def _opened(method: str, location: Any, allow: Allow, options: dict[str, Any]) -> Any:
    """Return what a method of xarray's own engine opens of a ManifestStore."""
    settings = {name: options.pop(name, None) for name in _SETTINGS} | {"allow": allow}
    given = {name: value for name, value in settings.items() if value is not None}
    store = _store(location, given, options.pop("storage_options", None))
    # Untyped: xarray's type hints do not allow stores here.
    return getattr(ZarrBackendEntrypoint(), method)(store, **options)


def _store(
    location: Any, given: dict[str, Any], storage_options: dict[str, Any] | None
) -> ManifestStore:
    if isinstance(location, ManifestStore):
        refused = [*given, *(["storage_options"] if storage_options is not None else [])]
        if refused:
            raise TypeError(
                "a ManifestStore has its own settings, so xarray's engine takes no "
                f"{', '.join(refused)} with it: pass them to ManifestStore(...)"
            )
        return location
    return ManifestStore(store_as_zarr_would(location, storage_options), **given, read_only=True)
