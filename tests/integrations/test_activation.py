"""``enable()``: plain zarr and xarray read manifest arrays, and undone it leaves nothing behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
import zarr.core.sync
import zarr.storage._common as opening
from zarr.abc.store import Store
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore

import zarr_manifest as zm
from tests.hierarchies import FIELD, write_hierarchy, write_manifest_array
from tests.servers.http_files import FileServer
from zarr_manifest import zarr_internals
from zarr_manifest.hierarchy import prepare_zarr

pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)
prepare_zarr()  # stays: it concerns arrays of our stores only
ORIGINAL = opening.make_store
ARRAY = vars(zarr.AsyncArray)["__init__"]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    assert opening.make_store is ORIGINAL
    yield
    assert opening.make_store is ORIGINAL
    assert vars(zarr.AsyncArray)["__init__"] is ARRAY


@pytest.fixture
def values(root: Path) -> dict[str, np.ndarray[Any, Any]]:
    return write_hierarchy(root)


LOCATIONS: list[Callable[[Path], Any]] = [str, Path, Path.as_uri]


@pytest.mark.slow
@pytest.mark.parametrize("location", LOCATIONS, ids=["str", "Path", "file-URL"])
def test_zarr_and_xarray(
    location: Callable[[Path], Any], root: Path, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    where = location(root)
    with zm.enable():
        for path, expected in values.items():
            np.testing.assert_array_equal(zarr.open(where, path=path, mode="r")[:], expected)
            np.testing.assert_array_equal(zarr.open_array(where, path=path, mode="r")[:], expected)
        group = zarr.open_group(where, mode="r")
        np.testing.assert_array_equal(group["a/b/external"][:], values["a/b/external"])
        np.testing.assert_array_equal(zarr.open(where, mode="r")["inline"][:], values["inline"])
        for chunks in (None, {}):
            with xr.open_zarr(
                where, group="a/b", chunks=chunks, consolidated=False, mask_and_scale=False
            ) as dataset:
                np.testing.assert_array_equal(dataset["external"].values, values["a/b/external"])


def test_arrays_opened_before_it_was_undone_go_on(
    root: Path, values: dict[str, np.ndarray[Any, Any]]
) -> None:
    with zm.enable():
        array = zarr.open_array(root, path="inline", mode="r")
    np.testing.assert_array_equal(array[:], values["inline"])
    with pytest.raises(ValueError, match=r"storage.transformers"):
        zarr.open_array(root, path="inline", mode="r")


def test_writing_new_hierarchies(tmp_path: Path) -> None:
    with zm.enable():
        zarr.create_array(tmp_path / "new.zarr", data=FIELD)
        zarr.save(str(tmp_path / "saved.zarr"), FIELD)
        np.testing.assert_array_equal(zarr.load(str(tmp_path / "saved.zarr")), FIELD)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "new.zarr", mode="r")[:], FIELD)


def kind_of(location: Any) -> type[Store]:
    return type(zarr.open_group(location, mode="a").store)


def test_every_store_has_all_the_prefixes(tmp_path: Path) -> None:
    """Also if they come from an iterator, which only the first could read."""
    for name in ("a", "b"):
        zarr.create_group(tmp_path / name)
    with zm.enable(allow=iter(["s3://a/", "s3://b/"])):
        for name in ("a", "b"):
            store: Any = zarr.open_group(tmp_path / name, mode="r").store
            assert list(store._allow) == ["s3://a/", "s3://b/"]


def test_an_unusable_prefix_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="cannot be a prefix"):
        zm.enable(allow=["data"])
    with zm.enable() as activation:
        assert repr(activation) == "<Activation: enabled, allow=[]>"


def test_undone_by_hand(tmp_path: Path) -> None:
    activation = zm.enable()
    assert kind_of(tmp_path) is zm.ManifestStore
    activation.disable()
    assert opening.make_store is ORIGINAL
    assert kind_of(tmp_path) is LocalStore
    activation.disable()  # twice does no harm
    assert opening.make_store is ORIGINAL


def test_undone_when_the_block_raises() -> None:
    with pytest.raises(KeyError), zm.enable():
        raise KeyError
    assert opening.make_store is ORIGINAL


def test_enabled_twice_hooks_once(tmp_path: Path) -> None:
    with zm.enable():
        hooked = opening.make_store
        assert hooked is not ORIGINAL
        with zm.enable():
            assert opening.make_store is hooked
            store = zarr.open_group(tmp_path, mode="a").store
            assert type(store) is zm.ManifestStore
            assert type(store._store) is LocalStore
        assert opening.make_store is hooked
        assert kind_of(tmp_path) is zm.ManifestStore


def test_the_latest_in_force_counts(tmp_path: Path) -> None:
    def allowed() -> list[str]:
        return list(zarr.open_group(tmp_path, mode="a").store._allow)

    first = zm.enable(allow=["s3://one/"])
    second = zm.enable(allow=["s3://two/"])
    third = zm.enable(allow=["s3://three/"])
    assert allowed() == ["s3://three/"]
    second.disable()  # not the latest
    assert allowed() == ["s3://three/"]
    third.disable()
    assert allowed() == ["s3://one/"]
    first.disable()
    assert opening.make_store is ORIGINAL


def test_options_are_passed_on(tmp_path: Path) -> None:
    source = tmp_path / "elsewhere"
    source.mkdir()
    (source / "raw.bin").write_bytes(FIELD.tobytes())
    root = tmp_path / "data.zarr"
    location = (source / "raw.bin").as_uri()
    write_manifest_array(root, "x", FIELD, FIELD.shape, {"0.0": {"path": location}})
    with zm.enable():
        array = zarr.open_array(root, path="x", mode="r")
        with pytest.raises(zm.errors.LocationNotAllowedError):
            array[:]
    with zm.enable(allow=[source.as_uri() + "/"], verify="never", limits=zm.Limits()):
        array = zarr.open_array(root, path="x", mode="r")
        np.testing.assert_array_equal(array[:], FIELD)


def test_base_is_passed_on(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    write_manifest_array(root, "x", FIELD, FIELD.shape, {"0.0": {"path": "raw.bin"}})
    (root / "raw.bin").write_bytes(FIELD.tobytes())
    with zm.enable(base="./"):
        np.testing.assert_array_equal(zarr.open_array(root, path="x", mode="r")[:], FIELD)


def test_stores_are_left_alone(tmp_path: Path) -> None:
    local, memory = LocalStore(tmp_path), MemoryStore()
    ours = zm.ManifestStore(tmp_path)
    with zm.enable():
        assert zarr.open_group(local, mode="a").store is local
        assert zarr.open_group(memory, mode="a").store is memory
        assert zarr.open_group(ours, mode="a").store is ours
        assert zarr.open_group(StorePath(local, "x"), mode="a").store is local
        assert kind_of({}) is MemoryStore


@pytest.mark.slow
def test_threads_may_open_meanwhile(root: Path, values: dict[str, np.ndarray[Any, Any]]) -> None:
    def read(_: int) -> None:
        with zm.enable():
            array = zarr.open_array(root, path="inline", mode="r")
            np.testing.assert_array_equal(array[:], values["inline"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(32)))


@pytest.mark.servers
def test_http_urls(root: Path, values: dict[str, np.ndarray[Any, Any]]) -> None:
    with FileServer(root.parent) as server, zm.enable():
        array = zarr.open_array(f"{server.url}/data.zarr", path="a/b/external", mode="r")
        assert type(array.store) is zm.ManifestStore
        np.testing.assert_array_equal(array[:], values["a/b/external"])


# What it depends on ------------------------------------------------------------


def test_it_fails_loudly_when_the_function_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(opening, "make_store")
        with pytest.raises(RuntimeError, match=r"zarr_manifest\.ManifestStore\(location\)"):
            zm.enable()
        assert not hasattr(opening, "make_store")


def another_signature() -> list[Any]:
    async def positional(store_like: Any, mode: Any = None) -> Any: ...

    async def more(
        store_like: Any, *, mode: Any = None, storage_options: Any = None, zarr_format: int = 3
    ) -> Any: ...

    def synchronous(store_like: Any, *, mode: Any = None, storage_options: Any = None) -> Any: ...

    return [positional, more, synchronous]


@pytest.mark.parametrize("function", another_signature(), ids=lambda f: f.__name__)
def test_it_fails_loudly_when_the_signature_has_changed(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(opening, "make_store", function)
        with pytest.raises(RuntimeError, match=zarr.__version__):
            zm.enable()
        assert opening.make_store is function


def test_it_fails_loudly_when_arrays_are_made_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(zarr.AsyncArray, "__init__", lambda self, metadata: None)
        with pytest.raises(RuntimeError, match="opens arrays in a way"):
            zm.enable()
    assert opening.make_store is ORIGINAL


def test_it_fails_loudly_when_zarr_no_longer_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make_store_path(store_like: Any, **options: Any) -> Any: ...

    with monkeypatch.context() as patched:
        patched.setattr(opening, "make_store_path", make_store_path)
        with pytest.raises(RuntimeError, match="opens stores in a way"):
            zm.enable()


def test_a_failure_leaves_nothing_enabled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(opening, "make_store")
        with pytest.raises(RuntimeError):
            zm.enable(allow=["s3://never/"])
    with zm.enable() as activation:
        assert list(zarr.open_group(tmp_path, mode="a").store._allow) == []
    activation.disable()


def test_private_names_of_zarr_are_where_they_are_expected() -> None:
    """Fails on the release of zarr that moves them; see ``zarr_internals``."""
    assert zarr_internals.opening_module() is opening
    assert inspect.iscoroutinefunction(opening.make_store)
    assert inspect.iscoroutinefunction(opening.make_store_path)
    assert list(inspect.signature(opening.make_store).parameters) == [
        "store_like",
        "mode",
        "storage_options",
    ]
    assert zarr_internals.array_class() is zarr.AsyncArray
    assert zarr_internals.sync is zarr.core.sync.sync
    zarr.open_group({}, mode="a")  # starts the loop
    loop = zarr_internals.io_loop()
    assert loop is not None
    assert loop.is_running()
    for name in ("_open", "_ensure_open", "_check_writable", "_get_many", "_set_many"):
        assert name in vars(Store), name
    assert MemoryStore()._is_open in (True, False)
    values: dict[str, Any] = {}
    memory = MemoryStore(values)
    assert zarr_internals.dictionary_of(memory) is values
    assert zarr_internals.wrapped_store(WrapperStore(memory)) is memory
    assert zarr_internals.wrapped_store(zm.ManifestStore(memory)) is memory
    inner = zarr_internals.select_inner_chunks((slice(1, 4),), (6,), (2,))
    assert inner.parts == [
        ((0,), (slice(1, 2, 1),), (slice(0, 1),)),
        ((1,), (slice(0, 2, 1),), (slice(1, 3),)),
    ]
    assert inner.shape == inner.result_shape == (3,)


def test_synchronous_stores_are_recognised() -> None:
    recognised = zarr_internals.supports_synchronous_io
    assert recognised(MemoryStore()) == hasattr(MemoryStore, "get_sync")
    without: Any = object()
    assert not recognised(without)
