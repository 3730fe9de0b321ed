"""Random hierarchies, read as a naive reader reads them; and changed ones, which never crash.

A case is one selection of an array, or one reader of a changed hierarchy. The thorough profile
tries more than 20,000; run alone, ``pytest -s`` shows how many.
"""

from __future__ import annotations

import itertools
import json
import random
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import settings
from zarr.buffer import cpu
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchy.fuzzed_hierarchies import changed, hierarchy, selection
from tests.hierarchy.naive_reader import Files, chunk_edges, native_copy
from tests.hierarchy.naive_reader import read as read_naively

SELECTIONS = 12
CHANGES = 12


def arrays() -> int:
    """How many hierarchies: 5 at least, 12 by default, 450 in the thorough profile."""
    profile = settings.default
    assert profile is not None
    return max(
        5, profile.max_examples // 2, 9 * profile.max_examples * (profile.max_examples >= 50)
    )


def memory(files: Files) -> MemoryStore:
    return MemoryStore({key: cpu.Buffer.from_bytes(body) for key, body in files.items()})


@pytest.fixture(autouse=True)
def _rectilinear() -> Any:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def touched(metadata: dict[str, Any], chosen: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """Return the chunks that have a selected element."""
    along: list[list[int]] = []
    for edges, size, one in zip(chunk_edges(metadata), metadata["shape"], chosen, strict=True):
        wanted = np.arange(size)[one]
        along.append(sorted({int(n) for n in np.searchsorted(edges, wanted.ravel(), "right")}))
    return list(itertools.product(*along))


@pytest.mark.slow
def test_random_hierarchies_read_as_a_naive_reader_reads_them(
    pipeline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(arrays()):
        chance = random.Random(seed)
        files = hierarchy(chance)
        contents, broken = native_copy(files, "g/a")
        expected = read_naively(contents)
        metadata = json.loads(contents["zarr.json"].to_bytes())
        array: Any = zarr.open_group(zm.ManifestStore(memory(files), read_only=True), mode="r")[
            "g/a"
        ]
        for _ in range(SELECTIONS):
            chosen = selection(chance, expected.shape)
            where = f"seed {seed}, selection {chosen}"
            if not set(broken).isdisjoint(touched(metadata, chosen)):
                counts["refused"] += 1
                with pytest.raises(zm.ManifestError):
                    array[chosen]
                continue
            counts["equal"] += 1
            np.testing.assert_array_equal(array[chosen], expected[chosen], err_msg=where)
    with capsys.disabled():
        print(f"\n{pipeline}: {counts.total():,} selections, {dict(counts)}", end="")


def through_us(error: BaseException) -> bool:
    """Whether an exception comes from this package."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("/zarr_manifest/" in frame.filename for frame in frames)


READERS: dict[str, Callable[[MemoryStore], Any]] = {
    "array": lambda store: zarr.open_array(zm.ManifestStore(store), path="g/a", mode="r")[...],
    "contents": lambda store: str(zm.contents(store)),
    "validate": lambda store: zm.validate(store),
    "locations": lambda store: zm.ManifestStore(store).locations(),
}


def is_of_zarr(error: BaseException, files: Files) -> bool:
    """Whether zarr refuses the metadata without us, or the bytes of a chunk that we hand to it."""
    try:
        zarr.open_array(memory(files), path="g/a", mode="r")
    except Exception as alone:
        if repr(alone) == repr(error):
            return True
    try:
        with zarr.config.set({"zarr_manifest.bulk": False}):
            READERS["array"](memory(files))
    except Exception as chunk_by_chunk:
        return repr(chunk_by_chunk) == repr(error) and not through_us(chunk_by_chunk)
    return False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_changed_hierarchies_are_read_or_refused(
    pipeline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(arrays()):
        chance = random.Random(seed)
        files = hierarchy(chance)
        for change in range(CHANGES // len(READERS)):
            broken = changed(chance, files)
            for name, reader in READERS.items():
                try:
                    reader(memory(broken))
                    counts["read"] += 1
                except zm.ManifestError:
                    counts["refused"] += 1
                except Exception as error:
                    # zarr itself refuses the metadata, or the bytes of a chunk.
                    is_ours = through_us(error) and not is_of_zarr(error, broken)
                    if name != "array" or is_ours:
                        raise AssertionError(f"seed {seed}, change {change}, {name}") from error
                    counts["refused by zarr"] += 1
    with capsys.disabled():
        print(f"\n{pipeline}: {counts.total():,} readers, {dict(counts)}", end="")
