"""What `upgrade` does about manifests of older writers: paths, and chunks at the wrong place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.buffer import default_buffer_prototype

import zarr_manifest as zm
from tests.combinations import combinations
from tests.conversion.older_writers.older_writer_stores import (
    RELEASES,
    check,
    files_in,
    source_values,
    unpack,
)
from tests.interrupted_stores import Interrupted, InterruptedMemory
from zarr_manifest.conversion import upgrade
from zarr_manifest.conversion.older_writers.arrays import doubt

# Paths that are no URL references -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "name"),
    [
        (lambda file: file.name, "100%.nc"),
        (str, "run#1.nc"),
        (lambda file: f"file://{file}", "what?.nc"),
        (lambda file: f"file://{file}", "100%.nc"),
    ],
)
def test_names_that_are_no_url_references(
    name: str, how: Callable[[Path], str], writer: Path
) -> None:
    """Their paths are not encoded, and a ``%`` may belong to a name or to an escape."""
    root = unpack("1.0.0", "classic.nc", writer)
    file = (writer / "classic.nc").rename(writer / name)
    for document in root.rglob("manifest.json"):
        document.write_text(document.read_text().replace('"classic.nc"', json.dumps(how(file))))
    before = files_in(root)
    report = upgrade(root)
    assert {node.code for node in report.refused} == {"invalid_path"}
    assert len(report.refused) == 5
    assert files_in(root) == before
    for document in root.rglob("manifest.json"):
        text = document.read_text().replace(name, quote(name))
        document.write_text(text)
    check(root, writer, "1.0.0", "classic.nc", upgrade(root))


def test_an_entry_that_no_reader_understands_is_not_upgraded(writer: Path) -> None:
    root = unpack("1.1.0", "classic.nc", writer)
    document = root / "field" / "manifest.json"
    entries = json.loads(document.read_text())
    entries["0.0"]["ofset"] = 8
    document.write_text(json.dumps(entries))
    before = document.read_bytes()
    report = upgrade(root, working_directory=writer)
    (refused,) = report.refused
    assert (refused.path, refused.code) == ("field", "invalid_entry")
    assert "'ofset'" in refused.reason
    assert document.read_bytes() == before


# Joined sources -------------------------------------------------------------------


def reasons(report: Any) -> dict[str, str]:
    return {node.path: f"{node.code}: {node.reason}" for node in report.refused}


@pytest.mark.parametrize("release", RELEASES)
def test_sources_that_end_within_a_chunk(release: str, writer: Path) -> None:
    """The second of two may; whether the first does cannot be told without the sources."""
    root = unpack(release, "joined.h5", writer)
    before = files_in(root)
    report = upgrade(root, lock=False)
    found = reasons(report) | dict(report.notes)
    assert "the manifest key '3.0' names a chunk outside the array" in found["both_short"]
    for path in ("first_short", "second_short"):
        assert "dimension 0 was concatenated from several sources, and its length 7" in found[path]
        assert files_in(root)[f"{path}/zarr.json"] == before[f"{path}/zarr.json"]
    assert "chunks are missing at its end" in found["last_missing"]
    assert "even" in report.repairs


@pytest.mark.slow
def test_chunks_that_were_lost(writer: Path) -> None:
    """1.1.0 lost those of HDF5 datasets with an attribute that is NaN: all would be read as 0."""
    root = unpack("1.1.0", "joined.h5", writer)
    assert (root / "nan_attribute" / "manifest.json").read_text() == "{}"
    before = files_in(root / "nan_attribute")
    report = upgrade(root, lock=False)
    assert dict(report.notes)["nan_attribute"].startswith("the manifest has no chunks")
    assert files_in(root / "nan_attribute") == before
    document = root / "nan_attribute" / "zarr.json"
    document.write_text(json.dumps(json.loads(document.read_text()) | {"data_type": ">i4"}))
    assert "the manifest has no chunks" in reasons(upgrade(root))["nan_attribute"]


@pytest.mark.slow
def test_what_the_releases_made_of_them_is_wrong(writer: Path) -> None:
    """Why they are refused: 1.2.0 wrote valid metadata of them, and this is what one reads."""
    root = unpack("1.2.0", "joined.h5", writer)
    store = zm.ManifestStore(root, allow=[writer.as_uri()])
    expected = source_values("joined.h5", unpacked=True)
    for path in ("first_short", "both_short"):
        found = zarr.open_array(store, path=path, mode="r")[...]
        assert found.shape == expected[path].shape
        assert not np.array_equal(found, expected[path])
    report = upgrade(root)
    assert "both_short" in reasons(report)
    assert dict(report.notes)["first_short"].endswith("compare it with the sources")


def test_chunks_outside_arrays_of_others(tmp_path: Path) -> None:
    """zarr leaves them when it makes an array smaller, and they are ignored."""
    (tmp_path / "raw.bin").write_bytes(bytes(8))
    zarr.create_array(tmp_path, name="a", shape=8, chunks=4, dtype="u1", compressors=None)
    entries = {(i,): {"path": "raw.bin", "offset": 4 * i, "length": 4} for i in range(2)}
    zm.write_manifest(tmp_path, "a", entries, base="../")
    document = tmp_path / "a" / "zarr.json"
    document.write_text(json.dumps(json.loads(document.read_text()) | {"shape": [4]}))
    report = upgrade(tmp_path)
    assert (report.refused, report.notes) == ([], [])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 4), st.booleans())
def test_a_join_without_doubt_is_right(counts: list[int], chunk: int, lacks_ends: bool) -> None:
    """Chunks are where the releases put them; nobody objects only if that is the right place.

    Sources end within chunks, or lack their last ones; both together may go unnoticed.
    """
    lengths = [n * chunk for n in counts] if lacks_ends else counts
    paths: dict[tuple[int, ...], str] = {}
    is_right, start = True, 0
    for number, length in enumerate(lengths):
        position, chunks = len(paths), -(-length // chunk)
        kept = max(chunks - 1, 1) if lacks_ends and number % 2 == 0 else chunks
        is_right &= position * chunk == start
        paths |= {(position + i,): f"{number}.nc" for i in range(kept)}
        start += length
    is_within = max(paths)[0] < -(-start // chunk)  # or it is refused for that
    reason = doubt({"shape": [start], "codecs": []}, paths, [chunk]) if is_within else ""
    assert reason is not None or is_right
    if len(lengths) == 1 or (start % chunk == 0 and is_right and not lacks_ends):
        assert reason is None


# Fill values ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.2.0", "1.3.0"])
def test_fill_values_with_swapped_bytes(release: str, writer: Path) -> None:
    """99 in the file, unpacked as 25344; nothing is wrong with 0, or without missing chunks."""
    root = unpack(release, "joined.h5", writer)
    metadata = json.loads((root / "packed_gaps" / "zarr.json").read_text())
    assert metadata["fill_value"] == 25344 / 2 + 10 != 99 / 2 + 10
    report = upgrade(root)
    assert "the bytes of their fill value 12682.0 may be swapped" in reasons(report)["packed_gaps"]
    assert "packed_zeros" in report.repaired
    check(root, writer, release, "joined.h5", report)


@pytest.mark.parametrize(
    ("fill_value", "astype", "chunks", "is_doubtful"),
    [
        (10.0, ">i2", 1, False),
        (9.5, ">i2", 1, False),  # -1
        (59.5, ">i2", 1, True),
        (59.5, ">i2", 2, False),
        (59.5, "<i2", 1, False),
        (59.5, "|u1", 1, False),
        (59.5, ">f4", 1, True),
        ("NaN", ">f4", 1, True),
        (1e300, ">i4", 1, True),
    ],
)
def test_doubtful_fill_values(fill_value: Any, astype: str, chunks: int, is_doubtful: bool) -> None:
    packing = {"offset": 10.0, "scale": 2.0, "dtype": "<f8", "astype": astype}
    codecs = [{"name": "numcodecs.fixedscaleoffset", "configuration": packing}, {"name": "bytes"}]
    metadata = {"shape": [4], "codecs": codecs, "fill_value": fill_value}
    paths = {(index,): "a.nc" for index in range(chunks)}
    assert (doubt(metadata, paths, [2]) is not None) == is_doubtful


# Groups ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("release", combinations(RELEASES, besides=RELEASES[-1:]))
def test_attributes_of_groups_become_json(release: str, writer: Path) -> None:
    root = unpack(release, "joined.h5", writer)
    before = (root / "zarr.json").read_bytes()
    assert b"NaN" in before
    dry = upgrade(root, dry_run=True)
    assert (root / "zarr.json").read_bytes() == before
    target = writer / "copy.zarr"
    copied = upgrade(root, target=target)
    report = upgrade(root)
    note = ("", "in the attribute 'limit', NaN became a string, as JSON has none")
    for each, place in ((dry, None), (copied, target), (report, root)):
        assert note in each.notes
        assert "zarr.json" in each.written
        if place is not None:
            found = json.loads((place / "zarr.json").read_text(), parse_constant=pytest.fail)
            assert found["attributes"] == {"limit": "NaN"}
    again = upgrade(root)
    assert note not in again.notes
    assert again.written == []


def test_attributes_of_groups_of_others_stay(tmp_path: Path) -> None:
    """zarr itself writes NaN."""
    group = zarr.create_group(tmp_path, attributes={"limit": float("nan")})
    group.create_array("native", shape=2, dtype="i4")
    before = files_in(tmp_path)
    assert upgrade(tmp_path).notes == []
    assert files_in(tmp_path) == before


@pytest.mark.slow
def test_an_interruption_leaves_groups_old_or_new(writer: Path) -> None:
    root = unpack("1.3.0", "joined.h5", writer)
    content = files_in(root)
    upgrade(root)
    buffer = default_buffer_prototype().buffer
    found: list[bool] = []
    for left in range(4):
        store = InterruptedMemory({key: buffer.from_bytes(body) for key, body in content.items()})
        store.left = left
        with pytest.raises(Interrupted):
            upgrade(store)
        body = store._store_dict["zarr.json"].to_bytes()
        assert body in (content["zarr.json"], (root / "zarr.json").read_bytes())
        found.append(body == content["zarr.json"])
        store.left = 100
        upgrade(store)
        assert {key: value.to_bytes() for key, value in store._store_dict.items()} == files_in(root)
    assert found == [True, False, False, False]
