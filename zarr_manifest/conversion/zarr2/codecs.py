"""The codecs of numcodecs and Zarr v3: which are the same, and what each has as members.

numcodecs name the type before and after each filter, including byte order, and interpret
a chunk as that type without checking it. In v3, codecs pass data types on instead. So here
each filter must start from the type that the one before it (or the array) has; otherwise
a cast that keeps every bit is inserted.

zlib is not gzip (the header differs), and stays ``numcodecs.zlib``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, as_array, as_object, brief

if TYPE_CHECKING:
    from zarr_manifest.conversion.nodes import Decisions

type Codec = dict[str, object]

_NUMCODECS = "numcodecs."

# The filters that turn an array of Python objects into bytes, and the v3 type that |O becomes.
OBJECT_CODECS = {"vlen-utf8": "string", "vlen-bytes": "bytes"}


@dataclass(frozen=True)
class CodecMembers:
    """A numcodecs configuration, read member by member."""

    codec: str
    config: Mapping[str, object]
    decisions: Decisions

    def drop_all_but(self, known: Collection[str]) -> None:
        """Note the members that numcodecs would reject."""
        unknown = sorted(set(self.config) - {"id", *known})
        if unknown:
            self.decisions.note(
                f"codec {self.codec!r} has no member {', '.join(map(repr, unknown))}; left out"
            )

    def note_package(self, package: str) -> None:
        """Note the package that readers of the codec need."""
        self.decisions.note(f"codec {self.codec!r} needs the package {package} wherever it is read")

    def refusal(self, member: str, expected: str) -> Exception:
        """Return the error for a member of the wrong type or value."""
        found = brief(self.config[member]) if member in self.config else "missing"
        return self.decisions.refusal(
            f"member {member!r} of codec {self.codec!r} must be {expected}; it is {found}"
        )

    def integer(self, member: str, default: int) -> int:
        """Return an integer."""
        value = self.config.get(member, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refusal(member, "an integer")
        return value

    def level(self, member: str, default: int, low: int, high: int) -> int:
        """Return an integer that only affects encoding, clipped to its range."""
        value = self.integer(member, default)
        nearest = min(max(value, low), high)
        if nearest != value:
            self.decisions.note(
                f"member {member!r} of codec {self.codec!r} became {nearest}, because {value} is "
                "out of range; it does not affect reading"
            )
        return nearest

    def number(self, member: str) -> int | float:
        """Return a finite number; there is no default."""
        value = self.config.get(member)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refusal(member, "a number")
        if not math.isfinite(value):
            raise self.refusal(member, "a finite number")
        return value

    def choice(self, member: str, default: str, choices: Collection[str]) -> str:
        """Return one of several strings."""
        value = self.config.get(member, default)
        if not isinstance(value, str) or value not in choices:
            raise self.refusal(member, f"one of {', '.join(sorted(choices))}")
        return value

    def dtype(self, member: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """Return the numeric or time type that a member names; None is the same as missing."""
        value = self.config.get(member)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.refusal(member, "a numpy type string such as '<f4'")
        try:
            dtype: np.dtype[Any] = np.dtype(value)
        except (TypeError, ValueError, SyntaxError) as error:
            raise self.refusal(member, "a numpy type string such as '<f4'") from error
        if dtype.kind not in "biufcmM" or (dtype.kind in "fc" and dtype.itemsize > 16):
            raise self.refusal(member, "a type of numbers or times")
        return dtype

    def given(self, members: Collection[str]) -> Codec:
        """Return those of `members` that exist, unchanged; they must be scalars."""
        found = {member: self.config[member] for member in members if member in self.config}
        for member, value in found.items():
            if value is not None and not isinstance(value, int | float | str):
                raise self.refusal(member, "a number, a string or null")
        return found


def _named(name: str, configuration: Codec) -> Codec:
    return {"name": name, "configuration": configuration}


def zarr2_config(name: str, configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the numcodecs configuration for a codec of Zarr v3, or None if there is none.

    Examples
    --------
    >>> zarr2_config("numcodecs.zlib", {"level": 4}), zarr2_config("sharding_indexed", {})
    ({'id': 'zlib', 'level': 4}, None)
    """
    if name in _SHARED:
        # zarr has defaults of its own.
        stated = {"level": 5} if name == "gzip" else {"level": 0} if name == "zstd" else {}
        found = {"id": name, **stated, **configuration}
        # Older numcodecs do not know it, and it only matters for encoding.
        if not found.get("checksum", True):
            del found["checksum"]
        return found
    if name == "blosc":
        # All of it only matters for encoding: compressed bytes describe themselves.
        usual = {"cname": "zstd", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}
        members = {key: configuration.get(key, default) for key, default in usual.items()}
        shuffle = _BLOSC_SHUFFLES.get(str(members["shuffle"]), 0)
        return {"id": "blosc", **members, "shuffle": shuffle}
    if name == "crc32c":
        return {"id": "crc32c", "location": "end"}
    codec = name.removeprefix(_NUMCODECS)
    is_own = name != codec or codec.startswith("imagecodecs_")
    known = BYTES_CODECS | ARRAY_FILTERS | ARRAY_TO_BYTES if is_own else OBJECT_CODECS
    return {"id": codec, **(configuration if is_own else {})} if codec in known else None


# ------------------------------------------------------------ array to array

type Converted = tuple[list[Codec], np.dtype[Any]]

# The members in which filters name the types of their elements, decoded and encoded; and numbers.
_TYPES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "delta": ("dtype", "astype", ()),
    "fixedscaleoffset": ("dtype", "astype", ("offset", "scale")),
    "quantize": ("dtype", "astype", ("digits",)),
    "astype": ("decode_dtype", "encode_dtype", ()),
}
DECODED_TYPE = {codec: decoded for codec, (decoded, _, _) in _TYPES.items()}


def _cast(decoded: np.dtype[Any], encoded: np.dtype[Any]) -> Codec:
    types: Codec = {"encode_dtype": encoded.str, "decode_dtype": decoded.str}
    return _named("numcodecs.astype", types)


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


def _typed(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    """Convert a filter that names the types of its elements."""
    decoded_in, encoded_in, numbers = _TYPES[members.codec]
    members.drop_all_but((decoded_in, encoded_in, *numbers))
    decoded = members.dtype(decoded_in)
    encoded = members.dtype(encoded_in, decoded if encoded_in == "astype" else None)
    before = _as_type(members, decoded_in, current, decoded)
    configuration: Codec = {name: members.number(name) for name in numbers}
    configuration |= {decoded_in: decoded.str, encoded_in: encoded.str}
    return [*before, _named(f"numcodecs.{members.codec}", configuration)], encoded


def _quantize(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    decoded = members.dtype("dtype")
    if decoded.kind != "f" or members.dtype("astype", decoded).kind != "f":
        raise members.decisions.refusal("codec 'quantize' is only for floating-point numbers")
    codecs, encoded = _typed(members, current)
    configuration: Codec = {"digits": members.integer("digits", 0), "dtype": decoded.str}
    codecs[-1] = _named("numcodecs.quantize", configuration)
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
    return [_named("numcodecs.bitround", {"keepbits": keepbits})], current


def _pack_bits(members: CodecMembers, current: np.dtype[Any]) -> Converted:
    members.drop_all_but(())
    if current.kind != "b":
        raise members.decisions.refusal("codec 'packbits' is only for booleans")
    return [_named("numcodecs.packbits", {})], np.dtype("u1")


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
    configuration: Codec = {
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
    return [*before, _named(members.codec, configuration)], dtype


# From the members of a codec and its input elements to the codecs and its output elements.
ARRAY_FILTERS: dict[str, Callable[[CodecMembers, np.dtype[Any]], Converted]] = {
    "delta": _typed,
    "fixedscaleoffset": _typed,
    "quantize": _quantize,
    "bitround": _bit_round,
    "packbits": _pack_bits,
    "astype": _typed,
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


_PCODEC = ("level", "mode_spec", "delta_spec", "paging_spec", "delta_encoding_order",
           "equal_pages_up_to")  # fmt: skip


def _pcodec(members: CodecMembers, current: np.dtype[Any], /, *, is_transposed: bool) -> Codec:
    del is_transposed  # it stores elements in memory order, whatever the shape
    members.drop_all_but(_PCODEC)
    _numbers_only(members, current, "i2 i4 i8 u2 u4 u8 f2 f4 f8")
    return _named("numcodecs.pcodec", members.given(_PCODEC))


def _zfpy(members: CodecMembers, current: np.dtype[Any], /, *, is_transposed: bool) -> Codec:
    known = ("mode", "tolerance", "rate", "precision")
    # It only repeats the other members.
    members.drop_all_but((*known, "compression_kwargs"))
    _numbers_only(members, current, "i4 i8 f4 f8")
    if is_transposed:
        raise members.decisions.refusal("codec 'zfpy' cannot store chunks in order 'F'")
    return _named("numcodecs.zfpy", members.given(known))


ARRAY_TO_BYTES: dict[str, _ArrayToBytes] = {"pcodec": _pcodec, "zfpy": _zfpy}


# ------------------------------------------------------------ bytes to bytes

# Those that zarr has by the same name, and with the same members.
_SHARED = ("gzip", "zstd")

type _Member = Callable[[CodecMembers, str], object]


def _level(default: int, low: int, high: int) -> _Member:
    return lambda members, name: members.level(name, default, low, high)


def _integer(default: int) -> _Member:
    return lambda members, name: members.integer(name, default)


def _optional_integer(members: CodecMembers, name: str) -> int | None:
    return None if members.config.get(name) is None else members.integer(name, 0)


def _gzip_level(members: CodecMembers, name: str) -> int:
    # -1 is zlib's default.
    return 6 if members.config.get(name) == -1 else members.level(name, 1, 0, 9)


def _element_size(members: CodecMembers, name: str) -> int:
    size = members.integer(name, 4)
    if size < 0:
        raise members.refusal(name, "an integer of at least 0")
    return size


def _flag(members: CodecMembers, name: str) -> bool:
    value = members.config.get(name, False)
    if not isinstance(value, bool):
        raise members.refusal(name, "true or false")
    return value


def _raw_filters(members: CodecMembers, name: str) -> list[object] | None:
    stated = members.config.get(name)
    found = None if stated is None else as_array(stated) or [None]
    if found is not None and None in map(as_object, found):
        raise members.refusal(name, "a list of JSON objects, or null")
    return found


# All members of codecs, with their defaults; also where zarr has others, as for shuffle.
_MEMBERS: dict[str, dict[str, _Member]] = {
    "gzip": {"level": _gzip_level},
    "zstd": {"level": _level(0, -131072, 22), "checksum": _flag},
    "zlib": {"level": _level(1, -1, 9)},
    "bz2": {"level": _level(1, 1, 9)},
    "lz4": {"acceleration": _level(1, 1, 65537)},
    "lzma": {
        "format": _integer(1),
        "check": _integer(-1),
        "preset": _optional_integer,
        "filters": _raw_filters,
    },
    "shuffle": {"elementsize": _element_size},
    "fletcher32": {},
}


def _plain(members: CodecMembers, _: int) -> Codec:
    """Convert a codec that has the same members in Zarr v3."""
    known = _MEMBERS[members.codec]
    members.drop_all_but(known)
    configuration = {name: read(members, name) for name, read in known.items()}
    prefix = "" if members.codec in _SHARED else _NUMCODECS
    return _named(prefix + members.codec, configuration)


_BLOSC_COMPRESSORS = ("lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd")
_BLOSC_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_BLOSC_AUTO_SHUFFLE = -1
# c-blosc treats larger elements as single bytes.
_BLOSC_LARGEST_TYPE = 255


def _blosc(members: CodecMembers, element_size: int) -> Codec:
    members.drop_all_but(("cname", "clevel", "shuffle", "blocksize", "typesize"))
    # VirtualiZarr (seen in 2.8) leaves the names that Zarr v3 uses.
    shuffle = _BLOSC_SHUFFLES.get(str(members.config.get("shuffle")))
    shuffle = members.integer("shuffle", 1) if shuffle is None else shuffle
    stated = members.config.get("typesize")
    typesize = element_size if stated is None else members.level("typesize", 1, 1, 1 << 31)
    if typesize > _BLOSC_LARGEST_TYPE:
        typesize = 1
    if shuffle == _BLOSC_AUTO_SHUFFLE:
        shuffle = 2 if typesize == 1 else 1
    if shuffle not in _BLOSC_SHUFFLES.values():
        raise members.refusal("shuffle", "-1, 0, 1 or 2")
    return _named(
        "blosc",
        {
            "typesize": typesize,
            "cname": members.choice("cname", "lz4", _BLOSC_COMPRESSORS),
            "clevel": members.level("clevel", 5, 0, 9),
            "shuffle": list(_BLOSC_SHUFFLES)[shuffle],
            "blocksize": members.level("blocksize", 0, 0, (1 << 31) - 1),
        },
    )


def _checksum(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("location",))
    stated = members.config.get("location")
    if members.codec == "crc32c" and stated in (None, "end"):
        return {"name": "crc32c"}
    # Passed only if the input has it: older numcodecs do not know it.
    location = None if stated is None else members.choice("location", "start", ("start", "end"))
    return _named(f"numcodecs.{members.codec}", {} if location is None else {"location": location})


def _jenkins(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("initval", "prefix"))
    if members.config.get("prefix") is not None:
        raise members.refusal("prefix", "null (JSON has no bytes)")
    return _named("numcodecs.jenkins_lookup3", {"initval": members.integer("initval", 0)})


def _imagecodecs(members: CodecMembers, _: int) -> Codec:
    members.note_package("virtual-tiff")
    configuration = members.given([member for member in members.config if member != "id"])
    return _named(members.codec, configuration) if configuration else {"name": members.codec}


def _as_python(members: CodecMembers, _: int) -> Codec:
    """Convert a compressor of imagecodecs that yields the same bytes as one of Python's own."""
    name = members.codec.removeprefix("imagecodecs_")
    members.drop_all_but(("level", "check") if name == "lzma" else ("level",))
    if name == "lzma":
        xz: Codec = {"format": 1, "check": -1, "preset": None, "filters": None}
        return _named("numcodecs.lzma", xz)
    level = 6 if members.config.get("level") is None else members.level("level", 6, 1, 9)
    return _named(f"numcodecs.{name}", {"level": level})


_IMAGE_CODECS = ("deflate", "jpeg", "jpeg2k", "jpegxl", "jpegxr", "lerc", "lzw", "packbits",
                 "png", "webp", "zstd")  # fmt: skip

# From the members of a codec and the size of its input elements.
BYTES_CODECS: dict[str, Callable[[CodecMembers, int], Codec]] = {
    **dict.fromkeys(_MEMBERS, _plain),
    "blosc": _blosc,
    **dict.fromkeys(("crc32c", "crc32", "adler32"), _checksum),
    "jenkins_lookup3": _jenkins,
    # Those of the package imagecodecs, which virtual-tiff registers for Zarr v3 by the same names.
    **{f"imagecodecs_{name}": _imagecodecs for name in _IMAGE_CODECS},
    **{f"imagecodecs_{name}": _as_python for name in ("bz2", "lzma", "zlib")},
}
