"""Zarr object models (ZEP 6): hierarchies as one JSON value, with inline manifests, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarr_manifest.conversion.files import read_hierarchy
from zarr_manifest.conversion.nodes import ConversionReport, Node, RefusedNode, held
from zarr_manifest.conversion.target import write_hierarchy
from zarr_manifest.conversion.zarr2 import read_zarr2
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import (
    LARGEST_INTEGER,
    TRANSFORMERS,
    ArrayMetadata,
    ArrayModel,
    GroupModel,
    Limits,
    dump_node,
    is_model_of_array,
    join,
    model_of_nodes,
    nodes_of_model,
    with_members,
)
from zarr_manifest.hierarchy import ConditionCheck, ManifestStore, Verify
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike


def to_model(
    location: StoreLike,
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
) -> GroupModel | ArrayModel:
    """Return a hierarchy as one JSON value: its nodes, and where their chunks are.

    A Zarr object model (ZEP 6), in which every array has an inline manifest whose paths are URLs.
    Native chunks, and those of Zarr v2, are referred to, not copied. An array without chunks has
    no manifest.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: of Zarr v3 or v2, with manifests, without, or mixed. One with native arrays
        must have a URL, and be able to list its objects.
    allow, base, limits
        As for :class:`ManifestStore`. Sources are not read.

    Returns
    -------
    GroupModel or ArrayModel
        A dict, which ``json`` can write.

    Raises
    ------
    NotConvertibleError
        A node cannot be expressed; a note names each further one.
    ManifestError
        The hierarchy, or a manifest, cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> entries = {"0": {"path": "s3://bucket/raw.bin", "length": 4}}
    >>> options = {"shape": 8, "chunks": 4, "dtype": "u1"}
    >>> zarr_manifest.create_array(root, "a", entries, **options)
    >>> array = to_model(root)["members"]["a"]
    >>> array["shape"], array["storage_transformers"][0]["configuration"]["manifest"]
    ([8], {'0': {'path': 's3://bucket/raw.bin', 'offset': 0, 'length': 4}})
    """
    contents: dict[str, Any] = {}
    found = map(held, read_hierarchy(location, allow=allow, base=base, limits=limits))
    report = write_hierarchy(MemoryStore(contents), found, inline_below=LARGEST_INTEGER, lock=False)
    _require_all(report.refused)
    nodes = {key.rpartition("/")[0]: value.to_bytes() for key, value in contents.items()}
    return model_of_nodes({path: _described(json.loads(body)) for path, body in nodes.items()})


def _described(node: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a node; an array without chunks needs no manifest."""
    (declared,) = node.get(TRANSFORMERS) or [None]
    if declared is not None and not declared["configuration"]["manifest"]:
        return ArrayMetadata("", node).undeclared
    return node


def _require_all(refused: Iterable[RefusedNode]) -> None:
    errors = [NotConvertibleError(node.reason, array=node.path) for node in refused]
    if errors:
        for other in errors[1:]:
            errors[0].add_note(other.message)
        raise errors[0]


def from_model(
    model: Mapping[str, Any],
    target: StoreLike,
    *,
    base: str | Path | None = None,
    overwrite: bool = False,
    allow: Allow = None,
) -> ConversionReport:
    """Write the hierarchy that a model describes.

    Parameters
    ----------
    model : mapping
        A Zarr object model of v3 or v2: by :func:`to_model`, or as ``model_dump()`` of
        pydantic-zarr, or made by hand. An array without a manifest has no chunks.
    target : str, Path, obstore store or zarr Store
        Where to write it.
    base : str or Path, optional
        What relative paths of the model resolve against, instead of the declared base.
    overwrite, allow
        As for :func:`zarr_manifest.conversion.write_hierarchy`.

    Returns
    -------
    ConversionReport

    Raises
    ------
    InvalidConfigurationError
        It is no model.
    ManifestError
        A node cannot be expressed: nothing is written then. Or as
        :func:`zarr_manifest.conversion.write_hierarchy`.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> from zarr_manifest import ManifestStore
    >>> target = pathlib.Path(tempfile.mkdtemp())
    >>> model = {"zarr_format": 3, "node_type": "group", "attributes": {"title": "Seas"}}
    >>> print(from_model(model, target))
    1 group, 0 arrays, 0 references
    >>> zarr.open_group(ManifestStore(target), mode="r").attrs["title"]
    'Seas'
    """
    nodes = list(read_model(model, base=base, allow=allow))
    _require_all(node for node in nodes if isinstance(node, RefusedNode))
    return write_hierarchy(target, nodes, overwrite=overwrite, allow=allow)


def read_model(
    model: Mapping[str, Any], *, base: str | Path | None = None, allow: Allow = None
) -> Iterator[Node]:
    """Yield the nodes of a model, to be written; see :func:`from_model`.

    Examples
    --------
    >>> list(read_model({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}))
    [GroupNode(path='', attributes={'a': 1}, notes=())]
    """
    if model.get("zarr_format") == 2:
        # It has no chunks, which could be somewhere.
        return read_zarr2(_store(_v2_documents(model)), url="./")
    return read_hierarchy(_store(_documents(model)), base=base, allow=allow)


def _documents(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    nodes = nodes_of_model(model)
    root = nodes.pop("")
    if nodes:
        root = with_members(root, nodes)
    return {join(path, "zarr.json"): node for path, node in {"": root, **nodes}.items()}


def _v2_documents(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = {}
    for path, node in nodes_of_model(model).items():
        name = ".zarray" if is_model_of_array(node) else ".zgroup"
        documents[join(path, ".zattrs")] = node.pop("attributes")
        documents[join(path, name)] = node
    return documents


def _store(documents: Mapping[str, dict[str, Any]]) -> MemoryStore:
    contents = {key: cpu.Buffer.from_bytes(dump_node(node)) for key, node in documents.items()}
    return MemoryStore(dict(contents))


class ModelStore(ManifestStore):
    """A store of the hierarchy that a model describes, which zarr and xarray open.

    Nothing is written; it cannot be changed.

    Parameters
    ----------
    model : mapping
        A Zarr object model of v3, such as :func:`to_model` returns.
    allow, base, verify, conditions, limits
        As for :class:`ManifestStore`.

    Raises
    ------
    InvalidConfigurationError
        It is no model.

    Examples
    --------
    >>> import zarr
    >>> model = {"zarr_format": 3, "node_type": "group", "attributes": {"title": "Seas"}}
    >>> zarr.open_group(ModelStore(model), mode="r").attrs["title"]
    'Seas'
    """

    def __init__(
        self,
        model: Mapping[str, Any],
        *,
        allow: Allow = None,
        base: str | Path | None = None,
        verify: Verify = "auto",
        conditions: ConditionCheck = "check",
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            _store(_documents(model)).with_read_only(True),
            allow=allow,
            base=base,
            verify=verify,
            conditions=conditions,
            limits=limits,
        )
