"""Stores as VirtualiZarr 1.0.0 to 1.3.0 wrote them (data), and their sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

import zarr_manifest as zm
from zarr_manifest.conversion import UpgradeReport

__all__ = [
    "DATA",
    "RELEASES",
    "SOURCES",
    "check",
    "documents_of",
    "doubted_in",
    "files_in",
    "metadata_of",
    "refused_in",
    "source_values",
    "unpack",
]

DATA = Path(__file__).parent / "data"
RELEASES = ("1.0.0", "1.1.0", "1.2.0", "1.3.0")
SOURCES = ("types.h5", "classic.nc", "field.fits", "references.json", "joined.h5")
_JOINED = ("joined.1.h5", "joined.2.h5")
_FILES = (*SOURCES[:3], "chunks.bin", *_JOINED)

# Their compressor was not written down by 1.0.0: no more than this can be known.
_COMPRESSED = {"blosc", "delta", "fortran_zlib", "gzip", "lz4", "shuffle", "zstd"}
# Sources that may end before a chunk does, or before their last chunk.
_JOINED_BADLY = {"second_short", "first_short", "both_short", "last_missing"}
# 1.0.0 did not write down the order of elements. None of its own readers made another one than
# C, but what these tests made it write did.
_ORDER_LOST = {"fortran"}


def documents_of(release: str, source: str, writer: Path | None = None) -> dict[str, str]:
    """Return the documents of a store by key, as if written in a directory."""
    text = (DATA / release / f"{source}.json").read_text()
    if writer is not None:
        assert '"' not in str(writer)
        text = text.replace("file:///writer", writer.as_uri()).replace("/writer", str(writer))
    documents: dict[str, str] = json.loads(text)
    return documents


def unpack(release: str, source: str, writer: Path, root: Path | None = None) -> Path:
    """Make the directory in which a release ran, and the store that it wrote there."""
    writer.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy(DATA / name, writer)
    root = writer / f"{source}.zarr" if root is None else root
    for key, text in documents_of(release, source, writer).items():
        file = root / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert (root / "zarr.json").is_file()
    return root


def metadata_of(release: str, source: str) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """Return the metadata of the arrays of a store, and the lengths of their chunks."""
    documents = documents_of(release, source)
    found: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for key, text in documents.items():
        if key.endswith("/zarr.json"):
            path = key.removesuffix("/zarr.json")
            manifest = json.loads(documents[f"{path}/manifest.json"])
            found[path] = json.loads(text), [entry["length"] for entry in manifest.values()]
    return found


def refused_in(release: str, source: str) -> set[str]:
    """Return the paths of the arrays of a store that cannot be repaired."""
    if source != "joined.h5":
        return _COMPRESSED if (release, source) == ("1.0.0", "references.json") else set()
    swapped = {"packed_gaps"} if release in ("1.2.0", "1.3.0") else set[str]()
    return (_JOINED_BADLY | swapped) - doubted_in(release, source)


def doubted_in(release: str, source: str) -> set[str]:
    """Return the paths of the arrays that were valid, but may have wrong values."""
    if source != "joined.h5":
        return set()
    valid = {"1.1.0": {"nan_attribute"}, "1.2.0": _JOINED_BADLY - {"both_short"}}
    return valid.get(release, set())


def files_in(root: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a directory."""
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


def _is_unpacked(release: str, source: str) -> bool:
    return source in ("types.h5", "joined.h5") and release in ("1.2.0", "1.3.0")


def check(root: Any, writer: Path, release: str, source: str, report: UpgradeReport) -> None:
    """Every array equals the source, or was refused."""
    expected = source_values(source, unpacked=_is_unpacked(release, source))
    refused = {node.path for node in report.refused}
    assert refused == refused_in(release, source)
    doubted = {path for path, note in report.notes if "compare it with the sources" in note}
    assert doubted == doubted_in(release, source)
    store = zm.ManifestStore(root, allow=[writer.as_uri()])
    for path in set(report.repairs) - doubted:
        found = np.asarray(zarr.open_array(store, path=path, mode="r")[...])
        if release == "1.0.0" and path in _ORDER_LOST:
            assert not np.array_equal(found, expected[path])
            assert "elements are assumed to be in order 'C'" in str(report)
            continue
        assert found.dtype.newbyteorder("=") == expected[path].dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, expected[path], err_msg=path)


def source_values(source: str, *, unpacked: bool) -> dict[str, np.ndarray[Any, Any]]:
    """Return what the source's own reader finds in it.

    Parameters
    ----------
    source : str
        One of the sources.
    unpacked : bool
        Whether scale and offset are applied, as VirtualiZarr's own HDF5 reader did.
    """
    from astropy.io import fits

    if source == "types.h5":
        return _hdf5_values(source, unpacked=unpacked)
    if source == "joined.h5":
        first, second = (_hdf5_values(name, unpacked=unpacked) for name in _JOINED)
        return {name: np.concatenate([first[name], second[name]]) for name in first}
    if source == "classic.nc":
        with netCDF4.Dataset(DATA / source) as file:
            file.set_auto_maskandscale(False)
            file.set_always_mask(False)
            return {name: np.asarray(variable[...]) for name, variable in file.variables.items()}
    if source == "field.fits":
        with fits.open(DATA / source) as hdus:
            return {"PRIMARY": np.array(hdus[0].data)}
    return _zarr2_values()


def _hdf5_values(source: str, *, unpacked: bool) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    with h5py.File(DATA / source) as file:
        for name, dataset in file.items():
            found[name] = np.asarray(dataset[()])
            if unpacked and "scale_factor" in dataset.attrs:
                scale, offset = dataset.attrs["scale_factor"], dataset.attrs["add_offset"]
                found[name] = found[name] * scale + offset
    return found


def _zarr2_values() -> dict[str, np.ndarray[Any, Any]]:
    """What zarr reads, as Zarr v2, of the chunks that the references name."""
    content = (DATA / "chunks.bin").read_bytes()
    store: dict[str, Any] = {}
    for key, value in json.loads((DATA / "references.json").read_text())["refs"].items():
        body = value.encode() if isinstance(value, str) else content[value[1] : sum(value[1:])]
        store[key] = default_buffer_prototype().buffer.from_bytes(body)
    group = zarr.open_group(MemoryStore(store), mode="r", zarr_format=2)
    return {name: np.asarray(array[...]) for name, array in group.arrays()}
