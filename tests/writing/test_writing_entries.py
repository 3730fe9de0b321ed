"""Entries as authors state them: as a mapping, one by one, and as something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import files_below

CREATION: dict[str, Any] = {"shape": (2, 2), "chunks": (1, 2), "dtype": "<u2", "compressors": None}
INDICES = st.sampled_from([(0, 0), (1, 0)])
STATED = st.dictionaries(INDICES, st.binary(min_size=4, max_size=4))


def written(entries: Any) -> bytes:
    store = MemoryStore()
    zm.create_array(store, "", entries, **CREATION, manifest_url="manifest.json")
    return store._store_dict["manifest.json"].to_bytes()


@pytest.mark.slow
@given(STATED)
def test_one_by_one_is_as_a_mapping(stated: dict[tuple[int, ...], bytes]) -> None:
    mapping = {chunk: {"data": data} for chunk, data in stated.items()}

    def one_by_one() -> Iterator[tuple[tuple[int, ...], dict[str, bytes]]]:
        for chunk, data in stated.items():
            yield chunk, {"data": data}

    assert written(one_by_one()) == written(mapping)
    assert written(list(mapping.items())) == written(mapping)
    by_key = [(".".join(map(str, chunk)), entry) for chunk, entry in mapping.items()]
    assert written(by_key) == written(mapping)


def test_numbers_of_numpy(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes([0, 0, 1, 0, 2, 0]))
    index = tuple(np.array([1, 0], ">i8"))
    entry = {"path": "raw.bin", "offset": np.uint16(2), "length": np.int64(4)}
    shape: Any = np.array([1, 1])
    zm.create_array(tmp_path, "a", [(index, entry)], base="../", partition_shape=shape, **CREATION)
    array = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    np.testing.assert_array_equal(array[1], [1, 2])


@pytest.mark.parametrize(
    ("entries", "code", "problem"),
    [
        ([("0.0", {}), ((0, 0), {})], "invalid_chunk_key", "two entries name"),
        ({0: {}}, "invalid_chunk_key", "by its index in the chunk grid"),
        ({(0.5, 0): {}}, "invalid_chunk_key", "by its index in the chunk grid"),
        ({None: {}}, "invalid_chunk_key", "by its index in the chunk grid"),
        ({"0.0": None}, "invalid_entry", "an entry must be a mapping"),
        ({"0.0": ("f.nc", 0, 4)}, "invalid_entry", "an entry must be a mapping"),
        ({"0.0": {1: 2, "path": "f"}}, "invalid_entry", "unknown member"),
        ({"0.0": {"path": "f", "lenght": 4}}, "invalid_entry", "unknown member 'lenght'"),
    ],
)
def test_entries_that_are_wrong(tmp_path: Path, entries: Any, code: str, problem: str) -> None:
    with pytest.raises(zm.ManifestError, match=problem) as raised:
        zm.create_array(tmp_path, "a", entries, **CREATION, inline=False)
    assert (raised.value.code, raised.value.array) == (code, "a")
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("entries", ['{"0.0": {}}', b"{}", None, 7, ["0.0"], [("0.0", {}, 1)]])
def test_invalid_collections_of_entries(tmp_path: Path, entries: Any) -> None:
    with pytest.raises(TypeError, match="entries"):
        zm.create_array(tmp_path, "a", entries, **CREATION, inline=False)
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"codecs": "zstd"}, "'codecs' is not a list"),
        ({"partition_shape": [1.5, 1]}, "'partition_shape' is not a list of positive integers"),
        ({"partition_shape": [True, 1]}, "'partition_shape' is not a list of positive integers"),
        ({"inline": True, "manifest_url": "./m.json"}, "no document to name './m.json'"),
    ],
)
def test_forms_that_are_wrong(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError) as raised:
        zm.create_array(tmp_path, "a", {}, **CREATION, **{"inline": False, **options})
    assert problem in raised.value.problem
    assert files_below(tmp_path) == {}
