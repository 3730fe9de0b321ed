"""A flat set of kerchunk references as the nodes of a hierarchy.

Keys are those of Zarr v2; a value is text, or a list of URL, offset and length. An array is
refused if one of its values cannot be expressed, because a missing chunk would read as the
fill value; a key that no array reads is named in a note, or refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import operator
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.members import TOO_LARGE, Batch, Members, distribute
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, relative_path_notes
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import (
    ArrayPlan,
    GroupPlan,
    count_keys,
    plan_nodes,
    refused_strays,
    unread_keys,
)
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import collect, grid_indices
from zarr_manifest.manifest import Grid, Manifest, NumberedPaths, Rows, interpret_keys

__all__ = ["byte_range", "chunks_of", "inline_bytes", "reference_nodes"]


def reference_nodes(
    references: Iterable[Batch],
    documents: Mapping[str, Any],
    *,
    urls: SourceUrls | None = None,
) -> Iterator[Node]:
    """Yield the nodes that metadata documents describe, with references for their chunks.

    Parameters
    ----------
    references : iterable of (keys, values)
        In batches, without metadata documents.
    documents : mapping
        Metadata documents by key, as :func:`plan_nodes` takes them.
    urls : SourceUrls, optional
        Turns URLs into the URL references of a manifest.

    Yields
    ------
    Node
        Parents before their members; keys that belong to no array last.
    """
    plans = plan_nodes(documents)
    paths = [plan.path for plan in plans if isinstance(plan, ArrayPlan)]
    arrays, known, strays = distribute(references, paths)
    sources = _Sources(known, SourceUrls() if urls is None else urls)
    for plan in plans:
        if isinstance(plan, GroupPlan):
            yield GroupNode(plan.path, plan.attributes)
        elif isinstance(plan, ArrayPlan):
            yield _array_node(plan, arrays.pop(plan.path), sources)
        else:
            yield plan
    yield from refused_strays(strays, plans, "reference")


# ------------------------------------------------------------ keys


def _rows(plan: ArrayPlan, members: Members, notes: list[str]) -> Rows:
    """Return the chunk of each reference of an array; notes name references without a chunk."""
    names = members.names()
    if len(plan.grid_shape) > 1:
        names = _with_dots(plan, names, notes)
    elif not plan.grid_shape and "" in names and "0" not in names:
        # VirtualiZarr (seen in 2.8) writes no "0" after the slash.
        notes.append(f"the reference {members.keys[names.index('')]!r} was taken to be its chunk")
        names = [name or "0" for name in names]
    rows, problems = collect(
        interpret_keys(names, Grid(len(plan.grid_shape), plan.grid_shape), report_outside=True)
    )
    unread = unread_keys(problems)
    if unread:
        what = f"{count_keys(unread, 'reference')} not part of the array"
        if len(unread) == len(names) and 0 not in plan.grid_shape:
            # kerchunk (seen in 0.2.10) inlines small GRIB messages of two dimensions as '0'.
            raise NotConvertibleError(f"{what}, and there are no others: all would be fill values")
        notes.append(f"{what}, and left out")
    return rows


def _with_dots(plan: ArrayPlan, names: list[str], notes: list[str]) -> list[str]:
    """Return the keys with dots; of two spellings of a chunk, the array's own wins."""
    stated = plan.key_separator
    other = "/" if stated == "." else "."
    foreign = [other in name for name in names]
    if any(foreign):
        notes.append(
            f"{sum(foreign)} chunk keys are written with {other!r}, though the metadata says "
            f"{stated!r}; they were read as written"
        )
        own = {name for name, is_foreign in zip(names, foreign, strict=True) if not is_foreign}
        names = [
            # A key without a chunk of its own is reported, and left out.
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
    """The URLs of the set by number, and their references."""

    urls: list[str]
    to_reference: SourceUrls


@dataclass
class _Columns:
    """The references of one array, by row: in C order of its chunks."""

    path_numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    paths: dict[str, int] = field(default_factory=dict[str, int])
    inline: dict[int, bytes] = field(default_factory=dict[int, bytes])
    versions: dict[str, str | None] = field(default_factory=dict[str, str | None])
    relative: set[str] = field(default_factory=set[str])

    def path_number(self, url: str | None, sources: _Sources) -> int:
        """Return the number of a URL's path, and record what else the URL says."""
        source = sources.to_reference.reference(url)
        if self.versions.setdefault(source.path, source.version) != source.version:
            raise NotConvertibleError(
                "it refers to two versions of an object, but a manifest has only one per path",
                location=source.path,
            )
        if source.relative is not None:
            self.relative.add(source.relative)
        return self.paths.setdefault(source.path, len(self.paths))


def _array_node(plan: ArrayPlan, members: Members, sources: _Sources) -> Node:
    notes: list[str] = []
    try:
        rows = _rows(plan, members, notes)
        columns = _columns(rows, members, sources)
        manifest = _manifest(plan, rows, columns)
    except ManifestError as error:
        return refused(plan.path, error)
    prefixed = [f"array {plan.path!r}: {note}" for note in notes]
    relative = relative_path_notes(plan.path, columns.relative)
    return ArrayNode(plan.path, plan.metadata, manifest, (*plan.notes, *prefixed, *relative))


def _columns(rows: Rows, members: Members, sources: _Sources) -> _Columns:
    order = rows.members
    numbers, first, which = np.unique(
        np.array(members.urls)[order], return_index=True, return_inverse=True
    )
    table = np.full(len(numbers), -1, np.int32)
    columns = _Columns(table, np.array(members.offsets)[order], np.array(members.lengths)[order])
    used: list[tuple[int, int]] = list(zip(numbers.tolist(), first.tolist(), strict=True))
    for place, (number, row) in enumerate(used):
        if number >= 0:
            with _naming(members.name(int(order[row]))):
                table[place] = columns.path_number(sources.urls[number], sources)
    columns.path_numbers = table[which]
    for row in np.flatnonzero(columns.path_numbers < 0).tolist():
        member = int(order[row])
        with _naming(members.name(member)):
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


def _manifest(plan: ArrayPlan, rows: Rows, columns: _Columns) -> Manifest:
    inline = np.array(list(columns.inline), np.int64)
    indices: list[list[int]] = grid_indices(plan.grid_shape, rows.numbers[inline]).tolist()
    conditions = {
        path: {"version": version} for path, version in columns.versions.items() if version
    }
    return Manifest.from_columns(
        plan.grid_shape,
        paths=NumberedPaths(columns.path_numbers, tuple(columns.paths)),
        offsets=columns.offsets,
        lengths=columns.lengths,
        indices=chunks_of(plan.grid_shape, rows.numbers),
        data=dict(zip(map(tuple, indices), columns.inline.values(), strict=True)),
        conditions=conditions,
    )


def chunks_of(
    grid_shape: tuple[int, ...], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | None:
    """Return the grid index of each chunk in C order; None for all chunks."""
    return None if len(numbers) == math.prod(grid_shape) else grid_indices(grid_shape, numbers)
