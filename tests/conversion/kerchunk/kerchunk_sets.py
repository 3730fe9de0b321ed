"""Kerchunk reference sets, hand-written or read twice: by fsspec, and as our hierarchies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import zarr
from zarr.storage import FsspecStore

from tests.conversion.garbage import no_garbage_collected
from zarr_manifest import Manifest, ManifestStore
from zarr_manifest.conversion import (
    ArrayNode,
    ConversionReport,
    Node,
    RefusedNode,
    read_kerchunk_json,
    write_hierarchy,
)

type Values = dict[str, np.ndarray[Any, Any]]

ZGROUP = '{"zarr_format": 2}'
URL = ["s3://b/f.nc", 100, 12]


def zarray(**members: Any) -> dict[str, Any]:
    """A ``.zarray`` document: 4 × 6 int16 in chunks of 2 × 3, unless told otherwise."""
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [4, 6],
        "chunks": [2, 3],
        "dtype": "<i2",
        "order": "C",
        "fill_value": 0,
        "filters": None,
        "compressor": None,
    }
    return document | members


def nodes(references: Any, **options: Any) -> dict[str, Node]:
    return {node.path: node for node in read_kerchunk_json(references, **options)}


def array_node(references: Any, path: str = "a", **options: Any) -> ArrayNode:
    node = nodes(references, **options)[path]
    assert isinstance(node, ArrayNode), node
    return node


def entries(references: Any, path: str = "a", **options: Any) -> dict[tuple[int, ...], Any]:
    manifest = array_node(references, path, **options).manifest
    assert isinstance(manifest, Manifest)
    return {
        index: r.data if r.data is not None else (r.path, r.offset, r.length)
        for index, r in manifest.items()
    }


def refusal(references: Any, path: str = "a", **options: Any) -> RefusedNode:
    found = [
        node
        for node in read_kerchunk_json(references, **options)
        if isinstance(node, RefusedNode) and node.path == path
    ]
    assert len(found) == 1, found
    return found[0]


def one(value: Any, **members: Any) -> dict[str, Any]:
    """A set whose only reference is for the first chunk of an array ``a``."""
    return {"a/.zarray": zarray(**members), "a/0.0": value}


def hdf5_references(file: Path, **options: Any) -> dict[str, Any]:
    """Return the references that kerchunk makes of an HDF5 or netCDF-4 file."""
    import kerchunk.hdf

    with no_garbage_collected():
        references: dict[str, Any] = kerchunk.hdf.SingleHdf5ToZarr(str(file), **options).translate()
    return references


def values_of(node: Any, **open_options: Any) -> Values:
    """Return the values of all arrays by path; an array at the root has the path ``""``."""
    if isinstance(node, zarr.Array):
        return {"": np.asarray(node[...])}
    members = dict(node.members(max_depth=None))
    return {
        path: np.asarray(array[...])
        for path, array in members.items()
        if isinstance(array, zarr.Array)
    }


def read_by_fsspec(references: dict[str, Any], **options: Any) -> Values:
    """Read a reference set as its own users do: zarr over fsspec's ReferenceFileSystem."""
    fs = fsspec.filesystem(
        "reference",
        fo=references,
        remote_protocol="file",
        asynchronous=True,
        skip_instance_cache=True,
        **options,
    )
    store = FsspecStore(fs, path="", read_only=True)
    # One by one: through fsspec, zarr 3.1 lists no members of groups within groups.
    keys = [f"/{key}" for key in fs.references if f"/{key}".endswith("/.zarray")]
    paths = [key[1:].removesuffix(".zarray").removesuffix("/") for key in keys]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            path: np.asarray(zarr.open_array(store, path=path, mode="r", zarr_format=2)[...])
            for path in paths
        }


def read_as_manifests(
    references: Any, root: Path, **options: Any
) -> tuple[Values, ConversionReport]:
    """Convert a reference set, write it, and read what was written through zarr."""
    report = write_hierarchy(root, read_kerchunk_json(references, **options))
    return read_hierarchy(root), report


def read_hierarchy(root: Path) -> Values:
    with warnings.catch_warnings():
        # zarr says of some data types that they are not in the specification.
        warnings.simplefilter("ignore")
        store = ManifestStore(root, allow=["file:///"])
        return values_of(zarr.open(store, mode="r", zarr_format=3))


def assert_equal(ours: Values, theirs: Values) -> None:
    assert sorted(ours) == sorted(theirs)
    for path, values in theirs.items():
        assert ours[path].shape == values.shape, path
        assert ours[path].dtype.newbyteorder("<") == values.dtype.newbyteorder("<"), path
        np.testing.assert_array_equal(ours[path], values, err_msg=path)
