"""Every Zarr v2 data type, read through the converted metadata as zarr reads it from v2."""

from __future__ import annotations

import base64
from typing import Any, cast

import numpy as np
import pytest

from tests.combinations import combinations
from tests.conversion.zarr2.zarr2_arrays import (
    IS_CURRENT_ZARR,
    assert_same,
    lay_out,
    patterns,
    write,
    zarray,
)
from zarr_manifest.conversion.zarr2 import convert_array
from zarr_manifest.errors import NotConvertibleError

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "3ns"]
NUMBERS = ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SIMPLE = [
    *("|b1", "|i1", "|u1", "|S1", "|S12", "|V1", "|V5"),
    *(order + number for order in "<>" for number in NUMBERS),
    *(f"{order}{kind}8[{unit}]" for order in "<>" for kind in "mM" for unit in UNITS),
    *(f"{order}U{length}" for order in "<>" for length in (1, 3)),
]
# By kind: a value as v2 metadata has it.
FILLS: dict[str, Any] = {
    "b": True,
    "i": -3,
    "u": 7,
    "f": -1.5,
    "c": [1.5, "NaN"],
    "m": 5,
    "M": -5,
    "S": "YQ==",
    "U": "é",
}

needs_current_zarr = pytest.mark.skipif(
    not IS_CURRENT_ZARR, reason="zarr 3.1 refuses these structured types, in v2 or in v3"
)


def encoded(element: Any) -> str:
    return base64.b64encode(np.asarray(element).tobytes()).decode()


def fill_for(dtype: np.dtype[Any]) -> Any:
    return FILLS[dtype.kind] if dtype.kind in FILLS else encoded(patterns(dtype, (1,), 7)[0])


@pytest.mark.slow
@pytest.mark.parametrize("way", combinations(["C value", "F null"], besides=["C value"]))
@pytest.mark.parametrize("dtype", SIMPLE)
def test_simple_types_read_as_in_v2(dtype: str, way: str) -> None:
    order, fill = way.split()
    numpy_type: np.dtype[Any] = np.dtype(dtype)
    separator = "/" if order == "F" else "."
    document = zarray(
        dtype=dtype,
        order=order,
        dimension_separator=separator,
        fill_value=fill_for(numpy_type) if fill == "value" else None,
        compressor={"id": "zlib", "level": 1},
    )
    written = write(document, patterns(numpy_type, (5, 4)), (slice(None), slice(4)))
    assert set(written.chunks) == {f"0{separator}0", f"1{separator}0"}
    assert_same(written.read_v3(), written.read_v2())


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [("<b1", "|b1"), (">i1", "|i1"), ("<u1", "|u1"), ("<S3", "|S3"), (">V3", "|V3")],
)
def test_a_byte_order_that_does_not_matter_is_ignored(alias: str, canonical: str) -> None:
    ours = convert_array(zarray(dtype=alias, fill_value=None), None).metadata
    assert ours == convert_array(zarray(dtype=canonical, fill_value=None), None).metadata


# ------------------------------------------------------------ structured


def structures(o: str) -> list[Any]:
    point = [["x", f"{o}M8[ns]"], ["y", "|u1"], ["u", f"{o}U2"]]
    return [
        [["a", f"{o}i4"], ["b", "|S3"], ["c", f"{o}f8"]],
        [["a", f"{o}i2"], ["p", point], ["v", "|V3"], ["c", f"{o}c8"], ["t", f"{o}m8[s]"]],
        [["p", [["q", [["r", f"{o}f2"]]]]], ["b", "|b1"]],
    ]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype",
    [
        [["r", "|u1"], ["g", "|u1"], ["b", "|b1"]],
        [["s", "|S3"], ["v", "|V2"]],
        structures("<")[0],
        *(pytest.param(dtype, marks=needs_current_zarr) for dtype in structures("<")[1:]),
        *(pytest.param(dtype, marks=needs_current_zarr) for dtype in structures(">")),
    ],
)
def test_structured_types_read_as_in_v2(dtype: list[Any], order: str) -> None:
    numpy_type = to_numpy(dtype)
    document = zarray(dtype=dtype, order=order, fill_value=fill_for(numpy_type))
    written = write(document, patterns(numpy_type, (5, 4)), (slice(None), slice(4)))
    assert_same(written.read_v3(), written.read_v2())
    if IS_CURRENT_ZARR:  # zarr 3.1 makes b"0" of a null in a field of bytes
        written = write(document | {"fill_value": None}, patterns(numpy_type, (3, 7)), slice(3))
        assert_same(written.read_v3(), written.read_v2())


def to_numpy(dtype: Any) -> np.dtype[Any]:
    if isinstance(dtype, str):
        return np.dtype(dtype)
    return np.dtype([(field[0], to_numpy(field[1]), *map(tuple, field[2:])) for field in dtype])


def with_subarrays(o: str) -> list[Any]:
    nested = [["t", f"{o}M8[s]"], ["q", "|S3", [2]], ["z", f"{o}f4", []]]
    return [
        *([["x", f"{o}f4"], ["z", f"{o}f8", [2, 3]], ["n", nested, [2]]]),
        *([["u", f"{o}U2", [2]], ["e", "|V1", [1]]]),
    ]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("o", ["<", pytest.param(">", marks=needs_current_zarr)])
def test_subarrays_become_fields_in_the_same_bytes(o: str, order: str) -> None:
    # zarr reads no subarrays, not even in v2: the bytes are compared with what was laid out.
    dtype = with_subarrays(o)
    data = patterns(to_numpy(dtype), (5, 7))
    document = zarray(dtype=dtype, order=order, fill_value=encoded(data[1, 1]))
    written = lay_out(document, data)
    del written.chunks["0.0"]
    data[:3, :4] = data[1, 1]
    ours = written.read_v3()
    assert ours["z"]["1"]["0"].tolist() == data["z"][..., 1, 0].tolist()
    stored = ours.astype(ours.dtype.newbyteorder(o))
    assert stored.view(data.dtype).tobytes() == data.tobytes()
    notes = convert_array(document, None, path="a").notes
    assert "field 'z' is a subarray" in notes[0]
    assert f"view the field as {o}f8 of shape (2, 3)".replace("<f8", "float64") in notes[0]
    assert ["'n.q'" in note for note in notes][1] is True


def test_a_structured_type_has_one_name_for_each_byte_order() -> None:
    little = convert_array(zarray(dtype=structures("<")[0], fill_value=None), None)
    big = convert_array(zarray(dtype=structures(">")[0], fill_value=None), None, path="a")
    assert little.metadata["data_type"]["name"] == "structured"
    assert little.metadata["data_type"]["configuration"]["fields"][0] == ["a", "int32"]
    assert big.metadata["data_type"]["name"] == "struct"
    assert big.metadata["data_type"]["configuration"]["fields"][0] == {
        "name": "a",
        "data_type": "int32",
    }
    assert big.metadata["fill_value"] == {"a": 0, "b": "", "c": 0.0}
    assert any("3.2 has a bug" in note for note in big.notes)


def test_unnamed_fields_are_named_as_numpy_does() -> None:
    dtype = [["a", "|u1"], ["", "|V3"], ["b", "<i4"]]
    converted = convert_array(zarray(dtype=dtype, fill_value=None), None, path="a")
    names = [name for name, _ in converted.metadata["data_type"]["configuration"]["fields"]]
    assert names == list(np.dtype([tuple(field) for field in dtype]).names or ())
    assert "field 1 of the data type has no name; it became 'f1'" in converted.notes


# ------------------------------------------------------------ refusals


def deep(levels: int) -> list[Any]:
    dtype: Any = "<i4"
    for _ in range(levels):
        dtype = [["a", dtype]]
    return cast("list[Any]", dtype)


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("f8", "not a Zarr v2 type string"),
        ("float64", "not a Zarr v2 type string"),
        ("|f8", "does not state the byte order"),
        ("|U5", "does not state the byte order"),
        ("<f16", "no data type"),
        ("<c32", "no data type"),
        ("<i3", "no data type"),
        ("|S0", "elements of size 0"),
        ("|V0", "elements of size 0"),
        ("<U0", "elements of size 0"),
        ("<U999999999", "elements of 3999999996 bytes"),
        ("|S9999999999", "no data type"),
        ("<M8", "no time unit"),
        (">m8[generic]", "no time unit"),
        ("<M8[parsec]", "Invalid datetime unit"),
        ("<M4[s]", "no data type"),
        ("<f8[s]", "no data type"),
        ("|O", "Python objects"),
        ("<O8", "no data type"),
        ({"name": "int8"}, "neither a string nor a list"),
        (8, "neither a string nor a list"),
        ([], "without fields"),
        ([["a"]], "field 0"),
        ([["a", "<f8", [2], 1]], "field 0"),
        ([[["title", "a"], "<f8"]], "field 0"),
        (["a", "<f8"], "field 0"),
        ([["a", None]], "field 'a'"),
        ([["a", "<i4"], ["b", ">i4"]], "mixes big-endian and little-endian"),
        ([["a", [["b", "<i4"], ["c", ">i4"]]]], "field 'a' mixes"),
        ([["a", "<i4"], ["a", "<i4"]], "two fields named 'a'"),
        ([["n", [["a", "|O"]]]], "field 'n.a'"),
        ([["n", [["a", "<f16"]]]], "field 'n.a'"),
        ([["a", "<i4", [0]]], "shape of field 'a'"),
        ([["a", "<i4", ["2"]]], "shape of field 'a'"),
        ([["a", "<i4", True]], "shape of field 'a'"),
        ([["a", "<i4", [64, 65]]], "field 'a' has more than 4096 fields"),
        ([["a", "<i4", [10**9]]], "field 'a' is too large"),
        ([["a", "<i4", [1] * 33]], "field 'a' is too large"),
        ([["a", [["b", "<i4", [64]]], [65]]], "field 'a' has more than 4096 fields"),
        ([["a", "|S9000000"], ["b", "|S9000000"]], "elements of 18000000 bytes"),
        ([["a", "|S9000000", [4000]]], "field 'a' has elements of 36000000000 bytes"),
        (deep(40), "32 levels deep"),
    ],
)
def test_types_that_cannot_be_expressed(dtype: Any, reason: str) -> None:
    with pytest.raises(NotConvertibleError) as caught:
        convert_array(zarray(dtype=dtype, fill_value=None), None, path="group/a")
    assert reason in caught.value.problem
    assert caught.value.array == "group/a"
    assert caught.value.code == "not_convertible"
