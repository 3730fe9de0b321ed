"""TIFF images whose strips or tiles are not all alike, and damaged files."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from tests.processes import CONTEXT
from zarr_manifest.conversion import ArrayNode, read_files
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.manifest import Manifest

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

VALUES = np.arange(1, 50 * 30 + 1, dtype="u2").reshape(50, 30)
PIXELS = np.stack([VALUES, VALUES + 1, VALUES + 2], axis=-1)
RGB = {"photometric": "rgb"}
HAS_RECTILINEAR = zarr.config.get("array.rectilinear_chunks", None) is not None


def by_band(values: Any) -> Any:
    return values if values.ndim == 2 else np.moveaxis(values, -1, 0)


# Strips ---------------------------------------------------------------------------

SHORT_STRIPS = {
    "rows": (VALUES, {"rowsperstrip": 20}),
    "no common divisor": (VALUES, {"rowsperstrip": 7}),
    "big-endian": (VALUES, {"rowsperstrip": 20, "byteorder": ">"}),
    "pixels": (PIXELS, {"rowsperstrip": 20, "planarconfig": "contig", **RGB}),
    "bands": (PIXELS.transpose(2, 0, 1), {"rowsperstrip": 20, "planarconfig": "separate", **RGB}),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", SHORT_STRIPS)
def test_uncompressed_strips_are_split(layout: str, tmp_path: Path) -> None:
    values, options = SHORT_STRIPS[layout]
    tifffile.imwrite(tmp_path / "f.tif", values, **options)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.refused == {}
    expected = values if layout == "bands" else by_band(values)
    assert same(found.arrays["0"][...], expected)
    rows = options["rowsperstrip"]
    ((_, note),) = found.report.notes
    assert f"its strips of {rows} rows were split into pieces of {np.gcd(rows, 50 % rows)}" in note


COMPRESSED = {
    "zlib": (VALUES, {"compression": "zlib"}),
    "lzw": (VALUES, {"compression": "lzw", "predictor": True}),
    "pixels": (PIXELS, {"compression": "lzw", "predictor": True, "planarconfig": "contig", **RGB}),
    "bands": (
        PIXELS.transpose(2, 0, 1),
        {"compression": "zlib", "planarconfig": "separate", **RGB},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", COMPRESSED)
def test_the_last_compressed_strip_is_stored_inline(layout: str, tmp_path: Path) -> None:
    values, options = COMPRESSED[layout]
    tifffile.imwrite(tmp_path / "f.tif", values, rowsperstrip=20, **options)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.refused == {}
    expected = values if layout == "bands" else by_band(values)
    assert same(found.arrays["0"][...], expected)
    ((_, note),) = found.report.notes
    assert "its last strip is shorter than the others, and is stored inline" in note
    refused = convert(tmp_path / "f.tif", tmp_path / "refused.zarr", inline_limit=1000).refused
    assert "its last strip is shorter than the others and compressed, and with" in refused["0"]
    assert "is too large to be stored inline (limit: 1000). Store the image in" in refused["0"]


def test_a_last_strip_that_changes_when_it_is_compressed_again_is_refused(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 255, (50, 32), "u1")
    tifffile.imwrite(tmp_path / "f.tif", values, rowsperstrip=16, compression="jpeg")
    refused = convert(tmp_path / "f.tif", tmp_path / "h.zarr").refused
    assert "its last strip is shorter than the others and compressed, and c" in refused["0"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RECTILINEAR, reason="this zarr has no rectilinear chunk grid")
@pytest.mark.parametrize("layout", COMPRESSED)
def test_compressed_strips_have_a_rectilinear_grid(layout: str, tmp_path: Path) -> None:
    values, options = COMPRESSED[layout]
    tifffile.imwrite(tmp_path / "f.tif", values, rowsperstrip=20, **options)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
        assert found.refused == {}
        expected = values if layout == "bands" else by_band(values)
        assert same(found.arrays["0"][...], expected)
        several = [tmp_path / "f.tif"] * 2
        (array,) = (n for n in read_files(several, concat_dim="t") if n.path == "0")
        assert "chunks differ in length, and such arrays are not joined" in getattr(
            array, "reason", ""
        )


def test_a_predictor_for_floats_needs_strips_of_one_length(tmp_path: Path) -> None:
    options: dict[str, Any] = {"compression": "zlib", "predictor": 3}
    tifffile.imwrite(tmp_path / "f.tif", VALUES.astype("f4"), rowsperstrip=20, **options)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        refused = convert(tmp_path / "f.tif", tmp_path / "h.zarr").refused
    assert "strip is shorter" in refused["0"]


# Sparse files ---------------------------------------------------------------------


def make_sparse(path: Path, empty: Callable[[int], bool]) -> None:
    """Remove tiles or strips, as GDAL does with SPARSE_OK."""
    with tifffile.TiffFile(path) as tiff:
        page: Any = tiff.pages[0]
        found = [tag for tag in page.tags.values() if tag.code in (273, 279, 324, 325)]
    content = bytearray(path.read_bytes())
    for tag in found:
        size = {3: 2, 4: 4}[int(tag.dtype)]
        for number in range(tag.count):
            if empty(number):
                at = tag.valueoffset + number * size
                content[at : at + size] = bytes(size)
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "no_data", "expected"),
    [
        ("i2", None, 0),
        ("i2", "-99", -99),
        ("u1", "-9999", 0),
        ("u1", "300", 255),
        ("f4", "nan", np.nan),
    ],
)
@pytest.mark.parametrize(
    "options", [{"tile": (16, 16)}, {"rowsperstrip": 20}, {"rowsperstrip": 25}], ids=str
)
def test_tiles_that_were_left_out(
    options: dict[str, Any], dtype: str, no_data: str | None, expected: Any, tmp_path: Path
) -> None:
    file = tmp_path / "f.tif"
    extra = [] if no_data is None else [(42113, "s", 0, no_data, True)]
    values = (VALUES % 100).astype(dtype)
    tifffile.imwrite(file, values, extratags=extra, **options)
    make_sparse(file, lambda number: number == 1)
    found = convert(file, tmp_path / "h.zarr")
    assert found.refused == {}
    read = found.arrays["0"][...]
    rows, columns = (
        (slice(0, 16), slice(16, 30))
        if "tile" in options
        else (slice(options["rowsperstrip"], 2 * options["rowsperstrip"]), slice(None))
    )
    filled = values.copy()
    filled[rows, columns] = expected
    assert np.array_equal(read, filled, equal_nan=dtype == "f4")
    (node,) = (node for node in read_files(file) if isinstance(node, ArrayNode))
    assert isinstance(node.manifest, Manifest)
    # Explicitly empty, not missing.
    counts = node.manifest.grid_shape
    assert len(list(node.manifest)) == counts[0] * counts[1]


def test_an_image_without_any_tile(tmp_path: Path) -> None:
    file = tmp_path / "f.tif"
    tifffile.imwrite(file, VALUES, tile=(16, 16))
    make_sparse(file, lambda _: True)
    found = convert(file, tmp_path / "h.zarr")
    assert same(found.arrays["0"][...], np.zeros_like(VALUES))


# No data --------------------------------------------------------------------------


def metadata_with(no_data: str, dtype: str) -> dict[str, Any]:
    """Return the metadata of an image of which nothing has been written."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "f.tif"
        extra = [(42113, "s", 0, no_data, True)]
        tifffile.imwrite(file, np.zeros((16, 16), dtype), tile=(16, 16), extratags=extra)
        (node,) = (node for node in read_files(file) if isinstance(node, ArrayNode))
    return node.metadata


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("255", "u1", 255),
        ("255.0", "u1", 255),
        ("-9999 \0", "i2", -9999),
        ("1e3", "i2", 1000),
        ("4294967295", "u4", 2**32 - 1),
        ("nan", "f4", None),
        ("-1.#IND", "f8", None),
        ("-3.4028234663852886e+38", "f4", -3.4028234663852886e38),
    ],
)
def test_no_data(text: str, dtype: str, value: Any) -> None:
    found = metadata_with(text, dtype)
    assert "_FillValue" in found["attributes"]
    fill_value = float(found["fill_value"]) if dtype[0] == "f" else found["fill_value"]
    assert np.isnan(fill_value) if value is None else fill_value == np.dtype(dtype).type(value)


@given(
    st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=8),
    st.sampled_from(["u1", "i2", "u4", "f4"]),
)
def test_any_no_data_fits_the_type(text: str, code: str) -> None:
    found = metadata_with(text, code)
    if code != "f4":
        dtype = np.dtype(code)
        assert np.iinfo(dtype).min <= found["fill_value"] <= np.iinfo(dtype).max


@pytest.mark.parametrize("text", ["-9999", "nan", "none", "0.5"])
def test_no_data_that_is_no_value_of_the_type(text: str, tmp_path: Path) -> None:
    extra = [(42113, "s", 0, text, True)]
    tifffile.imwrite(tmp_path / "f.tif", VALUES.astype("u1"), tile=(16, 16), extratags=extra)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert same(found.arrays["0"][...], VALUES.astype("u1"))
    assert found.arrays["0"].attrs["gdal_no_data"] == text
    ((_, note),) = found.report.notes
    assert f"its GDAL_NODATA, {text!r}, is no value of the type uint8" in note


# Damaged files --------------------------------------------------------------------


def read_damaged(directory: Path, printed: Path, errors: Path) -> None:
    """Name the files that are refused; what libraries print goes to a file."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    warnings.simplefilter("ignore")
    with printed.open("w") as lines:
        for file in sorted(directory.iterdir()):
            try:
                list(read_files(file))
            except ManifestError:
                lines.write(f"{file.name}\n")


@pytest.mark.slow
def test_damaged_files(tmp_path: Path) -> None:
    """The Rust reader would print a stack for some, and abort the process for others."""
    chance = random.Random(3)
    tifffile.imwrite(tmp_path / "f.tif", VALUES, tile=(16, 16), compression="lzw")
    tifffile.imwrite(tmp_path / "g.tif", VALUES, rowsperstrip=25, bigtiff=True, byteorder=">")
    whole = [(tmp_path / name).read_bytes() for name in ("f.tif", "g.tif")]
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for number in range(100):
        content = bytearray(chance.choice(whole))
        for _ in range(chance.choice((1, 1, 3))):
            content[chance.randrange(4, 400)] = chance.choice((0, 1, 127, 255))
        (damaged / f"{number:04}.tif").write_bytes(content)
    printed, errors = tmp_path / "printed", tmp_path / "errors"
    process = CONTEXT.Process(target=read_damaged, args=(damaged, printed, errors))
    process.start()
    process.join()
    assert (process.exitcode, errors.read_text()) == (0, "")
    assert printed.read_text()


@pytest.mark.parametrize(
    ("position", "content", "problem"),
    [
        (4, struct.pack("<I", 2**31), "is not in it"),
        (10, struct.pack("<H", 7), "has no ImageWidth"),
        (12, struct.pack("<H", 99), "tag 256 is of the unknown type 99"),
        (14, struct.pack("<I", 2**30), "the values of tag 256 end after it"),
        (8, struct.pack("<H", 60000), "the directory at byte 8 ends after it"),
    ],
)
def test_what_is_damaged(position: int, content: bytes, problem: str, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "f.tif", VALUES, tile=(16, 16))
    body = bytearray((tmp_path / "f.tif").read_bytes())
    body[position : position + len(content)] = content
    (tmp_path / "f.tif").write_bytes(body)
    with pytest.raises(NotConvertibleError, match=f"the TIFF file is damaged: .*{problem}"):
        list(read_files(tmp_path / "f.tif"))


# Directories that other readers accept ----------------------------------------------


def entries(body: bytes) -> tuple[int, list[bytes]]:
    """Return the position of the first directory of a little-endian file, and its entries."""
    (start,) = struct.unpack_from("<I", body, 4)
    (count,) = struct.unpack_from("<H", body, start)
    return start, [body[at : at + 12] for at in range(start + 2, start + 2 + 12 * count, 12)]


def with_entries(path: Path, change: Callable[[int, bytes], bytes | None]) -> None:
    """Change the entries of the only directory of a file, or remove them."""
    body = bytearray(path.read_bytes())
    start, found = entries(body)
    changed = (change(struct.unpack_from("<H", entry)[0], entry) for entry in found)
    kept = [entry for entry in changed if entry is not None]
    directory = struct.pack("<H", len(kept)) + b"".join(kept) + bytes(4)
    body[start : start + len(directory)] = directory
    path.write_bytes(body)


def without(path: Path, *tags: int) -> None:
    with_entries(path, lambda tag, entry: None if tag in tags else entry)


@pytest.mark.parametrize("tags", [(277,), (262,), (277, 262, 284, 259, 339), (278,)])
def test_tags_with_a_default_may_be_missing(tags: tuple[int, ...], tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "f.tif", VALUES, metadata=None)
    without(tmp_path / "f.tif", *tags)
    assert tifffile.imread(tmp_path / "f.tif").tolist() == VALUES.tolist()
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["0"][...], VALUES)


@pytest.mark.parametrize("big", [False, True])
def test_every_directory_of_a_file_is_completed(big: bool, tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "f.tif", bigtiff=big, byteorder=">") as tiff:
        for number in range(3):
            # An odd number of bytes, and a text that is not ended where it fits into its entry.
            tiff.write(VALUES[: 5 + number] + number, software="a" * number, metadata=None)
    body = (tmp_path / "f.tif").read_bytes()
    # 305, Software: its two characters and the end become three characters.
    old = struct.pack(">HHQ" if big else ">HHI", 305, 2, 3) + b"aa\0"
    assert body.count(old) == 1
    (tmp_path / "f.tif").write_bytes(body.replace(old, old[:-1] + b"a"))
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.refused == {}
    for number in range(3):
        assert same(found.arrays[f"{number}/{number}"][...], VALUES[: 5 + number] + number)


@pytest.mark.parametrize(("tag", "kind"), [(282, 11), (270, 7), (296, 1), (306, 1)])
def test_tags_that_only_describe_may_have_any_type(tag: int, kind: int, tmp_path: Path) -> None:
    texts: dict[str, Any] = {
        "description": "abc def ghi",
        "datetime": "2020:01:01 00:00:00",
        "software": "x",
    }
    tifffile.imwrite(tmp_path / "f.tif", VALUES, metadata=None, resolution=(2, 3), **texts)

    def change(number: int, entry: bytes) -> bytes:
        return entry[:2] + struct.pack("<H", kind) + entry[4:] if number == tag else entry

    with_entries(tmp_path / "f.tif", change)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert same(found.arrays["0"][...], VALUES)


def test_a_short_no_data_value_need_not_be_ended(tmp_path: Path) -> None:
    no_data = [(42113, 2, 4, "-99", True)]
    tifffile.imwrite(tmp_path / "f.tif", VALUES.astype("i4"), metadata=None, extratags=no_data)

    def change(number: int, entry: bytes) -> bytes:
        return entry[:8] + b"-999" if number == 42113 else entry

    with_entries(tmp_path / "f.tif", change)
    found = convert(tmp_path / "f.tif", tmp_path / "h.zarr")
    assert found.arrays["0"].fill_value == -999


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ((258,), "its samples have 1 bit, and Zarr has no such data type"),
        ((273,), "it states positions of 0 strips, but its shape and its other tags need 5"),
        ((279,), "it states lengths of 0 strips, but its shape and its other tags need 5"),
        ((278,), "it states positions of 5 strips, but its shape and its other tags need 1"),
    ],
)
def test_tags_that_cannot_be_missing(tags: tuple[int, ...], reason: str, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "f.tif", VALUES, rowsperstrip=10, metadata=None)
    without(tmp_path / "f.tif", *tags)
    assert convert(tmp_path / "f.tif", tmp_path / "h.zarr").refused == {"0": reason}


def test_directories_in_a_circle(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "f.tif", VALUES, tile=(16, 16))
    body = bytearray((tmp_path / "f.tif").read_bytes())
    (count,) = struct.unpack_from("<H", body, 8)
    struct.pack_into("<I", body, 10 + 12 * count, 8)
    (tmp_path / "f.tif").write_bytes(body)
    with pytest.raises(NotConvertibleError, match="its directories form a circle"):
        list(read_files(tmp_path / "f.tif"))
