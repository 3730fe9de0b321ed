"""Zarr v2 order, filters and compressors, read through the converted metadata as in v2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.zarr2.zarr2_arrays import (
    IS_CURRENT_ZARR,
    Array,
    assert_same,
    has_codec,
    write,
    zarray,
)
from tests.properties import examples
from zarr_manifest.conversion.zarr2 import ArrayPlan, convert_array
from zarr_manifest.errors import NotConvertibleError

type Config = dict[str, Any]

ZLIB = {"id": "zlib", "level": 1}
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
XZ = {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None}
RAW_LZMA = {"id": "lzma", "format": 3, "check": -1, "preset": None, "filters": [{"id": 33}]}
JENKINS = {"id": "jenkins_lookup3", "initval": 0, "prefix": None}
BYTES_CODECS: list[Config] = [
    *({"id": "zlib", "level": level} for level in (-1, 0, 9)),
    *({"id": "gzip", "level": level} for level in (0, 9)),
    *({"id": "zstd", "level": level} for level in (-5, 0, 22)),
    *({"id": "zstd", "level": 1, "checksum": checksum} for checksum in (True, False)),
    *({"id": "bz2", "level": level} for level in (1, 9)),
    *({"id": "shuffle", "elementsize": size} for size in (0, 1, 4, 8)),
    *({"id": codec} for codec in ("lz4", "shuffle", "fletcher32", "adler32", "crc32", "crc32c")),
    *(BLOSC | {"cname": name} for name in ("lz4hc", "blosclz", "zlib", "zstd")),
    *(BLOSC | {"shuffle": shuffle} for shuffle in (-1, 0, 1, 2)),
    *({"id": "crc32c", "location": where} for where in ("start", "end")),
    *({"id": "adler32", "location": where} for where in ("start", "end")),
    *(BLOSC | {"blocksize": 64}, {"id": "blosc"}, XZ, XZ | {"preset": 1}, RAW_LZMA, JENKINS),
]


def counting(dtype: str) -> Array:
    numbers = np.arange(20).reshape(4, 5)
    return numbers % 3 == 0 if dtype == "|b1" else numbers.astype(dtype)


def convert(**members: Any) -> ArrayPlan:
    return convert_array(zarray(**members), None, path="a")


def codec_names(converted: ArrayPlan) -> list[str]:
    return [codec["name"] for codec in converted.metadata["codecs"]]


def check(**members: Any) -> None:
    """Let zarr write as v2, and compare what it reads from that in both ways.

    Two chunks, one of which overhangs the edge: zarr takes a thread for every codec and
    chunk, so that the number of chunks is what the tests cost.
    """
    document = zarray(**{"shape": [4, 5], "chunks": [4, 4]} | members)
    written = write(document, counting(members["dtype"]))
    assert_same(written.read_v3(), written.read_v2())


# ------------------------------------------------------------ bytes to bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bz2", "zlib", "lzma"])
def test_codecs_of_imagecodecs_for_which_there_are_others(name: str) -> None:
    check(dtype="<f8", order="C", compressor={"id": f"imagecodecs_{name}"})


@pytest.mark.slow
@pytest.mark.parametrize("codec", BYTES_CODECS, ids=str)
def test_bytes_codecs_in_both_placements(codec: Config) -> None:
    if not has_codec(codec["id"]):
        pytest.skip("this numcodecs lacks it")
    check(dtype=">i4", order="F", compressor=codec)
    check(dtype="<f8", order="C", filters=[codec])
    check(dtype="<i2", order="F", filters=[{"id": "shuffle"}, codec], compressor=ZLIB)


@pytest.mark.parametrize(
    ("config", "codec"),
    [
        ({"id": "gzip"}, {"name": "gzip", "configuration": {"level": 1}}),
        ({"id": "gzip", "level": -1}, {"name": "gzip", "configuration": {"level": 6}}),
        ({"id": "zstd"}, {"name": "zstd", "configuration": {"level": 0, "checksum": False}}),
        ({"id": "crc32c"}, {"name": "crc32c"}),
        (
            {"id": "crc32c", "location": "start"},
            {"name": "numcodecs.crc32c", "configuration": {"location": "start"}},
        ),
        ({"id": "zlib"}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}),
        ({"id": "shuffle"}, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}),
        (
            # As VirtualiZarr writes it.
            {"id": "blosc", "shuffle": "bitshuffle"},
            {
                "name": "blosc",
                "configuration": {
                    "typesize": 8,
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "bitshuffle",
                    "blocksize": 0,
                },
            },
        ),
        ({"id": "bz2", "level": 9.0}, {"name": "numcodecs.bz2", "configuration": {"level": 9}}),
    ],
)
def test_an_equal_codec_of_zarr_is_taken_where_there_is_one(config: Config, codec: Config) -> None:
    converted = convert(compressor=config)
    assert converted.metadata["codecs"][-1] == codec
    assert converted.notes == ()


@pytest.mark.parametrize(
    ("dtype", "filters", "typesize"),
    [
        ("<f8", None, 8),
        ("|u1", None, 1),
        ("|S300", None, 1),
        ("<f8", [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}], 4),
        ("<f8", [{"id": "shuffle", "elementsize": 8}], 1),
        ("|O", [{"id": "vlen-utf8"}], 1),
    ],
)
def test_blosc_gets_the_size_of_its_input_elements(dtype: str, filters: Any, typesize: int) -> None:
    members = {"dtype": dtype, "filters": filters, "fill_value": None}
    auto = convert(**members, compressor=BLOSC | {"shuffle": -1}).metadata["codecs"][-1]
    assert auto["configuration"]["typesize"] == typesize
    assert auto["configuration"]["shuffle"] == ("bitshuffle" if typesize == 1 else "shuffle")
    stated = convert(**members, compressor=BLOSC | {"typesize": 2}).metadata["codecs"][-1]
    assert stated["configuration"] | {"blocksize": 0, "cname": "lz4", "clevel": 5} == {
        "typesize": 2,
        "shuffle": "shuffle",
        "blocksize": 0,
        "cname": "lz4",
        "clevel": 5,
    }


@pytest.mark.parametrize(
    ("config", "member", "nearest"),
    [
        ({"id": "gzip", "level": 12}, "level", 9),
        ({"id": "zlib", "level": 10}, "level", 9),
        ({"id": "zlib", "level": -7}, "level", -1),
        ({"id": "bz2", "level": 0}, "level", 1),
        ({"id": "zstd", "level": 23}, "level", 22),
        ({"id": "lz4", "acceleration": 0}, "acceleration", 1),
        (BLOSC | {"clevel": 11}, "clevel", 9),
    ],
)
def test_levels_are_moved_into_their_range(config: Config, member: str, nearest: int) -> None:
    converted = convert(compressor=config)
    assert converted.metadata["codecs"][-1]["configuration"][member] == nearest
    assert converted.notes == (
        f"member {member!r} of codec {config['id']!r} became {nearest}, because "
        f"{config[member]} is out of range; it does not affect reading",
    )


def test_members_that_numcodecs_would_reject_are_left_out() -> None:
    converted = convert(compressor={"id": "zlib", "level": 4, "wbits": 15, "name": "deflate"})
    assert converted.metadata["codecs"][-1]["configuration"] == {"level": 4}
    assert converted.notes == ("codec 'zlib' has no member 'name', 'wbits'; left out",)


# ------------------------------------------------------------ array to array


def array_filters(o: str) -> list[tuple[str, list[Config]]]:
    i2, i4, i8, u4, f4, f8 = (o + code for code in ("i2", "i4", "i8", "u4", "f4", "f8"))
    scale = {"id": "fixedscaleoffset", "offset": 0.5, "scale": 10, "dtype": f8}
    quantize = {"id": "quantize", "digits": 1, "dtype": f8}
    delta = {"id": "delta", "dtype": i4}
    narrow = {"id": "astype", "encode_dtype": f4, "decode_dtype": f8}
    return [
        (i4, [delta]),
        (i4, [delta | {"astype": i4}]),
        (i4, [delta | {"astype": i2}]),
        (i4, [delta | {"astype": "|i1"}]),
        (i4, [delta | {"dtype": u4}]),
        (f"{o}M8[ns]", [delta | {"dtype": i8}]),
        (f"{o}m8[s]", [delta | {"dtype": i8, "astype": i4}]),
        (f8, [scale]),
        (f8, [scale | {"astype": "|u1", "offset": 0, "scale": 1}]),
        (f8, [scale | {"astype": i2}]),
        (f8, [scale | {"astype": "<i2"}]),
        (f8, [quantize]),
        (f8, [quantize | {"astype": f4}]),
        (f8, [narrow]),
        (f8, [narrow | {"encode_dtype": "<f4"}]),
        (f8, [narrow | {"encode_dtype": "|i1"}]),
        (f8, [quantize, scale | {"astype": i4}, delta | {"astype": i2}]),
        (f8, [scale | {"astype": i2}, {"id": "shuffle", "elementsize": 2}]),
    ]


PACKED: list[tuple[str, list[Config]]] = [
    ("|b1", [{"id": "packbits"}]),
    ("|b1", [{"id": "packbits"}, {"id": "delta", "dtype": "|u1"}]),
    ("|u1", [{"id": "delta", "dtype": "|u1"}]),
    # numcodecs rounds no big-endian numbers.
    ("<f4", [{"id": "bitround", "keepbits": 7}]),
    ("<f8", [{"id": "bitround", "keepbits": 7}, BLOSC]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "filters"), [*array_filters("<"), *array_filters(">"), *PACKED], ids=str
)
def test_array_filters(dtype: str, filters: list[Config]) -> None:
    # blosc asks what size the elements have that it is given, other compressors do not
    check(dtype=dtype, filters=filters, order="C")
    check(dtype=dtype, filters=filters, order="F", compressor=BLOSC)


@pytest.mark.skipif(not IS_CURRENT_ZARR, reason="zarr 3.1 takes the byte order away")
@pytest.mark.parametrize("encoded", ["<i4", ">i4"])
def test_single_bytes_that_are_stored_wider(encoded: str) -> None:
    wider = {"id": "astype", "encode_dtype": encoded, "decode_dtype": "|i1"}
    check(dtype="|i1", filters=[wider], order="F")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i2", "<i4", "<u8", "<f4", "<f8"])
def test_array_to_bytes_codecs(dtype: str, order: str) -> None:
    if not has_codec("pcodec"):
        pytest.skip("pcodec is not installed")
    check(dtype=dtype, order=order, filters=[{"id": "pcodec", "level": 8}])
    delta = {"id": "delta", "dtype": dtype}
    check(dtype=dtype, order=order, filters=[delta], compressor={"id": "pcodec"})
    check(dtype=dtype, order=order, filters=[{"id": "pcodec"}], compressor=ZLIB)


ZFPY = {"id": "zfpy", "mode": 4, "tolerance": 1e-3, "rate": -1, "precision": -1}


def test_zfpy() -> None:
    if not has_codec("zfpy"):
        pytest.skip("zfpy is not installed")
    check(dtype="<f4", compressor=ZFPY | {"compression_kwargs": {"tolerance": 1e-3}})


@pytest.mark.parametrize("config", [ZFPY, {"id": "pcodec", "level": 8, "mode_spec": "auto"}])
def test_array_to_bytes_codecs_take_the_place_of_bytes(config: Config) -> None:
    converted = convert(dtype="<f4", filters=[config], compressor=ZLIB)
    assert codec_names(converted) == [f"numcodecs.{config['id']}", "numcodecs.zlib"]
    members = {member: value for member, value in config.items() if member != "id"}
    assert converted.metadata["codecs"][0]["configuration"] == members


# ------------------------------------------------------------ objects


@pytest.mark.parametrize("compressor", [None, ZLIB, BLOSC, {"id": "zstd", "level": 1}])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("codec", "elements", "data_type"),
    [("vlen-utf8", ["", "é", "long " * 9], "string"), ("vlen-bytes", [b"", b"\0", b"x"], "bytes")],
)
def test_objects_of_any_length(
    codec: str, elements: list[Any], data_type: str, order: str, compressor: Any
) -> None:
    data = np.array(elements, dtype=object)[np.arange(30).reshape(5, 6) % 3]
    document = zarray(
        dtype="|O", order=order, filters=[{"id": codec}], compressor=compressor, fill_value=""
    )
    written = write(document, data, (slice(None), slice(6)))
    assert_same(written.read_v3(), written.read_v2())
    assert convert_array(document, None).metadata["data_type"] == data_type


def test_objects_with_more_filters_or_in_the_place_of_the_compressor() -> None:
    data = np.array(["a", "bc"], dtype=object)[np.arange(35).reshape(5, 7) % 2]
    utf8 = {"id": "vlen-utf8"}
    for filters, compressor in ([utf8, ZLIB, {"id": "adler32"}], BLOSC), (None, utf8):
        document = zarray(dtype="|O", filters=filters, compressor=compressor, fill_value="")
        written = write(document, data)
        assert_same(written.read_v3(), written.read_v2())


# ------------------------------------------------------------ any combination


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[str, list[Config]]:
    order = draw(st.sampled_from("<>"))
    start = st.sampled_from([*array_filters(order), *PACKED, ("<c8", []), ("|S3", []), (">U2", [])])
    dtype, filters = draw(start)
    # shuffle takes only whole elements, and a checksum leaves another number of bytes
    anywhere = [c for c in BYTES_CODECS if has_codec(c["id"]) and c["id"] != "shuffle"]
    return dtype, [*filters, *draw(st.lists(st.sampled_from(anywhere), max_size=3))]


@pytest.mark.slow
@given(
    pipeline=pipelines(),
    is_compressor_null=st.booleans(),
    order=st.sampled_from("CF"),
    separator=st.sampled_from("./"),
    shape=st.lists(st.integers(0, 4), max_size=3),
    data=st.data(),
)
@examples(1.5)
def test_any_pipeline_over_any_grid(
    pipeline: tuple[str, list[Config]],
    is_compressor_null: bool,
    order: str,
    separator: str,
    shape: list[int],
    data: st.DataObject,
) -> None:
    dtype, steps = pipeline
    compressor = steps[-1] if steps and not is_compressor_null else None
    filters = steps[:-1] if compressor else steps
    chunks = [data.draw(st.integers(min(n, 2) or 1, 5)) for n in shape]
    document = zarray(
        dtype=dtype,
        order=order,
        shape=shape,
        chunks=chunks,
        filters=filters or None,
        compressor=compressor,
        dimension_separator=separator,
        fill_value=None,
    )
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 90
    written = write(document, numbers % 2 == 0 if dtype == "|b1" else numbers.astype(dtype))
    for key in list(written.chunks):
        if data.draw(st.booleans(), label=f"chunk {key} is missing"):
            del written.chunks[key]
    assert_same(written.read_v3(), written.read_v2())


# ------------------------------------------------------------ the list of codecs


@pytest.mark.parametrize(
    ("shape", "order", "transposed"),
    [([], "F", None), ([4], "F", None), ([4, 4], "C", None), ([4, 4, 4], "F", [2, 1, 0])],
)
def test_f_order_is_a_transposition_before_everything_else(
    shape: list[int], order: str, transposed: list[int] | None
) -> None:
    delta = {"id": "delta", "dtype": "<f8"}
    converted = convert(shape=shape, chunks=shape, order=order, filters=[delta], compressor=ZLIB)
    assert codec_names(converted)[-3:] == ["numcodecs.delta", "bytes", "numcodecs.zlib"]
    first = converted.metadata["codecs"][0]
    if transposed is None:
        assert first["name"] == "numcodecs.delta"
    else:
        assert first == {"name": "transpose", "configuration": {"order": transposed}}


@pytest.mark.parametrize(
    ("dtype", "endian"),
    [
        *(("|u1", None), ("|b1", None), ("|S3", None), ("|V3", None)),
        *(("<f4", "little"), (">f4", "big"), ("<U2", "little"), (">U2", "big"), (">c16", "big")),
        *(("<M8[s]", "little"), ([["a", "|S3"]], "little"), ([["a", ">i2"]], "big")),
    ],
)
def test_byte_order_is_stated_where_it_matters(dtype: Any, endian: str | None) -> None:
    (codec,) = convert(dtype=dtype, fill_value=None).metadata["codecs"]
    assert codec["name"] == "bytes"
    assert codec.get("configuration", {}).get("endian") == endian


@pytest.mark.parametrize("members", [("filters",), ("compressor",), ("filters", "compressor")])
def test_missing_filters_and_compressors_are_null(members: tuple[str, ...]) -> None:
    document = zarray()
    for member in members:
        del document[member]
    converted = convert_array(document, None, path="a")
    assert converted.metadata == convert_array(zarray(), None).metadata
    assert converted.notes == tuple(
        f"member {member!r} is missing; taken as null" for member in members
    )
    assert convert(filters=[]).metadata == convert().metadata


# ------------------------------------------------------------ refusals

I4_DELTA = {"id": "delta", "dtype": "<i4"}
SCALE = {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<f8"}


PREDICTOR = {"id": "imagecodecs_delta", "dtype": "<f8", "shape": [2, 4]}


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([PREDICTOR | {"dtype": None}], "member 'dtype' of codec 'imagecodecs_delta'"),
        ([PREDICTOR | {"dtype": "<f4"}], "but the codec gets elements of type '<f8'"),
        ([PREDICTOR | {"shape": [2, "4"]}], "must be a list of positive integers"),
        ([PREDICTOR | {"axis": None}], "member 'axis'"),
        ([{"id": "imagecodecs_jpeg", "tables": {}}], "member 'tables'"),
        (7, "member 'filters' is not a list"),
        (["zlib"], "filter 0 is not a JSON object"),
        ([ZLIB, None], "filter 1 is not a JSON object"),
        ([{}], "filter 0 does not name a codec: its member 'id' is missing"),
        ([{"id": None}], "its member 'id' is None"),
        ([{"id": ["zlib"]}], "its member 'id' is ['zlib']"),
        *(
            ([{"id": codec}], f"codec '{codec}' cannot be converted: {reason}")
            for codec, reason in [
                ("categorize", "it maps labels"),
                ("json2", "it stores Python objects as JSON"),
                ("msgpack2", "it stores Python objects as MessagePack"),
                ("pickle", "unpickling runs code"),
                ("vlen-array", "there is no Zarr v3 data type for variable-length arrays"),
                ("base64", "there is no Zarr v3 codec for it"),
                ("grib", "only kerchunk decodes it; make a hierarchy of the GRIB file"),
                ("", "no Zarr v3 codec is known"),
            ]
        ),
        ([ZLIB, {"id": "delta", "dtype": "<f8"}], "codec 'delta' works on array elements"),
        ([ZLIB, {"id": "pcodec"}], "codec 'pcodec' works on array elements"),
        ([{"id": "pcodec"}, {"id": "pcodec"}], "codec 'pcodec' works on array elements"),
        ([{"id": "vlen-utf8"}], "codec 'vlen-utf8' encodes objects"),
        ([I4_DELTA], "member 'dtype' of codec 'delta' is '<i4', but"),
        ([I4_DELTA | {"dtype": ">f8"}], "is '>f8', but the codec gets elements of type"),
        ([{"id": "delta"}], "member 'dtype' of codec 'delta' must be a numpy type string"),
        ([I4_DELTA | {"dtype": "|O"}], "a type of numbers or times; it is '|O'"),
        ([I4_DELTA | {"dtype": "i4,i4"}], "a type of numbers or times"),
        ([I4_DELTA | {"dtype": "}"}], "a numpy type string"),
        ([SCALE | {"scale": "10"}], "member 'scale' of codec 'fixedscaleoffset' must be a number"),
        ([SCALE | {"scale": float("nan")}], "must be a finite number"),
        ([{"id": "fixedscaleoffset", "dtype": "<f8", "scale": 1}], "'offset' of codec"),
        ([{"id": "quantize", "dtype": "<f8"}], "member 'digits' of codec 'quantize'"),
        ([{"id": "quantize", "digits": 1, "dtype": "<i8"}], "only for floating-point numbers"),
        ([{"id": "bitround"}], "member 'keepbits' of codec 'bitround'"),
        ([{"id": "packbits"}], "only for booleans"),
        ([{"id": "astype", "decode_dtype": "<f8"}], "member 'encode_dtype' of codec 'astype'"),
        ([{"id": "zlib", "level": "4"}], "member 'level' of codec 'zlib' must be an integer"),
        ([{"id": "zlib", "level": True}], "member 'level' of codec 'zlib' must be an integer"),
        ([{"id": "zstd", "checksum": 1}], "member 'checksum' of codec 'zstd'"),
        ([BLOSC | {"cname": "lzo"}], "member 'cname' of codec 'blosc' must be one of blosclz"),
        ([BLOSC | {"shuffle": 3}], "member 'shuffle' of codec 'blosc' must be -1, 0, 1 or 2"),
        ([{"id": "crc32", "location": "middle"}], "must be one of end, start"),
        ([{"id": "jenkins_lookup3", "prefix": "x"}], "member 'prefix'"),
        ([{"id": "lzma", "filters": 7}], "member 'filters' of codec 'lzma'"),
        ([{"id": "lzma", "filters": [7]}], "member 'filters' of codec 'lzma'"),
        ([{"id": "shuffle", "elementsize": -1}], "member 'elementsize' of codec 'shuffle'"),
        ([{"id": "pcodec", "level": [8]}], "member 'level' of codec 'pcodec'"),
    ],
)
def test_pipelines_that_cannot_be_expressed(filters: Any, reason: str) -> None:
    with pytest.raises(NotConvertibleError) as caught:
        convert(filters=filters)
    assert reason in caught.value.problem
    assert caught.value.array == "a"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"dtype": ">f8", "filters": [{"id": "pcodec"}]}, "little-endian"),
        ({"dtype": "|u1", "filters": [{"id": "pcodec"}]}, "not '|u1'"),
        ({"dtype": "<f8", "order": "F", "compressor": ZFPY}, "order 'F'"),
        ({"dtype": "<i4", "filters": [{"id": "bitround", "keepbits": 3}]}, "floating-point"),
        ({"dtype": "|S4", "filters": [I4_DELTA]}, "gets elements of type '|S4'"),
        ({"dtype": [["a", "<i4"]], "filters": [I4_DELTA]}, "gets elements of type"),
        ({"dtype": [["a", "<i4"]], "filters": [{"id": "vlen-utf8"}]}, "structured"),
        ({"dtype": "|O", "filters": [ZLIB, {"id": "vlen-utf8"}]}, "codec 'zlib' comes before"),
        ({"dtype": "|O", "filters": [I4_DELTA, {"id": "vlen-utf8"}]}, "gets elements of type '|O'"),
        ({"dtype": "|O", "filters": [{"id": "vlen-utf8"}, I4_DELTA]}, "'delta' works on"),
        ({"dtype": "|O"}, "Python objects"),
        ({"dtype": "|O", "filters": [{"id": "json2"}]}, "codec 'json2' cannot be converted"),
        ({"dtype": "|O", "compressor": {"id": "pickle"}}, "codec 'pickle' cannot"),
        ({"compressor": "zlib"}, "member 'compressor' is not a JSON object"),
        ({"compressor": [ZLIB]}, "member 'compressor' is not a JSON object"),
        ({"compressor": {"id": None}}, "member 'compressor' does not name a codec"),
    ],
)
def test_arrays_whose_codecs_do_not_fit(members: Config, reason: str) -> None:
    with pytest.raises(NotConvertibleError) as caught:
        convert(**{"fill_value": None} | members)
    assert reason in caught.value.problem
