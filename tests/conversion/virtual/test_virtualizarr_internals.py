"""Fails on the release of VirtualiZarr, or of one of its parsers, that moves private names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from gribberish.virtualizarr import parser as grib_parser
from virtual_tiff import parser as tiff_parser
from virtualizarr.manifests import ChunkManifest, ManifestGroup, ManifestStore

from zarr_manifest.conversion import virtualizarr_internals
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.virtualizarr_internals import MISSING, ManifestColumns

ENTRY = {"path": "file:///a.nc", "offset": 100, "length": 24}
INLINE = {"path": "", "offset": 0, "length": 2, "data": b"ab"}


def test_the_columns_of_a_manifest() -> None:
    stated: Any = {"0.0": ENTRY, "1.1": INLINE}
    columns = ManifestColumns.of(ChunkManifest(stated, shape=(2, 2)))
    assert columns.stored.tolist() == [[True, False], [False, False]]
    assert (columns.paths == MISSING).tolist() == [[False, True], [True, False]]
    assert columns.paths[1, 1] == virtualizarr_internals.INLINED
    assert columns.inlined == {(1, 1): b"ab"}
    assert (columns.offsets[0, 0], columns.lengths[0, 0]) == (100, 24)
    assert columns.manifest().dict() == ChunkManifest(stated, shape=(2, 2)).dict()
    scalar = ManifestColumns.of(ChunkManifest({"0": INLINE}, shape=(1,))).of_scalar()
    assert (scalar.paths.shape, scalar.inlined) == ((), {(): b"ab"})


def test_what_parsers_make(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        options = {"shuffle": True, "compression": 4}
        dataset = file.create_dataset("a", data=np.arange(4, dtype="i2"), **options)
        codecs = virtualizarr_internals.hdf5_codecs(dataset._filters)
    assert [codec["name"] for codec in codecs] == ["numcodecs.shuffle", "numcodecs.zlib"]
    metadata = library("virtualizarr.manifests.utils").create_v3_array_metadata(
        shape=(4,), data_type=np.dtype("i2"), chunk_shape=(4,)
    )
    array = ManifestColumns.of_grid((1,)).array(metadata)
    assert (array.shape, array.dtype) == ((4,), np.dtype("i2"))
    group = ManifestGroup(arrays={"a": array}, attributes={})
    assert virtualizarr_internals.group_of(ManifestStore(group)) is group
    assert virtualizarr_internals.is_virtual(xr.Variable(("x",), array))
    assert not virtualizarr_internals.is_virtual(xr.Variable(("x",), [1]))
    # Files of these formats are read in their own tests.
    for name in ("_get_dtype", "_ENDIANNESS_TO_STR", "_construct_manifest_array"):
        assert hasattr(tiff_parser, name), name
    assert hasattr(grib_parser, "_manifest_group")


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "virtualizarr.manifests", None)
    with pytest.raises(ImportError, match=r"pip install 'zarr-manifest\[virtualizarr\]'"):
        library("virtualizarr.manifests")
    with pytest.raises(ImportError, match=r"columns needs nothing .*zarr-manifest\[kerchunk\]'"):
        library("nothing", "columns", extra="kerchunk")
