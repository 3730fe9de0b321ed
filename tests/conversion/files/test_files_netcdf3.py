"""netCDF classic files through read_files: what their headers may say, and damaged ones."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    netcdf_values,
    netcdf_variables,
    same,
)
from tests.properties import THOROUGH
from zarr_manifest.conversion import ArrayNode, read_files
from zarr_manifest.errors import ManifestError, NotConvertibleError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

DEGREES = b"\xb0C"


def write(path: Path, **attributes: Any) -> bytes:
    """Write a small file, whose variable ``v`` has these attributes, and return it."""
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.author = "Muller"
        variable = file.createVariable("v", "i2", ("t", "x"))
        variable.setncatts(attributes)
        variable.set_auto_maskandscale(False)
        variable[:] = np.arange(6).reshape(2, 3)
        file.createVariable("other", "f8", ("x",))[:] = [1, 2, 3]
    return path.read_bytes()


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    body = path.read_bytes()
    assert body.count(old) == 1
    assert len(old) == len(new)
    path.write_bytes(body.replace(old, new))
    return path


def test_text_that_is_not_utf8_is_latin_1(tmp_path: Path) -> None:
    write(tmp_path / "f.nc", units="oC")
    replaced(tmp_path / "f.nc", b"oC", DEGREES)
    replaced(tmp_path / "f.nc", b"Muller", b"M\xfcller")
    replaced(tmp_path / "f.nc", b"other", b"\xf6ther")
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.group.attrs["author"] == "Müller"
    assert found.arrays["v"].attrs["units"] == "°C"
    assert found.arrays["öther"][...].tolist() == [1, 2, 3]
    assert found.report.notes == [
        ("", "the attribute 'author' is not UTF-8, and was read as Latin-1"),
        ("v", "the attribute 'units' is not UTF-8, and was read as Latin-1"),
        ("öther", "its name is not UTF-8, and was read as Latin-1"),
    ]


def test_zero_bytes_after_names_do_not_belong_to_them(tmp_path: Path) -> None:
    write(tmp_path / "f.nc")
    replaced(tmp_path / "f.nc", b"\0\0\0\x05other", b"\0\0\0\x05oth\0\0")
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.arrays.keys() == {"v", "oth"}


def test_two_variables_of_one_name(tmp_path: Path) -> None:
    write(tmp_path / "f.nc")
    replaced(tmp_path / "f.nc", b"\0\0\0\x05other", b"\0\0\0\x05v\0\0\0\0")
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.refused == {"v": "there is already a variable of this name"}
    assert found.arrays["v"].shape == (2, 3)


def test_a_fill_value_of_nan_for_integers_masks_nothing(tmp_path: Path) -> None:
    # As in eraint_uvz.nc of xarray's tutorial; netCDF4 itself writes fill values of other types
    # only under another name.
    write(tmp_path / "f.nc", _FillVal_e=np.nan, scale_factor=0.5)
    replaced(tmp_path / "f.nc", b"_FillVal_e\0\0", b"_FillValue\0\0")
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.arange(6).reshape(2, 3))
    assert dict(found.arrays["v"].attrs) == {"scale_factor": 0.5}
    reason = "the attribute '_FillValue' was left out: nan is not an integer"
    assert found.report.notes == [("v", reason)]


@pytest.mark.parametrize("code", ["i1", "i2", "f8"])
def test_records_of_a_single_variable_are_not_padded(tmp_path: Path, code: str) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("v", code, ("t", "x"))[:] = np.arange(12).reshape(4, 3)
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert same(found.arrays["v"][...], np.arange(12).reshape(4, 3))


def test_records_of_a_file_that_was_not_closed_are_counted(tmp_path: Path) -> None:
    body = write(tmp_path / "f.nc")
    assert struct.unpack(">I", body[4:8]) == (2,)
    (tmp_path / "f.nc").write_bytes(body[:4] + b"\xff" * 4 + body[8:])
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert same(found.arrays["v"][...], np.arange(6).reshape(2, 3))


def test_dimensions_of_no_length(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("v", "i2", ("t", "x")).units = "K"
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.arrays["v"].shape == (0, 3)
    assert found.report.references == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: body[:20], "the header is damaged: the file ends before it does"),
        (lambda body: body[:4] + b"\0" * 4 + b"\0\0\0\x0b" + body[12:], "has the tag 11 instead"),
        (lambda body: b"CDF\x01" + b"\0" * 4 + b"\0\0\0\x0a" + b"\xff" * 400, "does not end"),
        (lambda body: body.replace(b"author\0\0\0\0\0\x02", b"author\0\0\0\0\0\x63"), "type 99"),
    ],
)
def test_damaged_headers(tmp_path: Path, change: Any, problem: str) -> None:
    body = write(tmp_path / "f.nc")
    assert change(body) != body
    (tmp_path / "f.nc").write_bytes(change(body))
    with pytest.raises(NotConvertibleError, match=problem):
        list(read_files(tmp_path / "f.nc"))


@pytest.mark.slow
def test_any_damage_is_read_or_refused(tmp_path: Path) -> None:
    times = 3000 if THOROUGH else 400
    body = write(tmp_path / "f.nc", units="K", valid_range=np.array([0, 9], "i2"))
    with netCDF4.Dataset(tmp_path / "f.nc") as file:
        whole = {name: netcdf_values(v) for name, v in netcdf_variables(file).items()}
    read = 0
    for seed in range(times):
        chance = random.Random(seed)
        damaged = bytearray(body)
        for _ in range(chance.choice([1, 2, 8])):
            damaged[chance.randrange(4, len(body))] = chance.randrange(256)
        end = chance.choice([len(body), chance.randrange(len(body))])
        (tmp_path / "f.nc").write_bytes(damaged[:end])
        try:
            nodes = list(read_files(tmp_path / "f.nc", format="netcdf3"))
        except ManifestError:
            continue
        read += any(isinstance(node, ArrayNode) and node.path in whole for node in nodes)
    assert 0 < read < times
