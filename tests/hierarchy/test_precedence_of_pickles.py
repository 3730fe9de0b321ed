"""Stores and arrays that are pickled before or during a change, and read in another process."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchy.chunk_reads import READS, Read
from tests.hierarchy.windows import CHANGES, Array, windows
from tests.processes import in_worker


def arrays_in(store: zm.ManifestStore, *, consolidated: bool) -> dict[str, Any]:
    root = zarr.open_group(store, mode="r", use_consolidated=consolidated)
    nodes = dict(root.members(max_depth=None))
    return {path: node for path, node in nodes.items() if isinstance(node, zarr.Array)}


def read(array: Any) -> Any:
    try:
        return array[:]
    except zm.errors.ManifestError as error:
        return error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component")
@pytest.mark.parametrize("bulk", combinations([True, False], besides=[True]))
@pytest.mark.parametrize("consolidated", combinations([True, False], besides=[True]))
@pytest.mark.parametrize("name", combinations(CHANGES, besides=["append"]))
def test_workers_read_what_was_opened_or_fail(
    tmp_path: Path, name: str, consolidated: bool, bulk: bool
) -> None:
    """Never a new manifest with old metadata, or the other way round."""
    change = CHANGES[name]
    root = tmp_path / "h.zarr"
    steps = list(windows(change))
    for number, opened in enumerate(steps):
        opened.write(root)
        nodes = change.new if opened.is_committed else change.old
        with zarr.config.set({"zarr_manifest.bulk": bulk}):
            found = arrays_in(zm.ManifestStore(root), consolidated=consolidated)
        pickled = {path: pickle.dumps(array) for path, array in found.items()}
        for later in steps[number:]:
            later.write(root)
            for path, body in pickled.items():
                node = nodes[path]
                assert isinstance(node, Array)
                is_same = change.old.get(path) == change.new.get(path)
                values = read(in_worker(body))
                if isinstance(values, zm.errors.ManifestError):
                    assert not opened.is_committed  # what was opened is what is there now
                    assert not is_same
                    assert re.search("open the hierarchy again", str(values), re.IGNORECASE)
                else:
                    np.testing.assert_array_equal(values, node.values)


@READS
def test_a_trimmed_array(tmp_path: Path, chunk: Read) -> None:
    """Its chunks have other indices than those that a worker asks for."""
    before, *_, after = windows(CHANGES["trim"])
    root = tmp_path / "h.zarr"
    before.write(root)
    store: Any = zarr.open_group(zm.ManifestStore(root), mode="r").store
    pickled = pickle.dumps(store)
    assert chunk(in_worker(pickled), "sst/c/0") == chunk(store, "sst/c/0")
    after.write(root)
    with pytest.raises(zm.errors.ManifestNotFoundError, match=r"opened with.*array 'sst'"):
        chunk(in_worker(pickled), "sst/c/0")
    with pytest.raises(zm.errors.ManifestNotFoundError, match=r"opened with.*array 'sst'"):
        chunk(in_worker(pickle.dumps(in_worker(pickled))), "sst/c/0")
    reopened = in_worker(pickled)
    zarr.open_group(reopened, mode="r")
    assert chunk(reopened, "sst/c/0") == chunk(zm.ManifestStore(root), "sst/c/0")


def test_a_copy_that_is_written_otherwise_is_the_same(tmp_path: Path) -> None:
    """Attributes, the lock and the order of members make no difference."""
    before, *_ = windows(CHANGES["trim"])
    root = tmp_path / "h.zarr"
    before.write(root)
    array = arrays_in(zm.ManifestStore(root), consolidated=True)["sst"]
    own = json.loads((root / "sst/zarr.json").read_bytes())
    del own["chunk-manifest-json"]
    own["attributes"] = {"units": "K"}
    (root / "sst/zarr.json").write_text(json.dumps(own, sort_keys=True, indent=1))
    assert in_worker(pickle.dumps(array))[:].tolist() == [10, 11, 12, 13, 14, 15]


@pytest.mark.slow
def test_what_a_pickle_takes(tmp_path: Path) -> None:
    """dask pickles a store with every task: about 10 bytes more for an array than its path."""
    change = CHANGES["append"]
    sst = change.old["sst"]
    assert isinstance(sst, Array)
    many = {"": change.old[""]} | {f"variable_{number:03}": sst for number in range(100)}
    window = next(windows(type(change)(many, many)))
    window.write(tmp_path / "h.zarr")
    store = zm.ManifestStore(tmp_path / "h.zarr")
    empty = len(pickle.dumps(store))
    (opened, *_) = arrays_in(store, consolidated=True).values()
    assert len(pickle.dumps(opened.store)) - empty <= 100 * (len("variable_000") + 30)
