"""What VirtualiZarr 0.x/1.x and the prototype of zarr-specs#287 wrote, beyond the corpus."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import split_into_source, write_manifest_array

DATA = np.arange(1, 61, dtype="<f4").reshape(3, 4, 5)
CHUNKS = (2, 2, 5)


def write_as_they_did(root: Path, source: Path, path: str) -> Path:
    """Write an array as VirtualiZarr's ``to_zarr`` did; every entry has the same `path`."""
    manifest, content = split_into_source(DATA, CHUNKS, path=path, start=11)
    assert list(manifest)[-1] == "1.1.0"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(content)
    array = write_manifest_array(
        root,
        "air",
        DATA,
        CHUNKS,
        manifest,
        fill_value=float("nan"),
        chunk_key_encoding={"name": "default", "separator": "/"},
    )
    metadata = json.loads((array / "zarr.json").read_text())
    # As they wrote it: nothing but this.
    assert metadata["storage_transformers"] == [
        {"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}
    ]
    assert metadata["chunk_key_encoding"]["configuration"] == {"separator": "/"}
    return array


def check(store: zm.ManifestStore) -> None:
    np.testing.assert_array_equal(zarr.open(store, path="air", mode="r")[...], DATA)
    np.testing.assert_array_equal(
        zarr.open_array(store, path="air", mode="r")[1, 1:3], DATA[1, 1:3]
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "vds.zarr"
    zarr.create_group(root)
    return root


@pytest.mark.parametrize("base", [".", "./"])
@pytest.mark.parametrize("path", ["raw/f.nc", "./raw/f.nc"])
def test_paths_relative_to_the_root(base: str, path: str, root: Path) -> None:
    write_as_they_did(root, root / "raw" / "f.nc", path)
    check(zm.ManifestStore(root, base=base))
    with pytest.raises(zm.errors.SourceNotFoundError) as raised:
        check(zm.ManifestStore(root))
    # What to do about it.
    assert "base" in str(raised.value)


@pytest.mark.parametrize("write", [str, lambda path: f"{path}/", Path, lambda path: path.as_uri()])
def test_paths_relative_to_a_directory(
    write: Callable[[Path], Any], root: Path, tmp_path: Path
) -> None:
    """Of the working directory in which they were written, say."""
    directory = tmp_path / "work dir"
    write_as_they_did(root, directory / "data" / "f.nc", "data/f.nc")
    check(zm.ManifestStore(root, base=write(directory), allow=[f"{directory.as_uri()}/"]))
    check(zm.ManifestStore(root, base=write(directory), allow=[f"{directory}/"]))


# Metadata that is not valid Zarr v3 -------------------------------------------


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda metadata: metadata.pop(name)


def having(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda metadata: metadata.__setitem__(name, value)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (having("codecs", None), "codec"),
        (having("codecs", []), "codec|serializer|ArrayBytesCodec"),
        (having("codecs", [{"id": "zlib", "level": 4}]), "name|codec"),
        (having("codecs", [{"name": "no-such-codec"}]), "no-such-codec"),
        (without("codecs"), "codecs"),
        (having("shape", None), "shape"),
        (having("shape", "3,4,5"), "shape"),
        (without("shape"), "shape"),
        (having("data_type", "<f4"), "<f4|data_type|dtype"),
        (without("data_type"), "data_type|dtype"),
        (having("chunk_grid", None), "chunk_grid|chunk grid"),
        (without("chunk_grid"), "chunk_grid|chunk grid"),
        (having("chunk_key_encoding", None), "chunk_key_encoding|chunk key encoding"),
        (having("chunk_key_encoding", {"name": "unheard"}), "unheard"),
        (
            having("chunk_key_encoding", {"name": "default", "configuration": {"separator": "-"}}),
            "separator",
        ),
        (
            having("chunk_key_encoding", {"name": "default", "configuration": "x"}),
            "chunk_key_encoding|chunk key encoding|configuration",
        ),
        (without("chunk_key_encoding"), "chunk_key_encoding|chunk key encoding"),
        (without("fill_value"), "fill_value"),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda store: zarr.open_array(store, path="air", mode="r")[...],
        lambda store: zarr.open_group(store, mode="r")["air"][...],
    ],
    ids=["open_array", "group"],
)
def test_invalid_metadata_is_refused(
    read: Callable[[zm.ManifestStore], Any],
    spoil: Callable[[dict[str, Any]], Any],
    says: str,
    root: Path,
) -> None:
    """By zarr, or by us; never read as fill values, and never without saying what is wrong."""
    array = write_as_they_did(root, root / "air" / "f.nc", "f.nc")
    metadata = json.loads((array / "zarr.json").read_text())
    spoil(metadata)
    (array / "zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(Exception, match=says) as raised:
        read(zm.ManifestStore(root))
    assert not isinstance(raised.value, (AttributeError, AssertionError)), repr(raised.value)


@pytest.mark.parametrize(
    "theirs",
    [
        {"codecs": None},
        {"codecs": []},
        {"codecs": [{"id": "zlib", "level": 4}]},
        {"data_type": ">f4"},
        {"data_type": "|S5"},
    ],
)
def test_metadata_that_can_be_repaired(root: Path, theirs: dict[str, Any]) -> None:
    array = write_as_they_did(root, root / "air" / "f.nc", "f.nc")
    metadata = json.loads((array / "zarr.json").read_text())
    (array / "zarr.json").write_text(json.dumps(metadata | theirs))
    with pytest.raises(zm.errors.InvalidConfigurationError) as raised:
        zarr.open_array(zm.ManifestStore(root), path="air", mode="r")
    assert "repair it: zarr_manifest.conversion.upgrade" in str(raised.value)
    (problem,) = zm.validate(root)
    assert problem.message == str(raised.value)
