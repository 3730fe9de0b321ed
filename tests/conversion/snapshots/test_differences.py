"""The difference of hierarchies, and their identity: what is claimed of bytes is true."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st
from obstore.store import S3Store
from zarr.storage import MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.counting_store import Counting
from tests.hierarchies import MANIFEST_ARRAYS, Values, in_memory
from tests.servers.s3 import S3Server
from zarr_manifest.errors import InvalidConfigurationError

KINDS = ("added", "removed", "equal", "different", "unknown")

# Two objects in two states each, with many equal parts; the second state is the present one.
OBJECTS = {
    ("f", 1): b"aabbaabb",
    ("f", 2): b"aabbbbaa",
    ("g", 1): b"aabbaabb",
    ("g", 2): b"aaaaaaaa",
}


NOTHING: dict[str, list[str]] = {kind: [] for kind in KINDS}


@st.composite
def chunks(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """An entry, and the bytes that it stands for."""
    kind = draw(st.sampled_from(["empty", "inline", "reference", "reference", "reference"]))
    name, state = draw(st.sampled_from(sorted(OBJECTS)))
    start, length = draw(st.sampled_from([0, 2, 4])), draw(st.sampled_from([2, 4]))
    body = OBJECTS[name, state][start : start + length]
    checksum = {"checksum": f"sha256:{hashlib.sha256(body).hexdigest()}"}
    if kind == "empty":
        return {}, b""
    if kind == "inline":
        return {"data": base64.b64encode(body).decode()}, body
    entry: dict[str, Any] = {"path": f"s3://b/{name}", "offset": start, "length": length}
    stated = draw(st.sampled_from([["etag"], ["checksum"], ["etag", "checksum"], ["version"], []]))
    tag = f"{name}{state}"
    entry |= {"etag": f'"{tag}"'} if "etag" in stated else {}
    entry |= {"version": tag} if "version" in stated else {}
    entry |= checksum if "checksum" in stated else {}
    return entry, body if stated else OBJECTS[name, 2][start : start + length]


arrays = st.dictionaries(
    st.sampled_from([f"{i}.{j}" for i in range(3) for j in range(2)]), chunks()
)
layouts = st.sampled_from([None, (1, 1), (2, 1), (2, 2)])


def written(
    entries: dict[str, tuple[dict[str, Any], bytes]], shape: Any = None, rows: int = 3
) -> MemoryStore:
    store = MemoryStore()
    stated = {key: entry for key, (entry, _) in entries.items()}
    options: Any = {"shape": (rows, 2), "chunks": (1, 1), "dtype": "u1", "compressors": None}
    zm.create_array(store, "a", stated, partition_shape=shape, inline=False, **options)
    return store


def keys(difference: zm.conversion.Difference) -> dict[str, list[str]]:
    """Return the keys of chunks that differ in the only array."""
    if not difference.nodes:
        return NOTHING
    (node,) = difference.nodes
    assert node.chunks is not None
    return {kind: node.chunks.keys(kind) for kind in KINDS}


# Of f, without conditions: its second state now, and bytes that a checksum says were the first.
PLAIN: dict[str, Any] = {"path": "s3://b/f", "offset": 4, "length": 4}
CHECKED = PLAIN | {"checksum": f"sha256:{hashlib.sha256(b'aabb').hexdigest()}"}


@pytest.mark.slow
@given(old=arrays, new=arrays, layout=layouts, other=layouts)
@example(old={"0.0": (PLAIN, b"bbaa")}, new={"0.0": (CHECKED, b"aabb")}, layout=None, other=None)
def test_what_is_said_of_bytes_is_true(old: Any, new: Any, layout: Any, other: Any) -> None:
    before, after = written(old, layout), written(new, other)
    found = keys(zm.diff(before, after))
    assert found["added"] == sorted(new.keys() - old)
    assert found["removed"] == sorted(old.keys() - new)
    for key in old.keys() & new:
        equal = old[key][1] == new[key][1]
        said = [kind for kind in KINDS if key in found[kind]] or ["same"]
        assert said in (
            [["same"], ["equal"], ["unknown"]] if equal else [["different"], ["unknown"]]
        )
        # What can be known is known.
        if all("checksum" in entry or "data" in entry for entry, _ in (old[key], new[key])):
            assert said != ["unknown"]
    # It inverts, however documents are divided; and there is none of one with itself.
    swapped = found | {"added": found["removed"], "removed": found["added"]}
    assert keys(zm.diff(after, before)) == swapped
    alike = written(old, other)
    assert keys(zm.diff(alike, after)) == found
    assert not zm.diff(before, alike).nodes
    assert not zm.diff(before, before).nodes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@given(old=arrays, new=arrays, layout=layouts)
def test_only_what_reads_alike_has_the_same_identity(old: Any, new: Any, layout: Any) -> None:
    stores = [
        written(old, layout),
        written(new, layout),
        written(dict(reversed(old.items())), layout),
    ]
    is_loose = [
        any(
            "path" in e and not e.keys() & {"etag", "version", "checksum"} for e, _ in each.values()
        )
        for each in (old, new, old)
    ]
    found: list[str | None] = []
    for store, loose in zip(stores, is_loose, strict=True):
        if loose:
            with pytest.raises(InvalidConfigurationError, match="snapshot"):
                zm.identity(store)
        else:
            found.append(zm.identity(store))
    if not any(is_loose):
        assert found[0] == found[2]
        assert (found[0] == found[1]) == (old == new)
        with zm.edit(stores[0]) as group:
            zarr.consolidate_metadata(group.store)
        assert zm.identity(stores[0]) == found[0]


@pytest.mark.slow
def test_of_plain_documents(root: Path) -> None:
    """Without checksums in the declaration, documents are read: their form does not count."""
    entry = {"0": {"data": base64.b64encode(b"12").decode()}}
    options: Any = {"shape": 4, "chunks": 2, "dtype": "u1", "compressors": None}
    zm.create_array(root, "a", entry, manifest_url="./m.json", **options)
    assert '"checksum"' not in (root / "a/zarr.json").read_text()
    before = shutil.copytree(root, root.with_name("before.zarr"))
    first = zm.identity(root)
    document = root / "a/m.json"
    document.write_text(json.dumps(json.loads(document.read_text()), indent=1))
    assert (zm.identity(root), zm.diff(before, root).nodes) == (first, [])
    document.write_text('{"1": {}}')
    assert zm.identity(root) != first
    assert keys(zm.diff(before, root))["removed"] == ["0"]


def test_native_arrays_have_no_identity(root: Path) -> None:
    zarr.create_array(root, shape=1, dtype="u1")
    with pytest.raises(InvalidConfigurationError, match=r"chunks of its own.*snapshot"):
        zm.identity(root)


@pytest.mark.slow
def test_of_nodes_of_every_kind(root: Path, values: Values, tmp_path: Path) -> None:
    """A hierarchy with a snapshot of it; then something of each kind changes."""
    snap = tmp_path / "snap.zarr"
    zm.snapshot(root, snap, checksum="crc32c")
    # What manifests say of objects without conditions holds for any state of these.
    found = {node.path: node.verdict for node in zm.diff(snap, root).nodes}
    assert found == dict.fromkeys(MANIFEST_ARRAYS, "unknown")
    assert len(str(zm.diff(root, snap)).splitlines()) == 2 * len(MANIFEST_ARRAYS)
    for path in MANIFEST_ARRAYS:
        shutil.rmtree(root / path)
        shutil.copytree(snap / path, root / path)
    zarr.open_array(root / "native", mode="r+")[:3, :4] = 7
    os.utime(root / "old/1.1", (0, 2e9))
    zarr.open_group(root / "a", mode="r+").attrs["path"] = {"new": float("nan")}
    zarr.open_array(root / "native", mode="r+").attrs["units"] = "K"
    shutil.rmtree(root / "a/b/external")
    zarr.create_group(root / "a/b/external")
    for chunk in (root / "native/c/1/1", root / "native/c/0/0"):
        chunk.write_bytes(chunk.read_bytes() + b"x")
    found = zm.diff(snap, root)
    assert found.verdict == "different"
    assert str(found).splitlines() == [
        "~ a  group",
        '    attributes.path: "a" -> {"new": NaN}',
        "- a/b/external  array",
        "+ a/b/external  group",
        "~ native  array",
        '    attributes.units: null -> "K"',
        "    2 chunks with other bytes: 0.0, 1.1",
        "~ old  array",
        "    1 chunk perhaps with other bytes: 1.1",
    ]


def test_a_bucket_that_goes_on(s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    url, snap = f"s3://{s3_bucket}/live.zarr", tmp_path / "snap.zarr"
    access: Any = {f"s3://{s3_bucket}/": zm.anonymous(**s3_server.options)}
    live: Any = ObjectStore(S3Store.from_url(url, **s3_server.options))
    options: Any = {"shape": 6, "chunks": 2, "dtype": "i2", "compressors": None}
    array = zarr.create_array(live, **options)
    array[:] = 1
    zm.snapshot(url, snap, allow=access)
    assert not zm.diff(snap, url, allow=access).nodes
    array.resize(8)
    array[6:] = 1
    array[2:4] = 2  # another tag, and nothing says whether the bytes of the chunk are others
    found = zm.diff(snap, url, allow=access)
    (node,) = found.nodes
    assert dict(node.members) == {"shape": ([6], [8])}
    assert keys(found) == NOTHING | {"added": ["3"], "unknown": ["1"]}


def test_documents_with_the_same_digest_are_not_read(tmp_path: Path) -> None:
    entries = {str(n): {"path": "s3://b/f", "offset": 4 * n, "length": 4} for n in range(40)}
    options: Any = {
        "shape": 40,
        "chunks": 1,
        "dtype": "i4",
        "partition_shape": (4,),
        "base": "s3://b/",
    }
    zm.create_array(tmp_path / "old.zarr", "a", entries, **options)
    entries["17"] |= {"length": 3}
    zm.create_array(tmp_path / "new.zarr", "a", entries, **options)
    stores = [Counting(in_memory(tmp_path / name)) for name in ("old.zarr", "new.zarr")]
    assert keys(zm.diff(*stores))["different"] == ["17"]
    for store in stores:
        assert len([key for key in store.asked if "manifest" in key]) == 1


def test_relative_paths_lead_elsewhere(tmp_path: Path) -> None:
    """Equal documents, each with an object of its own that no checksum names."""
    entries = {str(n): {"path": "./raw", "offset": n, "length": 1} for n in range(2)}
    for name in ("old.zarr", "new.zarr"):
        zm.create_array(tmp_path / name, "a", entries, shape=2, chunks=1, dtype="u1")
        (tmp_path / name / "a/raw").write_bytes(name.encode())
    found = zm.diff(tmp_path / "old.zarr", tmp_path / "new.zarr")
    assert (found.verdict, keys(found)["unknown"]) == ("unknown", ["0", "1"])
    assert not zm.diff(tmp_path / "old.zarr", tmp_path / "old.zarr").nodes
