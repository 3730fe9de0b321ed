"""A writer that is interrupted anywhere leaves the old array or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store

import zarr_manifest as zm
from tests.interrupted_stores import (
    InterruptedDirectory,
    InterruptedMemory,
    copied,
    every_change,
    keys_without_tokens,
)

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
    original: Store, tmp_path: Path, write: Callable[[Any], None]
) -> Iterator[tuple[Any, bool]]:
    numbers = itertools.count()
    return every_change(lambda: copied(original, tmp_path / str(next(numbers))), write)


def native(store: Any) -> None:
    zarr.create_group(store)
    zarr.create_array(store, name="a", **CREATION)[...] = OLD


def with_manifest(options: dict[str, Any]) -> Callable[[Any], None]:
    def prepare(store: Any) -> None:
        zarr.create_group(store)
        zm.create_array(store, "a", inline_entries(OLD), **CREATION, **{"inline": False, **options})

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


def is_one_of(found: Values | None, *expected: Values) -> bool:
    return found is not None and any(np.array_equal(found, values) for values in expected)


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
        zm.write_manifest(store, "a", NEW_ENTRIES, **{"inline": False, **OPTIONS[after]})

    original = new_store(tmp_path / "original")
    prepare(original)
    complete = copied(original, tmp_path / "complete")
    write(complete)
    for store, _ in interrupted_everywhere(original, tmp_path, write):
        found = read(store, use_consolidated=False)
        assert is_one_of(found, OLD, NEW)
        seen.append(np.array_equal(found, NEW))
        write(store)
        assert np.array_equal(read(store), NEW)
        assert zm.validate(store) == []
        assert keys_without_tokens(store) == keys_without_tokens(complete)
    assert seen == sorted(seen)  # the old one, and from some point on the new one
    assert (seen[0], seen[-1]) == (False, True)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_consolidated_metadata_never_names_documents_that_are_gone(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    def write(store: Any) -> None:
        zm.write_manifest(store, "a", NEW_ENTRIES, **{"inline": False, **options})

    original = InterruptedMemory()
    consolidated(options)(original)
    for store, _ in interrupted_everywhere(original, tmp_path, write):
        assert is_one_of(read(store, use_consolidated=True), OLD, NEW)
        assert is_one_of(read(store, use_consolidated=False), OLD, NEW)
    assert np.array_equal(read(store, use_consolidated=True), NEW)


@STORES
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_new_arrays_are_complete_or_not_there(
    tmp_path: Path, new_store: Callable[[Path], Store], options: dict[str, Any]
) -> None:
    def write(store: Any) -> None:
        zm.create_array(store, "deep/a", NEW_ENTRIES, **CREATION, **{"inline": False, **options})

    def again(store: Any, entries: Any) -> None:
        zm.create_array(store, "deep/a", entries, **CREATION, **{"inline": False, **options})

    def stored(store: Any) -> Values | None:
        try:
            array = zarr.open_array(zm.ManifestStore(store), path="deep/a", mode="r")
        except FileNotFoundError:
            return None
        return np.asarray(array[...])

    complete = new_store(tmp_path / "complete")
    write(complete)
    outcomes = []
    for store, is_last in interrupted_everywhere(new_store(tmp_path / "none"), tmp_path, write):
        found = stored(store)
        outcomes.append(found is not None)
        if is_last:
            with pytest.raises(zm.errors.WriteConflictError, match="already a node"):
                write(store)
        elif found is None:
            again(store, inline_entries(OLD))  # whatever it is to be now
            assert is_one_of(stored(store), OLD)
        else:
            assert is_one_of(found, NEW)
            if "zarr.json" not in keys_without_tokens(store):
                with pytest.raises(zm.errors.WriteConflictError, match="already a node"):
                    again(store, inline_entries(OLD))
            with contextlib.suppress(zm.errors.WriteConflictError):
                again(store, NEW_ENTRIES)
            assert is_one_of(stored(store), NEW)
        assert "deep" in zarr.open_group(zm.ManifestStore(store), mode="r")
        extra = keys_without_tokens(store) - keys_without_tokens(complete)
        assert extra <= {"deep/a/manifest/1.1.json"}  # the partition that has no chunks in NEW
    assert outcomes == sorted(outcomes)
    assert outcomes[-1]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_writing_the_same_again_changes_nothing(options: dict[str, Any]) -> None:
    store = InterruptedMemory()
    with_manifest(options)(store)
    store.left = 0
    zm.write_manifest(store, "a", inline_entries(OLD), **{"inline": False, **options})


@pytest.mark.parametrize("after", OPTIONS)
@pytest.mark.parametrize("before", OPTIONS)
def test_an_array_that_stays_open_is_the_old_one_or_says_so(before: str, after: str) -> None:
    store = InterruptedMemory()
    with_manifest(OPTIONS[before])(store)
    array = zarr.open_array(zm.ManifestStore(store), path="a", mode="r")
    assert array[0, 0] == OLD[0, 0]
    zm.write_manifest(store, "a", NEW_ENTRIES, **{"inline": False, **OPTIONS[after]})
    replaced = None
    try:
        found = np.asarray(array[...])
    except zm.errors.ManifestNotFoundError as error:
        replaced = str(error)
        found = OLD
    assert is_one_of(found, OLD)
    assert (replaced is not None) == before.endswith("partitioned")
    assert "has been replaced" in (replaced or "has been replaced")
