"""Nothing slips past the manifest: every method of zarr's Store is overridden. And the codes."""

from __future__ import annotations

import pytest
from zarr.abc.store import Store, SupportsDeleteSync, SupportsGetSync, SupportsSetSync
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import zarr_manifest as zm
from zarr_manifest import errors

INHERITED = {
    "get_ranges_sync": "merges ranges, and reads them with get_sync",
    "open": "makes an instance, and opens what is underneath through _open",
    "supports_partial_writes": "False for every store",
}
"""Public members of Store that need no override, and why."""

PRIVATE = ["_ensure_open", "_is_open", "_open", "_supports_sync_io"]
"""Private members that zarr calls on stores."""


def members() -> list[str]:
    public = {name for name in vars(Store) if not name.startswith("_")}
    for protocol in (SupportsGetSync, SupportsSetSync, SupportsDeleteSync):
        public |= {name for name in vars(protocol) if not name.startswith("_")}
    return sorted(public)


def is_overridden(name: str) -> bool:
    """Whether the method that zarr finds is one of this package."""
    definer = next((cls for cls in zm.ManifestStore.__mro__ if name in vars(cls)), Store)
    return definer.__module__.startswith("zarr_manifest.")


@pytest.mark.parametrize("name", [n for n in members() if n not in INHERITED] + PRIVATE)
def test_overridden(name: str) -> None:
    assert is_overridden(name), (
        f"zarr's Store has {name}: ManifestStore has to override it, or a test has to say why not"
    )


def test_methods_that_only_newer_releases_have_are_overridden() -> None:
    """On the oldest zarr they must not be forgotten either."""
    for name in ("get_ranges", "get_sync", "set_sync", "delete_sync"):
        assert is_overridden(name)


def test_the_exceptions_are_still_members_of_store() -> None:
    newer = {"get_ranges_sync"} - set(vars(Store))
    assert set(INHERITED) <= set(members()) | newer


@pytest.mark.parametrize("kind", [LocalStore, MemoryStore, WrapperStore])
def test_stores_of_zarr_have_no_other_way_to_read(kind: type[Store]) -> None:
    """A public method that zarr's stores have in common, and Store does not, would be one."""
    own = {
        "LocalStore": {"move", "root"},
        "MemoryStore": {"from_url"},
        "WrapperStore": set(),
    }[kind.__name__]
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public - own <= set(dir(zm.ManifestStore))


def test_error_codes_are_stable() -> None:
    """The specification and other languages share them; the list is append-only."""
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    codes = {cls.code for cls in classes if cls is not zm.ManifestError}
    assert codes >= {
        "manifest_not_found",
        "invalid_json",
        "invalid_manifest",
        "invalid_chunk_key",
        "invalid_entry",
        "invalid_path",
        "invalid_configuration",
        "unsupported_transformer",
        "location_not_allowed",
        "source_not_found",
        "source_access_denied",
        "source_changed",
        "range_out_of_bounds",
        "short_read",
        "checksum_mismatch",
        "unsupported_checksum",
        "limit_exceeded",
        "read_only",
        "source_error",
    }
    for cls in classes:
        assert issubclass(cls, zm.ManifestError)
        # zarr turns these into fill values.
        assert not issubclass(cls, FileNotFoundError | KeyError)
