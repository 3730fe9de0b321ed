"""Whether the arrays of several files fit into one: what numbers mean, chunks, and codecs.

Attributes of CF and of GDAL decide what stored numbers mean. An array has only one of each, so
numbers that mean something else in another file cannot be appended to those of the first, unless
they are loaded and converted.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import brief

_MEANING = [
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
    "_Unsigned",
    "flag_values",
    "flag_masks",
    "flag_meanings",
    "valid_min",
    "valid_max",
    "valid_range",
    # Of GeoTIFF and GDAL: the position of pixels, in place of coordinates, and their packing.
    "model_tiepoint",
    "model_pixel_scale",
    "model_transformation",
    "SCALE",
    "OFFSET",
]

# Units of time differ in the middle, which must not be abbreviated.
_SHOWN = reprlib.Repr(maxstring=100)

# Variables that these attributes name have the units of the variable with the attribute.
_BOUNDS = ("bounds", "climatology")
_INHERITED = ("units", "calendar")

# The attribute that names a variable with the projection of others, and those of such variables.
_GRID_MAPPING = "grid_mapping"
_MAPPING_ATTRIBUTES = frozenset(["grid_mapping_name", "crs_wkt", "spatial_ref"])

# Of `FileTree.meanings`; not an attribute.
_ENUMERATION = "enumeration"


def meanings_of(
    attributes: Mapping[Any, Mapping[Any, Any]],
    stored: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[Any, dict[str, Any]]:
    """Return, by variable name, what determines the meaning of its numbers: mostly attributes.

    Parameters
    ----------
    attributes : mapping
        By name, those of all variables of a group.
    stored : mapping, optional
        ``FileTree.meanings``, by variable name.

    Examples
    --------
    >>> time = {"units": "days since 2000-01-01", "bounds": "edges"}
    >>> meanings_of({"time": time, "edges": {}})["edges"]
    {'units': 'days since 2000-01-01'}
    """
    mappings = {
        name.rstrip(":")
        for each in attributes.values()
        for name in str(each.get(_GRID_MAPPING, "")).split()
    }
    found: dict[Any, dict[str, Any]] = {
        name: _stated(each, is_mapping=name in mappings) for name, each in attributes.items()
    }
    for each in attributes.values():
        for attribute in _BOUNDS:
            bounds = found.get(str(each.get(attribute)))
            if bounds is not None and "units" not in bounds:
                bounds |= {n: each[n] for n in _INHERITED if n in each}
    for name, meaning in found.items():
        meaning |= (stored or {}).get(name, {})
    return found


def _stated(attributes: Mapping[Any, Any], *, is_mapping: bool = False) -> dict[str, Any]:
    """Return the attributes with a meaning: all of a grid mapping, which has no other content."""
    if is_mapping or _MAPPING_ATTRIBUTES & attributes.keys():
        return dict(attributes)
    return {name: attributes[name] for name in _MEANING if name in attributes}


def same_value(ours: Any, theirs: Any) -> bool:
    """Whether two values of an attribute are the same; NaN equals NaN.

    Examples
    --------
    >>> same_value([1.0, float("nan")], np.array([1, np.nan])), same_value(1, 2)
    (True, False)
    """
    return repr(np.asarray(ours).tolist()) == repr(np.asarray(theirs).tolist())


def other_meaning(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Return the attribute that gives numbers another meaning, or None.

    Examples
    --------
    >>> other_meaning({"units": "m"}, {"units": "km"})
    "units 'km'"
    """
    if ours is theirs:
        return None
    for name in dict.fromkeys([*ours, *theirs]):
        if name == _ENUMERATION:
            if (conflict := _enumeration_conflict(ours, theirs)) is not None:
                return conflict
        elif not same_value(ours.get(name), theirs.get(name)):
            return f"{name} {_SHOWN.repr(theirs.get(name))}"
    return None


def _enumeration_conflict(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Return a name that stands for another number, or None; members may be added."""
    numbers: Mapping[str, Mapping[str, int]] = ours.get(_ENUMERATION, {})
    for place, members in theirs.get(_ENUMERATION, {}).items():
        first = numbers.get(place, {})
        names = {number: name for name, number in first.items()}
        for name, number in members.items():
            if first.get(name, number) != number or names.get(number, name) != name:
                return f"the enumeration {_SHOWN.repr(members)}"
    return None


def is_of_time(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether the numbers are times, which mean the same once they are converted.

    Examples
    --------
    >>> since = [{"units": f"days since {year}-01-01"} for year in (2000, 2001)]
    >>> is_of_time(*since), is_of_time({"units": "m"}, {"units": "km"})
    (True, False)
    """
    return all(" since " in str(each.get("units")) for each in (ours, theirs)) and same_value(
        ours.get("calendar"), theirs.get("calendar")
    )


def made_alike(
    name: Any, variables: Sequence[Any], meant: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], list[str | None]]:
    """Return loaded variables of one name, with numbers that mean the same.

    Numbers stay as they are, unless they mean something else in one of the files: then
    all are decoded, and times get the units of the first file.

    Parameters
    ----------
    name : str
        Their name.
    variables : sequence of Variable
        As stored, one from each file.
    meant : sequence of dict
        What their numbers mean.

    Returns
    -------
    variables : list of Variable
        With numbers that mean the same, where possible.
    problems : list of (str or None)
        By file, why it is not possible.
    """
    first = variables[0]
    if all(v.dtype == first.dtype for v in variables) and not any(
        other_meaning(meant[0], other) for other in meant
    ):
        return list(variables), [None] * len(variables)
    decoded = [_decoded(name, *both) for both in zip(variables, meant, strict=True)]
    return decoded, [
        _enumeration_conflict(meant[0], meaning) or _difference(decoded[0], other)
        for other, meaning in zip(decoded, meant, strict=True)
    ]


def _difference(first: Any, other: Any) -> str | None:
    calendars = [variable.encoding.get("calendar") for variable in (first, other)]
    if "O" in (first.dtype.kind, other.dtype.kind) and calendars[0] != calendars[1]:
        return f"calendar {brief(calendars[1])}"
    if first.dtype.kind != other.dtype.kind:
        return f"data type {brief(str(other.dtype))}"
    return other_meaning(_stated(first.attrs), _stated(other.attrs))


def shown_value(name: Any, value: Any, attributes: Mapping[Any, Any]) -> str:
    """Return a stored value as readers see it: a time as a date.

    Examples
    --------
    >>> shown_value("t", 366, {"units": "days since 2000-01-01"}), shown_value("x", 3, {})
    ('2001-01-01T00:00:00', '3')
    """
    xarray: Any = library("xarray")
    decoded = _decoded(name, xarray.Variable((name,), [value], dict(attributes)), {}).values[0]
    return str(decoded.astype("M8[s]") if isinstance(decoded, np.datetime64) else decoded)


def _decoded(name: Any, variable: Any, meant: Mapping[str, Any]) -> Any:
    xarray: Any = library("xarray")
    attributes = {**variable.attrs, **meant}
    attributes.pop(_ENUMERATION, None)
    stated: Any = xarray.Variable(variable.dims, variable.values, attributes)
    dataset: Any = xarray.Dataset({name: stated})
    options: dict[str, Any] = {"decode_coords": False, "decode_timedelta": False}
    try:
        found = xarray.decode_cf(dataset, **options).load().variables[name]
    except (ValueError, OverflowError):
        # Times in units unknown to xarray.
        found = xarray.decode_cf(dataset, **options, decode_times=False).load().variables[name]
    # The packing of the first file may not suit the numbers of the others.
    kept = {key: found.encoding[key] for key in _INHERITED if key in found.encoding}
    decoded: Any = xarray.Variable(found.dims, found.values, found.attrs, kept)
    return decoded


# Chunks and codecs ---------------------------------------------------------------------


# More than the hours of a century, but not every element of a long series.
MOST_REFERENCES = 1_000_000


def common_length(
    lengths: Sequence[int], chunks: Sequence[int], is_last: Sequence[bool]
) -> int | None:
    """Return the greatest chunk length into which all files can be divided.

    Parameters
    ----------
    lengths, chunks : sequence of int
        Length of every file along the dimension, and of its chunks.
    is_last : sequence of bool
        Whether the file ends the array: only there may a chunk extend past the values.

    Returns
    -------
    int or None
        None if all files are empty.

    Examples
    --------
    >>> common_length([744, 672, 720], [744, 672, 720], [False, False, True])
    24
    >>> common_length([30, 30, 28], [10, 10, 10], [False, False, True])
    10
    """
    inner = last = 0
    for length, chunk, ends in zip(lengths, chunks, is_last, strict=True):
        # The part of a single chunk past the values is never referred to.
        within = length if length <= chunk else math.gcd(length, chunk)
        if length and ends:
            inner, last = math.gcd(inner, within), math.gcd(last, chunk)
        elif length:
            inner, last = math.gcd(inner, within), math.gcd(last, within)
    return max(inner, last) or None


# Parameters that only encoders use: what decoders need is in the compressed bytes themselves.
# Others decide what bytes decode to, such as the size of the elements of a separate shuffle.
_ONLY_FOR_ENCODING: Mapping[str, frozenset[str]] = {
    "gzip": frozenset(["level"]),
    "zstd": frozenset(["level", "checksum"]),
    "blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "numcodecs.zlib": frozenset(["level"]),
    "numcodecs.gzip": frozenset(["level"]),
    "numcodecs.bz2": frozenset(["level"]),
    "numcodecs.zstd": frozenset(["level", "checksum"]),
    "numcodecs.lz4": frozenset(["acceleration"]),
    "numcodecs.lzma": frozenset(["check", "preset"]),
    "numcodecs.blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "imagecodecs_lz4h5": frozenset(["level", "blocksize"]),
}


def decoding(codecs: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the codecs of an array's metadata, without parameters that decoding ignores.

    Examples
    --------
    >>> decoding([{"name": "bytes", "configuration": {"endian": "little"}},
    ...           {"name": "numcodecs.zlib", "configuration": {"level": 4}}])
    [('bytes', {'endian': 'little'}), ('numcodecs.zlib', {})]
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for codec in codecs:
        ignored = _ONLY_FOR_ENCODING.get(codec["name"], frozenset())
        stated: Mapping[str, Any] = codec.get("configuration") or {}
        found.append((codec["name"], {k: v for k, v in stated.items() if k not in ignored}))
    return found
