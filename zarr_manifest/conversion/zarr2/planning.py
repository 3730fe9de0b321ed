"""The groups and arrays that Zarr v2 keys describe, and the array that each key belongs to. Pure.

For any flat mapping with ``.zgroup``, ``.zattrs`` and ``.zarray`` among its keys: a kerchunk
reference set, in JSON or Parquet, or a Zarr v2 hierarchy itself. A key that no array reads is
always named or counted: somebody may be missing that data.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.nodes import GroupNode, RefusedNode, not_convertible, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2.to_v3 import ArrayPlan, convert_array, convert_group
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import ancestors, impossible_name, interpret_chunk_grid, strict

_GROUP, _ARRAY, _ATTRIBUTES, _CONSOLIDATED = ".zgroup", ".zarray", ".zattrs", ".zmetadata"
_V3 = "zarr.json"
_NAMES = frozenset({_GROUP, _ARRAY, _ATTRIBUTES, _CONSOLIDATED, _V3})


# A group, explicit or implied by the nodes below it; an array; or a node that is refused.
type Plan = GroupNode | ArrayPlan | RefusedNode


def is_metadata_key(key: str) -> bool:
    """Whether a key is that of a metadata document, for :func:`plan_nodes`.

    Examples
    --------
    >>> is_metadata_key("a/.zarray"), is_metadata_key(".zgroup"), is_metadata_key("a/0.0")
    (True, True, False)
    """
    return key.rpartition("/")[2] in _NAMES


def plan_nodes(documents: Mapping[str, Any]) -> list[Plan]:
    """Return the groups and arrays that v2 metadata documents describe, parents first.

    Parameters
    ----------
    documents : mapping
        By key, such as ``"a/.zarray"``: text, bytes, or the JSON value itself. Text may
        begin with ``base64:``, as in kerchunk, and contain a bare NaN. An error takes the
        place of a document that could not be read, and refuses the node. Consolidated
        metadata stands in for missing documents.

    Returns
    -------
    list
        Every node once: a group, an array, or a refused node. A group whose attributes
        are refused also appears as a group without attributes.

    Examples
    --------
    >>> zarray = {
    ...     "zarr_format": 2, "shape": [4, 6], "chunks": [2, 6], "dtype": "<i2", "order": "C",
    ...     "fill_value": 0, "filters": None, "compressor": None,
    ... }
    >>> root, sea, sst, bad = plan_nodes({"sea/sst/.zarray": zarray, "x/.zarray": "[]"})
    >>> root.path, sea.path, sst.path, sst.grid_shape
    ('', 'sea', 'sea/sst', (2, 1))
    >>> bad.path, bad.reason
    ('x', 'the .zarray document is not a JSON object: []')
    """
    by_path = _by_path(documents)
    plans: dict[str, Plan] = {}
    extra: list[Plan] = []
    paths = {each for path in by_path for each in (path, *ancestors(path))}
    for path in sorted(paths, key=lambda path: path.split("/") if path else []):
        parent = plans.get(path.rpartition("/")[0]) if path else None
        if parent is not None and not isinstance(parent, GroupNode):
            plans[path] = _below_no_group(path, parent)
            continue
        try:
            plans[path] = _plan(path, by_path.get(path, {}))
        except ManifestError as error:
            if _ARRAY in by_path.get(path, {}) or impossible_name(path) is not None:
                plans[path] = refused(path, error)
            else:
                plans[path] = GroupNode(path, {})
                extra.append(refused(path, error))
    return [*plans.values(), *extra]


def _by_path(documents: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    by_path: dict[str, dict[str, Any]] = {}
    for key, value in (*_consolidated(documents), *documents.items()):
        path, _, name = key.rpartition("/")
        # An empty name in the key, which Zarr v3 does not allow, is left as it is.
        if name in _NAMES and name != _CONSOLIDATED:
            by_path.setdefault(path, {})[name] = value
    return by_path


def _consolidated(documents: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in documents.items():
        path, _, name = key.rpartition("/")
        if name != _CONSOLIDATED:
            continue
        below = f"{path}/" if path else ""
        try:
            found = as_object((as_object(_load(value, name)) or {}).get("metadata"))
        except NotConvertibleError:
            # It only repeats the documents, which also exist.
            found = None
        for inner, document in (found or {}).items():
            yield below + inner, document


def _below_no_group(path: str, parent: Plan) -> RefusedNode:
    what = "a refused node" if isinstance(parent, RefusedNode) else "an array"
    return not_convertible(path, f"it lies below {parent.path!r}, {what}: only groups have members")


def _plan(path: str, documents: Mapping[str, Any]) -> Plan:
    name = impossible_name(path)
    # Those that Zarr v3 reserves may get another name.
    if name is not None and not name.startswith("__"):
        raise NotConvertibleError(f"a node of Zarr v3 cannot have the name {name!r}", array=path)
    if _V3 in documents and not {_ARRAY, _GROUP} & documents.keys():
        raise NotConvertibleError(
            "its metadata is that of Zarr v3 ('zarr.json'), which Zarr v2 reference sets do not "
            "have",
            array=path,
        )
    attributes = _load(documents[_ATTRIBUTES], _ATTRIBUTES) if _ATTRIBUTES in documents else None
    if _ARRAY not in documents:
        if _GROUP in documents:
            _check_group(_load(documents[_GROUP], _GROUP))
        return GroupNode(path, convert_group(attributes, path=path)["attributes"])
    plan = convert_array(_load(documents[_ARRAY], _ARRAY), attributes, path=path)
    strict(interpret_chunk_grid(plan.metadata))  # raises if it is too large
    return plan


def _check_group(document: Any) -> None:
    members = as_object(document)
    if members is None:
        raise NotConvertibleError(f"the .zgroup document is not a JSON object: {brief(document)}")
    version = members.get("zarr_format")
    if version != 2:
        raise NotConvertibleError(
            f"member 'zarr_format' of the .zgroup document is {brief(version)}, not 2"
        )


def _load(value: object, name: str) -> Any:
    """Return the content of a document; kerchunk writes objects, text, and base64 text."""
    if isinstance(value, ManifestError):
        raise value
    reference = as_array(value)
    if reference is not None:
        raise NotConvertibleError(
            f"the {name} document is not a JSON object but a list (a reference to another file is "
            f"not followed): {brief(reference)}"
        )
    if isinstance(value, str) and value.startswith("base64:"):
        try:
            value = base64.b64decode(value.removeprefix("base64:"), validate=True)
        except (binascii.Error, ValueError) as error:
            raise NotConvertibleError(f"the {name} document is not base64: {error}") from error
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise NotConvertibleError(f"the {name} document is not JSON: {error}") from error


# Number of keys to name in a note or a refusal; the others are counted.
_NAMED = 3


def find_owner[T](directory: str, arrays: Mapping[str, T]) -> tuple[int, T] | None:
    """Return the value for the array at or above a directory, and where relative keys begin.

    Examples
    --------
    >>> find_owner("g/a/0", {"g/a": "the array"})
    (4, 'the array')
    """
    for path in (directory, *ancestors(directory)):
        if path in arrays:
            return len(path) + 1 if path else 0, arrays[path]
    return None


def by_owner[T](
    items: Iterable[tuple[str, T]], paths: Iterable[str]
) -> tuple[dict[str, dict[str, T]], list[str]]:
    """Return what belongs to each path, the deepest above its key, by relative key; and strays.

    Examples
    --------
    >>> by_owner([("a/0", 1), ("a/b/0", 2), ("c/0", 3)], ["a", "a/b"])
    ({'a': {'0': 1}, 'a/b': {'0': 2}}, ['c/0'])
    """
    found: dict[str, dict[str, T]] = {path: {} for path in paths}
    # Many keys, few directories: each directory is looked up once.
    owner_of = functools.cache(functools.partial(find_owner, arrays=found))
    strays: list[str] = []
    for key, item in items:
        owner = owner_of(key.rpartition("/")[0])
        if owner is None:
            strays.append(key)
        else:
            owner[1][key[owner[0] :]] = item
    return found, strays


def count_keys(keys: Sequence[str], what: str) -> str:
    """Return the start of a sentence about keys.

    Examples
    --------
    >>> count_keys(["a/x"], "reference"), count_keys(["x", "y", "z", "0"], "object")
    ("the reference 'a/x' is", "4 objects ('x', 'y', 'z', …) are")
    """
    names = ", ".join(brief(key) for key in keys[:_NAMED])
    if len(keys) == 1:
        return f"the {what} {names} is"
    return f"{len(keys)} {what}s ({names}{', …' if len(keys) > _NAMED else ''}) are"


def refused_strays(keys: Iterable[str], plans: Iterable[Plan], what: str) -> Iterator[RefusedNode]:
    """Yield refusals for keys that belong to no array, grouped by likely array.

    Keys below a refused node are not reported.
    """
    refused_paths = {plan.path for plan in plans if isinstance(plan, RefusedNode)}
    strays: dict[str, list[str]] = {}
    for key in keys:
        strays.setdefault(_likely_owner(key), []).append(key)
    for path, found in strays.items():
        if not any(above in refused_paths for above in (path, *ancestors(path))):
            yield not_convertible(path, f"{count_keys(found, what)} not part of any array")


def _likely_owner(key: str) -> str:
    """Return the directory of a key, without what looks like the start of a chunk key."""
    path = key.rpartition("/")[0]
    while path.rpartition("/")[2].isdecimal():
        path = path.rpartition("/")[0]
    return path
