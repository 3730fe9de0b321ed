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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.decoding import TOO_LARGE, KeyedReferences
from zarr_manifest.conversion.kerchunk.json.members import (
    ArrayMembers,
    chunk_rows,
    distribute,
    usual_rows,
)
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, relative_path_notes
from zarr_manifest.conversion.nodes import ArrayNode, Node, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import ArrayPlan, plan_nodes, refused_strays
from zarr_manifest.errors import ManifestError, NotConvertibleError, in_context
from zarr_manifest.format import parse_conditions
from zarr_manifest.manifest import (
    Extras,
    Manifest,
    MemberRows,
    NumberedPaths,
    PathNumbers,
    References,
    distinct_numbers,
    references_from_columns,
)


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
        if isinstance(plan, ArrayPlan):
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
class ReferenceColumns:
    """The references of some chunks, by row.

    Parameters
    ----------
    path_numbers, offsets, lengths : ndarray
        Of a row without a path, the number is -1.
    to_reference : SourceUrls
        What turns URLs into paths.
    """

    path_numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    to_reference: SourceUrls
    paths: PathNumbers = field(default_factory=PathNumbers)
    inline: dict[int, bytes] = field(default_factory=dict[int, bytes])
    versions: dict[int, str] = field(default_factory=dict[int, str])
    relative: set[str] = field(default_factory=set[str])

    def _source(self, url: str | None) -> tuple[int, str | None]:
        """Return the number of a URL's path, and the version in the URL."""
        source = self.to_reference.reference(url)
        if source.relative is not None:
            self.relative.add(source.relative)
        return self.paths[source.path], source.version

    def take(self, row: int, value: object) -> None:
        """Set a row to a reference in any form."""
        parts = as_array(value)
        if parts is None:
            self.inline[row] = inline_bytes(value)
            return
        url, self.offsets[row], self.lengths[row] = byte_range(parts)
        self.path_numbers[row], version = self._source(url)
        if version is not None:
            self.versions[row] = version

    def take_urls(self, urls: Iterable[str], which: npt.NDArray[np.integer]) -> None:
        """Set the paths of all rows, given the number of the URL of each, from 1; 0 has none."""
        table = [(-1, None), *map(self._source, urls)]
        self.path_numbers = np.array([number for number, _ in table], np.int32)[which]
        if any(version is not None for _, version in table):
            places: list[int] = which.tolist()
            versions = ((row, table[place][1]) for row, place in enumerate(places))
            self.versions = {row: each for row, each in versions if each is not None}

    def references(self, grid_shape: tuple[int, ...], numbers: npt.NDArray[np.int64]) -> References:
        """Return the references, given the C-order number of the chunk of each row.

        Raises
        ------
        InvalidEntryError
            No request can name a version.
        """
        inline = np.array(list(self.inline), np.int64)
        found = references_from_columns(
            grid_shape,
            paths=NumberedPaths(self.path_numbers, tuple(self.paths)),
            offsets=self.offsets,
            lengths=self.lengths,
            numbers=numbers,
            data=dict(zip(numbers[inline].tolist(), self.inline.values(), strict=True)),
        )
        versions = {row: each for row, each in self.versions.items() if self.path_numbers[row] >= 0}
        if not versions:
            return found
        rows: list[int] = found.rows(numbers[list(versions)]).tolist()
        distinct = dict.fromkeys(versions.values())
        extras = {each: Extras(conditions=parse_conditions(None, None, each)) for each in distinct}
        own = {row: extras[each] for row, each in zip(rows, versions.values(), strict=True)}
        return found.replaced(extras=found.extras_by_row() | own)


def _array_node(plan: ArrayPlan, members: ArrayMembers, sources: NumberedUrls) -> Node:
    notes: list[str] = []
    try:
        rows = usual_rows(plan, members)
        if rows is None:
            members = members.without_repeated_keys()
            rows = chunk_rows(plan, members.names(), members.prefix, notes)
        columns = _columns(rows, members, sources)
        manifest = Manifest(columns.references(plan.grid_shape, rows.numbers))
    except ManifestError as error:
        return refused(plan.path, error)
    notes += relative_path_notes(columns.relative)
    return ArrayNode(plan.path, plan.metadata, manifest, (*plan.notes, *notes))


def _columns(rows: MemberRows, members: ArrayMembers, sources: NumberedUrls) -> ReferenceColumns:
    """Return the columns, or raise for the first reference that cannot be expressed."""
    order = rows.members
    urls, offsets, lengths, others = members.references[1:]
    if len(order) < len(urls) or (order[1:] < order[:-1]).any():
        urls, offsets, lengths = urls[order], offsets[order], lengths[order]
    columns = ReferenceColumns(urls, offsets, lengths, sources.to_reference)
    try:
        # 0 stands for what names no object in the usual form.
        used, which = distinct_numbers(urls + np.int32(1), len(sources.urls) + 1)
        numbers: list[int] = used.tolist()
        if numbers[:1] != [0]:
            which = which + 1
        columns.take_urls((sources.urls[n - 1] for n in numbers if n), which)
        for row in np.flatnonzero(columns.path_numbers < 0).tolist():
            columns.take(row, others[order.item(row)])
    except ManifestError:
        _require_each(rows, members, sources)
        raise
    return columns


def _require_each(rows: MemberRows, members: ArrayMembers, sources: NumberedUrls) -> None:
    """Raise for the first reference that cannot be expressed, by its key."""
    names = members.names()
    order: list[int] = rows.members.tolist()
    nothing = np.zeros(len(order), np.int64)
    columns = ReferenceColumns(
        nothing.astype(np.int32), nothing, nothing.copy(), sources.to_reference
    )
    for row, member in enumerate(order):
        with in_context(chunk=names[member]):
            columns.take(row, members.references.value(member, sources.urls))


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
