"""TIFF images as tifffile reads them; samples that would be read as something else are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.combinations import combinations
from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    same,
)

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

TIFFS: dict[str, dict[str, Any]] = {
    "strips": {"rowsperstrip": 16},
    "one strip": {},
    "tiles": {"tile": (16, 16)},
    "tiles over the edge": {"tile": (48, 48)},
    "big-endian": {"byteorder": ">"},
    "BigTIFF": {"bigtiff": True, "tile": (16, 16)},
    "zlib": {"tile": (16, 16), "compression": "zlib"},
    "lzw": {"tile": (16, 16), "compression": "lzw"},
    "zstd": {"tile": (16, 16), "compression": "zstd"},
    "packbits": {"tile": (16, 16), "compression": "packbits"},
    "horizontal predictor": {"tile": (16, 16), "compression": "zlib", "predictor": 2},
    "big-endian predictor": {
        "tile": (16, 16), "compression": "zlib", "predictor": 2, "byteorder": ">",
    },
    "pixels": {"photometric": "rgb", "rowsperstrip": 16},
    "pixels in tiles over the edge": {"photometric": "rgb", "tile": (48, 16)},
    "big-endian pixels": {"photometric": "rgb", "byteorder": ">", "compression": "lzw"},
    "pixels, predictor": {
        "photometric": "rgb", "tile": (32, 16), "compression": "zlib", "predictor": 2,
    },
    "big-endian pixels, predictor": {
        "photometric": "rgb", "tile": (32, 16), "compression": "zlib", "predictor": 2,
        "byteorder": ">",
    },
    "planes": {"tile": (16, 16), "photometric": "rgb", "planarconfig": "separate"},
    "planes, predictor": {
        "tile": (16, 16), "photometric": "rgb", "planarconfig": "separate",
        "compression": "zlib", "predictor": 2,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("code", combinations(["u1", "u2", "i2", "u4", "f4", "f8"], besides=["u1"]))
@pytest.mark.parametrize("layout", TIFFS)
def test_tiff_images_read_as_tifffile_reads_them(tmp_path: Path, layout: str, code: str) -> None:
    tifffile = pytest.importorskip("tifffile")
    options = TIFFS[layout]
    shape = (64, 64)
    if "planarconfig" in options:
        shape = (3, 64, 64)
    elif "photometric" in options:
        shape = (64, 96, 3)
    values = (np.arange(np.prod(shape)).reshape(shape) ** 2 % 251).astype(code)
    if "predictor" in options and values.dtype.kind == "f":
        options = options | {"predictor": 3}
    tifffile.imwrite(tmp_path / "f.tif", values, **options)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.arrays.keys() | found.refused.keys() == {"0"}
    if found.refused:
        # An image may be refused, but not be wrong.
        assert "predictor" in layout, found.refused
        return
    expected = tifffile.imread(tmp_path / "f.tif")
    by_band = np.moveaxis(expected, 2, 0) if shape[-1] == 3 else expected
    assert same(found.arrays["0"][...], by_band)


@pytest.mark.slow
def test_the_predictor_of_integers_is_undone(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    for code in ("u1", "u2", "i4"):
        values = np.random.default_rng(0).integers(0, 100, (64, 64)).astype(code)
        tifffile.imwrite(
            tmp_path / f"{code}.tif", values, tile=(16, 16), compression="zlib", predictor=2
        )
        found = convert(tmp_path / f"{code}.tif", tmp_path / f"{code}.zarr")
        assert found.refused == {}
        assert same(found.arrays["0"][...], values)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"compression": "zlib", "predictor": 2}])
def test_pixels_of_several_samples_have_bands(tmp_path: Path, options: dict[str, Any]) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.random.default_rng(0).integers(0, 2**16, (48, 64, 4)).astype("u2")
    tifffile.imwrite(
        tmp_path / "f.tif", values, tile=(16, 32), photometric="rgb", extrasamples=[2], **options
    )
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["0"].metadata.dimension_names == ("band", "y", "x")
    assert found.arrays["0"].chunks == (4, 16, 32)
    assert same(found.arrays["0"][...], np.moveaxis(values, 2, 0))


def test_an_image_is_refused_and_others_are_not(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    with tifffile.TiffWriter(tmp_path / "f.tif") as file:
        file.write(values > 7)
        file.write(values[::2, ::2], tile=(16, 16))
        file.write(np.zeros((32, 32, 3), "u1"), photometric="rgb", tile=(16, 16))
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.arrays.keys() | found.refused.keys() == {"0/0", "1/1", "2/2"}
    assert "its samples have 1 bit" in found.refused["0/0"]
    assert same(found.arrays["1/1"][...], values[::2, ::2])
    assert same(found.arrays["2/2"][...], np.zeros((3, 32, 32), "u1"))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ('<Item name="scale_factor">0.1</Item>', {"scale_factor": 0.1}),
        (
            '<Item name="scale_factor" sample="0">0.1</Item>',
            {"scale_factor_by_band": ["0.1", None]},
        ),
        (
            '<Item name="SCALE" sample="0">1</Item><Item name="SCALE" sample="1">2</Item>',
            {"SCALE_by_band": ["1", "2"]},
        ),
        (
            '<Item name="SCALE" sample="0">2</Item><Item name="SCALE" sample="1">2</Item>',
            {"SCALE": "2"},
        ),
        ('<Item name="add_offset">n/a</Item>', {"add_offset_by_band": ["n/a", "n/a"]}),
        ("<Item", None),
    ],
)
def test_attributes_of_bands_are_not_those_of_all(
    tmp_path: Path, items: str, expected: dict[str, Any] | None
) -> None:
    tifffile = pytest.importorskip("tifffile")
    metadata = f"<GDALMetadata>{items}</GDALMetadata>"
    tifffile.imwrite(
        tmp_path / "f.tif",
        np.ones((2, 32, 32), "u1"),
        tile=(16, 16),
        photometric="minisblack",
        planarconfig="separate",
        extratags=[(42112, "s", 0, metadata, True)],
    )
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    if expected is None:
        assert "not well-formed" in found.refused["0"]
        return
    names = ("scale_factor", "add_offset", "SCALE")
    attributes = found.arrays["0"].attrs
    assert {n: v for n, v in attributes.items() if n.startswith(names)} == expected


def test_reversed_bits_are_refused(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "f.tif"
    tifffile.imwrite(path, np.ones((32, 32), "u1"), tile=(16, 16), resolution=(1, 1))
    # tifffile writes no FillOrder (266): put in place of ResolutionUnit (296), both of them 2.
    resolution_unit = (296).to_bytes(2, "little") + bytes([3, 0, 1, 0, 0, 0, 2])
    fill_order = (266).to_bytes(2, "little") + resolution_unit[2:]
    path.write_bytes(path.read_bytes().replace(resolution_unit, fill_order))
    assert (tifffile.imread(path) == 128).all()
    found = convert(path, tmp_path / "h.zarr")
    assert "reverse order" in found.refused["0"]


def test_samples_of_some_bits_are_refused(tmp_path: Path) -> None:
    """So are masks that GDAL keeps in the file, of one bit."""
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "f.tif"
    tifffile.imwrite(path, np.ones((32, 32), "u2"), bitspersample=12, tile=(16, 16))
    found = convert(path, tmp_path / "h.zarr")
    assert found.refused == {"0": "its samples have 12 bits, and Zarr has no such data type"}


@pytest.mark.slow
@pytest.mark.parametrize("code", ["i2", "f4"])
def test_lerc_that_may_have_masks_is_refused(tmp_path: Path, code: str) -> None:
    """GDAL leaves out what is not a number; the codec has 0 in its place, and no word of it."""
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(32 * 32).reshape(32, 32).astype(code)
    tifffile.imwrite(tmp_path / "f.tif", values, tile=(16, 16), compression="lerc")
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    if code == "f4":
        assert "LERC" in found.refused["0"]
    else:
        assert same(found.arrays["0"][...], values)
