"""Metadata as VirtualiZarr 1.0.0 to 1.3.0 wrote it, repaired: the pure part, without stores."""

from __future__ import annotations

import copy
import json
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from tests.conversion.older_writers.older_writer_stores import RELEASES, SOURCES, metadata_of
from zarr_manifest.conversion.older_writers import repair_array
from zarr_manifest.errors import ManifestError, NotConvertibleError

DECLARED = [{"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}]


def array(**members: Any) -> dict[str, Any]:
    """Metadata of 5 × 6 float32 in chunks of 2 × 3, unless told otherwise."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5, 6],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": 0.0,
        "attributes": {},
        "dimension_names": ["y", "x"],
        "storage_transformers": copy.deepcopy(DECLARED),
    } | members


def numcodecs(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


BIG = {"name": "bytes", "configuration": {"endian": "big"}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZLIB = numcodecs("zlib", level=4)
SHUFFLE = numcodecs("shuffle", elementsize=4)
OFFSET = {"offset": 10.0, "scale": 2.0, "dtype": "<f4", "astype": ">i2"}


def open_with_zarr(metadata: dict[str, Any]) -> Any:
    visible = {k: v for k, v in metadata.items() if k != "storage_transformers"}
    document = json.dumps(visible, allow_nan=False).encode()
    store = MemoryStore({"zarr.json": default_buffer_prototype().buffer.from_bytes(document)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(store, mode="r", zarr_format=3)


# Defects, one by one --------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "lengths", "becomes", "says"),
    [
        ({"codecs": None}, [24], {"codecs": [LITTLE]}, "'codecs' was null"),
        ({"codecs": None}, [], {"codecs": [LITTLE]}, "there are no chunks"),
        ({"codecs": []}, [], {"codecs": [LITTLE]}, "'codecs' was empty"),
        (
            {"codecs": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}]},
            [11],
            {"codecs": [LITTLE, SHUFFLE, ZLIB]},
            "'codecs' were those of Zarr v2",
        ),
        (
            {"codecs": [{"id": "fixedscaleoffset", **OFFSET}, {"id": "zlib", "level": 4}]},
            [11],
            {"codecs": [numcodecs("fixedscaleoffset", **OFFSET), BIG, ZLIB]},
            "'codecs' were those of Zarr v2",
        ),
        ({"codecs": [ZLIB]}, [11], {"codecs": [LITTLE, ZLIB]}, "no codec turned"),
        (
            {"codecs": [LITTLE, numcodecs("zlib", id="zlib", level=4)]},
            [11],
            {"codecs": [LITTLE, ZLIB]},
            "'numcodecs.zlib' repeated its 'id'",
        ),
        (
            {"codecs": [LITTLE, numcodecs("fixedscaleoffset", **OFFSET), ZLIB]},
            [11],
            {"codecs": [numcodecs("fixedscaleoffset", **OFFSET), BIG, ZLIB]},
            "came after 'bytes', but works on elements",
        ),
        (
            {"codecs": [numcodecs("gzip", level=1), numcodecs("crc32c")]},
            [11],
            {
                "codecs": [
                    LITTLE,
                    {"name": "gzip", "configuration": {"level": 1}},
                    {"name": "crc32c"},
                ]
            },
            "no codec turned",
        ),
        (
            {"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, ZLIB]},
            [11],
            {"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE, ZLIB]},
            "no codec turned",
        ),
        (
            {"data_type": ">f4"},
            [],
            {"data_type": "float32", "codecs": [BIG]},
            "big-endian, which said 'little'",
        ),
        ({"fill_value": None}, [], {"fill_value": "NaN"}, "which stood for NaN"),
        ({"fill_value": math.nan}, [], {"fill_value": "NaN"}, "NaN, which JSON lacks"),
        ({"fill_value": -math.inf}, [], {"fill_value": "-Infinity"}, "which JSON lacks"),
        ({"data_type": "int32", "fill_value": None}, [], {"fill_value": 0}, "null became 0"),
        ({"data_type": "int32", "fill_value": 3.0}, [], {"fill_value": 3}, "3.0 became 3"),
        ({"data_type": "int32", "fill_value": math.nan}, [], {"fill_value": 0}, "NaN is no"),
        ({"data_type": "bool", "fill_value": 0.0}, [], {"fill_value": False}, "became False"),
        ({"data_type": "bool", "fill_value": 0}, [], {"fill_value": False}, "became False"),
        (
            {"data_type": "complex64", "fill_value": 0.0},
            [],
            {"fill_value": [0.0, 0.0]},
            "real part",
        ),
        (
            {"data_type": "datetime64[ns]", "fill_value": 0},
            [],
            {
                "data_type": {
                    "name": "numpy.datetime64",
                    "configuration": {"unit": "ns", "scale_factor": 1},
                },
                "fill_value": 0,
            },
            "'datetime64[ns]', which is not a Zarr v3 data type",
        ),
        (
            {
                "shape": [0, 6],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 6]}},
            },
            [],
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 6]}}},
            "the chunk length 0 in dimension 0",
        ),
        (
            {"attributes": {"range": [0.0, math.inf], "units": "K"}},
            [],
            {"attributes": {"units": "K", "range": [0.0, "Infinity"]}},
            "an infinity became a string",
        ),
        (
            {"attributes": {"_FillValue": math.nan}},
            [],
            {"attributes": {"_FillValue": "AAAAAAAA+H8="}},
            "was encoded for xarray",
        ),
        (
            {"attributes": {"SIMPLE": True, "BITPIX": -32}},
            [24],
            {"codecs": [BIG]},
            "comes from a FITS file",
        ),
    ],
)
def test_defects(
    members: dict[str, Any], lengths: list[int], becomes: dict[str, Any], says: str
) -> None:
    metadata = array(**members)
    before = copy.deepcopy(metadata)
    repaired = repair_array(metadata, chunk_lengths=lengths, path="a")
    assert repr(metadata) == repr(before)
    assert repaired.metadata == {**before, **becomes}
    assert says in " ".join(repaired.repairs)
    assert not any("array 'a'" in sentence for sentence in repaired.repairs)
    open_with_zarr(repaired.metadata)


@pytest.mark.parametrize(
    ("members", "lengths", "says"),
    [
        ({"codecs": None}, [24, 23], "a chunk has 23 bytes, but the stated codecs yield 24"),
        ({"codecs": [{"id": "shuffle"}]}, [17], "the compressor was not recorded"),
        ({"codecs": []}, [17], "a chunk has 17 bytes, but the stated codecs yield 24"),
        ({"codecs": [numcodecs("zlib", id="lz4")]}, [], "did not write this"),
        (
            {"codecs": [LITTLE, LITTLE]},
            [],
            "did not write this: member 'codecs' contains {'configuration'",
        ),
        ({"codecs": [{"id": "lzf"}]}, [], "'lzf'"),
        ({"codecs": [{"id": "pickle"}]}, [], "runs code"),
        ({"codecs": [ZLIB, numcodecs("delta", dtype="<f4")]}, [], "comes after one"),
        ({"codecs": [numcodecs("delta", dtype="<f8")]}, [], "but the codec gets elements"),
        ({"codecs": None, "data_type": "object"}, [], "'|O'"),
        (
            {"codecs": None, "data_type": {"name": "numpy.void"}},
            [],
            "did not write this: Expected `str`",
        ),
        ({"data_type": "int8", "fill_value": 300.0}, [], "300.0"),
        ({"data_type": "bool", "fill_value": 0.5}, [], "0.5"),
        ({"codecs": [{"name": "no-such-codec"}]}, [], "no-such-codec"),
        ({"node_type": "group"}, [], "zarr cannot open"),
    ],
)
def test_refusals(members: dict[str, Any], lengths: list[int], says: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(says)):
        repair_array(array(**members), chunk_lengths=lengths, path="a")


@pytest.mark.parametrize(
    "members",
    [
        {"fill_value": "NaN"},
        {"fill_value": 1},
        {"codecs": [{"name": "bytes"}], "data_type": "uint8", "fill_value": 0},
        {"codecs": [BIG]},
        {"codecs": [BIG], "attributes": {"SIMPLE": True, "BITPIX": -32}},
        {"codecs": [numcodecs("delta", dtype="<f4"), LITTLE, SHUFFLE, ZLIB]},
        {
            "codecs": [
                {
                    "name": "sharding_indexed",
                    "configuration": {
                        "chunk_shape": [1, 3],
                        "codecs": [LITTLE],
                        "index_codecs": [LITTLE, {"name": "crc32c"}],
                    },
                }
            ]
        },
        {
            "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}},
            "fill_value": "",
        },
        {"attributes": {"_FillValue": -1.0}},
    ],
)
def test_valid_metadata_stays(members: dict[str, Any]) -> None:
    metadata = array(**members)
    repaired = repair_array(metadata)
    assert (repaired.metadata, repaired.repairs) == (metadata, ())


# Rules ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("release", RELEASES)
def test_what_is_repaired_is_valid_and_stays(release: str, source: str) -> None:
    for path, (metadata, lengths) in metadata_of(release, source).items():
        try:
            repaired = repair_array(metadata, chunk_lengths=lengths, path=path)
        except NotConvertibleError:
            assert (release, source) == ("1.0.0", "references.json")
            continue
        open_with_zarr(repaired.metadata)
        again = repair_array(repaired.metadata, chunk_lengths=lengths)
        assert (again.metadata, again.repairs) == (repaired.metadata, ())


NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["NaN", "Infinity", "NaT", "", "AAA=", "0x7fc00000", "x"]),
    st.lists(st.floats() | st.just("NaN"), max_size=3),
)
DATA_TYPES = st.one_of(
    st.sampled_from(["bool", "int8", "uint16", "int64", "float16", "float32", "complex128"]),
    st.sampled_from([">f4", "<f8", ">i2", "|S3", "<U2", ">U1", "|V4", "<M8[s]", ">m8[10us]"]),
    st.sampled_from(["datetime64[ns]", "timedelta64[D]", "datetime64", "object", "|O", "string"]),
    st.sampled_from([{"name": "raw_bytes", "configuration": {"length_bytes": 4}}, 7, ">f16"]),
)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "zlib": {"level": 1},
    "shuffle": {"elementsize": 4},
    "gzip": {"level": 1},
    "zstd": {"level": 1},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "lz4": {"acceleration": 1},
    "fletcher32": {},
    "crc32c": {},
    "delta": {"dtype": "<f4", "astype": "<f4"},
    "fixedscaleoffset": OFFSET,
    "bitround": {"keepbits": 3},
    "packbits": {},
    "vlen-utf8": {},
    "pcodec": {"level": 1},
    "unheard_of": {},
}


@st.composite
def codec(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(list(CONFIGURATIONS)))
    configuration = dict(CONFIGURATIONS[name])
    dtype = draw(st.sampled_from(["<f4", ">f4", "<i2", "<f8"]))
    for member in {"dtype", "astype"} & set(configuration):
        configuration[member] = dtype
    form = draw(st.sampled_from(["v2", "numcodecs", "with id", "own"]))
    if form == "v2":
        return {"id": name, **configuration}
    if form == "with id":
        configuration["id"] = name
    return {"name": name if form == "own" else f"numcodecs.{name}", "configuration": configuration}


BYTES = st.sampled_from(["bytes", {"name": "bytes"}, LITTLE, BIG])
TRANSPOSE = st.sampled_from([[0, 1], [1, 0], [0], "F"]).map(
    lambda order: {"name": "transpose", "configuration": {"order": order}}
)
CODECS = st.none() | st.lists(codec() | BYTES | TRANSPOSE | st.just(3), max_size=4)


@given(
    data_type=DATA_TYPES,
    codecs=CODECS,
    fill_value=NUMBERS,
    lengths=st.lists(st.sampled_from([6, 12, 24, 28, 48]), max_size=2),
    attribute=st.floats(),
)
def test_the_result_is_valid_or_refused(
    data_type: Any, codecs: Any, fill_value: Any, lengths: Any, attribute: float
) -> None:
    metadata = array(
        data_type=data_type, codecs=codecs, fill_value=fill_value, attributes={"a": attribute}
    )
    before = repr(metadata)
    try:
        repaired = repair_array(metadata, chunk_lengths=lengths, path="a")
    except ManifestError:
        return  # refused: any other error would be a failure
    finally:
        assert repr(metadata) == before
    found = open_with_zarr(repaired.metadata)
    assert found.shape == (5, 6)
    if not repaired.repairs:
        assert repaired.metadata == metadata
    again = repair_array(repaired.metadata, chunk_lengths=lengths, path="a")
    assert (again.metadata, again.repairs) == (repaired.metadata, ())


@given(
    dtype=st.sampled_from([">f4", "<f4", ">i2", "<i8", "|u1", "|b1"]),
    filters=st.lists(st.sampled_from(["shuffle", "fletcher32"]), max_size=2, unique=True),
    compressor=st.sampled_from([None, "zlib", "zstd", "blosc", "lz4"]),
    order=st.sampled_from("CF"),
)
def test_every_release_meant_the_same(
    dtype: str, filters: list[str], compressor: str | None, order: str
) -> None:
    """One array of Zarr v2, as the releases put it, becomes the same metadata."""
    steps = [*filters, *([compressor] if compressor else [])]
    name = str(np.dtype(dtype))
    axes = [{"name": "transpose", "configuration": {"order": [1, 0]}}] if order == "F" else []
    with_id = [numcodecs(step, id=step, **CONFIGURATIONS[step]) for step in steps]
    without = [numcodecs(step, **CONFIGURATIONS[step]) for step in steps]
    as_v2 = [{"id": step, **CONFIGURATIONS[step]} for step in steps]
    fill_value = 0.0 if dtype[1] == "f" else False if dtype[1] == "b" else 0
    forms = [[*axes, LITTLE, *with_id], [*axes, *without]]
    if order == "C":
        forms.append(as_v2)
    size = 6 * np.dtype(dtype).itemsize + 4 * ("fletcher32" in filters)
    found = [
        repair_array(
            array(data_type=name, codecs=codecs, fill_value=fill_value),
            chunk_lengths=[] if compressor else [size],
        ).metadata
        for codecs in forms
    ]
    first = found[0]["codecs"]
    if steps or dtype[0] == ">":
        assert all(metadata == found[0] for metadata in found)
    # Nothing was wrong with `bytes` alone, which may state an order that is of no meaning.
    assert [item["name"] for item in found[1]["codecs"]] == [item["name"] for item in first]
    assert open_with_zarr(found[0]).dtype == np.dtype(dtype).newbyteorder("=")
