"""A writer that is interrupted anywhere leaves the old array or the new one, never a mixture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store

import zarr_manifest as zm
from tests.interrupted_stores import Interrupted, InterruptedDirectory, InterruptedMemory

pytestmark = pytest.mark.slow

SHAPE, CHUNKS = (4, 6), (2, 2)
GRID = list(itertools.product(range(2), range(3)))
FILL = 255

type Values = np.ndarray[Any, Any]


def inline_entries(values: Values, missing: tuple[int, ...] = ()) -> dict[Any, dict[str, Any]]:
    return {
        (i, j): {"data": values[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].tobytes()}
        for number, (i, j) in enumerate(GRID)
        if number not in missing
    }


OLD = np.arange(24, dtype="u1").reshape(SHAPE)
NEW = OLD + 100
NEW_ENTRIES = inline_entries(NEW, missing=(4,))
NEW[2:, 2:4] = FILL
OPTIONS: dict[str, dict[str, Any]] = {
    "whole": {},
    "encoded": {"codecs": ["gzip"]},
    "partitioned": {"partition_shape": [1, 1]},
    "otherwise partitioned": {"partition_shape": [2, 2]},
    "inline": {"inline": True},
}
CREATION: dict[str, Any] = {
    "shape": SHAPE,
    "chunks": CHUNKS,
    "dtype": "u1",
    "compressors": None,
    "fill_value": FILL,
}


def memory(path: Path) -> Store:
    return InterruptedMemory()


def directory(path: Path) -> Store:
    return InterruptedDirectory(path)


STORES = pytest.mark.parametrize("new_store", [memory, directory])


def interrupted_everywhere(
    new_store: Callable[[], Any], prepare: Callable[[Any], None], write: Callable[[Any], None]
) -> Any:
    """Yield the store after every number of changes that `write` may make, and at its end."""
    for left in itertools.count():
        store = new_store()
        prepare(store)
        store.left = left
        try:
            write(store)
        except Interrupted:
            store.left = 10**9
            yield store
        else:
            store.left = 10**9
            yield store
            assert left > 0
            return


def new_stores(kind: Callable[[Path], Store], tmp_path: Path) -> Callable[[], Store]:
    numbers = itertools.count()
    return lambda: kind(tmp_path / str(next(numbers)))


def nothing(store: Any) -> None:
    pass


def native(store: Any) -> None:
    zarr.create_group(store)
    zarr.create_array(store, name="a", **CREATION)[...] = OLD


def with_manifest(options: dict[str, Any]) -> Callable[[Any], None]:
    def prepare(store: Any) -> None:
        zarr.create_group(store)
        zm.create_array(store, "a", inline_entries(OLD), **CREATION, **options)

    return prepare


def consolidated(options: dict[str, Any]) -> Callable[[Any], None]:
    def prepare(store: Any) -> None:
        with_manifest(options)(store)
        with pytest.warns(UserWarning, match="onsolidated"):
            zarr.consolidate_metadata(zm.ManifestStore(store))

    return prepare


def read(store: Any, **options: Any) -> Values:
    group = zarr.open_group(zm.ManifestStore(store), mode="r", **options)
    array = group["a"]
    assert isinstance(array, zarr.Array)
    return np.asarray(array[...])


def is_one_of(found: Values, *expected: Values) -> bool:
    return any(np.array_equal(found, values) for values in expected)


# The order of the changes is the same in every store, a single change is not: where documents of
# partitions come or go, a directory sees every kind.
REPLACED = [
    pytest.param(new_store, before, after, id=f"{before}-{after}-{new_store.__name__}")
    for new_store in (memory, directory)
    for before in ["native", *OPTIONS]
    for after in OPTIONS
    if new_store is memory or "partitioned" in (before, after)
]


@pytest.mark.parametrize(("new_store", "before", "after"), REPLACED)
def test_replaced(
    tmp_path: Path, new_store: Callable[[Path], Store], before: str, after: str
) -> None:
    prepare = native if before == "native" else with_manifest(OPTIONS[before])
    seen = []

    def write(store: Any) -> None:
        zm.write_manifest(store, "a", NEW_ENTRIES, **OPTIONS[after])

    for store in interrupted_everywhere(new_stores(new_store, tmp_path), prepare, write):
        found = read(store, use_consolidated=False)
        assert is_one_of(found, OLD, NEW)
        seen.append(np.array_equal(found, NEW))
        write(store)
        assert np.array_equal(read(store), NEW)
        assert zm.validate(store) == []
    assert seen == sorted(seen)  # the old one, and from some point on the new one
    assert (seen[0], seen[-1]) == (False, True)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_consolidated_metadata_never_names_documents_that_are_gone(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    def write(store: Any) -> None:
        zm.write_manifest(store, "a", NEW_ENTRIES, **options)

    for store in interrupted_everywhere(InterruptedMemory, consolidated(options), write):
        assert is_one_of(read(store, use_consolidated=True), OLD, NEW)
        assert is_one_of(read(store, use_consolidated=False), OLD, NEW)
    assert np.array_equal(read(store, use_consolidated=True), NEW)


@STORES
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_new_arrays_are_complete_or_not_there(
    tmp_path: Path, new_store: Callable[[Path], Store], options: dict[str, Any]
) -> None:
    def write(store: Any) -> None:
        zm.create_array(store, "deep/a", NEW_ENTRIES, **CREATION, **options)

    complete = 0
    for store in interrupted_everywhere(new_stores(new_store, tmp_path), nothing, write):
        try:
            array = zarr.open_array(zm.ManifestStore(store), path="deep/a", mode="r")
        except FileNotFoundError:
            continue
        complete += 1
        assert np.array_equal(array[...], NEW)
    assert complete > 0


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_writing_the_same_again_changes_nothing(options: dict[str, Any]) -> None:
    store = InterruptedMemory()
    with_manifest(options)(store)
    store.left = 0
    zm.write_manifest(store, "a", inline_entries(OLD), **options)


@pytest.mark.parametrize("after", OPTIONS)
@pytest.mark.parametrize("before", OPTIONS)
def test_an_array_that_stays_open_is_the_old_one_or_says_so(before: str, after: str) -> None:
    store = InterruptedMemory()
    with_manifest(OPTIONS[before])(store)
    array = zarr.open_array(zm.ManifestStore(store), path="a", mode="r")
    assert array[0, 0] == OLD[0, 0]
    zm.write_manifest(store, "a", NEW_ENTRIES, **OPTIONS[after])
    replaced = None
    try:
        found = np.asarray(array[...])
    except zm.errors.ManifestNotFoundError as error:
        replaced = str(error)
        found = OLD
    assert is_one_of(found, OLD)
    assert (replaced is not None) == before.endswith("partitioned")
    assert "has been replaced" in (replaced or "has been replaced")
