"""VirtualiZarr's objects as nodes: datasets and trees of virtual and loaded variables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from zarr.storage import MemoryStore

from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    grid_of,
    inline_manifest,
    or_refused,
)
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import array_in_memory
from zarr_manifest.conversion.values import json_attributes, packed_values, unstable_types_accepted
from zarr_manifest.conversion.virtual.arrays import array_node, checked_metadata
from zarr_manifest.conversion.virtualizarr_internals import group_of, is_virtual
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import Limits, join

# Members of xarray's encoding that pack values into smaller numbers, or mask them.
_PACKING = frozenset(["_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"])

# Those that describe values, not their storage.
_OTHERS = frozenset(["units", "calendar", "dtype", "coordinates", "grid_mapping", "bounds"])
_CF_ENCODING = _PACKING - {"_Unsigned"} | _OTHERS


def read_virtual(virtual: Any) -> Iterator[Node]:
    """Yield the nodes of one of VirtualiZarr's objects, without reading what is virtual.

    Parameters
    ----------
    virtual : Dataset, DataTree, ManifestGroup or ManifestStore
        Variables that wrap a ``ManifestArray`` become references. Others, which are
        loaded, are encoded by xarray and zarr, and stored inline.

    Yields
    ------
    Node
        Groups before their members. A variable that cannot be expressed is a
        `RefusedNode` with the reason.

    Raises
    ------
    TypeError
        `virtual` is something else.
    ImportError
        VirtualiZarr is not installed.

    Examples
    --------
    >>> import xarray
    >>> loaded = xarray.Dataset({"t": ("x", [1, 2, 3])}, attrs={"title": "all in memory"})
    >>> for node in read_virtual(loaded):
    ...     print(type(node).__name__, repr(node.path))
    GroupNode ''
    ArrayNode 't'
    """
    manifests: Any = library("virtualizarr.manifests", "reading virtual datasets")
    xarray: Any = library("xarray", "reading virtual datasets")
    if isinstance(virtual, manifests.ManifestStore):
        virtual = group_of(virtual)
    if isinstance(virtual, manifests.ManifestGroup):
        yield from manifest_group_nodes(virtual, "")
    elif isinstance(virtual, xarray.Dataset):
        yield from _dataset_nodes(virtual, "")
    elif isinstance(virtual, xarray.DataTree):
        for path, node in virtual.subtree_with_keys:
            yield from _dataset_nodes(node.to_dataset(inherit=False), path.strip("./"))
    else:
        raise TypeError(
            "a Dataset, a DataTree, a ManifestGroup or a ManifestStore is needed, "
            f"not a {type(virtual).__name__}"
        )


def manifest_group_nodes(group: Any, path: str) -> Iterator[Node]:
    """Yield the nodes of a ``ManifestGroup``, recursively."""
    attributes, notes = json_attributes(dict(group.metadata.attributes))
    yield GroupNode(path, attributes, tuple(notes))
    for name, array in group.arrays.items():
        yield or_refused(join(path, name), partial(array_node, array=array))
    for name, below in group.groups.items():
        yield from manifest_group_nodes(below, join(path, name))


def _dataset_nodes(dataset: Any, path: str) -> Iterator[Node]:
    """Yield the nodes of one dataset, of virtual and loaded variables."""
    attributes, changed = json_attributes(dataset.attrs)
    yield GroupNode(path, attributes | _coordinates(dataset), tuple(changed))
    for name, variable in dataset.variables.items():
        if is_virtual(variable):
            make = partial(
                array_node,
                array=variable.data,
                dimension_names=[str(dim) for dim in variable.dims],
                attributes=_virtual_attributes(variable),
            )
        else:
            make = partial(loaded_node, variable=variable)
        yield or_refused(join(path, str(name)), make)


def _coordinates(dataset: Any) -> dict[str, str]:
    """Return the attribute by which xarray recognises non-dimension coordinates."""
    names = [str(name) for name in dataset.coords if name not in dataset.dims]
    # Names are separated by spaces; xarray, too, leaves out names that contain one.
    listed = [name for name in names if " " not in name]
    return {"coordinates": " ".join(listed)} if listed else {}


def _virtual_attributes(variable: Any) -> dict[Any, Any]:
    stated: dict[Any, Any] = {
        name: value
        for name, value in variable.encoding.items()
        if name in _CF_ENCODING and name != "dtype" and value is not None
    }
    return stated | dict(variable.attrs)


@unstable_types_accepted
def loaded_node(path: str, variable: Any, notes: Sequence[str] = ()) -> ArrayNode:
    """Encode a variable as ``Dataset.to_zarr`` does, and hold its chunks inline.

    Raises
    ------
    NotConvertibleError
        That is impossible, or it is too large.
    """
    limit = Limits().inline_bytes
    if variable.nbytes > limit:
        raise NotConvertibleError(
            f"its {variable.nbytes} bytes are loaded, but a manifest holds at most {limit}",
            remedy="Keep it virtual, or write it as a native array.",
        )
    if variable.dtype.fields is not None:
        variable = variable.copy(data=packed_values(variable.values))
    name = path.rpartition("/")[2]
    kept = {key: value for key, value in variable.encoding.items() if key in _CF_ENCODING}
    stored = kept.get("dtype")
    if isinstance(stored, np.dtype) and stored.kind != "T":  # strings have no byte order
        kept["dtype"] = stored.newbyteorder("=")
    # xarray would add NaN for floats that never had a fill value, and none for missing times.
    missing = _missing_time(variable)
    kept.setdefault("_FillValue", variable.attrs.get("_FillValue", missing))
    try:
        contents = _encoded(name, variable, kept)
    except NotConvertibleError:
        # Such as times in months, which xarray decodes only.
        contents = {}
    if not contents or not _reads_back(name, variable, contents):
        # The packing comes from one file; numbers from others may not fit.
        packing = {*_PACKING, "dtype", "units"}
        unpacked = {key: value for key, value in kept.items() if key not in packing}
        contents = _encoded(name, variable, unpacked | {"_FillValue": missing})
        if not _reads_back(name, variable, contents):
            raise NotConvertibleError("xarray does not read back the same values")
        notes = (*notes, "its encoding was dropped, because its values do not fit into it")
    metadata, chunks = array_in_memory(contents, name)
    metadata = checked_metadata(metadata)
    manifest = inline_manifest(grid_of(metadata).counts, chunks)
    return ArrayNode(path, metadata, manifest, tuple(notes))


def _missing_time(variable: Any) -> int | None:
    """Return the integer that stands for a missing time, or None if no time is missing."""
    is_missing = variable.dtype.kind in "mM" and bool(np.isnat(variable.values).any())
    return int(np.iinfo(np.int64).min) if is_missing else None


def _encoded(name: str, variable: Any, encoding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objects that ``Dataset.to_zarr`` writes, by key."""
    xarray: Any = library("xarray")
    attributes = {key: value for key, value in variable.attrs.items() if key != "_FillValue"}
    dataset = xarray.Dataset(
        {name: xarray.Variable(variable.dims, variable.data, attributes, encoding)}
    )
    contents: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            # About times that do not fit into their units: reading back is checked anyway.
            warnings.filterwarnings("ignore", "Times can't be serialized faithfully")
            dataset.to_zarr(MemoryStore(contents), zarr_format=3, consolidated=False)
    except (KeyError, TypeError, ValueError, NotImplementedError) as error:
        raise NotConvertibleError(f"xarray cannot encode its values: {error}") from error
    return contents


def _reads_back(name: str, variable: Any, contents: dict[str, Any]) -> bool:
    """Whether these objects decode to the values, which may be decoded themselves or not."""
    xarray: Any = library("xarray")
    kind = variable.dtype.kind
    with xarray.open_zarr(
        MemoryStore(contents),
        consolidated=False,
        chunks=None,
        mask_and_scale=not _PACKING & variable.attrs.keys(),
        decode_times=kind in "MO",
        decode_timedelta=kind == "m",
        decode_coords=False,
    ) as found:
        return bool(found.variables[name].equals(variable))
