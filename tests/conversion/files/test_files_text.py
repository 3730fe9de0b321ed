"""Text that is not UTF-8, in netCDF and HDF5 files: read as Latin-1, with a note."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from tests.conversion.files.converted_files import IGNORED_WARNINGS, Converted, convert, same

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

DEGREES = b"\xb0C"  # °C
NAME = b"M\xfcller"  # Müller


def notes_of(found: Converted) -> dict[str, list[str]]:
    notes: dict[str, list[str]] = {}
    for path, note in found.report.notes:
        notes.setdefault(path, []).append(note)
    return notes


def ascii_attribute(item: h5py.Group | h5py.Dataset, name: bytes, *values: bytes) -> None:
    """Write an attribute of variable-length strings, whose bytes h5py does not check."""
    kind = h5py.h5t.py_create(h5py.string_dtype("ascii"), logical=True)
    space = h5py.h5s.create_simple((len(values),)) if len(values) > 1 else h5py.h5s.create(0)
    attribute = h5py.h5a.create(item.id, name, kind, space)
    attribute.write(np.array(values if len(values) > 1 else values[0], object))


def test_attributes_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["g/x"] = np.arange(3)
        file["g/y"] = np.arange(3)
        file.attrs["author"] = np.bytes_(NAME)
        ascii_attribute(file["g"], b"author", NAME)
        ascii_attribute(file["g/x"], b"units", DEGREES)
        ascii_attribute(file["g/x"], b"both", "°C".encode(), DEGREES)
        file["g/x"].attrs["fixed"] = np.array([DEGREES, b"K"])
        ascii_attribute(file["g/x"], b"gr\xf6sse", b"1 m")
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays.keys() == {"g/x", "g/y"}
    assert found.group.attrs["author"] == found.group["g"].attrs["author"] == "Müller"
    assert dict(found.arrays["g/x"].attrs) == {
        "units": "°C",
        "both": ["°C", "°C"],
        "fixed": ["°C", "K"],
        "größe".replace("ß", "ss"): "1 m",
    }
    notes = notes_of(found)
    latin = "the attribute {!r} is not UTF-8, and was read as Latin-1"
    assert notes[""] == [latin.format("author")]
    assert notes["g"] == [latin.format("author")]
    for name in ("units", "both", "fixed"):
        assert latin.format(name) in notes["g/x"]
    assert any("the name of the attribute 'grösse' is not UTF-8" in note for note in notes["g/x"])
    assert "g/y" not in notes


@pytest.mark.slow
def test_names_and_strings_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_group(b"gr\xf6n")[b"gelb \xfc"] = np.arange(3)
        strings = np.array([DEGREES, "°C".encode(), b"K"], object)
        file.create_dataset("units", data=strings, dtype=h5py.string_dtype("ascii"))
        scalar = np.array(DEGREES, object)
        file.create_dataset("unit", data=scalar, dtype=h5py.string_dtype("ascii"))
        file["ö"] = np.arange(3)
        file[b"\xf6"] = np.arange(4)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {"ö": "another member of its group has the same name"}
    assert same(found.arrays["grön/gelb ü"][...], np.arange(3))
    assert found.arrays["units"][...].tolist() == ["°C", "°C", "K"]
    assert found.arrays["unit"][()] == "°C"
    notes = notes_of(found)
    for path in ("grön", "grön/gelb ü"):
        assert notes[path] == ["its name is not UTF-8, and was read as Latin-1"]
    assert any("some of its strings are not UTF-8" in note for note in notes["units"])


def test_notes_about_the_attributes_of_groups_are_not_lost(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.arange(3)
        file.attrs["other"] = file["x"].ref
        file.attrs["range"] = [0.0, np.nan]
    notes = notes_of(convert(tmp_path / "f.h5", tmp_path / "h.zarr"))[""]
    assert any("the attribute 'other' was left out" in note for note in notes)
    assert any("in the attribute 'range', NaN became a string" in note for note in notes)


def test_several_files_keep_the_notes(tmp_path: Path) -> None:
    for number in range(2):
        with netCDF4.Dataset(tmp_path / f"{number}.nc", "w") as file:
            file.createDimension("t", 2)
            file.createVariable("v", "i4", ("t",))[:] = number
        with h5py.File(tmp_path / f"{number}.nc", "r+") as file:
            file.attrs["author"] = np.bytes_(NAME)
            file["v"].attrs["units"] = np.bytes_(DEGREES)
    files = [tmp_path / f"{number}.nc" for number in range(2)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.group.attrs["author"] == "Müller"
    assert found.arrays["v"].attrs["units"] == "°C"
    assert {path: len(notes) for path, notes in notes_of(found).items()} == {"": 1, "v": 1}
