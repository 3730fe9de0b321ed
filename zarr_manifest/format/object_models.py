"""Zarr object models (ZEP 6): a whole hierarchy as one JSON value. Pure.

A node of a model has the members of its metadata; a group has its nodes in ``members``, too. The
manifest of an array is inline. A model has no lock: who reads it knows what it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format.declaration import TRANSFORMERS, is_declaration
from zarr_manifest.format.keys import impossible_name, join
from zarr_manifest.format.node_metadata import ArrayMetadata, canonical_json


class ArrayModel(TypedDict):
    """An array of Zarr v3.

    Examples
    --------
    >>> array: ArrayModel = {
    ...     "zarr_format": 3, "node_type": "array", "attributes": {}, "shape": [8],
    ...     "data_type": "uint8", "fill_value": 0, "codecs": [{"name": "bytes"}],
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    ...     "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    ... }
    >>> list(nodes_of_model({"zarr_format": 3, "node_type": "group", "members": {"a": array}}))
    ['', 'a']
    """

    zarr_format: Literal[3]
    node_type: Literal["array"]
    attributes: NotRequired[dict[str, Any]]
    shape: list[int]
    data_type: str | dict[str, Any]
    chunk_grid: dict[str, Any]
    chunk_key_encoding: dict[str, Any]
    fill_value: Any
    codecs: list[Any]
    storage_transformers: NotRequired[list[dict[str, Any]] | None]
    dimension_names: NotRequired[list[str | None] | None]


class GroupModel(TypedDict):
    """A group of Zarr v3, with everything below it; see :class:`ArrayModel`."""

    zarr_format: Literal[3]
    node_type: Literal["group"]
    attributes: NotRequired[dict[str, Any]]
    members: NotRequired[dict[str, ArrayModel | GroupModel] | None]


def model_of_nodes(nodes: Mapping[str, Mapping[str, Any]]) -> ArrayModel | GroupModel:
    """Return the model of a hierarchy.

    Parameters
    ----------
    nodes : mapping of str to mapping
        The metadata of all nodes, by path; the root is ``""``.

    Examples
    --------
    >>> group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    >>> model_of_nodes({"": group, "a": group})["members"]
    {'a': {'zarr_format': 3, 'node_type': 'group', 'attributes': {}, 'members': {}}}
    """
    made: dict[str, dict[str, Any]] = {}
    for path in sorted(nodes):
        node = ArrayMetadata("", dict(nodes[path]))
        model: dict[str, Any] = {"attributes": {}, **node.undeclared}
        model.pop("consolidated_metadata", None)
        model = {name: model[name] for name in ("zarr_format", "node_type")} | model
        if node.transformers:
            model[TRANSFORMERS] = node.transformers
        if model["node_type"] == "group":
            model["members"] = {}
        if path:
            parent, _, name = path.rpartition("/")
            made[parent]["members"][name] = model
        made[path] = model
    return cast("GroupModel", made[""])


def nodes_of_model(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the metadata of all nodes of a model, by path, parents before their members.

    Zarr v2 is accepted, too; in either format, members that are null are as if they were missing,
    as pydantic-zarr writes them.

    Raises
    ------
    InvalidConfigurationError
        It is no model.

    Examples
    --------
    >>> nodes_of_model({"zarr_format": 3, "node_type": "group", "members": None})
    {'': {'zarr_format': 3, 'node_type': 'group', 'attributes': {}}}
    """
    found: dict[str, dict[str, Any]] = {}
    for path, node in _nodes("", model):
        members = {name: value for name, value in node.items() if name != "members"}
        for name in ("attributes", TRANSFORMERS, "dimension_names"):
            if members.get(name) is None:
                members.pop(name, None)
        # Tuples, as models of Python have them, become lists.
        found[path] = {**json.loads(json.dumps(members)), "attributes": _attributes(members)}
    return found


def _attributes(members: Mapping[str, Any]) -> dict[str, Any]:
    stated: dict[str, Any] = json.loads(json.dumps(members.get("attributes", {})))
    return stated


def _nodes(root: str, model: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pending = [(root, model)]
    while pending:  # not recursive: they may be nested deeply
        path, node = pending.pop()
        members = _checked(path, node)
        yield path, cast("Mapping[str, Any]", node)
        pending += [(join(path, name), member) for name, member in reversed(list(members.items()))]


def _checked(path: str, node: object) -> Mapping[str, object]:
    """Return the members of a node; none if it is an array."""
    if not isinstance(node, Mapping):
        raise _not_a_model(path, f"it is {_shown(node)}, not an object")
    stated = cast("Mapping[str, Any]", node)
    if stated.get("zarr_format") not in (2, 3):
        raise _not_a_model(path, f"'zarr_format' is {_shown(stated.get('zarr_format'))}")
    if stated["zarr_format"] == 3 and stated.get("node_type") not in ("group", "array"):
        raise _not_a_model(path, f"'node_type' is {_shown(stated.get('node_type'))}")
    members = stated.get("members")
    if is_model_of_array(stated):
        if members is not None:
            raise _not_a_model(path, "it is an array, but has members")
        return {}
    if members is None:
        return {}
    if not isinstance(members, Mapping):
        raise _not_a_model(path, f"'members' is {_shown(members)}, not an object")
    named = cast("Mapping[str, object]", members)
    wrong = next((name for name in named if "/" in name or not name or impossible_name(name)), None)
    if wrong is not None:
        raise _not_a_model(path, f"{wrong!r} is not a name that a node can have")
    return named


def is_model_of_array(node: Mapping[str, Any]) -> bool:
    """Whether a node of a model is an array.

    Examples
    --------
    >>> is_model_of_array({"zarr_format": 2, "shape": [8]})
    True
    """
    return "shape" in node if node.get("zarr_format") == 2 else node.get("node_type") == "array"


def _not_a_model(path: str, why: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(f"this is not a Zarr object model: {why}", array=path)


def _shown(value: object) -> str:
    return f"{value!r:.60}"


def structure(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model says of a node, but for where its chunks are.

    Examples
    --------
    >>> structure({"node_type": "array", "chunk-manifest-json": {"must_understand": True}})
    {'attributes': {}, 'node_type': 'array'}
    """
    members: dict[str, Any] = {"attributes": {}, **ArrayMetadata("", dict(node)).undeclared}
    members.pop("consolidated_metadata", None)
    stated: Any = node.get(TRANSFORMERS) or []
    members[TRANSFORMERS] = [each for each in stated if not is_declaration(each)] or None
    return {name: value for name, value in members.items() if value is not None}


def differences(
    nodes: Mapping[str, Mapping[str, Any]], model: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the path of each node of a hierarchy that is not as in a model, and what is wrong.

    Where its chunks are does not count: a model describes a structure.

    Parameters
    ----------
    nodes : mapping of str to mapping
        The metadata of the hierarchy's nodes, by path.
    model : mapping
        A model of Zarr v3.

    Raises
    ------
    InvalidConfigurationError
        It is none.

    Examples
    --------
    >>> group = {"zarr_format": 3, "node_type": "group"}
    >>> nodes = {"": group, "b": group | {"attributes": {"units": "K"}}, "c": group}
    >>> list(differences(nodes, group | {"members": {"a": group, "b": group}}))
    [('a', 'is missing'), ('b', "'attributes' differs"), ('c', 'is not in the model')]
    """
    if model.get("zarr_format") == 2:
        raise _not_a_model("", "it is of Zarr v2, and the hierarchy of v3")
    wanted = nodes_of_model(model)
    for path in sorted(wanted.keys() | nodes.keys()):
        if path not in nodes:
            yield path, "is missing"
        elif path not in wanted:
            yield path, "is not in the model"
        else:
            found, stated = structure(nodes[path]), structure(wanted[path])
            names = sorted(found.keys() | stated.keys())
            # Dumped, so that NaN is equal to itself, and true not to 1.
            wrong = [
                repr(name)
                for name in names
                if canonical_json(found.get(name)) != canonical_json(stated.get(name))
            ]
            if wrong:
                yield path, f"{' and '.join(wrong)} differ{'' if len(wrong) > 1 else 's'}"
