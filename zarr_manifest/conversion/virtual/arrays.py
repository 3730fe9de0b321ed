"""VirtualiZarr's arrays as nodes: metadata, and references as columns; and these as its own."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, cast
from urllib.parse import quote

import numpy as np
import zarr.registry
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.nodes import ArrayNode, grid_of, inline_manifest
from zarr_manifest.conversion.target import open_with_zarr
from zarr_manifest.conversion.values import as_object, json_attributes, unstable_types_accepted
from zarr_manifest.conversion.virtualizarr_internals import INLINED, ManifestColumns
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ChunkGrid, grid_index
from zarr_manifest.locations import Base, WebServers, escape_bare_percent, kind_of
from zarr_manifest.manifest import TO_THE_END, Manifest, NumberedPaths, PathNumbers, References

_BASE = Base.parse("./")

# Packages whose codecs zarr always finds; other codecs must be registered as entry points.
_BUILT_IN = ("zarr.", "numcodecs.")


def array_node(
    path: str,
    array: Any,
    *,
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[Any, Any] | None = None,
) -> ArrayNode:
    """Return the node for a ``ManifestArray``.

    Parameters
    ----------
    path : str
        Path in the hierarchy.
    array : virtualizarr.manifests.ManifestArray
        Metadata and references.
    dimension_names, attributes : optional
        Replace those in the metadata.

    Raises
    ------
    NotConvertibleError
        Zarr could not read the array.
    ManifestError
        A path is invalid.
    """
    converted = json_metadata(array.metadata)
    stated = array.metadata.attributes if attributes is None else attributes
    converted["attributes"], found = json_attributes(stated, array.dtype)
    if dimension_names is not None:
        converted["dimension_names"] = list(dimension_names)
    metadata = checked_metadata(converted)
    manifest = manifest_of_array(array, grid_of(metadata).counts)
    return ArrayNode(path, metadata, manifest, tuple(found))


@unstable_types_accepted
def checked_metadata(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return Zarr v3 array metadata, as JSON, that readers understand.

    Raises
    ------
    NotConvertibleError
        zarr refuses it, or finds one of its codecs only after an import.
    """
    metadata: dict[str, Any] = json.loads(json.dumps(dict(stated)))
    if not metadata.get("storage_transformers"):
        metadata.pop("storage_transformers", None)
    if metadata.get("dimension_names") is None:
        metadata.pop("dimension_names", None)
    for codec in metadata["codecs"]:
        _check_codec(codec)
    try:
        open_with_zarr(metadata)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise NotConvertibleError(f"zarr cannot read its metadata: {error}") from error
    return metadata


def _check_codec(codec: Any) -> None:
    name = codec if isinstance(codec, str) else str(codec.get("name"))
    try:
        found = zarr.registry.get_codec_class(name)
    except (KeyError, ValueError, ImportError) as error:
        raise NotConvertibleError(
            f"no installed package provides the codec {name!r}",
            remedy="Install the package that does, here and wherever the array is read.",
        ) from error
    if not found.__module__.startswith(_BUILT_IN) and name not in _announced_codecs():
        raise NotConvertibleError(
            f"zarr finds the codec {name!r} only after {found.__module__} is imported, so other "
            "readers could not decode the array"
        )


@functools.cache
def _announced_codecs() -> frozenset[str]:
    """Names of the codecs that installed packages register; cached, as finding them is slow."""
    return frozenset(point.name for point in entry_points(group="zarr.codecs"))


def json_metadata(metadata: Any) -> dict[str, Any]:
    """Return the metadata of a ``ManifestArray`` as JSON, without its attributes."""
    found: dict[str, Any] = _as_json(metadata.to_dict())
    return found


def _as_json(value: Any) -> Any:
    """Return metadata as JSON values: zarr and VirtualiZarr leave enums, tuples and numpy in it."""
    if (members := as_object(value)) is not None:
        # Attributes are handled separately.
        return {str(name): _as_json(item) for name, item in members.items() if name != "attributes"}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, np.generic | np.ndarray):
        return cast("Any", value).tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return _as_json(getattr(value, "value", str(value)))


# ------------------------------------------------------------ references


def manifest_of_array(array: Any, grid_shape: tuple[int, ...]) -> Manifest:
    """Return the manifest of a ``ManifestArray``.

    Raises
    ------
    NotConvertibleError
        They are for another chunk grid.
    ManifestError
        A path is invalid.
    """
    columns = ManifestColumns.of(array.manifest)
    if not grid_shape and columns.paths.shape == (1,):
        # Some parsers give a scalar one dimension of chunks.
        columns = columns.of_scalar()
    there = columns.paths.shape
    given = columns.stored
    if there != grid_shape:
        # Its parsers give arrays without chunks an arbitrary grid.
        if not columns.inlined and not given.any():
            return inline_manifest(grid_shape)
        if len(there) != len(grid_shape) or any(map(int.__gt__, there, grid_shape)):
            raise NotConvertibleError(
                f"it has references for a chunk grid of {there}, but the metadata says {grid_shape}"
            )
    distinct, numbers = columns.objects()
    known = PathNumbers()
    table = np.array([known[url_reference(path)] for path in distinct], np.int32)
    indices = None if given.all() and there == grid_shape else np.argwhere(given)
    return Manifest.from_columns(
        grid_shape,
        paths=NumberedPaths(table[numbers], tuple(known)),
        offsets=columns.offsets[given].astype(np.int64),
        lengths=columns.lengths[given].astype(np.int64),
        indices=indices,
        data=columns.inlined,
    )


# Characters that a URL may contain literally; '%' begins an escape.
_URL_SAFE = "!$&'()*+,;=:@/~[]%"


def url_reference(path: str) -> str:
    """Return a path of VirtualiZarr as the URL for a manifest.

    VirtualiZarr percent-encodes names of local files, and nothing else.

    Raises
    ------
    NotConvertibleError
        A manifest cannot contain URLs of this scheme.
    InvalidPathError
        The path is invalid.

    Examples
    --------
    >>> url_reference("s3://b/a b.nc"), url_reference("file:///data/a%20b.nc")
    ('s3://b/a%20b.nc', 'file:///data/a%20b.nc')
    """
    scheme, mark, rest = path.partition("://")
    if not mark:
        scheme, rest = "file", path
    if isinstance(kind_of(scheme), WebServers):
        rest, question, query = rest.partition("?")
        url = f"{scheme}://{_quoted(rest)}{question}{query}"
    else:
        url = f"{scheme}://{_quoted(rest)}"
    _BASE.resolve(url)
    return url


def _quoted(rest: str) -> str:
    """Percent-encode a text, keeping existing escapes."""
    return quote(escape_bare_percent(rest), safe=_URL_SAFE)


# ------------------------------------------------------------ and back


def columns_for(metadata: dict[str, Any]) -> tuple[ChunkGrid, ManifestColumns]:
    """Return the chunk grid of an array, and columns in which all of its chunks are missing.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr has no such grid, or there are too many chunks for it.
    """
    grid = grid_of(metadata)
    if grid.regular is None:
        raise NotConvertibleError("its chunk grid is not regular")
    return grid, ManifestColumns.of_grid(grid.counts)


def array_of_columns(metadata: dict[str, Any], columns: ManifestColumns) -> Any:
    """Return an array as a ``ManifestArray``.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr has no such array.
    """
    try:
        return columns.array(ArrayV3Metadata.from_dict(metadata))
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise NotConvertibleError(f"VirtualiZarr cannot express it: {error}") from error


def add_references(
    columns: ManifestColumns,
    references: References,
    urls: Sequence[str],
) -> None:
    """Add references to columns; explicitly empty chunks stay missing.

    Parameters
    ----------
    columns : ManifestColumns
        Of the whole chunk grid.
    references : References
        To all of its chunks, or some.
    urls : sequence of str
        URLs for their paths.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr cannot express a reference.
    """
    stated = references.columns()
    has_path = stated.path_numbers >= 0
    chunks = stated.numbers[has_path]
    offsets, lengths = stated.offsets[has_path], stated.lengths[has_path]
    path_numbers = stated.path_numbers[has_path]
    if (lengths == TO_THE_END).any():
        raise NotConvertibleError(
            "some of its chunks run to the end of their object, but VirtualiZarr needs their "
            "lengths"
        )
    # NumPy 2.1 frees memory twice where several elements of its own type of text are taken.
    columns.paths.reshape(-1)[chunks] = np.array(urls, object)[path_numbers]
    columns.offsets.reshape(-1)[chunks] = offsets
    columns.lengths.reshape(-1)[chunks] = lengths
    for extra, rows in references.extras():
        if extra.conditions.version is not None:
            raise NotConvertibleError("some of its chunks refer to a version of their object")
        if extra.data is not None:
            for row in rows:
                index = grid_index(references.grid_shape, stated.numbers.item(row))
                columns.inlined[index] = extra.data
                columns.paths[index], columns.lengths[index] = INLINED, len(extra.data)
