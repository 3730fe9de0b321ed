"""Stores that VirtualiZarr 1.0.0 to 1.3.0 really wrote, made valid and read.

What they hold is compared with h5py, netCDF4, astropy and zarr on the sources.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.errors import UnstableSpecificationWarning
from zarr.storage import LocalStore, MemoryStore, ZipStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.conversion.older_writers.older_writer_stores import (
    RELEASES,
    SOURCES,
    check,
    files_in,
    refused_in,
    unpack,
)
from tests.hierarchies import consolidate
from tests.interrupted_stores import (
    Interrupted,
    InterruptedDirectory,
    InterruptedMemory,
    every_change,
)
from tests.properties import THOROUGH
from zarr_manifest.conversion import lock, upgrade

# What each wrote is upgraded in place; a copy is made by the same steps.
OLDER = RELEASES if THOROUGH else RELEASES[:1]
COPIED = SOURCES if THOROUGH else SOURCES[:2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        f"ignore::{UnstableSpecificationWarning.__module__}.{UnstableSpecificationWarning.__name__}"
    ),
]


@pytest.mark.parametrize(("release", "source"), crossed(reversed(RELEASES), SOURCES))
def test_values_and_a_second_run_that_changes_nothing(
    release: str, source: str, writer: Path
) -> None:
    root = unpack(release, source, writer)
    before = files_in(root)
    report = upgrade(root)
    assert report.repaired
    assert set(report.repairs) | {node.path for node in report.refused} == {
        key.rpartition("/")[0] for key in before if key.endswith("/zarr.json")
    }
    check(root, writer, release, source, report)
    refused = {node.path for node in report.refused}
    assert {problem.array for problem in zm.validate(root)} <= refused
    changed = {key for key, body in files_in(root).items() if before[key] != body}
    assert changed == set(report.written)
    assert changed - {"zarr.json"} == {f"{path}/zarr.json" for path in report.repaired}
    assert ("zarr.json" in changed) == (source == "joined.h5")  # its attributes contain NaN
    upgraded, again = files_in(root), upgrade(root)
    assert files_in(root) == upgraded
    assert again.repaired == again.written == []
    assert again.refused == report.refused
    assert str(again).startswith("0 of ")


@pytest.mark.parametrize("release", RELEASES)
def test_a_dry_run_says_what_a_run_does(release: str, writer: Path) -> None:
    root = unpack(release, "references.json", writer)
    before = files_in(writer)
    dry = upgrade(root, dry_run=True)
    assert files_in(writer) == before
    assert "would be repaired" in str(dry)
    report = upgrade(root)
    assert (dry.repairs, dry.refused, dry.notes, dry.written) == (
        report.repairs,
        report.refused,
        report.notes,
        report.written,
    )


# What is read and repaired, `test_values` shows for all; how it is copied, few do.
@pytest.mark.parametrize(
    ("release", "source"),
    sorted({(RELEASES[-1], source) for source in COPIED} | {(r, SOURCES[0]) for r in OLDER}),
)
def test_a_copy_leaves_the_original(release: str, source: str, writer: Path) -> None:
    root = unpack(release, source, writer)
    before = files_in(writer)
    target = writer.parent / "copies" / "valid.zarr"
    dry = upgrade(root, target=target, dry_run=True)
    assert not target.exists()
    report = upgrade(root, target=target)
    assert dry.written == report.written
    assert files_in(writer) == before
    check(target, writer, release, source, report)
    assert set(files_in(target)) == set(files_in(root))
    for node in report.refused:
        for name in ("zarr.json", "manifest.json"):
            assert (target / node.path / name).read_bytes() == (
                root / node.path / name
            ).read_bytes()
    copied = files_in(target)
    again = upgrade(root, target=target)
    assert again.written == []
    assert files_in(target) == copied
    assert upgrade(target).repaired == []


def test_the_repairs_are_named(writer: Path) -> None:
    root = unpack("1.2.0", "types.h5", writer)
    report = upgrade(root, lock=False)
    assert report.repairs["float32"] == ()
    assert report.repairs["float32_big"] == (
        "data_type '>f4', which is not a Zarr v3 data type, became 'float32', with the codec "
        "'bytes' big-endian, which said 'little'",
    )
    (sentence,) = report.repairs["packed_big"]
    assert "'numcodecs.fixedscaleoffset' came after 'bytes', but works on elements" in sentence
    assert sentence.endswith(
        "; the codecs are now 'numcodecs.fixedscaleoffset', 'bytes' (big-endian), "
        "'numcodecs.shuffle', 'numcodecs.zlib'"
    )
    assert report.repairs["nan_gaps"] == ('the fill value NaN, which JSON lacks, became "NaN"',)
    # What was written is JSON, without anything that only Python reads.
    for file in root.rglob("zarr.json"):
        json.loads(file.read_text(), parse_constant=pytest.fail)


# Refusals -------------------------------------------------------------------------


def test_refusals_leave_every_byte(writer: Path) -> None:
    root = unpack("1.0.0", "references.json", writer)
    before = files_in(root)
    report = upgrade(root)
    assert {node.path for node in report.refused} == refused_in("1.0.0", "references.json")
    for node in report.refused:
        assert node.code == "not_convertible"
        assert "the compressor was not recorded" in node.reason
        for name in ("zarr.json", "manifest.json"):
            key = f"{node.path}/{name}"
            assert (root / key).read_bytes() == before[key]
    assert "refused 7, left as they are:" in str(report)


def having(**members: Any) -> Callable[[Path], None]:
    def spoil(array: Path) -> None:
        metadata = json.loads((array / "zarr.json").read_text())
        (array / "zarr.json").write_text(json.dumps(metadata | members))

    return spoil


def manifest(text: str) -> Callable[[Path], None]:
    return lambda array: (array / "manifest.json").write_text(text) and None


ENTRY = {"path": "classic.nc", "offset": 1, "length": 8}
DECLARED = {"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}


@pytest.mark.parametrize(
    ("spoil", "code", "reason"),
    [
        (having(data_type="object"), "not_convertible", "'|O'"),
        (having(data_type="nonsense"), "not_convertible", "'nonsense'"),
        (having(shape=None), "not_convertible", "`$.shape`"),
        (having(chunk_grid=None), "not_convertible", "`$.chunk_grid`"),
        (having(codecs=7), "not_convertible", "`$.codecs`"),
        (having(codecs=[7]), "not_convertible", "`$.codecs[0]`"),
        (having(codecs=[{"id": "imagecodecs_lzf"}]), "not_convertible", "imagecodecs_lzf"),
        (having(codecs=[{"id": "zlib"}, {"id": "delta", "dtype": "<f8"}]), "not_convertible", ""),
        (having(fill_value="no number"), "not_convertible", "'no number'"),
        (having(data_type=">i8", fill_value=0.5), "not_convertible", "0.5"),
        (having(storage_transformers="x"), "invalid_configuration", "not a list"),
        (having(storage_transformers=["x"]), "unsupported_transformer", "'x'"),
        (having(storage_transformers=[DECLARED] * 2), "unsupported_transformer", "2 times"),
        (manifest("[]"), "invalid_manifest", "did not write this"),
        (manifest('{"0": []}'), "invalid_manifest", "did not write this"),
        (manifest("{"), "invalid_json", "not JSON"),
        (
            lambda array: (
                (array / "manifest.json").write_bytes(b'{"0": {"path": "\xff"}}') and None
            ),
            "invalid_json",
            "not JSON",
        ),
        (manifest(json.dumps({"x": ENTRY})), "invalid_chunk_key", ""),
        (manifest(json.dumps({"0": {"length": 8}})), "invalid_manifest", "did not write this"),
        (manifest(json.dumps({"0": ENTRY | {"path": r"C:\f.nc"}})), "invalid_path", "backslash"),
        (
            manifest(json.dumps({"0": {"path": "classic.nc"}})),
            "invalid_manifest",
            "did not write this",
        ),
        (
            manifest(json.dumps({"0": ENTRY | {"length": 7}})),
            "not_convertible",
            "7 bytes, but the stated codecs yield 8",
        ),
        (lambda array: (array / "manifest.json").unlink(), "manifest_not_found", ""),
    ],
)
def test_one_array_is_refused(
    spoil: Callable[[Path], None], code: str, reason: str, writer: Path
) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    spoil(root / "time")
    before = files_in(root / "time")
    report = upgrade(root)
    assert files_in(root / "time") == before
    (refused,) = report.refused
    assert (refused.path, refused.code) == ("time", code)
    assert reason in refused.reason
    # The others are repaired all the same.
    assert set(report.repaired) == {"field", "packed", "mask", "label"}


def test_limits(writer: Path) -> None:
    root = unpack("1.1.0", "classic.nc", writer)
    for limits in (zm.Limits(manifest_bytes=9), zm.Limits(entries=0)):
        report = upgrade(root, limits=limits)
        assert report.written == []
        assert {node.code for node in report.refused} == {"limit_exceeded"}


def test_what_was_never_theirs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(range(8)))
    zarr.create_array(tmp_path, name="native", shape=4, dtype="i4")[:] = 1
    zarr.create_array(tmp_path, name="ours", shape=8, chunks=4, dtype="u1", compressors=None)
    entries = {(i,): {"path": "raw.bin", "offset": 4 * i, "length": 4} for i in range(2)}
    zm.write_manifest(tmp_path, "ours", entries, base="../")
    # As what is imported from Zarr v2: objects of their own, of which no length is stated.
    zm.create_array(
        tmp_path, "whole", {"0": {"path": "a"}, "1": {"path": "b"}}, shape=7, chunks=4, dtype="u1"
    )
    before = files_in(tmp_path)
    report = upgrade(tmp_path)
    assert (report.repairs, report.refused) == ({"ours": (), "whole": ()}, [])
    assert "concatenated from several" not in str(report.notes)
    assert files_in(tmp_path) == before


# Stores, and interruptions --------------------------------------------------------


def memory_of(root: Path, kind: type[MemoryStore] = MemoryStore) -> MemoryStore:
    buffer = default_buffer_prototype().buffer
    return kind({key: buffer.from_bytes(body) for key, body in files_in(root).items()})


def bytes_in(store: MemoryStore) -> dict[str, bytes]:
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def states(
    root: Path, writer: Path, working_directory: Path | None
) -> tuple[dict[str, bytes], ...]:
    """The bytes of a hierarchy before and after."""
    before = memory_of(root)
    after = memory_of(root)
    upgrade(after, working_directory=working_directory)
    return bytes_in(before), bytes_in(after)


@pytest.mark.parametrize("kind", [InterruptedMemory, InterruptedDirectory])
def test_an_interruption_leaves_each_array_old_or_new(kind: type[Any], writer: Path) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    before, after = states(root, writer, writer)
    numbers = itertools.count()

    def make() -> Any:
        if kind is InterruptedMemory:
            return memory_of(root, kind)
        at = writer.parent / f"{next(numbers)}.zarr"
        shutil.copytree(root, at)
        return InterruptedDirectory(at)

    def objects(store: Any) -> dict[str, bytes]:
        return bytes_in(store) if kind is InterruptedMemory else files_in(store.root)

    def change(store: Any) -> None:
        upgrade(store, working_directory=writer)

    for store, _ in every_change(make, change):
        found = objects(store)
        for path in ("time", "field", "packed", "mask", "label"):
            key = f"{path}/zarr.json"
            state = before if found[key] == before[key] else after
            assert found[key] == state[key]
            wanted = {k: body for k, body in state.items() if k.startswith(f"{path}/")}
            assert wanted.items() <= found.items()
        change(store)
        assert objects(store) == after


def test_an_interrupted_copy_is_completed(writer: Path) -> None:
    root = unpack("1.3.0", "classic.nc", writer)
    complete = MemoryStore()
    upgrade(root, target=complete)

    def copy(target: MemoryStore) -> None:
        upgrade(root, target=target)

    for target, is_last in every_change(InterruptedMemory, copy):
        if not is_last:
            # It cannot be opened before it is complete, and what is there is as it is to be.
            with pytest.raises(FileNotFoundError):
                zarr.open(zm.ManifestStore(target), mode="r")
            assert bytes_in(target).items() <= bytes_in(complete).items()
        copy(target)
        assert bytes_in(target) == bytes_in(complete)


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently")
def test_a_hierarchy_whose_writer_was_interrupted(tmp_path: Path) -> None:
    """What is behind is not repaired or copied; in place, it is written first."""
    root = tmp_path / "h"
    for path in ("a", "b"):
        zm.create_array(root, path, {}, shape=2, chunks=1, dtype="u1", lock=False)
    consolidate(root)
    store: Any = memory_of(root, InterruptedMemory)
    store.left = 1
    with pytest.raises(Interrupted):
        lock(store)
    store.left = 10**9
    refused: list[dict[str, Any]] = [{"dry_run": True}, {"target": MemoryStore()}]
    for options in refused:
        with pytest.raises(zm.errors.WriteConflictError, match=r"first: zarr_manifest\.recover"):
            upgrade(store, **options)
    before = bytes_in(store)
    assert upgrade(store).repaired == []
    assert {key for key, body in bytes_in(store).items() if body != before[key]} == {
        "zarr.json", "a/zarr.json", "b/zarr.json"
    }  # fmt: skip
    assert zm.validate(store) == []


def test_a_copy_does_not_replace_anything(writer: Path, tmp_path: Path) -> None:
    root = unpack("1.3.0", "classic.nc", writer)
    target = tmp_path / "other.zarr"
    zarr.create_group(target, attributes={"mine": True})
    with pytest.raises(zm.errors.WriteConflictError, match="already something else"):
        upgrade(root, target=target)
    assert zarr.open_group(target, mode="r").attrs["mine"] is True


@pytest.mark.parametrize("below", ["", "copy.zarr"])
def test_a_copy_within_the_hierarchy(below: str, writer: Path) -> None:
    root = unpack("1.3.0", "classic.nc", writer)
    with pytest.raises(ValueError, match="must not lie within"):
        upgrade(root, target=root / below)


@pytest.mark.parametrize("path", ["", "a"])
def test_metadata_behind_a_link_is_refused_once(path: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    zarr.create_group(root).create_array("a", shape=3, dtype="u1")
    document = (root / path / "zarr.json").rename(tmp_path / "elsewhere.json")
    (root / path / "zarr.json").symlink_to(document)
    report = upgrade(root, target=tmp_path / "copy")
    assert [(node.path, node.code) for node in report.refused] == [(path, "location_not_allowed")]
    assert report.written == ["zarr.json" if path else "a/zarr.json"]


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently")
def test_consolidated_metadata_stays_equal(writer: Path) -> None:
    """Of arrays that zarr could consolidate: 1.1.0's are valid but for their paths."""
    root = unpack("1.1.0", "types.h5", writer)
    for path in root.iterdir():
        if path.is_dir() and path.name != "float32":
            shutil.rmtree(path)
    consolidate(root)
    report = upgrade(root)
    assert report.repaired == ["float32"]
    assert zm.validate(root) == []
    group = zarr.open_consolidated(zm.ManifestStore(root, allow=[writer.as_uri()]))
    np.testing.assert_array_equal(group["float32"][...], np.arange(12).reshape(3, 4))


def test_a_manifest_store_sees_what_was_written(writer: Path) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    store = zm.ManifestStore(root, allow=[writer.as_uri()])
    with pytest.raises(zm.errors.InvalidConfigurationError, match="not valid Zarr v3"):
        zarr.open_group(store, mode="r")["time"]
    report = upgrade(store)
    assert report.repaired
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["time"][...], [0, 1])


def test_a_store_that_cannot_tell_of_other_writers(writer: Path) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    with ZipStore(writer / "h.zip", mode="w") as archive:
        for key, body in files_in(root).items():
            sync(archive.set(key, default_buffer_prototype().buffer.from_bytes(body)))
    store = ZipStore(writer / "h.zip", mode="r")
    with pytest.raises(zm.errors.WriteConflictError, match="sole_writer"):
        upgrade(store)
    target = writer / "copy.zarr"
    report = upgrade(store, target=target, working_directory=writer)
    check(target, writer, "1.0.0", "classic.nc", report)


def test_there_is_no_hierarchy(tmp_path: Path) -> None:
    with pytest.raises(zm.errors.SourceNotFoundError, match="file:///"):
        upgrade(tmp_path / "nothing")
    assert not list(tmp_path.iterdir())
    with pytest.raises(zm.errors.SourceNotFoundError, match="no Zarr hierarchy"):
        upgrade(LocalStore(tmp_path))
