"""Files that are compressed alike, but not with the same settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from tests.conversion.files.converted_files import IGNORED_WARNINGS, Converted, convert, same

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

VALUES = np.arange(4000, dtype="i4").reshape(40, 100) // 50


def combined(tmp_path: Path, *settings: dict[str, Any]) -> Converted:
    """Convert a file for each compression, each with the same values."""
    files = [tmp_path / f"{number}.h5" for number in range(len(settings))]
    for path, options in zip(files, settings, strict=True):
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=VALUES, chunks=(10, 100), **options)
    return convert(files, tmp_path / "h.zarr", concat_dim="phony_dim_0")


@pytest.mark.parametrize("shuffle", [False, True])
def test_levels_of_deflate_may_differ(tmp_path: Path, shuffle: bool) -> None:
    found = combined(
        tmp_path,
        *({"compression": "gzip", "compression_opts": n, "shuffle": shuffle} for n in (0, 1, 9)),
    )
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.concatenate([VALUES] * 3))


@pytest.mark.parametrize(
    "settings",
    [
        [{"compression": "zstd", "complevel": 1}, {"compression": "zstd", "complevel": 9}],
        [{"compression": "bzip2", "complevel": 1}, {"compression": "bzip2", "complevel": 9}],
        [
            {"compression": "blosc_lz4", "complevel": 1, "blosc_shuffle": 0},
            {"compression": "blosc_zlib", "complevel": 9, "blosc_shuffle": 1},
        ],
    ],
    ids=lambda settings: str(settings[0]["compression"]),
)
def test_settings_of_plugins_may_differ(tmp_path: Path, settings: list[dict[str, Any]]) -> None:
    pytest.importorskip("hdf5plugin")
    files = [tmp_path / f"{number}.nc" for number in range(2)]
    for path, options in zip(files, settings, strict=True):
        with netCDF4.Dataset(path, "w") as file:
            kind = options["compression"].partition("_")[0]
            if not getattr(file, f"has_{kind}_filter")():
                pytest.skip(f"this netCDF was built without {kind}")
            file.createDimension("y", 40)
            file.createDimension("x", 100)
            file.createVariable("v", "i4", ("y", "x"), chunksizes=(10, 100), **options)[:] = VALUES
    found = convert(files, tmp_path / "h.zarr", concat_dim="y")
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.concatenate([VALUES] * 2))


@pytest.mark.parametrize(
    "codecs",
    [
        [GzipCodec(level=1), GzipCodec(level=9)],
        [ZstdCodec(level=1, checksum=True), ZstdCodec(level=9, checksum=False)],
        [
            BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
            BloscCodec(cname="lz4", clevel=9, shuffle="noshuffle"),
        ],
    ],
)
def test_settings_of_zarr_codecs_may_differ(tmp_path: Path, codecs: list[Any]) -> None:
    roots = [tmp_path / f"{number}.zarr" for number in range(2)]
    for root, codec in zip(roots, codecs, strict=True):
        array: Any = zarr.create_group(root).create_array(
            "v", data=VALUES, chunks=(10, 100), compressors=codec, dimension_names=["y", "x"]
        )
        assert array.shape == VALUES.shape
    found = convert(roots, tmp_path / "h.zarr", concat_dim="y")
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.concatenate([VALUES] * 2))


@pytest.mark.slow
def test_what_decoding_needs_must_be_the_same(tmp_path: Path) -> None:
    plain = {"compression": "gzip"}
    for number, other in enumerate(
        [{}, plain | {"shuffle": True}, {"compression": None, "fletcher32": True}]
    ):
        (tmp_path / str(number)).mkdir()
        found = combined(tmp_path / str(number), plain, other)
        assert "1.h5 has codecs" in found.refused["v"]
