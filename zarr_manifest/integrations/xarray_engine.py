"""The xarray engine ``zarr-manifest``: xarray's own Zarr engine over a ManifestStore."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, ZarrBackendEntrypoint

from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.stores import store_as_zarr_would

__all__ = ["ManifestBackendEntrypoint"]

# Of ManifestStore.
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

    def open_dataset(
        self, filename_or_obj: Any, *, drop_variables: Any = None, **options: Any
    ) -> Dataset:
        """Open one group of a hierarchy as a dataset."""
        store = _store(filename_or_obj, options)
        options["drop_variables"] = drop_variables
        dataset: Dataset = _zarr_engine().open_dataset(store, **options)
        return dataset

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open a hierarchy as a tree of datasets."""
        store = _store(filename_or_obj, options)
        tree: DataTree = _zarr_engine().open_datatree(store, **options)
        return tree

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, Dataset]:
        """Open every group of a hierarchy as a dataset, by path."""
        store = _store(filename_or_obj, options)
        groups: dict[str, Dataset] = _zarr_engine().open_groups_as_dict(store, **options)
        return groups


def _zarr_engine() -> Any:
    # Any: xarray's type hints do not allow stores here.
    return ZarrBackendEntrypoint()


def _store(location: Any, options: dict[str, Any]) -> ManifestStore:
    """Return the store of a location, and remove its settings from the options of an engine."""
    stated = {name: options.pop(name, None) for name in (*_SETTINGS, "storage_options")}
    given = {name: value for name, value in stated.items() if value is not None}
    if isinstance(location, ManifestStore):
        if given:
            raise TypeError(
                "a ManifestStore has its own settings, so xarray's engine takes no "
                f"{', '.join(given)} with it: pass them to ManifestStore(...)"
            )
        return location
    store = store_as_zarr_would(location, given.pop("storage_options", None))
    return ManifestStore(store, **given, read_only=True)
