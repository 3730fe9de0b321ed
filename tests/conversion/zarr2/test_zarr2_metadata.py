"""Zarr v2 documents as v3 documents: members, attributes, groups, and whatever else may come."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.metadata.v3 import ArrayV3Metadata

from tests.conversion.zarr2.zarr2_arrays import IS_CURRENT_ZARR, Written, assert_same, write, zarray
from tests.properties import examples
from zarr_manifest.conversion.zarr2 import convert_array, convert_group
from zarr_manifest.errors import ManifestError, NotConvertibleError


def test_the_whole_document() -> None:
    zattrs = {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}
    compressor = {"id": "zlib", "level": 1}
    converted = convert_array(zarray(compressor=compressor, extra=1), zattrs, path="g/a")
    assert converted.metadata == {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5, 7],
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "fill_value": 0.0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "numcodecs.zlib", "configuration": {"level": 1}},
        ],
        "attributes": {"units": "K", "_FillValue": "AAAAAAAAAAA="},
        "dimension_names": ["y", "x"],
    }
    assert converted.notes == ()
    assert converted.key_separator == "."


# ------------------------------------------------------------ shape, chunks, keys


@pytest.mark.parametrize(("stated", "separator"), [(None, "."), (".", "."), ("/", "/")])
def test_the_separator_of_the_chunk_keys(stated: str | None, separator: str) -> None:
    converted = convert_array(zarray(dimension_separator=stated), None)
    assert converted.key_separator == separator
    encoding = {"name": "v2", "configuration": {"separator": separator}}
    assert converted.metadata["chunk_key_encoding"] == encoding


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [([], []), ([0], [1]), ([0, 4], [3, 2]), ([3], [8]), ([2, 3, 4, 5], [1, 2, 3, 9])],
)
def test_every_shape_of_grid(
    shape: list[int], chunks: list[int], order: str, separator: str
) -> None:
    members = {"shape": shape, "chunks": chunks, "order": order, "fill_value": None}
    document = zarray(**members, dtype="<i4", dimension_separator=separator)
    written = write(document, np.arange(np.prod(shape, dtype=int)).reshape(shape))
    assert_same(written.read_v3(), written.read_v2())


def test_a_chunk_length_of_zero_in_an_empty_dimension() -> None:
    document = zarray(shape=[0, 4], chunks=[0, 2])
    converted = convert_array(document, None, path="a")
    assert converted.metadata["chunk_grid"]["configuration"]["chunk_shape"] == [1, 2]
    assert converted.notes == (
        "the chunk length 0 in dimension 0, which is empty, became 1, because Zarr v3 "
        "requires a positive one",
    )
    assert Written(document, {}).read_v3().shape == (0, 4)
    with pytest.raises(NotConvertibleError, match="0 in dimension 1, which has length 4"):
        convert_array(zarray(shape=[0, 4], chunks=[1, 0]), None)


def test_an_order_is_needed_from_two_dimensions_on() -> None:
    document = zarray(shape=[3], chunks=[3])
    del document["order"]
    assert (
        convert_array(document, None).metadata
        == convert_array(zarray(shape=[3], chunks=[3]), None).metadata
    )
    document |= {"shape": [3, 3], "chunks": [3, 3]}
    with pytest.raises(NotConvertibleError, match="`order` is missing"):
        convert_array(document, None)


@pytest.mark.parametrize("member", ["zarr_format", "shape", "chunks", "dtype", "order"])
def test_members_that_must_be_there(member: str) -> None:
    document = zarray()
    del document[member]
    with pytest.raises(NotConvertibleError, match=f"`{member}`"):
        convert_array(document, None, path="g/a")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("zarr_format", value) for value in (1, 3, "2", None, True, 2.5)),
        *(("shape", value) for value in (None, 5, [5.0, 7], [-1, 7], ["5", 7], [True, 7], {})),
        *(("chunks", value) for value in (None, True, "auto", [2], [2, None], [2, 3, 4], [-2, 3])),
        *(("order", value) for value in (None, "A", "c", ["C"], 0)),
        *(("dimension_separator", value) for value in ("", "-", "//", 0, ["."])),
    ],
)
def test_members_of_the_wrong_kind(member: str, value: Any) -> None:
    with pytest.raises(NotConvertibleError, match=f"`.*{member}|member '{member}'") as caught:
        convert_array(zarray(**{member: value}), None, path="g/a")
    assert caught.value.array == "g/a"


@pytest.mark.parametrize("document", [None, [], "{}", 2])
def test_documents_that_are_not_objects(document: Any) -> None:
    with pytest.raises(NotConvertibleError, match=r"the \.zarray document is not a JSON object"):
        convert_array(document, None)
    if document is not None:
        with pytest.raises(NotConvertibleError, match=r"the \.zattrs document is not"):
            convert_array(zarray(), document)
        with pytest.raises(NotConvertibleError, match=r"the \.zattrs document is not"):
            convert_group(document, path="g")


# ------------------------------------------------------------ attributes


@pytest.mark.parametrize(
    ("names", "dimensions"),
    [
        *((value, 2) for value in (["x"], ["x", "y", "z"], ["x", 1], ["x", None], "xy", None, {})),
        *((value, 0) for value in (["x"], "")),
    ],
)
def test_dimension_names_that_are_none_stay_attributes(names: Any, dimensions: int) -> None:
    document = zarray(shape=[4] * dimensions, chunks=[4] * dimensions)
    zattrs = {"_ARRAY_DIMENSIONS": names, "a": 1}
    converted = convert_array(document, zattrs, path="a")
    assert "dimension_names" not in converted.metadata
    assert converted.metadata["attributes"] == zattrs
    assert len(converted.notes) == 1
    assert f"not a list of {dimensions} names; it stays an attribute" in converted.notes[0]


def test_an_array_without_dimensions_has_no_names_of_them() -> None:
    document = zarray(shape=[], chunks=[], fill_value=None)
    converted = convert_array(document, {"_ARRAY_DIMENSIONS": []})
    assert converted.metadata["dimension_names"] == []
    assert converted.metadata["attributes"] == {}


def test_attributes_are_kept_as_they_are() -> None:
    zattrs = {"c": {"d": [None, {}, 1e300]}, "f": 1.5, "": "", "zarr_format": 2, "ü": [[0]]}
    converted = convert_array(zarray(), zattrs, path="a")
    assert converted.metadata["attributes"] == zattrs
    assert converted.notes == ()


def test_what_json_lacks_becomes_a_string_in_attributes() -> None:
    zattrs = {"a": [1, {"b": math.nan}], "c": None, "e": (math.inf,), "missing_value": math.nan}
    before = repr(zattrs)
    converted = convert_array(zarray(), zattrs, path="a")
    assert converted.metadata["attributes"] == {
        "a": [1, {"b": "NaN"}],
        "c": None,
        "e": ["Infinity"],
    }
    assert repr(zattrs) == before
    assert converted.notes == (
        "in the attribute 'a', NaN became a string, as JSON has none",
        "in the attribute 'e', an infinity became a string, as JSON has none",
        "the attribute 'missing_value' is NaN and was left out",
    )


@pytest.mark.parametrize(
    ("dtype", "fill_value", "attributes", "expected"),
    [
        ("<i2", -9999, {}, -9999),
        (">i2", 0, {"_FillValue": -9999}, 0),
        ("<i2", None, {"_FillValue": -9999}, -9999),
        ("<i2", None, {}, None),
        ("|u1", 255.0, {}, 255),
        ("|b1", False, {}, False),
        ("<f4", "NaN", {}, "AAAAAAAA+H8="),
        (">f8", 1.5, {}, "AAAAAAAA+D8="),
        ("<f4", None, {"_FillValue": math.nan}, "AAAAAAAA+H8="),
        ("<c8", [1.5, "NaN"], {}, ["AAAAAAAA+D8=", "AAAAAAAA+H8="]),
        ("<M8[s]", "NaT", {}, None),
        ("|S2", "YQ==", {}, None),
    ],
)
def test_the_fill_value_is_what_xarray_takes_for_missing(
    dtype: str, fill_value: Any, attributes: dict[str, Any], expected: Any
) -> None:
    document = zarray(dtype=dtype, fill_value=fill_value)
    converted = convert_array(document, attributes | {"_ARRAY_DIMENSIONS": ["y", "x"]})
    assert converted.metadata["attributes"].get("_FillValue") == expected
    # xarray opens no others as Zarr v2, so that nobody took them for anything.
    unnamed = convert_array(document, attributes).metadata["attributes"]
    assert unnamed.keys() == attributes.keys()


def test_what_xarray_cannot_read_from_zarr_v3_is_left_out() -> None:
    zattrs = {"_ARRAY_DIMENSIONS": ["y", "x"], "_FillValue": "x"}
    converted = convert_array(zarray(dtype="|S1", fill_value=None), zattrs)
    assert converted.metadata["attributes"] == {}
    assert "'_FillValue' was left out: xarray cannot read it" in converted.notes[-1]


def test_the_input_stays_as_it_is() -> None:
    document = zarray(shape=[0, 4], chunks=[0, 4], filters=[{"id": "shuffle"}])
    zattrs = {"_ARRAY_DIMENSIONS": ["x", "y"]}
    before = json.dumps([document, zattrs])
    convert_array(document, zattrs)
    assert json.dumps([document, zattrs]) == before


def test_groups() -> None:
    nothing = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    assert convert_group(None) == convert_group({}) == nothing
    zattrs = {"_ARRAY_DIMENSIONS": 1, "a": math.nan}
    assert convert_group(zattrs)["attributes"] == {"_ARRAY_DIMENSIONS": 1, "a": "NaN"}


def test_the_error_is_a_manifest_error() -> None:
    error = NotConvertibleError("no", array="a")
    assert isinstance(error, ManifestError)
    assert str(error) == "not_convertible: no (array 'a')"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is NotConvertibleError
    assert str(copy) == str(error)


# ------------------------------------------------------------ anything

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
LENGTHS = st.lists(st.integers(0, 9), max_size=3)
TYPE_STRINGS = st.sampled_from(
    ["|b1", "|u1", "<i4", ">f8", "<c8", "<M8[s]", ">m8[ns]", "|S3", "<U2", "|V4", "|O", "<f16"]
)
FIELDS = st.tuples(st.sampled_from("abc"), TYPE_STRINGS)
STRUCTURES = st.lists(FIELDS | st.tuples(st.just("d"), TYPE_STRINGS, LENGTHS), max_size=3)
CODEC_IDS = (
    *("blosc", "zstd", "lz4", "gzip", "zlib", "bz2", "lzma", "shuffle", "delta", "bitround"),
    *("fixedscaleoffset", "quantize", "packbits", "astype", "crc32", "crc32c", "adler32"),
    *("fletcher32", "jenkins_lookup3", "pcodec", "zfpy", "vlen-utf8", "vlen-bytes"),
    *("vlen-array", "categorize", "json2", "pickle", "base64", "msgpack2", "nosuch"),
)
CODEC_MEMBERS = (
    *("level", "checksum", "cname", "clevel", "shuffle", "blocksize", "typesize", "elementsize"),
    *("dtype", "astype", "encode_dtype", "decode_dtype", "digits", "scale", "offset", "keepbits"),
    *("format", "filters", "preset", "location", "prefix", "id"),
)
CODECS = st.builds(
    lambda codec, members: {"id": codec} | members,
    st.sampled_from(CODEC_IDS),
    st.dictionaries(
        st.sampled_from(CODEC_MEMBERS), TYPE_STRINGS | st.integers(0, 9) | ANYTHING, max_size=4
    ),
)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "zarr_format": st.just(2) | ANYTHING,
    "shape": LENGTHS | ANYTHING,
    "chunks": LENGTHS | ANYTHING,
    "dtype": TYPE_STRINGS | STRUCTURES | ANYTHING,
    "order": st.sampled_from("CF") | ANYTHING,
    "fill_value": SCALARS | ANYTHING | st.sampled_from(["AAAA", "AAAAAA==", "NaN", "NaT"]),
    "filters": st.lists(CODECS, max_size=3) | ANYTHING,
    "compressor": CODECS | ANYTHING,
    "dimension_separator": st.sampled_from("./") | ANYTHING,
}


@pytest.mark.slow
@given(changes=st.fixed_dictionaries({}, optional=MEMBERS), zattrs=st.none() | ANYTHING)
@examples(3)
def test_any_document_is_converted_to_valid_metadata_or_refused(
    changes: dict[str, Any], zattrs: Any
) -> None:
    refused: NotConvertibleError | None = None
    try:
        converted = convert_array(zarray(**changes), zattrs, path="g/a")
    except NotConvertibleError as error:
        refused = error
    if refused is not None:
        assert refused.array == "g/a"
        assert len(str(refused)) < 1000
        return
    assert all(converted.notes)
    document = json.dumps(converted.metadata, allow_nan=False)
    if IS_CURRENT_ZARR or ('"struct"' not in document and "astype" not in document):
        ArrayV3Metadata.from_dict(json.loads(document))
