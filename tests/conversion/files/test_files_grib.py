"""GRIB2: what is read, and what gribberish would read as something else."""

from __future__ import annotations

import random
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from zarr_manifest.conversion import read_files
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

_VALUES = np.arange(6.0).reshape(2, 3)
_MISSING = 0xFFFFFFFF


def _section(number: int, body: bytes) -> bytes:
    return (len(body) + 5).to_bytes(4, "big") + bytes([number]) + body


def _grid(
    *,
    scanning: int = 0,
    first: tuple[int, int] = (60, 10),
    last: tuple[int, int] = (58, 14),
    step: int = 2_000_000,
    columns: int = 3,
    angle: int = 0,
    flags: int = 48,
    template: int = 0,
) -> bytes:
    """Two rows of latitudes, and columns of longitudes."""
    body = b"\0" + struct.pack(">IBBH", 6, 0, 0, template) + b"\6" + bytes(15)
    body += struct.pack(">IIII", columns, 2, angle, _MISSING)
    degrees = (first[0] * 10**6, first[1] * 10**6, flags, last[0] * 10**6, last[1] * 10**6)
    return _section(3, body + struct.pack(">IIBIIIIB", *degrees, step, step, scanning))


def _product(*, level: int = 0, number: int = 0, unit: int = 1, time: int = 6) -> bytes:
    body = struct.pack(">HHBBBBB", 0, 0, 0, number, 2, 0, 0) + bytes(3)
    body += struct.pack(">BI", unit, time)
    return _section(4, body + struct.pack(">BBIBBI", 103, 0, level, 255, 255, _MISSING))


def _field(
    *, grid: bytes | None = None, product: bytes | None = None, packing: int = 0, bitmap: int = 255
) -> bytes:
    packed = struct.pack(">IHfHHBB", 6, packing, 0.0, 0, 0, 8, 0)
    values = _VALUES.astype("u1").tobytes()
    sections = [grid or _grid(), product or _product(), _section(5, packed)]
    return b"".join([*sections, _section(6, bytes([bitmap])), _section(7, values)])


def _message(*fields: bytes) -> bytes:
    when = struct.pack(">HBBBBB", 2024, 1, 31, 18, 0, 0)
    identification = _section(1, struct.pack(">HHBBB", 98, 0, 27, 0, 1) + when + bytes(2))
    body = identification + b"".join(fields)
    head = b"GRIB" + bytes([0, 0, 0, 2])
    return head + (16 + len(body) + 4).to_bytes(8, "big") + body + b"7777"


def grib_file() -> bytes:
    """A message of one field."""
    pytest.importorskip("gribberish")
    return _message(_field())


def _convert(directory: Path, *found: bytes) -> Any:
    pytest.importorskip("gribberish")
    (directory / "f.grib2").write_bytes(b"".join(found))
    return convert(directory / "f.grib2", directory / "h.zarr")


@pytest.mark.slow
def test_messages_are_chunks(tmp_path: Path) -> None:
    levels = [_message(_field(product=_product(level=level))) for level in (10, 2)]
    found = _convert(tmp_path, levels[0], b"padding", levels[1])
    assert found.refused == {}
    assert same(found.arrays["hag/instant/tmp"][...], np.stack([_VALUES, _VALUES])[None])
    assert found.arrays["hag/instant/hag"][...].tolist() == [2, 10]
    assert found.arrays["hag/instant/latitude"][...].tolist() == [60, 58]
    assert found.arrays["hag/instant/longitude"][...].tolist() == [10, 12, 14]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"grid": _grid(scanning=0x20)}, "by column, not by row"),
    ({"grid": _grid(scanning=0x10)}, "every other row of its values runs backwards"),
    ({"grid": _grid(scanning=0x08)}, "rows are offset"),
    ({"grid": _grid(columns=_MISSING)}, "differ in length"),
    ({"grid": _grid(step=_MISSING)}, "the step between its latitudes"),
    ({"grid": _grid(last=(60, 14), scanning=0x40)}, "the step between its latitudes"),
    ({"grid": _grid(last=(58, 10))}, "the step between its longitudes"),
    ({"grid": _grid(angle=7)}, "in custom units"),
    ({"grid": _grid(template=40)}, "its grid has template 40"),
    ({"product": _product(time=(1 << 31) + 3, unit=4)}, "its forecast time is negative"),
    ({"product": _product(unit=3)}, "months or years"),
    ({"product": _product(number=222)}, "gribberish left it out"),
    ({"packing": 4}, "gribberish cannot read it: .* unpack"),
    ({"bitmap": 254}, "its bitmap is not part of the message"),
]


@pytest.mark.slow
def test_what_would_be_read_as_something_else_is_refused(tmp_path: Path) -> None:
    """Before a message that is read, and after it."""
    others = [(_message(_field(**field)), reason) for field, reason in REFUSED]
    whole = _message(_field(product=_product(number=4))), None
    body, expected = b"", {}
    for message, reason in (*others[::2], whole, *others[1::2]):
        if reason is not None:
            expected[f"message at byte {len(body)} of f.grib2"] = reason
        body += message
    found = _convert(tmp_path, body)
    assert found.refused.keys() == expected.keys()
    for name, reason in expected.items():
        assert re.search(reason, found.refused[name]), name
    assert same(found.arrays["hag/instant/tmax"][...], _VALUES[None])
    assert "hag/instant/tmp" not in found.arrays


@pytest.mark.slow
def test_messages_before_their_reference_time(tmp_path: Path) -> None:
    hours = {2: 24, 11: 6, 1: 1}  # by unit
    products = [*(_product(time=(1 << 31) + 3, unit=unit) for unit in hours), _product(time=0)]
    found = _convert(tmp_path, *(_message(_field(product=product)) for product in products))
    assert found.refused == {}
    with xr.open_dataset(
        found.root, group="hag/instant", engine="zarr-manifest", allow=["/"], consolidated=False
    ) as opened:
        reference = np.datetime64("2024-01-31T18:00")
        before = [reference - np.timedelta64(3 * each, "h") for each in hours.values()]
        expected = np.array([*before, reference], "M8[ns]")
        assert opened["time"].values.tolist() == expected.tolist()
        assert same(
            opened["tmp"].values,
            np.stack([_VALUES] * len(expected))[:, None].reshape(opened["tmp"].shape),
        )
        assert opened["tmp"].attrs["reference_date"] == "2024-01-31T18:00:00+00:00"


@pytest.mark.slow
def test_coordinates_are_those_of_one_grid(tmp_path: Path) -> None:
    grids = [_grid(), _grid(flags=56), _grid(first=(50, 10), last=(48, 14))]
    fields = [_field(grid=grid, product=_product(number=4 * n)) for n, grid in enumerate(grids)]
    found = _convert(tmp_path, *map(_message, fields))
    (reason,) = found.refused.values()
    assert reason == "its grid differs from that of the messages before it"
    assert {"hag/instant/tmp", "hag/instant/tmax"} <= found.arrays.keys()
    assert found.arrays["hag/instant/latitude"][...].tolist() == [60, 58]


@pytest.mark.slow
def test_fields_after_the_first_of_a_message_are_refused(tmp_path: Path) -> None:
    found = _convert(tmp_path, _message(_field(), _field(product=_product(number=4))))
    assert found.refused == {
        "message at byte 0 of f.grib2, field 2": "only the first field is read. ecCodes makes a "
        "message of each: grib_copy IN OUT."
    }
    assert same(found.arrays["hag/instant/tmp"][...], _VALUES[None])


@pytest.mark.slow
def test_a_variable_that_lacks_messages_is_refused(tmp_path: Path) -> None:
    products = [
        {"level": 2},
        {"level": 10},
        {"level": 2, "time": 12},
        {"level": 2, "number": 4},
    ]
    fields = [_field(product=_product(**product)) for product in products]
    found = _convert(tmp_path, *map(_message, fields))
    assert found.refused == {"hag/instant/tmp": "it has 3 messages, not 2 time_1 x 2 hag"}
    assert "hag/instant/tmax" in found.arrays


@pytest.mark.slow
def test_messages_that_are_left_out_are_refused(tmp_path: Path) -> None:
    found = _convert(tmp_path, _message(_field()), _message(_field()))
    (reason,) = found.refused.values()
    assert "gribberish left it out" in reason


@pytest.mark.slow
def test_panics_are_reasons(tmp_path: Path) -> None:
    """Earths that gribberish has no projection for: Rust gives up with no usual exception."""
    lambert = b"\0" + struct.pack(">IBBH", 6, 0, 0, 30) + b"\4" + bytes(15)
    lambert += struct.pack(">IIIIB", 3, 2, 60 * 10**6, 10**7, 48) + struct.pack(
        ">IIIIBBIIII", 60 * 10**6, 10**7, 10**6, 10**6, 0, 0x40, 60 * 10**6, 60 * 10**6, 0, 0
    )
    other = _message(_field(grid=_section(3, lambert)))
    found = _convert(tmp_path, other, _message(_field()))
    assert "Invalid projection" in found.refused["message at byte 0 of f.grib2"]
    assert "hag/instant/tmp" in found.arrays


@pytest.mark.slow
@pytest.mark.parametrize("damage", [slice(16, 20), slice(-1, None)])
def test_a_damaged_message_is_refused(tmp_path: Path, damage: slice) -> None:
    # gribberish would not come to an end with a section of no bytes.
    damaged = bytearray(_message(_field()))
    damaged[damage] = bytes(len(damaged[damage]))
    found = _convert(tmp_path, bytes(damaged), _message(_field()))
    assert "it is damaged" in found.refused["message at byte 0 of f.grib2"]
    assert "hag/instant/tmp" in found.arrays
    (tmp_path / "f.grib2").write_bytes(damaged)
    with pytest.raises(NotConvertibleError, match=r"message at byte 0 cannot be read: it is dam"):
        list(read_files(tmp_path / "f.grib2"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is that of Linux")
def test_messages_that_end_the_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By asking for more memory than there is, or with a stack on stderr."""
    columns = 0x7FFFFFFF
    grid = bytearray(_grid(columns=columns, last=(60, 10), step=0))
    struct.pack_into(">I", grid, 6, 2 * columns)
    greedy = bytearray(_message(_field(grid=bytes(grid))))
    undated = bytearray(_message(_field()))
    undated[16 + 14] = 13  # the month
    found = _convert(tmp_path, bytes(greedy), bytes(undated), _message(_field()))
    ended, panicked = found.refused.values()
    assert re.search("it is damaged: gribberish ended with the status -", ended)
    assert "gribberish cannot read it: No such local time" in panicked
    assert "hag/instant/tmp" in found.arrays
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_damaged_messages(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = [_message(_field()), _message(_field(product=_product(level=5, time=12)))]
    body = b""
    for _ in range(40):
        damaged = bytearray(chance.choice(whole))
        for _ in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(8, len(damaged))] = chance.choice((0, 1, 127, 255))
        body += damaged
    (tmp_path / "f.grib2").write_bytes(body)
    assert list(read_files(tmp_path / "f.grib2"))


@pytest.mark.slow
def test_messages_of_the_first_edition_are_refused(tmp_path: Path) -> None:
    old = b"GRIB" + (28).to_bytes(3, "big") + b"\x01" + b"\0" * 16 + b"7777"
    found = _convert(tmp_path, _message(_field()), old)
    (reason,) = found.refused.values()
    assert "edition 1" in reason
    (tmp_path / "f.grib").write_bytes(old)
    with pytest.raises(NotConvertibleError, match="no message of GRIB edition 2"):
        list(read_files(tmp_path / "f.grib"))


@pytest.mark.slow
def test_messages_of_many_files_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("gribberish")
    files = [tmp_path / "0.grib2", tmp_path / "1.grib2"]
    for number, file in enumerate(files):
        fields = [_field(product=_product(time=number)), _field(grid=_grid(scanning=32))]
        file.write_bytes(b"".join(map(_message, fields)))
    found = convert(files, tmp_path / "h.zarr", concat_dim="time")
    assert found.arrays["hag/instant/tmp"].shape == (2, 2, 3)
    assert len(found.refused) == 2


@pytest.mark.slow
@pytest.mark.parametrize("gap", [1, 5000])
def test_messages_are_found_whatever_lies_between(gap: int, tmp_path: Path) -> None:
    first, second = (_message(_field(product=_product(level=level))) for level in (2, 10))
    between = b"-" * gap
    body = b"".join([first, between, b"GRIB", between, second, between])
    found = _convert(tmp_path, body, first[:-1])
    assert found.arrays["hag/instant/hag"][...].tolist() == [2, 10]
    assert same(found.arrays["hag/instant/tmp"][...], np.stack([_VALUES, _VALUES])[None])
    assert found.refused.keys() == {f"message at byte {len(body)} of f.grib2"}
