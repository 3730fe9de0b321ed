"""A flat set of kerchunk references as the nodes of a hierarchy.

Keys are those of Zarr v2; a value is text, or a list of URL, offset and length. An array is
refused if one of its values cannot be expressed, because a missing chunk would read as the
fill value; a key that no array reads is named in a note, or refused. Where a batch of references
belongs to a single array, as usual, their keys are not looked at one by one.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.decoding import TOO_LARGE, KeyedReferences, KeyText
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, relative_path_notes
from zarr_manifest.conversion.nodes import ArrayNode, Node, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import (
    ArrayPlan,
    count_keys,
    find_owner,
    plan_nodes,
    refused_strays,
)
from zarr_manifest.errors import ManifestError, NotConvertibleError, in_context
from zarr_manifest.format import ancestors, collect, number_chunks, parse_conditions
from zarr_manifest.manifest import (
    Extras,
    Grid,
    Manifest,
    MemberRows,
    NumberedPaths,
    PathNumbers,
    References,
    distinct_numbers,
    interpret_keys,
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
class _ArrayColumns:
    """The references of one array, by row: in C order of its chunks."""

    path_numbers: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    sources: NumberedUrls
    paths: PathNumbers = field(default_factory=PathNumbers)
    inline: dict[int, bytes] = field(default_factory=dict[int, bytes])
    versions: dict[int, str] = field(default_factory=dict[int, str])
    relative: set[str] = field(default_factory=set[str])

    def source(self, url: str | None) -> tuple[int, str | None]:
        """Return the number of a URL's path, and the version in the URL."""
        source = self.sources.to_reference.reference(url)
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
        self.path_numbers[row], version = self.source(url)
        if version is not None:
            self.versions[row] = version


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
    notes += relative_path_notes(columns.relative)
    return ArrayNode(plan.path, plan.metadata, manifest, (*plan.notes, *notes))


def _columns(rows: MemberRows, members: ArrayMembers, sources: NumberedUrls) -> _ArrayColumns:
    """Return the columns, or raise for the first reference that cannot be expressed."""
    order = rows.members
    urls, offsets, lengths, others = members.references[1:]
    if len(order) < len(urls) or (order[1:] < order[:-1]).any():
        urls, offsets, lengths = urls[order], offsets[order], lengths[order]
    columns = _ArrayColumns(urls, offsets, lengths, sources)
    try:
        # 0 stands for what names no object in the usual form.
        used, which = distinct_numbers(urls + np.int32(1), len(sources.urls) + 1)
        numbers: list[int] = used.tolist()
        table = [columns.source(sources.urls[n - 1]) if n else (-1, None) for n in numbers]
        columns.path_numbers = np.array([number for number, _ in table], np.int32)[which]
        if any(version is not None for _, version in table):
            places: list[int] = which.tolist()
            versions = ((row, table[place][1]) for row, place in enumerate(places))
            columns.versions = {row: each for row, each in versions if each is not None}
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
    columns = _ArrayColumns(nothing.astype(np.int32), nothing, nothing.copy(), sources)
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
    )
    versions = {rows.numbers.item(row): version for row, version in columns.versions.items()}
    return Manifest(with_versions(references, versions))


def with_versions(references: References, versions: Mapping[int, str]) -> References:
    """Return references to certain versions of objects, by C-order number of the chunk.

    Raises
    ------
    InvalidEntryError
        No request can name a version.
    """
    if not versions:
        return references
    rows: list[int] = references.rows(np.array(list(versions), np.int64)).tolist()
    distinct = dict.fromkeys(versions.values())
    extras = {each: Extras(conditions=parse_conditions(None, None, each)) for each in distinct}
    others = {row: extra for extra, own in references.extras() for row in own}
    own = {row: extras[each] for row, each in zip(rows, versions.values(), strict=True)}
    return references.replaced(extras=others | own)


# ------------------------------------------------------------ by array

# Number of references of several arrays that are assigned at a time.
_BATCH_SIZE = 2**18


@dataclass(slots=True)
class ArrayMembers:
    """The references below one array.

    Parameters
    ----------
    path : str
        Path of the array.
    runs : list of KeyedReferences
        The references, in the order of the document.
    """

    path: str
    runs: list[KeyedReferences] = field(default_factory=list[KeyedReferences])

    @property
    def prefix(self) -> str:
        """What the keys begin with."""
        return f"{self.path}/" if self.path else ""

    @property
    def references(self) -> KeyedReferences:
        """All references as a single run."""
        if len(self.runs) != 1:
            self.runs = [KeyedReferences.joined(self.runs)]
        return self.runs[0]

    def names(self) -> list[str]:
        """Return all keys, relative to the array."""
        start = len(self.prefix)
        return [key[start:] for key in self.references.keys.listed()]

    def without_repeated_keys(self) -> ArrayMembers:
        """Return the members that count: of those with the same key, the last one."""
        keys = self.references.keys.listed()
        last = dict(zip(keys, range(len(keys)), strict=True))
        if len(last) == len(keys):
            return self
        rows = np.fromiter(last.values(), np.int64, len(last))
        return ArrayMembers(self.path, [self.references.rows(rows, keys)])


def distribute(
    batches: Iterable[KeyedReferences], paths: Iterable[str]
) -> tuple[dict[str, ArrayMembers], list[str]]:
    """Assign every reference to its array.

    Parameters
    ----------
    batches : iterable of KeyedReferences
        All references; none of them empty.
    paths : iterable of str
        Paths of the arrays.

    Returns
    -------
    members : dict of str to ArrayMembers
        The references of each array.
    strays : list of str
        Keys that belong to no array.
    """
    found = _Distribution({path: ArrayMembers(path) for path in paths})
    mixed: list[KeyedReferences] = []
    waiting = 0
    for batch in batches:
        owner = found.sole_owner(batch.keys)
        if owner is None:
            mixed.append(batch)
            waiting += len(batch.urls)
        # In the order of the document.
        if owner is not None or waiting >= _BATCH_SIZE:
            found.add_mixed(mixed)
            mixed, waiting = [], 0
        if owner is not None:
            owner.runs.append(batch)
    found.add_mixed(mixed)
    return found.arrays, list(dict.fromkeys(found.strays))


@dataclass(slots=True)
class _Distribution:
    arrays: dict[str, ArrayMembers]
    strays: list[str] = field(default_factory=list[str])
    # Many keys, few directories: each directory is looked up once.
    _owners: dict[str, int] = field(default_factory=dict[str, int])
    _numbered: list[ArrayMembers] = field(init=False)
    _with_arrays_below: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._numbered = list(self.arrays.values())
        self._with_arrays_below = frozenset(
            above for path in self.arrays for above in ancestors(path)
        )

    def sole_owner(self, keys: KeyText) -> ArrayMembers | None:
        """Return the array to which all keys certainly belong."""
        owner = find_owner(keys.first().rpartition("/")[0], self.arrays)
        if owner is None or owner[1].path in self._with_arrays_below:
            return None
        return owner[1] if keys.all_below(owner[1].prefix) else None

    def add_mixed(self, batches: Sequence[KeyedReferences]) -> None:
        """Add references that belong to several arrays, or to none."""
        if not batches:
            return
        references = KeyedReferences.joined(batches)
        keys = references.keys.listed()
        owners = self._owners_of(keys)
        strays = owners < 0
        if strays.any():
            self.strays += [keys[row] for row in np.flatnonzero(strays).tolist()]
        order = np.argsort(owners, kind="stable")[int(strays.sum()) :]
        starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(starts) else ():
            self._numbered[int(owners[rows[0]])].runs.append(references.rows(rows, keys))

    def _owners_of(self, keys: list[str]) -> npt.NDArray[np.int32]:
        """Return the number of the array to which each key belongs; -1 for none."""
        directories = [key.rpartition("/")[0] for key in keys]
        unknown = set(directories) - self._owners.keys()
        if unknown:
            numbers = {path: number for number, path in enumerate(self.arrays)}
            for directory in unknown:
                found = find_owner(directory, numbers)
                self._owners[directory] = -1 if found is None else found[1]
        return np.fromiter(map(self._owners.__getitem__, directories), np.int32, len(keys))


# 15 digits are always below the largest integer.
_NUMBER = "(?:0|[1-9][0-9]{0,14})"


def usual_rows(plan: ArrayPlan, members: ArrayMembers) -> MemberRows | None:
    """Return the chunk of each reference, unless there is anything to say about a key.

    As :func:`chunk_rows`, which looks at the keys one by one.
    """
    shape = plan.grid_shape
    texts = members.references.keys.without(members.prefix)
    if not shape or not texts or math.prod(shape) >= 2**62:
        return None
    indices: list[npt.NDArray[np.int64]] = []
    usual = _lines_of(len(shape), plan.key_separator)
    for text in texts:
        if not usual.fullmatch(text):
            return None
        # Separated by any white space.
        flat = np.fromstring(text.replace(plan.key_separator, "\n"), np.int64, sep="\n")
        indices.append(flat.reshape(-1, len(shape)))
    every = np.concatenate(indices)
    if (every >= np.array(shape, np.int64)).any():
        return None
    numbers = number_chunks(every, shape)
    order = np.arange(len(numbers))
    if not (numbers[1:] > numbers[:-1]).all():
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        if (numbers[1:] == numbers[:-1]).any():
            return None
    return MemberRows(shape, numbers, order)


@functools.cache
def _lines_of(ndim: int, separator: str) -> re.Pattern[str]:
    key = re.escape(separator).join([_NUMBER] * ndim)
    return re.compile(f"(?:{key}\n)*+{key}")


def chunk_rows(plan: ArrayPlan, names: list[str], prefix: str, notes: list[str]) -> MemberRows:
    """Return the chunk of each reference of an array.

    Parameters
    ----------
    plan : ArrayPlan
        The array.
    names : list of str
        The keys, relative to the array.
    prefix : str
        What the keys begin with.
    notes : list of str
        Gets sentences about references without a chunk, or with another separator.

    Raises
    ------
    NotConvertibleError
        No reference has a chunk.
    """
    if len(plan.grid_shape) > 1:
        names = _with_dots(plan, names, notes)
    elif not plan.grid_shape and "" in names and "0" not in names:
        # VirtualiZarr (seen in 2.8) writes no "0" after the slash.
        notes.append(f"the reference {prefix!r} was taken to be its chunk")
        names = [name or "0" for name in names]
    rows, problems = collect(
        interpret_keys(names, Grid(len(plan.grid_shape), plan.grid_shape), report_outside=True)
    )
    unread = [str(problem.chunk) for problem in problems]
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
