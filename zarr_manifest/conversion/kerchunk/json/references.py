"""A flat set of kerchunk references as the nodes of a hierarchy.

Keys are those of Zarr v2; a value is text, or a list of URL, offset and length. An array is
refused if one of its values cannot be expressed, because a missing chunk would read as the
fill value; a key that no array reads is named in a note, or refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.columns import KeyedReferences
from zarr_manifest.conversion.kerchunk.json.decoding import TOO_LARGE
from zarr_manifest.conversion.kerchunk.json.members import (
    ArrayMembers,
    chunk_rows,
    distribute,
    usual_rows,
)
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, relative_path_notes
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import (
    ArrayPlan,
    GroupPlan,
    plan_nodes,
    refused_strays,
)
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.manifest import (
    Manifest,
    MemberRows,
    NumberedPaths,
    PathNumbers,
    references_from_columns,
)

__all__ = ["NumberedUrls", "byte_range", "inline_bytes", "reference_nodes"]


def reference_nodes(
    references: list[KeyedReferences],
    documents: Mapping[str, Any],
    sources: NumberedUrls,
) -> Iterator[Node]:
    """Yield the nodes that metadata documents describe, with references for their chunks.

    Parameters
    ----------
    references : list of KeyedReferences
        In batches, none of them empty, without metadata documents. The list is emptied, to save
        memory.
    documents : mapping
        Metadata documents by key, as :func:`plan_nodes` takes them.
    sources : NumberedUrls
        Their URLs.

    Yields
    ------
    Node
        Parents before their members; keys that belong to no array last.
    """
    plans = plan_nodes(documents)
    paths = [plan.path for plan in plans if isinstance(plan, ArrayPlan)]
    arrays, strays = distribute(references, paths)
    references.clear()
    for plan in plans:
        if isinstance(plan, GroupPlan):
            yield GroupNode(plan.path, plan.attributes)
        elif isinstance(plan, ArrayPlan):
            yield _array_node(plan, arrays.pop(plan.path), sources)
        else:
            yield plan
    yield from refused_strays(strays, plans, "reference")


# ------------------------------------------------------------ values


@dataclass
class NumberedUrls:
    """The URLs of a set by number, and what turns them into the URL references of a manifest."""

    urls: list[str]
    to_reference: SourceUrls


@dataclass
class _ArrayColumns:
    """The references of one array, by row: in C order of its chunks."""

    path_numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    paths: PathNumbers = field(default_factory=PathNumbers)
    inline: dict[int, bytes] = field(default_factory=dict[int, bytes])
    versions: dict[str, str | None] = field(default_factory=dict[str, str | None])
    relative: set[str] = field(default_factory=set[str])

    def path_number(self, url: str | None, sources: NumberedUrls) -> int:
        """Return the number of a URL's path, and record what else the URL says."""
        source = sources.to_reference.reference(url)
        if self.versions.setdefault(source.path, source.version) != source.version:
            raise NotConvertibleError(
                "it refers to two versions of an object, but a manifest has only one per path",
                location=source.path,
            )
        if source.relative is not None:
            self.relative.add(source.relative)
        return self.paths[source.path]


def _array_node(plan: ArrayPlan, members: ArrayMembers, sources: NumberedUrls) -> Node:
    notes: list[str] = []
    try:
        rows = usual_rows(plan, members)
        if rows is None:
            members = members.without_repeated_keys()
            rows = chunk_rows(plan, members.names(), members.prefix, notes)
        columns = _columns(rows, members, sources)
        manifest = _manifest(plan, rows, columns)
    except ManifestError as error:
        return refused(plan.path, error)
    prefixed = [f"array {plan.path!r}: {note}" for note in notes]
    relative = relative_path_notes(plan.path, columns.relative)
    return ArrayNode(plan.path, plan.metadata, manifest, (*plan.notes, *prefixed, *relative))


def _columns(rows: MemberRows, members: ArrayMembers, sources: NumberedUrls) -> _ArrayColumns:
    try:
        return _columns_together(rows, members.references, sources)
    except (ManifestError, ValueError):
        # One by one, which finds the reference to name.
        return _columns_one_by_one(rows, members, sources)


def _columns_together(
    rows: MemberRows, references: KeyedReferences, sources: NumberedUrls
) -> _ArrayColumns:
    order = rows.members
    urls, offsets, lengths, others = references[1:]
    if len(order) < len(urls) or (order[1:] < order[:-1]).any():
        urls, offsets, lengths = urls[order], offsets[order], lengths[order]
    columns = _ArrayColumns(np.empty(0, np.int32), offsets, lengths)
    columns.path_numbers = _path_numbers(urls, columns, sources)
    if others:
        places: list[int] = np.flatnonzero(columns.path_numbers < 0).tolist()
        values = [others[member] for member in order[places].tolist()]
        if set(map(type, values)) == {str}:
            texts = inline_texts(cast("list[str]", values))
            columns.inline = dict(zip(places, texts, strict=True))
        else:
            for row, value in zip(places, values, strict=True):
                _take_other(columns, row, value, sources)
    return columns


def _path_numbers(
    urls: npt.NDArray[np.int32], columns: _ArrayColumns, sources: NumberedUrls
) -> npt.NDArray[np.int32]:
    """Return the path number of each URL number; -1 for -1."""
    most = int(urls.max(initial=-1))
    if most > 4 * len(urls):
        used, which = np.unique(urls, return_inverse=True)
        return np.array(_table(used.tolist(), columns, sources), np.int32)[which]
    # Most URLs of the set: no need to sort a million numbers.
    is_used = np.zeros(most + 2, np.bool_)  # at the end, no URL
    is_used[urls] = True
    by_number = np.full(most + 2, -1, np.int32)
    numbers = np.flatnonzero(is_used[:-1])
    by_number[numbers] = _table(numbers.tolist(), columns, sources)
    return by_number[urls]


def _table(numbers: list[int], columns: _ArrayColumns, sources: NumberedUrls) -> list[int]:
    return [
        columns.path_number(sources.urls[number], sources) if number >= 0 else -1
        for number in numbers
    ]


def _columns_one_by_one(
    rows: MemberRows, members: ArrayMembers, sources: NumberedUrls
) -> _ArrayColumns:
    """Return the columns, or raise for the first reference that cannot be expressed.

    First come those to byte ranges, by the number of their URL; then the others.
    """
    order, references, names = rows.members, members.references, members.names()
    urls, lengths = references.urls[order], references.lengths[order]
    columns = _ArrayColumns(np.full(len(order), -1, np.int32), references.offsets[order], lengths)
    ranges = np.flatnonzero((urls >= 0) & (lengths > 0))
    numbers, first, which = np.unique(urls[ranges], return_index=True, return_inverse=True)
    table = np.full(len(numbers), -1, np.int32)
    used: list[tuple[int, int]] = list(zip(numbers.tolist(), ranges[first].tolist(), strict=True))
    for place, (number, row) in enumerate(used):
        with _naming(names[int(order[row])]):
            table[place] = columns.path_number(sources.urls[number], sources)
    columns.path_numbers[ranges] = table[which]
    for row in np.flatnonzero(columns.path_numbers < 0).tolist():
        member, number = int(order[row]), int(urls[row])
        with _naming(names[member]):
            whole: object = [sources.urls[number]] if number >= 0 else None
            _take_other(columns, row, whole or references.others[member], sources)
    return columns


@contextmanager
def _naming(key: str) -> Generator[None]:
    try:
        yield
    except ManifestError as error:
        raise error.in_context(chunk=key) from error.__cause__


def _take_other(columns: _ArrayColumns, row: int, value: object, sources: NumberedUrls) -> None:
    parts = as_array(value)
    if parts is None:
        columns.inline[row] = inline_bytes(value)
        return
    url, columns.offsets[row], columns.lengths[row] = byte_range(parts)
    columns.path_numbers[row] = columns.path_number(url, sources)


def byte_range(parts: Sequence[object]) -> tuple[str | None, int, int]:
    """Return URL, offset and length of a reference; -1 stands for the rest of the object.

    Raises
    ------
    NotConvertibleError
        It has another form.

    Examples
    --------
    >>> byte_range(["s3://b/f.nc", 100, 8]), byte_range(["s3://b/f.nc"])
    (('s3://b/f.nc', 100, 8), ('s3://b/f.nc', 0, -1))
    """
    if len(parts) in (1, 3) and (parts[0] is None or isinstance(parts[0], str)):
        if len(parts) == 1:
            return parts[0], 0, -1
        offset, length = _integer(parts[1]), _integer(parts[2])
        if offset is not None and length is not None and length > 0:
            return parts[0], offset, length
    raise NotConvertibleError(
        f"a reference is {brief(parts)}, neither [url] nor [url, offset, length] with an offset "
        "of at least 0 and a length of at least 1"
    )


def _integer(value: object) -> int | None:
    # A reference set made in this process may contain numpy integers.
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    number = operator.index(cast("Any", value))
    return number if 0 <= number < TOO_LARGE else None


def inline_texts(texts: Sequence[str]) -> list[bytes]:
    """Return the content of references that are text, as :func:`inline_bytes` does.

    Raises
    ------
    ValueError
        One of them cannot be decoded, or is empty.
    """
    found = [
        binascii.a2b_base64(text[7:], strict_mode=True)
        if text.startswith("base64:")
        else text.encode()
        for text in texts
    ]
    if not all(found):
        raise ValueError("inline data is empty")
    return found


def inline_bytes(value: object) -> bytes:
    """Return the content of a reference that is text, or a JSON object that stands for its text.

    Raises
    ------
    NotConvertibleError
        It is neither, cannot be decoded, or is empty.

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
        raise NotConvertibleError(f"inline data cannot be decoded: {error}") from error
    if not isinstance(content, bytes):
        raise NotConvertibleError(f"a reference is {brief(value)}, neither text nor a list")
    if not content:
        raise NotConvertibleError("inline data is empty: no codec decodes that to a chunk")
    return content


# ------------------------------------------------------------ manifest


def _manifest(plan: ArrayPlan, rows: MemberRows, columns: _ArrayColumns) -> Manifest:
    inline = np.array(list(columns.inline), np.int64)
    references = references_from_columns(
        plan.grid_shape,
        paths=NumberedPaths(columns.path_numbers, tuple(columns.paths)),
        offsets=columns.offsets,
        lengths=columns.lengths,
        numbers=rows.numbers,
        data=dict(zip(rows.numbers[inline].tolist(), columns.inline.values(), strict=True)),
        conditions={
            path: {"version": version} for path, version in columns.versions.items() if version
        },
    )
    return Manifest(references)
