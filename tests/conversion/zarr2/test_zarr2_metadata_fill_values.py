"""Zarr v2 fill values: what becomes of each, and that missing chunks read as in v2."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.zarr2.zarr2_arrays import IS_CURRENT_ZARR, Written, assert_same, zarray
from tests.properties import examples
from zarr_manifest.conversion.zarr2 import ArrayPlan, convert_array
from zarr_manifest.errors import NotConvertibleError

POINT = [["a", "<i2"], ["b", "|S2"]]
POINT_BYTES = base64.b64encode(b"\1\0x\0").decode()


def convert(dtype: Any, fill: Any) -> ArrayPlan:
    filters = [{"id": dtype}] if dtype in ("vlen-utf8", "vlen-bytes") else None
    dtype = "|O" if filters else dtype
    return convert_array(zarray(dtype=dtype, fill_value=fill, filters=filters), None, path="a")


# Data type, v2 fill value, v3 fill value, whether there is a note.
ACCEPTED: list[tuple[Any, Any, Any, bool]] = [
    ("|b1", True, True, False),
    ("|b1", 0, False, True),
    ("|b1", 1.0, True, True),
    ("|i1", -128, -128, False),
    ("<u8", 2**64 - 1, 2**64 - 1, False),
    ("<i4", 0.0, 0, True),
    ("<i4", -3.0, -3, True),
    ("<i4", "-5", -5, True),
    ("<i4", True, 1, True),
    ("<f4", 1, 1.0, False),
    ("<f4", 9.969209968386869e36, 9.969209968386869e36, False),
    ("<f8", -0.0, -0.0, False),
    ("<f8", "NaN", "NaN", False),
    ("<f8", math.nan, "NaN", False),
    ("<f8", "Infinity", "Infinity", False),
    ("<f8", -math.inf, "-Infinity", False),
    ("<f8", "1e20", 1e20, True),
    ("<f8", "nan", "NaN", True),
    ("<f2", True, 1.0, True),
    ("<c8", [1, "-Infinity"], [1.0, "-Infinity"], False),
    ("<c16", (math.nan, 0.5), ["NaN", 0.5], False),
    ("<c16", 0, [0.0, 0.0], True),
    ("<c16", "NaN", ["NaN", 0.0], True),
    ("<M8[ns]", "NaT", "NaT", False),
    ("<M8[ns]", -(2**63), "NaT", False),
    ("<m8[D]", 7, 7, False),
    ("<m8[D]", 0.0, 0, True),
    ("|S3", "YWI=", "YWI=", False),
    ("|S3", base64.b64encode(b"ab\0\0\0\0").decode(), "YWI=", False),
    ("|S3", "", "", False),
    ("|S3", 0, "", True),
    ("<U2", "é\0\0", "é", False),
    ("<U2", 0, "", True),
    ("|V2", "AAE=", "AAE=", False),
    ("|V2", 0, "AAA=", True),
    (POINT, POINT_BYTES, POINT_BYTES, False),
    (POINT, 0, "AAAAAA==", True),
    ("vlen-utf8", "", "", False),
    ("vlen-utf8", "missing\0", "missing\0", False),
    ("vlen-utf8", 0, "", True),
    ("vlen-bytes", "YWI=", "YWI=", False),
    ("vlen-bytes", 0, "", True),
]


@pytest.mark.parametrize(("dtype", "fill", "expected", "is_noted"), ACCEPTED)
def test_a_fill_value_becomes(dtype: Any, fill: Any, expected: Any, is_noted: bool) -> None:
    converted = convert(dtype, fill)
    result = converted.metadata["fill_value"]
    assert json.dumps(result) == json.dumps(expected)
    assert bool(converted.notes) is is_noted
    assert all(note.startswith("the fill value ") for note in converted.notes)


@pytest.mark.parametrize(
    ("dtype", "zero"),
    [
        ("|b1", False),
        ("<i4", 0),
        ("<f4", 0.0),
        ("<c8", [0.0, 0.0]),
        ("<M8[s]", "NaT"),
        (">m8[s]", "NaT"),
        ("|S3", ""),
        ("<U3", ""),
        ("|V2", "AAA="),
        (POINT, "AAAAAA=="),
        ("vlen-utf8", ""),
        ("vlen-bytes", ""),
    ],
)
def test_null_becomes_the_zero_of_the_data_type(dtype: Any, zero: Any) -> None:
    converted = convert(dtype, None)
    assert json.dumps(converted.metadata["fill_value"]) == json.dumps(zero)
    assert len(converted.notes) == 1
    assert "the fill value null became" in converted.notes[0]


def test_a_missing_fill_value_is_null() -> None:
    document = zarray()
    del document["fill_value"]
    assert convert_array(document, None).metadata["fill_value"] == 0.0


REFUSED: list[tuple[Any, Any]] = [
    *(("|b1", value) for value in (2, "maybe", 0.5, [0], math.nan)),
    *(("|i1", value) for value in (128, -129, 0.5, "NaN", math.nan, math.inf, "0x1", "1" * 99)),
    *(("<u4", value) for value in (-1, 2**32, "", "-", "--1", "٣", [0], {}, 1e300)),
    *(("<f4", value) for value in (1e39, "1e39", "x", "", [0.0], {}, 10**400)),
    *(("<f8", value) for value in (10**400, "YQ==")),
    *(("<c8", value) for value in ([1], [1, 2, 3], ["x", 0], {}, [1e39, 0], [[0, 0], 0])),
    *(("<M8[s]", value) for value in ("1970-01-01", 2**63, 0.5, [0])),
    *(("|S3", value) for value in ("YWJjZA==", "not base64", "YQ", 7, ["YQ=="], "é")),
    *(("<U2", value) for value in ("abc", 7, ["a"])),
    *(("|V2", value) for value in ("AA==", "AAAA", "?", 1)),
    *((POINT, value) for value in ("AA==", [0, ""], {"a": 0}, 1, "??")),
    *(("vlen-utf8", value) for value in (7, ["a"], {})),
    *(("vlen-bytes", value) for value in ("?", 7, [0])),
]


@pytest.mark.parametrize(("dtype", "fill"), REFUSED)
def test_fill_values_outside_the_data_type_are_refused(dtype: Any, fill: Any) -> None:
    with pytest.raises(NotConvertibleError) as caught:
        convert(dtype, fill)
    assert "fill value" in caught.value.problem
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_fill_value_that_is_not_text_is_refused(order: str) -> None:
    with pytest.raises(NotConvertibleError, match="is not text"):
        convert([["a", f"{order}U1"]], base64.b64encode(b"\x7f\xff\xff\xff").decode())


WIDER = ("i2", "u4", "i8", "f2", "f4", "c8")
NUMBERS = ["|b1", "|i1", "|u1", *(order + number for order in "<>" for number in WIDER)]


@pytest.mark.slow
@given(dtype=st.sampled_from([*NUMBERS, "<f8", "<c16", "<M8[s]", "<m8[ns]"]), data=st.data())
def test_missing_chunks_read_as_in_v2(dtype: str, data: st.DataObject) -> None:
    kind = np.dtype(dtype).kind
    floats = st.floats(width=16) | st.sampled_from(["NaN", "Infinity", "-Infinity"])
    values: dict[str, st.SearchStrategy[Any]] = {
        "b": st.booleans(),
        "i": st.integers(-128, 127),
        "u": st.integers(0, 255),
        "f": floats,
        "c": st.lists(floats, min_size=2, max_size=2),
        "m": st.integers(-(2**62), 2**62) | st.just("NaT"),
    }
    fill = data.draw(values[kind.lower()] | st.none())
    document = zarray(dtype=dtype, fill_value=fill)
    ours = Written(document, {}).read_v3()
    strict = json.loads(json.dumps(document), parse_constant=str)  # what valid v2 metadata has
    assert_same(ours, Written(strict, {}).read_v2())


@examples(0.5)
@given(fill=st.text(max_size=3) | st.binary(max_size=3), is_variable=st.booleans())
def test_missing_text_and_bytes_read_as_in_v2(fill: str | bytes, is_variable: bool) -> None:
    is_text = isinstance(fill, str)
    try:
        value = fill if isinstance(fill, str) else base64.b64encode(fill).decode()
        value.encode()
    except UnicodeEncodeError:
        return
    codec = "vlen-utf8" if is_text else "vlen-bytes"
    document = zarray(
        dtype="|O" if is_variable else "<U3" if is_text else "|S3",
        filters=[{"id": codec}] if is_variable else None,
        fill_value=value,
    )
    written = Written(document, {})
    assert_same(written.read_v3(), written.read_v2())


@pytest.mark.skipif(not IS_CURRENT_ZARR, reason="zarr 3.1 has no big-endian structured types")
@given(content=st.binary(min_size=37, max_size=37))
@examples(0.5)
def test_structured_fill_values_keep_every_bit(content: bytes) -> None:
    fields = [["h", "f2"], ["f", "f4"], ["d", "f8"], ["t", "M8[s]"], ["i", "i4"], ["u", "u2"]]
    tail = [["s", "|S4"], ["v", "|V4"], ["b", "|u1"]]
    for order in "<>":
        dtype = [*([name, order + kind] for name, kind in fields), *tail]
        fill = base64.b64encode(content).decode()
        ours = Written(zarray(dtype=dtype, fill_value=fill), {}).read_v3()
        theirs = np.frombuffer(content, np.dtype([tuple(field) for field in dtype]))[0]
        for name, *_ in dtype:
            expected, found = theirs[name], ours[0, 0][name]
            if expected.dtype.kind == "f" and np.isnan(expected):
                assert np.isnan(found)
            else:
                assert found == expected or (np.isnat(found) and np.isnat(expected))


def test_a_nan_with_a_payload_is_written_as_its_bits() -> None:
    dtype = [["h", ">f2"], ["f", ">f4"], ["d", ">f8"], ["c", ">c8"], ["n", [["b", "|b1"]]]]
    content = bytes.fromhex("7e01 7fc00001 7ff8000000000002 7fc00003 7fc00000 01".replace(" ", ""))
    converted = convert(dtype, base64.b64encode(content).decode())
    assert converted.metadata["fill_value"] == {
        "h": "0x7e01",
        "f": "0x7fc00001",
        "d": "0x7ff8000000000002",
        "c": ["0x7fc00003", "NaN"],
        "n": {"b": True},
    }
