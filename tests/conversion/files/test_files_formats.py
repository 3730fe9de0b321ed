"""Formats other than HDF5: recognised, and read as their own readers read them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

from tests.combinations import crossed
from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    netcdf_values,
    netcdf_variables,
    same,
)
from zarr_manifest.conversion import read_files
from zarr_manifest.conversion.files import FileSources, detect_format, file_url
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS
from zarr_manifest.errors import NotConvertibleError, SourceNotFoundError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

# ------------------------------------------------------------ recognised


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x89HDF\r\n\x1a\n", "hdf5"),
        (b"\0" * 512 + b"\x89HDF\r\n\x1a\n", "hdf5"),
        (b"\0" * 4096 + b"\x89HDF\r\n\x1a\n", "hdf5"),
        (b"CDF\x01", "netcdf3"),
        (b"CDF\x02", "netcdf3"),
        (b"CDF\x05", "netcdf3"),
        (b"SIMPLE  =                    T", "fits"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
        (b"II+\0", "tiff"),
        (b"GRIB\0\0\0\x02", "grib"),
        (b'<?xml version="1.0"?><Dataset xmlns:d="http://x/dap/dmrpp/1.0.0#">', "dmrpp"),
    ],
)
def test_formats_are_recognised_by_their_first_bytes(
    tmp_path: Path, head: bytes, expected: str
) -> None:
    (tmp_path / "file").write_bytes(head + b"\0" * 20)
    assert detect_format(file_url(tmp_path / "file"), FileSources()) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x0e\x03\x13\x01", "HDF4"),
        (b'{"version": 1}', "read_kerchunk"),
        (b"PAR1", "read_kerchunk"),
        (b"\x1f\x8b", "gzip"),
        (b"\0\0\x01\0", "Met Office PP"),
        (b"hello", "no known format"),
        (b"", "the file is empty"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path: Path, head: bytes, expected: str) -> None:
    (tmp_path / "file").write_bytes(head)
    with pytest.raises(NotConvertibleError, match=expected):
        list(read_files(tmp_path / "file"))


def test_missing_files_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no such file"):
        list(read_files(tmp_path / "nothing.nc"))
    with pytest.raises(SourceNotFoundError, match="directory"):
        list(read_files(tmp_path))


def test_unknown_formats() -> None:
    with pytest.raises(ValueError, match="unknown format 'jpeg'; known are hdf5, "):
        read_files("f", format="jpeg")


def test_a_format_that_is_named_wrongly_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"CDF\x01")
    for name in ("netcdf3", "tiff", "grib"):
        with pytest.raises(NotConvertibleError):
            list(read_files(tmp_path / "f", format=name))


@pytest.mark.parametrize(
    ("name", "module", "head"),
    [
        ("tiff", "virtual_tiff", b"II*\0"),
        ("grib", "gribberish.virtualizarr.parser", b"GRIB\0\0\0\x02"),
        ("fits", "astropy.io.fits", b"SIMPLE  ="),
        ("hdf5", "h5py", b"\x89HDF\r\n\x1a\n"),
    ],
)
def test_what_a_format_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, head: bytes
) -> None:
    (tmp_path / "f").write_bytes(head + b"\0" * 100)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'zarr-manifest\[virtualizarr\]'"):
        list(read_files(tmp_path / "f"))


# ------------------------------------------------------------ netCDF classic


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "kind"),
    crossed([3, 0, 1], ["NETCDF3_64BIT_DATA", "NETCDF3_64BIT_OFFSET", "NETCDF3_CLASSIC"]),
)
def test_netcdf_classic_files_read_as_netcdf4_reads_them(
    tmp_path: Path, kind: Any, records: int
) -> None:
    codes = ["i1", "i2", "i4", "f4", "f8", "S1"]
    if kind == "NETCDF3_64BIT_DATA":
        codes += ["u1", "u2", "u4", "i8", "u8"]
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format=kind) as file:
        file.title = "grüße"
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for code in codes:
            values = np.arange(3).astype(code)
            file.createVariable(f"fixed_{code}", code, ("x",))[:] = values
            record = file.createVariable(f"record_{code}", code, ("t", "x"), fill_value=b"1")
            for number in range(records):
                record[number] = values
        file.createVariable("scalar", "f8", ())[...] = 2.5
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.group.attrs["title"] == "grüße"
    with netCDF4.Dataset(tmp_path / "f.nc") as file:
        variables = netcdf_variables(file)
        assert found.refused == {}
        assert found.arrays.keys() == variables.keys()
        for path, variable in variables.items():
            assert same(found.arrays[path][...], netcdf_values(variable)), path
            assert found.arrays[path].metadata.dimension_names == variable.dimensions


# ------------------------------------------------------------ FITS


@pytest.mark.slow
def test_fits_images_read_as_astropy_reads_them(tmp_path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    rng = np.random.default_rng(0)
    image = rng.integers(0, 1000, (40, 50)).astype("i2")
    scaled = fits.ImageHDU(image.copy(), name="SCALED")
    scaled.header["BSCALE"], scaled.header["BZERO"] = 0.5, 3.0
    huge = fits.ImageHDU(np.array([2**63 + 1, 5], "u8"), name="HUGE")
    column = fits.Column("a", "J", array=np.arange(3))
    text = fits.Column("b", "F8.3", array=np.arange(3) / 4)
    fits.HDUList(
        [
            fits.PrimaryHDU(image, fits.Header({"OBJECT": "M31"})),
            fits.ImageHDU(image.astype("f4"), name="SCI"),
            fits.ImageHDU(image.astype("f8"), name="SCI"),
            fits.ImageHDU(rng.normal(size=(3, 4, 5)), name="CUBE"),
            fits.ImageHDU(image.astype("u2"), name="UNSIGNED"),
            scaled,
            huge,
            fits.CompImageHDU(image, name="COMPRESSED"),
            fits.BinTableHDU.from_columns([column], name="BINARY"),
            fits.TableHDU.from_columns([text], name="ASCII"),
        ]
    ).writeto(tmp_path / "f.fits")
    found = convert(tmp_path / "f.fits", tmp_path / "h.zarr")
    with fits.open(tmp_path / "f.fits") as file:
        expected = {"PRIMARY": 0, "SCI": 1, "SCI_2": 2, "CUBE": 3, "UNSIGNED": 4, "SCALED": 5}
        assert found.arrays.keys() - {"BINARY"} == expected.keys()
        for name, number in expected.items():
            assert same(found.arrays[name][...], file[number].data), name
    assert found.arrays["PRIMARY"].attrs["OBJECT"] == "M31"
    assert found.refused.keys() - {"BINARY"} == {"HUGE", "COMPRESSED", "ASCII"}
    # VirtualiZarr would take the heap of the table for the pixels.
    assert "compressed image" in found.refused["COMPRESSED"]
    assert "virtualizarr.codecs is imported" in found.refused["ASCII"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_ALL_BYTE_ORDERS, reason="zarr before 3.3 swaps the bytes of rows")
def test_binary_tables_of_fits_are_arrays_of_rows(tmp_path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    number = np.arange(150_000)
    columns = [
        fits.Column("i", "J", array=number, unit="km"),
        fits.Column("d", "D", array=number / 7),
        fits.Column("s", "5A", array=np.char.mod("n%d", number % 1000)),
        fits.Column("b", "L", array=number % 2 == 0),
        fits.Column("c", "M", array=number * 1j),
    ]
    refused = {
        "V": ("3E", np.zeros((4, 3)), {}, "has several values in a row"),
        "U": ("J", np.arange(4, dtype="u4"), {"bzero": 2**31}, "is scaled (TSCAL, TZERO)"),
        "P": ("PJ()", np.array([[1], [2, 3]], object), {}, "has sequences of different lengths"),
        "X": ("8X", np.zeros((4, 8), bool), {}, "has several values in a row"),
    }
    tables = [fits.BinTableHDU.from_columns(columns, name="T")]
    for name, (form, values, options, _) in refused.items():
        column = fits.Column("c", form, array=values, **options)
        tables.append(fits.BinTableHDU.from_columns([column], name=name))
    empty = fits.BinTableHDU.from_columns([fits.Column("e", "J", array=np.zeros(0))], name="E")
    fits.HDUList([fits.PrimaryHDU(), *tables, empty]).writeto(tmp_path / "f.fits")
    found = convert(tmp_path / "f.fits", tmp_path / "h.zarr")
    assert found.arrays.keys() == {"T", "E"}
    assert found.arrays["E"].shape == (0,)
    rows: Any = found.arrays["T"][...]
    assert found.arrays["T"].nchunks > 1
    assert found.arrays["T"].attrs["TUNIT1"] == "km"
    with fits.open(tmp_path / "f.fits") as file:
        for name in "idc":
            assert same(rows[name], file["T"].data[name]), name
        assert rows["s"].tolist() == [text.encode() for text in file["T"].data["s"]]
        assert ((rows["b"] == b"T") == file["T"].data["b"]).all()
    assert found.refused.keys() == refused.keys()
    for name, (_, _, _, reason) in refused.items():
        assert f"the column 'c' of the binary table {reason}" in found.refused[name]


def test_blank_pixels_of_fits_are_masked_or_refused(tmp_path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    plain, scaled = (fits.ImageHDU(np.array([1, 2, -99], "i2"), name=n) for n in ("A", "SCALED"))
    plain.header["BLANK"] = scaled.header["BLANK"] = -99
    scaled.header["BSCALE"] = 0.5
    fits.HDUList([fits.PrimaryHDU(), plain, scaled]).writeto(tmp_path / "f.fits")
    found = convert(tmp_path / "f.fits", tmp_path / "h.zarr")
    assert "its blank pixels would be scaled" in found.refused["SCALED"]
    with (
        fits.open(tmp_path / "f.fits") as file,
        xr.open_dataset(
            found.root, engine="zarr-manifest", allow=["/"], consolidated=False
        ) as opened,
    ):
        assert same(opened["A"].values, file["A"].data)


# ------------------------------------------------------------ DMR++


def test_documents_that_are_not_dmrpp(tmp_path: Path) -> None:
    for name, text, reason in (
        ("f.xml", "<Dataset/>", "must end with"),
        ("f.nc.dmrpp", "<Dataset", "not XML"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(NotConvertibleError, match=reason):
            list(read_files(tmp_path / name, format="dmrpp"))


DMRPP = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
    xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" name="f.h5">
    <Dimension name="x" size="6"/>
    <Attribute name="title" type="String"><Value>short</Value></Attribute>
    {variables}
    <Group name="inner"><Dimension name="y" size="6"/>
        <Int32 name="z"><Dim name="/inner/y"/>{contiguous}</Int32>
    </Group>
</Dataset>"""


@pytest.mark.slow
def test_dmrpp_documents_refer_to_the_file_that_they_describe(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["plain"] = np.arange(6, dtype="<i4")
        file.create_dataset(
            "packed", data=np.arange(6.0), chunks=(2,), compression="gzip", shuffle=True
        )
        offset = file["plain"].id.get_offset()
        infos = [file["packed"].id.get_chunk_info(i) for i in range(3)]
    chunk = '<dmrpp:chunk offset="{}" nBytes="{}" chunkPositionInArray="[{}]" {}/>'
    packed = [chunk.format(i.byte_offset, i.size, i.chunk_offset[0], "") for i in infos]
    sizes = "<dmrpp:chunkDimensionSizes>2</dmrpp:chunkDimensionSizes>"
    filters = 'compressionType="shuffle deflate" deflateLevel="4"'
    contiguous = (
        f'<dmrpp:chunks byteOrder="LE"><dmrpp:chunk offset="{offset}" nBytes="24"/></dmrpp:chunks>'
    )
    piece = f'<dmrpp:chunk offset="{offset}" nBytes="12"/>'
    variables = {
        "plain": ("Int32", contiguous),
        "pieces": ("Int32", f"<dmrpp:chunks>{piece}{piece}</dmrpp:chunks>"),
        "shuffled last": (
            "Float64",
            f'<dmrpp:chunks compressionType="deflate shuffle">{sizes}{packed[0]}</dmrpp:chunks>',
        ),
        "packed": ("Float64", f"<dmrpp:chunks {filters}>{sizes}{''.join(packed)}</dmrpp:chunks>"),
        "part": ("Float64", f"<dmrpp:chunks {filters}>{sizes}{''.join(packed[:2])}</dmrpp:chunks>"),
        "masked": (
            "Float64",
            f"<dmrpp:chunks {filters}>{sizes}{chunk.format(1, 2, 0, 'fm="0x1"')}</dmrpp:chunks>",
        ),
        "big": ("Int32", contiguous.replace("LE", "BE")),
        "checked": ("Int32", contiguous.replace("byte", 'compressionType="fletcher32" byte')),
        "nowhere": ("Int32", ""),
        "text": ("String", contiguous),
    }
    body = "".join(
        f'<{kind} name="{name}"><Dim name="/x"/>{inner}</{kind}>'
        for name, (kind, inner) in variables.items()
    )
    one = f'<dmrpp:chunks><dmrpp:chunk offset="{offset + 4}" nBytes="4"/></dmrpp:chunks>'
    body += f'<Int32 name="scalar">{one}</Int32>'
    variables["scalar"] = ("Int32", "")
    document = DMRPP.format(variables=body, contiguous=contiguous)
    (tmp_path / "f.h5.dmrpp").write_text(document)
    found = convert(tmp_path / "f.h5.dmrpp", tmp_path / "h.zarr")
    assert found.arrays.keys() | found.refused.keys() == variables.keys() | {"inner/z"}
    refused = {"masked", "big", "checked", "nowhere", "text", "pieces", "shuffled last"}
    assert found.refused.keys() == refused
    assert found.arrays["scalar"][...] == 1
    assert same(found.arrays["plain"][...], np.arange(6))
    assert same(found.arrays["packed"][...], np.arange(6.0))
    assert same(found.arrays["part"][...], [0, 1, 2, 3, 0, 0])
    assert same(found.arrays["inner/z"][...], np.arange(6))
    assert found.group.attrs["title"] == "short"


# ------------------------------------------------------------ Zarr


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_hierarchy_is_referred_to_object_by_object(tmp_path: Path, version: Any) -> None:
    root = zarr.create_group(tmp_path / "a b.zarr", zarr_format=version, attributes={"title": "t"})
    inner = root.create_group("inner")
    values = np.arange(20, dtype="f4").reshape(4, 5)
    array = inner.create_array("x", shape=(4, 5), chunks=(2, 3), dtype="f4", fill_value=-1)
    array[...] = values
    sparse = inner.create_array("sparse", shape=(6,), chunks=(2,), dtype="i8", fill_value=9)
    sparse[2:4] = 5
    root.create_array("scalar", shape=(), dtype="i4")[...] = 7
    if version == 3:
        sharded = root.create_array(
            "sharded", shape=(8,), chunks=(2,), shards=(4,), dtype="i2", attributes={"a": 1}
        )
        sharded[...] = np.arange(8)
    found = convert(tmp_path / "a b.zarr", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.group.attrs["title"] == "t"
    expected = dict(root.members(max_depth=None))
    for path, item in found.arrays.items():
        assert same(item[...], expected[path][...]), path
    manifest = (tmp_path / "h.zarr" / "inner" / "x" / "zarr.json").read_text()
    assert "a%20b.zarr" in manifest
