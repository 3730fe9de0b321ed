"""numcodecs that work on the elements of an array, as Zarr v3 codecs.

numcodecs name the type before and after each filter, including byte order, and interpret
a chunk as that type without checking it. In v3, codecs pass data types on instead. So here
each filter must start from the type that the one before it (or the array) has; otherwise
a cast that keeps every bit is inserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from zarr_manifest.conversion.zarr2.bytes_codecs import CodecMembers

__all__ = ["ARRAY_FILTERS", "ARRAY_TO_BYTES"]

type Codec = dict[str, object]
type Converted = tuple[list[Codec], np.dtype[Any]]


def _named(name: str, configuration: dict[str, object]) -> Codec:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


def _cast(decoded: np.dtype[Any], encoded: np.dtype[Any]) -> Codec:
    return _named("astype", {"encode_dtype": encoded.str, "decode_dtype": decoded.str})


def _as_type(
    members: CodecMembers, member: str, current: np.dtype[Any], needed: np.dtype[Any]
) -> list[Codec]:
    """Return what has to precede a filter that interprets elements as type `needed`."""
    if needed == current:
        return []
    is_same_size = needed.itemsize == current.itemsize and needed.str[0] == current.str[0]
    kinds = {needed.kind, current.kind}
    # Casts between integers of one size, and between times and signed integers, keep the bits.
    if is_same_size and (kinds <= set("iu") or kinds <= set("im") or kinds <= set("iM")):
        return [_cast(current, needed)]
    raise members.decisions.refusal(
        f"member {member!r} of codec {members.codec!r} is {needed.str!r}, but the codec gets "
        f"elements of type {current.str!r}"
    )


def _delta(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(("dtype", "astype"))
    decoded = members.dtype("dtype")
    encoded = members.dtype("astype", decoded)
    before = _as_type(members, "dtype", current, decoded)
    configuration: dict[str, object] = {"dtype": decoded.str, "astype": encoded.str}
    return [*before, _named("delta", configuration)], encoded


def _fixed_scale_offset(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(("offset", "scale", "dtype", "astype"))
    decoded = members.dtype("dtype")
    encoded = members.dtype("astype", decoded)
    before = _as_type(members, "dtype", current, decoded)
    configuration: dict[str, object] = {
        "offset": members.number("offset"),
        "scale": members.number("scale"),
        "dtype": decoded.str,
        "astype": encoded.str,
    }
    return [*before, _named("fixedscaleoffset", configuration)], encoded


def _quantize(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(("digits", "dtype", "astype"))
    decoded = members.dtype("dtype")
    encoded = members.dtype("astype", decoded)
    if decoded.kind != "f" or encoded.kind != "f":
        raise members.decisions.refusal("codec 'quantize' is only for floating-point numbers")
    before = _as_type(members, "dtype", current, decoded)
    configuration: dict[str, object] = {
        "digits": members.integer("digits", 0),
        "dtype": decoded.str,
    }
    if "digits" not in members.config:
        raise members.refusal("digits", "an integer")
    codecs = [*before, _named("quantize", configuration)]
    if encoded != decoded or encoded.str[0] == ">":
        # zarr's codec does not declare that it changes the type, or that its elements are
        # big-endian; decoding is nothing but this cast.
        codecs.append(_cast(decoded, encoded))
    return codecs, encoded


def _bit_round(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(("keepbits",))
    if current.kind != "f":
        raise members.decisions.refusal("codec 'bitround' is only for floating-point numbers")
    keepbits = members.integer("keepbits", -1)
    if keepbits < 0:
        raise members.refusal("keepbits", "an integer of at least 0")
    return [_named("bitround", {"keepbits": keepbits})], current


def _pack_bits(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(())
    if current.kind != "b":
        raise members.decisions.refusal("codec 'packbits' is only for booleans")
    return [_named("packbits", {})], np.dtype("u1")


def _astype(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(("encode_dtype", "decode_dtype"))
    decoded = members.dtype("decode_dtype")
    encoded = members.dtype("encode_dtype")
    return [*_as_type(members, "decode_dtype", current, decoded), _cast(decoded, encoded)], encoded


def _predictor(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    """Convert a predictor of imagecodecs, which virtual-tiff registers by the same name."""
    members.drop_all_but(("shape", "dtype", "axis", "dist"))
    dtype = members.dtype("dtype")
    before = _as_type(members, "dtype", current, dtype)
    if dtype.str[0] == ">" and (members.codec != "imagecodecs_delta" or not HAS_ALL_BYTE_ORDERS):
        raise members.decisions.refusal(
            f"codec {members.codec!r} does not decode big-endian elements in Zarr v3"
        )
    members.note_package("virtual-tiff")
    configuration: dict[str, object] = {
        # Zarr v3 has elements in native byte order between its codecs.
        "dtype": dtype.newbyteorder("=").str,
        "axis": members.integer("axis", -1),
        "dist": members.integer("dist", 1),
    }
    if members.config.get("shape") is not None:
        shape = as_array(members.config["shape"])
        if shape is None or not all(isinstance(n, int) and n > 0 for n in shape):
            raise members.refusal("shape", "a list of positive integers")
        configuration["shape"] = shape
    return [*before, {"name": members.codec, "configuration": configuration}], dtype


# From the members of a codec and its input elements to the codecs and its output elements.
ARRAY_FILTERS: dict[str, Callable[[CodecMembers, np.dtype[Any]], Converted]] = {
    "delta": _delta,
    "fixedscaleoffset": _fixed_scale_offset,
    "quantize": _quantize,
    "bitround": _bit_round,
    "packbits": _pack_bits,
    "astype": _astype,
    "imagecodecs_delta": _predictor,
    "imagecodecs_floatpred": _predictor,
}


# ------------------------------------------------------------ array to bytes


class _ArrayToBytes(Protocol):
    def __call__(
        self, members: CodecMembers, current: np.dtype[Any], /, *, is_transposed: bool
    ) -> Codec: ...


def _numbers_only(members: CodecMembers, current: np.dtype[Any], types: str) -> None:
    if current.str[0] != "<" or current.str[1:] not in types.split():
        raise members.decisions.refusal(
            f"codec {members.codec!r} stores only little-endian {types}, not {current.str!r}"
        )


def _pcodec(members: CodecMembers, current: np.dtype[Any], /, *, is_transposed: bool) -> Codec:
    del is_transposed  # it stores elements in memory order, whatever the shape
    known = (
        "level",
        "mode_spec",
        "delta_spec",
        "paging_spec",
        "delta_encoding_order",
        "equal_pages_up_to",
    )
    members.drop_all_but(known)
    _numbers_only(members, current, "i2 i4 i8 u2 u4 u8 f2 f4 f8")
    return _named("pcodec", members.given(known))


def _zfpy(members: CodecMembers, current: np.dtype[Any], /, *, is_transposed: bool) -> Codec:
    known = ("mode", "tolerance", "rate", "precision", "compression_kwargs")
    members.drop_all_but(known)
    _numbers_only(members, current, "i4 i8 f4 f8")
    if is_transposed:
        raise members.decisions.refusal("codec 'zfpy' cannot store chunks in order 'F'")
    # compression_kwargs only repeats the other members.
    return _named("zfpy", members.given(known[:-1]))


ARRAY_TO_BYTES: dict[str, _ArrayToBytes] = {"pcodec": _pcodec, "zfpy": _zfpy}
