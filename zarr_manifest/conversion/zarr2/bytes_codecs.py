"""numcodecs that work on bytes, as Zarr v3 codecs: zarr's own where the bytes are the same.

zlib is not gzip (the header differs), and stays ``numcodecs.zlib``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.values import as_array, as_object, brief

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zarr_manifest.conversion.nodes import Decisions

__all__ = ["BYTES_CODECS", "CodecMembers"]


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

    def given(self, members: Collection[str]) -> dict[str, object]:
        """Return those of `members` that exist, unchanged; they must be scalars."""
        found = {member: self.config[member] for member in members if member in self.config}
        for member, value in found.items():
            if value is not None and not isinstance(value, int | float | str):
                raise self.refusal(member, "a number, a string or null")
        return found


type Codec = dict[str, object]

_BLOSC_COMPRESSORS = ("lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd")
_BLOSC_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
_BLOSC_AUTO_SHUFFLE = -1
# c-blosc treats larger elements as single bytes.
_BLOSC_LARGEST_TYPE = 255


def _named(name: str, configuration: dict[str, object]) -> Codec:
    return {"name": name, "configuration": configuration}


def _gzip(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("level",))
    if members.config.get("level") == -1:  # zlib's default, which is 6
        return _named("gzip", {"level": 6})
    return _named("gzip", {"level": members.level("level", 1, 0, 9)})


def _zstd(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("level", "checksum"))
    checksum = members.config.get("checksum", False)
    if not isinstance(checksum, bool):
        raise members.refusal("checksum", "true or false")
    level = members.level("level", 0, -131072, 22)
    return _named("zstd", {"level": level, "checksum": checksum})


def _blosc(members: CodecMembers, element_size: int) -> Codec:
    members.drop_all_but(("cname", "clevel", "shuffle", "blocksize", "typesize"))
    shuffle = _blosc_shuffle(members)
    stated = members.config.get("typesize")
    typesize = element_size if stated is None else members.level("typesize", 1, 1, 1 << 31)
    if typesize > _BLOSC_LARGEST_TYPE:
        typesize = 1
    if shuffle == _BLOSC_AUTO_SHUFFLE:
        shuffle = 2 if typesize == 1 else 1
    if shuffle not in _BLOSC_SHUFFLES:
        raise members.refusal("shuffle", "-1, 0, 1 or 2")
    return _named(
        "blosc",
        {
            "typesize": typesize,
            "cname": members.choice("cname", "lz4", _BLOSC_COMPRESSORS),
            "clevel": members.level("clevel", 5, 0, 9),
            "shuffle": _BLOSC_SHUFFLES[shuffle],
            "blocksize": members.level("blocksize", 0, 0, (1 << 31) - 1),
        },
    )


def _blosc_shuffle(members: CodecMembers) -> int:
    # VirtualiZarr (seen in 2.8) leaves the names that Zarr v3 uses.
    for number, name in _BLOSC_SHUFFLES.items():
        if members.config.get("shuffle") == name:
            return number
    return members.integer("shuffle", 1)


def _crc32c(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("location",))
    location = members.config.get("location")
    if location is None or location == "end":
        return {"name": "crc32c"}
    return _named("numcodecs.crc32c", _location(members))


def _checksum(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("location",))
    return _named(f"numcodecs.{members.codec}", _location(members))


def _location(members: CodecMembers) -> dict[str, object]:
    # Passed only if the input has it: older numcodecs do not know it.
    if members.config.get("location") is None:
        return {}
    return {"location": members.choice("location", "start", ("start", "end"))}


def _jenkins(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("initval", "prefix"))
    if members.config.get("prefix") is not None:
        raise members.refusal("prefix", "null (JSON has no bytes)")
    return _named("numcodecs.jenkins_lookup3", {"initval": members.integer("initval", 0)})


def _level_of(low: int, high: int) -> Callable[[CodecMembers, int], Codec]:
    def convert(members: CodecMembers, _: int) -> Codec:
        members.drop_all_but(("level",))
        level = members.level("level", 1, low, high)
        return _named(f"numcodecs.{members.codec}", {"level": level})

    return convert


def _same_as(name: str) -> Callable[[CodecMembers, int], Codec]:
    def convert(members: CodecMembers, _: int) -> Codec:
        members.drop_all_but(("level",))
        level = 6 if members.config.get("level") is None else members.level("level", 6, 1, 9)
        return _named(f"numcodecs.{name}", {"level": level})

    return convert


def _lz4(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("acceleration",))
    acceleration = members.level("acceleration", 1, 1, 65537)
    return _named("numcodecs.lz4", {"acceleration": acceleration})


def _lzma(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("format", "check", "preset", "filters"))
    configuration: dict[str, object] = {
        "format": members.integer("format", 1),
        "check": members.integer("check", -1),
        "preset": None,
        "filters": None,
    }
    if members.config.get("preset") is not None:
        configuration["preset"] = members.integer("preset", 6)
    if members.config.get("filters") is not None:
        filters = [as_object(item) for item in as_array(members.config["filters"]) or [None]]
        if None in filters:
            raise members.refusal("filters", "a list of JSON objects, or null")
        configuration["filters"] = filters
    return _named("numcodecs.lzma", configuration)


def _shuffle(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("elementsize",))
    # Always stated: its default is the size of the array's elements in zarr, and 4 in numcodecs.
    size = members.integer("elementsize", 4)
    if size < 0:
        raise members.refusal("elementsize", "an integer of at least 0")
    return _named("numcodecs.shuffle", {"elementsize": size})


def _fletcher32(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(())
    return _named("numcodecs.fletcher32", {})


def _imagecodecs(members: CodecMembers, _: int) -> Codec:
    members.note_package("virtual-tiff")
    configuration = members.given([member for member in members.config if member != "id"])
    return _named(members.codec, configuration) if configuration else {"name": members.codec}


def _imagecodecs_xz(members: CodecMembers, _: int) -> Codec:
    members.drop_all_but(("level", "check"))
    return _named("numcodecs.lzma", {"format": 1, "check": -1, "preset": None, "filters": None})


# From the members of a codec and the size of its input elements.
BYTES_CODECS: dict[str, Callable[[CodecMembers, int], Codec]] = {
    "gzip": _gzip,
    "zstd": _zstd,
    "blosc": _blosc,
    "crc32c": _crc32c,
    "crc32": _checksum,
    "adler32": _checksum,
    "fletcher32": _fletcher32,
    "jenkins_lookup3": _jenkins,
    "zlib": _level_of(-1, 9),
    "bz2": _level_of(1, 9),
    "lz4": _lz4,
    "lzma": _lzma,
    "shuffle": _shuffle,
    # Those of the package imagecodecs, which virtual-tiff registers for Zarr v3 by the same names.
    **{
        f"imagecodecs_{name}": _imagecodecs
        for name in (
            "deflate",
            "jpeg",
            "jpeg2k",
            "jpegxl",
            "jpegxr",
            "lerc",
            "lzw",
            "packbits",
            "png",
            "webp",
            "zstd",
        )
    },
    # The same bytes as those of Python's own compressors.
    "imagecodecs_bz2": _same_as("bz2"),
    "imagecodecs_lzma": _imagecodecs_xz,
    "imagecodecs_zlib": _same_as("zlib"),
}
