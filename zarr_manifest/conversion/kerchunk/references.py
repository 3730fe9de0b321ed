"""A flat set of references, as kerchunk has it, as the nodes of a hierarchy.

Keys are those of Zarr v2; a value is text, or a list of URL, offset and length. A value
that cannot be expressed refuses its array, because a chunk that is left out would read as
the fill value; a key that no array reads is named in a note, or refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zarr_manifest._chunk_grid import grid_indices
from zarr_manifest._findings import collect
from zarr_manifest._rows import Grid, Rows, interpret_keys
from zarr_manifest.conversion.json_values import as_array, as_object, shown
from zarr_manifest.conversion.kerchunk.urls import SourceUrls
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.conversion.zarr2.chunk_key_owners import (
    count_keys,
    find_owner,
    refused_strays,
    unread_keys,
)
from zarr_manifest.conversion.zarr2.documents import ArrayPlan, GroupPlan, plan_nodes, refused
from zarr_manifest.errors import ManifestError
from zarr_manifest.manifest import Manifest

__all__ = ["inline_bytes", "reference_nodes"]

# No manifest can state it (specification, "Manifest document").
_TOO_LARGE = 2**53


@dataclass
class _Members:
    """The references below one array, in columns: there may be millions."""

    names: list[str] = field(default_factory=list[str])
    # Number of the URL; negative for what is not [url, offset, length], which is in `others`.
    urls: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    others: dict[int, object] = field(default_factory=dict[int, object])


type _Urls = dict[str, int]


def reference_nodes(
    references: Iterable[tuple[str, Any]],
    documents: Mapping[str, Any],
    *,
    urls: SourceUrls | None = None,
) -> Iterator[Node]:
    """Yield the nodes that metadata documents describe, with the references of their chunks.

    Parameters
    ----------
    references : iterable of (str, value)
        By key; metadata documents are not among them.
    documents : mapping
        Metadata documents by key, as :func:`~.zarr2.documents.plan_nodes` takes them.
    urls : SourceUrls, optional
        What makes references of a manifest of URLs.

    Yields
    ------
    Node
        Parents before their members; at the end, what belongs to no array.
    """
    plans = plan_nodes(documents)
    arrays = {plan.path: _Members() for plan in plans if isinstance(plan, ArrayPlan)}
    known: _Urls = {}
    strays = _distribute(references, arrays, known)
    sources = _Sources(list(known), SourceUrls() if urls is None else urls)
    for plan in plans:
        if isinstance(plan, GroupPlan):
            yield GroupNode(plan.path, plan.attributes)
        elif isinstance(plan, ArrayPlan):
            yield _array_node(plan, arrays.pop(plan.path), sources)
        else:
            yield plan
    yield from refused_strays(strays, plans, "reference")


# ------------------------------------------------------------ keys


def _distribute(
    references: Iterable[tuple[str, Any]], arrays: Mapping[str, _Members], urls: _Urls
) -> list[str]:
    """Give every reference to its array, and return the keys of the rest."""
    # There are millions of keys and few directories: each is looked up once.
    owners: dict[str, tuple[int, _Members] | None] = {}
    strays: list[str] = []
    for key, value in references:
        directory = key.rpartition("/")[0]
        try:
            owner = owners[directory]
        except KeyError:
            owner = owners[directory] = find_owner(directory, arrays)
        if owner is None:
            strays.append(key)
        else:
            start, members = owner
            members.names.append(key[start:])
            _append(members, value, urls)
    return strays


def _append(members: _Members, value: object, urls: _Urls) -> None:
    parts: list[Any] = []
    if type(value) is list:
        parts = value  # pyright: ignore[reportUnknownVariableType]
    if len(parts) == 3:
        url, offset, length = parts
        plain = type(url) is str and type(offset) is int and type(length) is int
        if plain and 0 <= offset < _TOO_LARGE and 0 < length < _TOO_LARGE:
            members.urls.append(urls.setdefault(url, len(urls)))
            members.offsets.append(offset)
            members.lengths.append(length)
            return
    members.others[len(members.urls)] = value
    members.urls.append(-1)
    members.offsets.append(0)
    members.lengths.append(-1)


def _rows(plan: ArrayPlan, members: _Members, notes: list[str]) -> Rows:
    """Return which chunk each reference of an array is for; notes name those that are for none."""
    names = members.names
    if len(plan.grid_shape) > 1:
        names = _with_dots(plan, members, notes)
    rows, problems = collect(
        interpret_keys(names, Grid(len(plan.grid_shape), plan.grid_shape), report_outside=True)
    )
    unread = unread_keys(problems)
    if unread:
        notes.append(f"{count_keys(unread, 'reference')} no chunk of the array, and left out")
    return rows


def _with_dots(plan: ArrayPlan, members: _Members, notes: list[str]) -> list[str]:
    """Return the keys with dots; of two spellings of a chunk, the array's own one is right."""
    stated = plan.key_separator
    other = "/" if stated == "." else "."
    names = members.names
    foreign = [other in name for name in names]
    if any(foreign):
        notes.append(
            f"{sum(foreign)} keys of chunks are written with {other!r}, though the metadata says "
            f"{stated!r}; taken for what they look like"
        )
        own = {name for name, is_foreign in zip(names, foreign, strict=True) if not is_foreign}
        names = [
            # What has no chunk of its own is reported, and left out.
            f"{name} beside {name.replace(other, stated)}"
            if is_foreign and name.replace(other, stated) in own
            else name
            for name, is_foreign in zip(names, foreign, strict=True)
        ]
    elif stated == ".":
        return names
    return [name if "." in name else name.replace("/", ".") for name in names]


# ------------------------------------------------------------ values


@dataclass
class _Sources:
    """The URLs of the set by number, and what makes references of them."""

    urls: list[str]
    to_reference: SourceUrls


@dataclass
class _Columns:
    """The references of one array, by row: in C order of its chunks."""

    paths: npt.NDArray[np.object_]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    inline: dict[int, bytes] = field(default_factory=dict[int, bytes])
    versions: dict[str, str | None] = field(default_factory=dict[str, str | None])
    relative: set[str] = field(default_factory=set[str])

    def path_of(self, url: str | None, sources: _Sources) -> str:
        """Return the path of a URL, and take note of what else is said with it."""
        source = sources.to_reference.reference(url)
        if self.versions.setdefault(source.path, source.version) != source.version:
            raise NotConvertibleError(
                "it refers to two versions of one object, and a manifest states one for each path",
                location=source.path,
            )
        if source.was_relative:
            self.relative.add(str(url))
        return source.path


def _array_node(plan: ArrayPlan, members: _Members, sources: _Sources) -> Node:
    notes: list[str] = []
    try:
        rows = _rows(plan, members, notes)
        columns = _columns(rows, members, sources)
        manifest = _manifest(plan, rows, columns)
    except ManifestError as error:
        return refused(plan.path, error)
    if columns.relative:
        notes.append(
            f"{len(columns.relative)} relative paths, such as {min(columns.relative)!r}, were "
            "taken relative to the working directory, as fsspec does"
        )
    prefixed = (f"array {plan.path!r}: {note}" for note in notes)
    return ArrayNode(plan.path, plan.metadata, manifest, (*plan.notes, *prefixed))


def _columns(rows: Rows, members: _Members, sources: _Sources) -> _Columns:
    order = np.array(rows.members, np.int64)
    urls = np.array(members.urls, np.int64)[order]
    columns = _Columns(
        np.full(len(order), "", object),
        np.array(members.offsets, np.int64)[order],
        np.array(members.lengths, np.int64)[order],
    )
    numbers, first, which = np.unique(urls, return_index=True, return_inverse=True)
    paths = np.full(len(numbers), "", object)
    for place, number in enumerate(cast("list[int]", numbers.tolist())):
        row = int(first[place])
        if number >= 0:
            with _naming(members.names[rows.members[row]]):
                paths[place] = columns.path_of(sources.urls[number], sources)
    columns.paths[:] = paths[which]
    for row in np.flatnonzero(urls < 0).tolist():
        member = rows.members[row]
        with _naming(members.names[member]):
            _take_other(columns, row, members.others[member], sources)
    return columns


@contextmanager
def _naming(key: str) -> Generator[None]:
    try:
        yield
    except ManifestError as error:
        raise error.in_context(chunk=key) from error.__cause__


def _take_other(columns: _Columns, row: int, value: object, sources: _Sources) -> None:
    parts = as_array(value)
    if parts is None:
        columns.inline[row] = inline_bytes(value)
        return
    url, columns.offsets[row], columns.lengths[row] = _byte_range(parts)
    columns.paths[row] = columns.path_of(url, sources)


def _byte_range(parts: Sequence[object]) -> tuple[str | None, int, int]:
    """Return URL, offset and length; -1 is the rest of the object."""
    if len(parts) in (1, 3) and (parts[0] is None or isinstance(parts[0], str)):
        if len(parts) == 1:
            return parts[0], 0, -1
        offset, length = _integer(parts[1]), _integer(parts[2])
        if offset is not None and length is not None and length > 0:
            return parts[0], offset, length
    raise NotConvertibleError(
        f"a reference is {shown(parts)}, neither [url] nor [url, offset, length] with an offset "
        "of at least 0 and a length of at least 1"
    )


def _integer(value: object) -> int | None:
    # What a reference set that was made in this process has may be of numpy.
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    number = operator.index(cast("Any", value))
    return number if 0 <= number < _TOO_LARGE else None


def inline_bytes(value: object) -> bytes:
    """Return the content of a reference that is text, or a JSON object to be taken as text.

    Raises
    ------
    NotConvertibleError
        If it is neither, is not what it says, or is empty.

    Examples
    --------
    >>> inline_bytes("base64:cGxhaW4="), inline_bytes("plain")
    (b'plain', b'plain')
    """
    if as_object(value) is not None:
        value = json.dumps(value)
    try:
        content = value.encode() if isinstance(value, str) else value
        if isinstance(content, bytes) and content.startswith(b"base64:"):
            content = base64.b64decode(content[7:], validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotConvertibleError(f"inline data is not what it says: {error}") from error
    if not isinstance(content, bytes):
        raise NotConvertibleError(f"a reference is {shown(value)}, neither text nor a list")
    if not content:
        raise NotConvertibleError("inline data has no bytes: no codec decodes that to a chunk")
    return content


# ------------------------------------------------------------ manifest


def _manifest(plan: ArrayPlan, rows: Rows, columns: _Columns) -> Manifest:
    chunks = grid_indices(plan.grid_shape, rows.numbers)
    conditions = {
        path: {"version": version} for path, version in columns.versions.items() if version
    }
    return Manifest.from_columns(
        plan.grid_shape,
        paths=columns.paths,
        offsets=columns.offsets,
        lengths=columns.lengths,
        chunks=chunks,
        data={tuple(chunks[row].tolist()): data for row, data in columns.inline.items()},
        conditions=conditions,
    )
