"""v3 metadata as v2 metadata: what was v2 comes back, and reads to the same elements."""

from __future__ import annotations

from typing import Any

import numcodecs
import numcodecs.registry
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from tests.combinations import combinations
from tests.conversion.zarr2.zarr2_arrays import assert_same, has_codec, patterns, write, zarray
from tests.properties import examples
from zarr_manifest.conversion.zarr2 import (
    convert_array,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)
from zarr_manifest.errors import NotConvertibleError

pytestmark = pytest.mark.filterwarnings("ignore:The data type", "ignore:Numcodecs codecs")

DTYPES = [
    "|b1",
    "|i1",
    "|u1",
    "<i2",
    ">i2",
    "<u4",
    ">u4",
    "<i8",
    ">i8",
    "<f2",
    ">f4",
    "<f8",
    ">f8",
    "<c8",
    ">c16",
    "<M8[ns]",
    ">M8[D]",
    "<m8[10s]",
    "|S3",
    "<U2",
    ">U2",
    "|V4",
]

SHUFFLE = {"id": "shuffle", "elementsize": 8}
DELTA = {"id": "delta", "dtype": ">i4", "astype": "<i4"}
SCALE = {"id": "fixedscaleoffset", "offset": 1, "scale": 10, "dtype": "<f8", "astype": "<i2"}
PIPELINES: list[Any] = [
    ("<f8", {"compressor": {"id": "zlib", "level": 4}}),
    ("<f8", {"compressor": {"id": "gzip", "level": 4}}),
    ("<f8", {"compressor": {"id": "zstd", "level": 3, "checksum": True}}),
    ("<i4", {"compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}}),
    ("<f8", {"filters": [SHUFFLE], "compressor": {"id": "zlib", "level": 1}}),
    ("<f8", {"filters": [SHUFFLE, {"id": "zlib", "level": 1}]}),
    ("<f8", {"filters": [SHUFFLE, {"id": "zlib", "level": 1}, {"id": "fletcher32"}]}),
    pytest.param(
        ">f4",
        {"filters": [{"id": "crc32c", "location": "end"}]},
        marks=pytest.mark.skipif(not has_codec("crc32c"), reason="this numcodecs lacks crc32c"),
    ),
    (">i4", {"filters": [DELTA], "compressor": {"id": "bz2", "level": 1}}),
    ("<f8", {"filters": [SCALE], "order": "F"}),
    ("<f8", {"filters": [{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}]}),
    ("<f8", {"filters": [{"id": "bitround", "keepbits": 5}], "order": "F"}),
    ("|b1", {"filters": [{"id": "packbits"}]}),
    ("<f8", {"filters": [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}]}),
    ("<i2", {"compressor": {"id": "lzma", "preset": 1}, "dimension_separator": "/"}),
]


def there_and_back(document: dict[str, Any]) -> dict[str, Any]:
    converted = convert_array(document, None, path="a")
    return convert_array_to_zarr2(converted.metadata, path="a").node


def assert_same_array(document: dict[str, Any], data: Any) -> None:
    written = write(document, data)
    back = there_and_back(document)
    expected = written.read_v2()
    if document.get("dimension_separator") == "/":  # what comes back has dots
        chunks = {key.replace("/", "."): chunk for key, chunk in written.chunks.items()}
        written = written._replace(chunks=chunks)
    assert_same(written._replace(document=back).read_v2(), expected)
    # Once more: nothing is lost from then on.
    again = there_and_back(back)
    assert again == back


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", combinations(["C", "F"], besides=["C"]))
def test_data_types(dtype: str, order: str) -> None:
    document = zarray(dtype=dtype, order=order, fill_value=None)
    assert there_and_back(document)["dtype"] == dtype
    assert_same_array(document, patterns(dtype, (5, 7)))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "members"), PIPELINES)
def test_pipelines(dtype: str, members: dict[str, Any]) -> None:
    document = zarray(dtype=dtype, **members)
    data = np.arange(35).reshape(5, 7).astype(dtype)
    assert_same_array(document, data)
    back = there_and_back(document)
    assert (back["filters"] or []) + ([back["compressor"]] if back["compressor"] else []) != []
    assert back["order"] == document["order"]


def test_variable_length_text() -> None:
    document = zarray(dtype="|O", filters=[{"id": "vlen-utf8"}], fill_value="x")
    back = there_and_back(document)
    assert (back["dtype"], back["filters"], back["fill_value"]) == (
        "|O",
        [{"id": "vlen-utf8"}],
        "x",
    )


@pytest.mark.parametrize(
    "spec", [[["a", "<i2"], ["b", "|S2"]], [["a", "<f4"], ["c", [["d", "<i8"]]]]]
)
def test_structured_types(spec: list[Any]) -> None:
    assert there_and_back(zarray(dtype=spec, fill_value=None))["dtype"] == spec


@examples(0.6)
@given(
    st.sampled_from(["<i2", ">i4", "<u8", "<f4", ">f8", "<c8", "|b1"]).flatmap(
        lambda dtype: st.tuples(
            st.just(dtype),
            {
                "i": st.integers(-100, 100),
                "u": st.integers(0, 2**64 - 1),
                "f": st.sampled_from([0.0, -1.5, "NaN", "Infinity", "-Infinity"]),
                "c": st.sampled_from([[0.0, 1.0], ["NaN", 0.0]]),
                "b": st.booleans(),
            }[np.dtype(dtype).kind],
        )
    )
)
def test_fill_values_come_back(found: tuple[str, Any]) -> None:
    dtype, fill_value = found
    assert there_and_back(zarray(dtype=dtype, fill_value=fill_value))["fill_value"] == fill_value


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def v3(**members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [LITTLE],
        "fill_value": 0,
        **members,
    }


def test_zarr_itself_writes_what_is_converted() -> None:
    store: dict[str, Any] = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(store), shape=(4, 6), chunks=(2, 3), dtype="f4"
    )
    metadata = array.metadata.to_dict()
    assert convert_array_to_zarr2(metadata).node["compressor"]["id"] == "zstd"


@pytest.mark.parametrize(
    ("codecs", "steps"),
    [
        (
            ["astype", {"encode_dtype": "<i4"}, "bytes"],
            [{"id": "astype", "encode_dtype": "<i4", "decode_dtype": "<i2"}],
        ),
        (["bytes", "shuffle", {}], [{"id": "shuffle", "elementsize": 2}]),
    ],
)
def test_what_a_codec_takes_from_the_array_is_stated(
    codecs: list[Any], steps: list[dict[str, Any]]
) -> None:
    named: list[dict[str, Any]] = []
    for item in codecs:
        if isinstance(item, dict):
            named[-1] = {"name": f"numcodecs.{named[-1]['name']}", "configuration": item}
        else:
            named.append({"name": item, "configuration": {"endian": "little"}})
    node = convert_array_to_zarr2(v3(codecs=named)).node
    assert [*(node["filters"] or []), *filter(None, [node["compressor"]])] == steps


def test_attributes_and_dimension_names() -> None:
    documents = convert_array_to_zarr2(v3(attributes={"a": 1}, dimension_names=["y", "x"]))
    assert documents.attributes == {"a": 1, "_ARRAY_DIMENSIONS": ["y", "x"]}
    documents = convert_array_to_zarr2(v3(dimension_names=["y", None]))
    assert (documents.attributes, len(documents.notes)) == ({}, 1)
    assert convert_array_to_zarr2(v3(dimension_names=[None, None])).notes == ()
    attributes = {"_ARRAY_DIMENSIONS": ["a", "b"]}
    documents = convert_array_to_zarr2(v3(dimension_names=["y", "x"], attributes=attributes))
    assert documents.attributes == {"_ARRAY_DIMENSIONS": ["y", "x"]}
    assert "replaced" in documents.notes[0]
    assert convert_group_to_zarr2({"attributes": {"t": 1}}) == ({"zarr_format": 2}, {"t": 1}, ())


@pytest.mark.parametrize(
    ("members", "attribute", "is_left_out"),
    [
        ({"fill_value": -1}, -1, True),
        ({"fill_value": 0}, -1, False),
        ({"data_type": "float32", "fill_value": "NaN"}, "AAAAAAAA+H8=", True),
        ({"data_type": "float32", "fill_value": 0}, "AAAAAAAA+H8=", False),
        ({"data_type": "complex64", "fill_value": [0, 1]}, ["AAAAAAAAAAA=", "AAAAAAAA8D8="], True),
    ],
)
def test_what_xarray_takes_for_missing_is_the_fill_value(
    members: dict[str, Any], attribute: Any, is_left_out: bool
) -> None:
    metadata = v3(**members, attributes={"_FillValue": attribute}, dimension_names=["y", "x"])
    found = convert_array_to_zarr2(metadata).masked(is_complete=False)
    assert ("_FillValue" not in found.attributes) is is_left_out
    assert any(
        "instead of the value of the attribute '_FillValue'" in note for note in found.notes
    ) is (not is_left_out)
    unnamed = convert_array_to_zarr2(metadata | {"dimension_names": None})
    unnamed = unnamed.masked(is_complete=False)
    assert unnamed.attributes == {"_FillValue": attribute}


@pytest.mark.parametrize(
    ("members", "attribute", "expected"),
    [
        ({"fill_value": 0}, -1, -1),
        ({"fill_value": 0}, None, None),
        ({"data_type": "float32", "fill_value": 0}, "AAAAAAAA+H8=", "NaN"),
        ({"data_type": "float32", "fill_value": 0}, "AAAAAAAA8P8=", "-Infinity"),
        ({"data_type": "float32", "fill_value": 0}, "AAAAAAAA8D8=", 1.0),
    ],
)
def test_without_missing_chunks_the_fill_value_is_what_xarray_is_to_mask(
    members: dict[str, Any], attribute: Any, expected: Any
) -> None:
    attributes = {} if attribute is None else {"_FillValue": attribute}
    metadata = v3(**members, attributes=attributes, dimension_names=["y", "x"])
    found = convert_array_to_zarr2(metadata).masked(is_complete=True)
    assert found.node["fill_value"] == expected
    assert "_FillValue" not in found.attributes
    assert found.notes == ()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"codecs": None}, "not a list"),
        ({"codecs": [{"configuration": {}}]}, "no name"),
        ({"codecs": ["sharding_indexed"]}, "no shards"),
        ({"codecs": [{"name": "numcodecs.unheard"}]}, "'numcodecs.unheard'"),
        ({"codecs": ["bytes", {"name": "numcodecs.delta"}]}, "comes after"),
        ({"codecs": [{"name": "transpose", "configuration": {"order": [1]}}]}, "transpose"),
        ({"data_type": "int3"}, "int3"),
        ({"fill_value": "many"}, "many"),
        (
            {
                "chunk_grid": {
                    "name": "rectilinear",
                    "configuration": {"kind": "inline", "chunk_shapes": [[1, 3], [6]]},
                }
            },
            "regular",
        ),
    ],
)
def test_what_zarr_v2_cannot_express(members: dict[str, Any], words: str) -> None:
    with pytest.raises(NotConvertibleError, match=words):
        convert_array_to_zarr2(v3(**members), path="a")


# The trial -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decoded", "problem"), [(bytes(12), "to other values"), (b"", "could not be tried")]
)
def test_codecs_that_mean_something_else_in_v2_are_found_out(
    decoded: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AnotherGZip(numcodecs.GZip):
        tried = 0

        def decode(self, buf: Any, out: Any = None) -> bytes:
            type(self).tried += 1
            return decoded

    metadata = v3(codecs=[LITTLE, {"name": "gzip", "configuration": {"level": 1}}])
    assert convert_array_to_zarr2(metadata).node["compressor"]["id"] == "gzip"
    monkeypatch.setitem(numcodecs.registry.codec_registry, "gzip", AnotherGZip)
    with pytest.raises(NotConvertibleError, match=problem):
        convert_array_to_zarr2(metadata, path="a")
    assert AnotherGZip.tried == 1
