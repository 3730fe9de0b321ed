"""Appends to a hierarchy, and removes from its beginning: each a change with one commit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store

from zarr_manifest.conversion.concatenation.comparing import axis_of
from zarr_manifest.conversion.concatenation.concatenating import (
    Concatenation,
    JoinedArray,
    concatenation,
)
from zarr_manifest.conversion.concatenation.cutting import cut
from zarr_manifest.conversion.concatenation.growing import (
    CONCURRENT_ARRAYS,
    Growing,
    repeatedly,
)
from zarr_manifest.conversion.concatenation.inputs import Input, Source, is_held, open_inputs
from zarr_manifest.conversion.concatenation.overlap import is_there, places_of
from zarr_manifest.conversion.concatenation.placing import chunk_shape
from zarr_manifest.conversion.files import StoredParts
from zarr_manifest.conversion.nodes import ArrayNode, Node, RefusedNode, parts_of
from zarr_manifest.errors import Advice, LocationNotAllowedError, NotConvertibleError, Setting
from zarr_manifest.locations import AllowList, Base, UrlLocation, resolver, suggest_prefixes
from zarr_manifest.manifest import Manifest
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, access_by_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(slots=True)
class AppendReport:
    """What was appended.

    Parameters
    ----------
    appended, there : list of str
        The sources that were appended, and those that were there already.
    replaced : list of str
        The sources that replaced what was there.
    arrays : int
        Number of arrays that were changed.
    references : int
        Number of references that were written; those in the same documents are among them.
    new_locations : list of str
        URL prefixes that readers must allow besides those before.
    notes : list of (str, str)
        Path of a node, and a decision made about it.
    """

    appended: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    replaced: list[str] = field(default_factory=list[str])
    arrays: int = 0
    references: int = 0
    new_locations: list[str] = field(default_factory=list[str])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def append(
    location: str | Path | ObjectStore | Store,
    sources: Source | Iterable[Source],
    *,
    dim: str,
    replace: bool = False,
    same_locations: bool = False,
    scans: str | Path | None = None,
    allow: Allow = None,
    sole_writer: bool = False,
) -> AppendReport:
    """Append files or hierarchies to a hierarchy along a dimension, as one change.

    Readers see all of it or nothing. What fits is decided as by :func:`concat`; if anything does
    not, nothing is written. Of a partitioned manifest, only documents to which something is added
    are read and written. A manifest that outgrows 128 chunks along the dimension, or fewer if there
    are several along others, becomes partitioned, unless it is a document with a name of its own. A
    source that is there already, with the same references, is left out, so
    that the same call does nothing the second time. If another writer appends at the same time,
    one goes after the other.

    A native array along the dimension becomes a manifest array that refers to its own chunks.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy.
    sources : str, Path, obstore store, zarr Store, sequence of Node, or several of them
        What is appended, in this order; as for :func:`concat`.
    dim : str
        Name of the dimension.
    replace : bool
        Whether what is there with the same coordinates, but other references, is replaced.
    same_locations : bool
        Refuse references that readers would have to allow besides those before.
    scans : str or Path, optional
        A directory, or a prefix of a bucket, in which what is found in each file is kept, as for
        :func:`zarr_manifest.conversion.read_files`.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The hierarchy and the
        sources need no authorisation; what they refer to does, where coordinates are read from it.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    AppendReport

    Raises
    ------
    NotConvertibleError
        Something does not fit; each array and difference is in the message or in a note.
    LocationNotAllowedError
        There are new locations, and `same_locations`.
    WriteConflictError
        Others changed the hierarchy again and again.
    ManifestError
        The hierarchy or a source cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile, zarr, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for day in ("1", "2"):
    ...     entries = {"0": {"path": f"s3://bucket/{day}.nc", "length": 4}}
    ...     options = {"shape": 4, "chunks": 4, "dtype": "u1", "dimension_names": ["time"]}
    ...     zarr_manifest.create_array(root / day, "sst", entries, **options)
    >>> append(root / "1", root / "2", dim="time").arrays
    1
    >>> append(root / "1", root / "2", dim="time").there == [(root / "2").as_uri()]
    True
    >>> zarr.open_array(zarr_manifest.ManifestStore(root / "1"), path="sst", mode="r").shape
    (8,)
    """
    access = access_by_prefix(allow)
    inputs = open_inputs(_several(sources), access, scans)
    if not inputs:
        raise ValueError("no sources")

    def attempt() -> AppendReport:
        growing = Growing.open(location, access, sole_writer=sole_writer)
        with growing.as_it_is():
            return _appended(growing, inputs, dim, replace=replace, same_locations=same_locations)

    return repeatedly(attempt)


def _several(sources: Source | Iterable[Source]) -> Iterable[Source]:
    untyped: Any = sources
    if isinstance(untyped, str | Path | Store) or type(untyped).__module__.startswith("obstore"):
        return [untyped]
    found = list(untyped)
    is_nodes = bool(found) and all(isinstance(each, Node.__value__) for each in found)
    return [found] if is_nodes else found


def _appended(
    growing: Growing,
    inputs: Sequence[Input],
    dim: str,
    *,
    replace: bool,
    same_locations: bool,
) -> AppendReport:
    report = AppendReport()
    existing = growing.existing
    new: list[tuple[range, Input]] = []
    for each, place in zip(inputs, places_of(existing, inputs, dim), strict=True):
        if place is None:
            new.append((range(0), each))
            report.appended.append(each.name)
        elif is_there(existing, each, dim, place):
            report.there.append(each.name)
        elif replace:
            new.append((place, each))
            report.replaced.append(each.name)
        else:
            raise NotConvertibleError(
                f"{existing.name} has other references for the coordinates of {each.name}",
                remedy=Advice("Replace them: ", Setting("replace", True), "."),
            )
    if not new:
        return report
    sequence = _sequence(existing, new, dim)
    found = concatenation(sequence, dim)
    _require_all(found, growing, dim, report)
    report.new_locations = _new_locations(growing, [each for _, each in new], dim)
    if report.new_locations and same_locations:
        raise LocationNotAllowedError(
            "readers would have to allow other locations than before",
            location=", ".join(report.new_locations),
            remedy=Advice("Without ", Setting("same_locations", True), ", it is appended."),
        )
    report.references = sum(growing.set_all(found.arrays, new))
    report.arrays = len(found.arrays)
    report.notes += [(array.path, note) for array in found.arrays for note in array.notes]
    growing.commit()
    return report


def _sequence(existing: Input, new: Sequence[tuple[range, Input]], dim: str) -> list[Input]:
    """Return the parts of the present hierarchy that stay, with the new inputs between them."""
    replacing = sorted((each for each in new if each[0]), key=lambda each: each[0].start)
    following = [each for place, each in new if not place]
    if not replacing:
        return [existing, *following]
    found: list[Input] = []
    start = 0
    for place, each in replacing:
        found += [cut_input(existing, dim, start, place.start), each]
        start = place.stop
    return [*found, cut_input(existing, dim, start, None), *following]


def cut_input(given: Input, dim: str, start: int, stop: int | None) -> Input:
    """Return an input with the values from `start` to `stop` along a dimension only.

    Raises
    ------
    NotConvertibleError
        They are not whole chunks of an array.
    """
    nodes: dict[str, Node] = dict(given.nodes)
    for path, node in given.arrays.items():
        axis = axis_of(node, dim)
        if axis is None:
            continue
        length: int = node.metadata["shape"][axis]
        end = length if stop is None else min(stop, length)
        try:
            nodes[path] = cut(node, axis, min(start, end), end, partial(given.variable, path))
        except NotConvertibleError as error:
            raise error.in_context(array=path) from error.__cause__
    return Input(given.name, nodes, given.allow)


def _require_all(found: Concatenation, growing: Growing, dim: str, report: AppendReport) -> None:
    """Refuse to append anything if an array of the hierarchy does not fit."""
    nodes = growing.existing.nodes
    wrong: list[RefusedNode] = []
    for node in found.refused:
        is_usable = node.path in nodes and not isinstance(nodes[node.path], RefusedNode)
        # It would be shorter than the others.
        if is_usable or growing.has_dimension(node.path, dim):
            wrong.append(node)
        else:
            report.notes.append((node.path, f"it was left out: {node.reason}"))
    if not wrong:
        return
    first = wrong[0]
    error = NotConvertibleError(
        Advice("nothing was appended: ", first.reason)
        if len(wrong) == 1
        else Advice(
            f"nothing was appended: {len(wrong):,} arrays do not fit, such as: ", first.reason
        ),
        array=first.path,
    )
    for node in wrong[1:]:
        error.add_note(f"/{node.path}: {node.code}: {node.reason}")
    raise error


def _new_locations(growing: Growing, new: Sequence[Input], dim: str) -> list[str]:
    """Return prefixes of what new references refer to, and present ones do not."""
    known = suggest_prefixes(_urls(growing.existing, dim, only_last=True))
    covered = AllowList([*known, *(UrlLocation(*_place(root)).url for root in growing.roots)])
    found = {url for each in new for url in _urls(each, dim)}
    return suggest_prefixes(url for url in found if covered.match(url) is None)


def _place(root: UrlLocation) -> tuple[str, str, str]:
    return root.scheme, root.authority, root.path


def _urls(given: Input, dim: str, *, only_last: bool = False) -> list[UrlLocation]:
    """Return the objects of arrays along a dimension; or only of their last partitions."""
    with ThreadPoolExecutor(CONCURRENT_ARRAYS) as threads:
        nodes = given.arrays.values()
        found = threads.map(partial(_paths_of, dim=dim, only_last=only_last), nodes)
        # One of each directory, which most objects share: only prefixes are wanted.
        paths = {_directory(path): path for paths in found for path in paths}
    locations = map(resolver(Base.parse("./")), paths.values())
    return [location for location in locations if isinstance(location, UrlLocation)]


def _directory(path: str) -> str:
    directory = path.rpartition("/")[0]
    return path if not directory or directory.endswith("/") else directory


def _paths_of(node: ArrayNode, dim: str, only_last: bool) -> set[str]:
    axis = axis_of(node, dim)
    if axis is None:
        return set()
    parts: Iterable[Manifest] = parts_of(node.manifest)
    if only_last and isinstance(parts, StoredParts):
        count = -(-node.metadata["shape"][axis] // chunk_shape(node)[axis])
        parts = parts.along(axis, range(count - 1, count))
    return {path for part in parts for path in part.paths}


# Trim -------------------------------------------------------------------------------------


@dataclass(slots=True)
class TrimReport:
    """What was removed.

    Parameters
    ----------
    kept, removed : int
        Number of values along the dimension.
    arrays : int
        Number of arrays that were changed.
    """

    kept: int
    removed: int
    arrays: int = 0


def trim(
    location: str | Path | ObjectStore | Store,
    *,
    dim: str,
    keep: int,
    allow: Allow = None,
    sole_writer: bool = False,
) -> TrimReport:
    """Remove the first values of a hierarchy along a dimension, in whole chunks, as one change.

    Sources stay. Inline coordinates are cut anywhere; of other arrays, whole chunks are removed,
    so that more values than asked for may stay. A native array becomes a manifest array that
    refers to its own chunks, which stay.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy.
    dim : str
        Name of the dimension.
    keep : int
        How many of the last values stay at least.
    allow, sole_writer
        As for :func:`append`.

    Raises
    ------
    NotConvertibleError
        No array has the dimension, or arrays have other lengths along it.
    WriteConflictError
        Others changed the hierarchy again and again.
    ValueError
        `keep` is not a positive number.
    """
    if keep < 1:
        raise ValueError("keep must be at least 1")
    access = access_by_prefix(allow)

    def attempt() -> TrimReport:
        growing = Growing.open(location, access, sole_writer=sole_writer)
        with growing.as_it_is():
            return _trimmed(growing, dim, keep)

    return repeatedly(attempt)


def _trimmed(growing: Growing, dim: str, keep: int) -> TrimReport:
    given = growing.existing
    along: dict[str, int] = {}
    for path, node in given.arrays.items():
        axis = axis_of(node, dim)
        if axis is not None:
            along[path] = axis
    lengths = {path: given.arrays[path].metadata["shape"][axis] for path, axis in along.items()}
    if not along:
        raise NotConvertibleError(f"no array has the dimension {dim!r}")
    if len(set(lengths.values())) > 1:
        one, other = sorted(lengths, key=lambda path: lengths[path])[:: len(lengths) - 1][:2]
        raise NotConvertibleError(
            f"it has {counted(lengths[other], 'value')} along {dim!r}, and {one!r} has "
            f"{lengths[one]:,}",
            array=other,
        )
    length = next(iter(lengths.values()))
    for unreadable in given.refused:
        raise NotConvertibleError(f"it cannot be read: {unreadable.reason}", array=unreadable.path)
    chunks = [
        chunk_shape(given.arrays[path])[axis]
        for path, axis in along.items()
        if not is_held(given.arrays[path])
    ]
    whole = math.lcm(*chunks)
    removed = max(0, length - keep) // whole * whole
    report = TrimReport(length - removed, removed)
    if not removed:
        return report
    cut_to = cut_input(given, dim, removed, None)
    growing.set_all(JoinedArray(path, whole=cut_to.arrays[path]) for path in along)
    report.arrays = len(along)
    growing.commit()
    return report
