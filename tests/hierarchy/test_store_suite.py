"""zarr's own suites for stores, on ManifestStore over stores that can be written."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from obstore.store import LocalStore as ObstoreLocalStore
from obstore.store import MemoryStore as ObstoreMemoryStore
from zarr.buffer import cpu, default_buffer_prototype
from zarr.storage import MemoryStore, ObjectStore
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests

import zarr_manifest as zm
from tests.properties import THOROUGH, examples


class _ManifestStoreTests(StoreTests[zm.ManifestStore, cpu.Buffer]):
    """What is the same over every store. Values are set and read underneath."""

    store_cls = zm.ManifestStore
    buffer_cls = cpu.Buffer

    async def set(self, store: zm.ManifestStore, key: str, value: cpu.Buffer) -> None:
        underneath = store._store
        writable = underneath.with_read_only(False) if underneath.read_only else underneath
        was_open = underneath._is_open
        await writable.set(key, value)
        underneath._is_open = was_open

    async def get(self, store: zm.ManifestStore, key: str) -> Any:
        return await store._store.get(key, default_buffer_prototype())

    def test_store_repr(self, store: zm.ManifestStore) -> None:
        assert repr(store) == f"ManifestStore({store._store!r}, allow=[])"
        assert str(store) == f"manifest+{store._store}"

    def test_store_supports_writes(self, store: zm.ManifestStore) -> None:
        assert store.supports_writes
        assert store.supports_deletes

    def test_store_supports_listing(self, store: zm.ManifestStore) -> None:
        assert store.supports_listing


class TestOverLocalStore(_ManifestStoreTests):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"location": str(tmp_path)}


class TestOverMemoryStore(_ManifestStoreTests):
    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"location": MemoryStore()}

    async def test_serializable_store(self, store: zm.ManifestStore) -> None:
        """A copy of a dictionary is another place: what is deleted there stays here."""
        again = pickle.loads(pickle.dumps(store))
        assert again != store
        assert again.read_only == store.read_only


@pytest.mark.combinations
class TestOverObjectStore(_ManifestStoreTests):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        # Not obstore's MemoryStore, which cannot be pickled.
        return {"location": ObjectStore(ObstoreLocalStore(tmp_path))}

    @staticmethod
    def _require_get_sync(store: zm.ManifestStore) -> Any:
        """Skip where zarr's ObjectStore has no synchronous methods, and says so to zarr."""
        if not hasattr(ObjectStore, "get_sync"):
            assert not store._supports_sync_io
            pytest.skip("zarr's ObjectStore has no synchronous methods")
        return store

    _require_set_sync = _require_delete_sync = _require_get_sync


_MODEST = settings(
    examples(0.2),
    stateful_step_count=20,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The data type")  # the machine draws unspecified ones
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize(
    "make",
    [MemoryStore, lambda: ObjectStore(ObstoreMemoryStore())] if THOROUGH else [MemoryStore],
)
def test_hierarchy_machine(make: Any) -> None:
    class Machine(ZarrHierarchyStateMachine):
        def __init__(self) -> None:
            super().__init__(zm.ManifestStore(make()))

    run_state_machine_as_test(Machine, settings=_MODEST)


@pytest.mark.slow
def test_store_machine() -> None:
    # Only MemoryStore: zarr's ObjectStore raises on ranges that begin past the end of a value.
    class Machine(ZarrStoreStateMachine):
        def __init__(self) -> None:
            super().__init__(zm.ManifestStore(MemoryStore()))

    run_state_machine_as_test(Machine, settings=_MODEST)
