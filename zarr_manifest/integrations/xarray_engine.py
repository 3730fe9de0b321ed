"""The xarray engine ``zarr-manifest``: xarray's own Zarr engine over a ManifestStore."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, ClassVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, ZarrBackendEntrypoint

from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import ConditionCheck, ManifestStore, Verify
from zarr_manifest.sources import Allow
from zarr_manifest.stores import store_as_zarr_would


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
        "allow",
        "base",
        "verify",
        "conditions",
        "limits",
    )
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a ManifestStore; paths and URLs belong to xarray's own engine."""
        return isinstance(filename_or_obj, ManifestStore)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        verify: Verify | None = None,
        conditions: ConditionCheck | None = None,
        limits: Limits | None = None,
        storage_options: dict[str, Any] | None = None,
        drop_variables: Any = None,
        **options: Any,
    ) -> Dataset:
        """Open one group of a hierarchy as a dataset."""
        settings = _settings(allow, base, verify, conditions, limits)
        store = _store(filename_or_obj, settings, storage_options)
        options["drop_variables"] = drop_variables
        dataset: Dataset = _zarr_engine().open_dataset(store, **options)
        return dataset

    def open_datatree(
        self,
        filename_or_obj: Any,
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        verify: Verify | None = None,
        conditions: ConditionCheck | None = None,
        limits: Limits | None = None,
        storage_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> DataTree:
        """Open a hierarchy as a tree of datasets."""
        settings = _settings(allow, base, verify, conditions, limits)
        store = _store(filename_or_obj, settings, storage_options)
        tree: DataTree = _zarr_engine().open_datatree(store, **options)
        return tree

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        verify: Verify | None = None,
        conditions: ConditionCheck | None = None,
        limits: Limits | None = None,
        storage_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Dataset]:
        """Open every group of a hierarchy as a dataset, by path."""
        settings = _settings(allow, base, verify, conditions, limits)
        store = _store(filename_or_obj, settings, storage_options)
        groups: dict[str, Dataset] = _zarr_engine().open_groups_as_dict(store, **options)
        return groups


def _zarr_engine() -> Any:
    # Any: xarray's type hints do not allow stores here.
    return ZarrBackendEntrypoint()


def _settings(
    allow: Allow,
    base: str | Path | None,
    verify: Verify | None,
    conditions: ConditionCheck | None,
    limits: Limits | None,
) -> dict[str, Any]:
    """Return the settings that were given."""
    settings: dict[str, Any] = {"allow": allow, "base": base, "verify": verify, "limits": limits}
    settings["conditions"] = conditions
    return {name: value for name, value in settings.items() if value is not None}


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
