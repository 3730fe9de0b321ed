"""Appends to a hierarchy: finds what of it is there already, and writes the rest as one change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from zarr.abc.store import Store

from zarr_manifest.conversion.concatenation.concatenating import (
    CONCURRENT,
    JoinedSource,
    concatenation,
    open_inputs,
)
from zarr_manifest.conversion.concatenation.cutting import cut_input
from zarr_manifest.conversion.concatenation.growing import Growing, grow
from zarr_manifest.conversion.concatenation.recognising import is_there, places_of
from zarr_manifest.conversion.files import Parallel, documents_along, require_variables
from zarr_manifest.conversion.joining import Input, Joined, axis_of
from zarr_manifest.conversion.nodes import ArrayNode, Node, RefusedNode, parts_of
from zarr_manifest.conversion.renewal import RefusedSource
from zarr_manifest.errors import Advice, LocationNotAllowedError, NotConvertibleError, Setting
from zarr_manifest.locations import AllowList, Base, UrlLocation, resolver, suggest_prefixes
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.stores import StoreLike


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
    refused : list of RefusedSource
        The sources that were left out, and why.
    """

    appended: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    replaced: list[str] = field(default_factory=list[str])
    arrays: int = 0
    references: int = 0
    new_locations: list[str] = field(default_factory=list[str])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    refused: list[RefusedSource] = field(default_factory=list[RefusedSource])


def append(
    location: StoreLike,
    sources: JoinedSource | Iterable[JoinedSource],
    *,
    dim: str,
    replace: bool = False,
    same_locations: bool = False,
    keep_going: bool = False,
    parallel: Parallel = False,
    loadable_variables: Iterable[str] = (),
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
    that the same call does nothing the second time: it is found by its coordinates, or without
    these by the objects of its chunks. Arrays that only a source has are left out, with a note. If
    another writer appends at the same time, one goes after the other.

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
    keep_going : bool
        Whether to leave out files that cannot be read or converted, as long as there are others:
        the report names them. What follows them is appended; they cannot be put in between later.
    parallel : {"dask", "lithops", False} or Executor
        What parses files, as for :func:`zarr_manifest.conversion.read_files`; by default, threads.
    loadable_variables : iterable of str
        Variables to read, here and in the sources, and to store inline, besides coordinates: so
        that they are converted where their units differ.
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
    loadable = tuple(loadable_variables)
    inputs, unusable = open_inputs(
        _several(sources),
        access,
        keep_going=keep_going,
        parallel=parallel,
        loadable_variables=loadable,
        scans=scans,
    )
    if not inputs:
        raise ValueError("no sources")
    require_variables(loadable, inputs, "loaded")

    def attempt() -> AppendReport:
        growing = Growing.open(
            location, access, sole_writer=sole_writer, each=partial(_begin_reading, dim)
        )
        growing.existing.loadable = loadable
        report = AppendReport(refused=[each.refused for each in unusable])
        with growing.as_it_is():
            _append(growing, inputs, dim, report, replace=replace, same_locations=same_locations)
        return report

    return grow(attempt)


def _begin_reading(dim: str, node: Node) -> None:
    """Begin to read the last document of an array, which is needed whatever is appended."""
    with suppress(NotConvertibleError):  # raised again where arrays are compared
        if isinstance(node, ArrayNode) and (axis := axis_of(node, dim)) is not None:
            last = documents_along(node, axis)
            if last is not None:
                last.begin()


def _several(sources: JoinedSource | Iterable[JoinedSource]) -> Iterable[JoinedSource]:
    untyped: Any = sources
    if isinstance(untyped, str | Path | Store) or type(untyped).__module__.startswith("obstore"):
        return [untyped]
    found = list(untyped)
    is_nodes = bool(found) and all(isinstance(each, Node.__value__) for each in found)
    return [found] if is_nodes else found


def _append(
    growing: Growing,
    inputs: Sequence[Input],
    dim: str,
    report: AppendReport,
    *,
    replace: bool,
    same_locations: bool,
) -> None:
    existing = growing.existing
    new: list[tuple[range, Input]] = []
    for each, place in zip(inputs, places_of(existing, inputs, dim), strict=True):
        if place is None:
            new.append((range(0), each))
            report.appended.append(each.name)
        elif place.start < 0:
            raise NotConvertibleError(
                f"{existing.name} has the end of {each.name}, but not its beginning",
                remedy="Leave it out, if its beginning was trimmed.",
            )
        elif is_there(existing, each, dim, place):
            report.there.append(each.name)
        elif replace:
            new.append((place, each))
            report.replaced.append(each.name)
        else:
            raise NotConvertibleError(
                f"{existing.name} has other references in the place of {each.name}",
                remedy=Advice("Replace them: ", Setting("replace", True), "."),
            )
    if not new:
        return
    added = [each for _, each in new]
    found = concatenation(_sequence(existing, new, dim), dim)
    _require_all(found, growing, dim, report)
    if same_locations:
        _require_no_others(_new_locations(growing, added, dim))
    report.references = sum(growing.set_all(found.arrays, new))
    if not same_locations:
        # Not before: some of the present documents are still being read while others are written.
        report.new_locations = _new_locations(growing, added, dim)
    report.arrays = len(found.arrays)
    report.notes += [(array.path, note) for array in found.arrays for note in array.notes]
    growing.commit()


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


def _require_all(found: Joined, growing: Growing, dim: str, report: AppendReport) -> None:
    """Refuse to append anything if an array of the hierarchy does not fit."""
    existing = growing.existing
    usable = {*existing.arrays, *(node.path for node in existing.groups)}
    wrong: list[RefusedNode] = []
    for node in found.refused:
        # It would be shorter than the others.
        if node.path in usable or growing.has_dimension(node.path, dim):
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


def _require_no_others(locations: Sequence[str]) -> None:
    if locations:
        raise LocationNotAllowedError(
            "readers would have to allow other locations than before",
            location=", ".join(locations),
            remedy=Advice("Without ", Setting("same_locations", True), ", it is appended."),
        )


def _new_locations(growing: Growing, new: Sequence[Input], dim: str) -> list[str]:
    """Return prefixes of what new references refer to, and the last of the present ones do not."""
    known = suggest_prefixes(_last_locations(growing.existing, dim))
    covered = AllowList([*known, *(replace(root, query="").url for root in growing.roots)])
    found = {url for each in new for url in _urls(each, dim)}
    return suggest_prefixes(url for url in found if covered.match(url) is None)


def _last_locations(existing: Input, dim: str) -> Iterator[UrlLocation]:
    """Yield an object of each directory that the last partitions of arrays refer to."""
    found: dict[tuple[str, str, str], UrlLocation] = {}
    paths: dict[str, str] = {}
    for _, node, axis in existing.along(dim):
        last = documents_along(node, axis)
        if last is None:
            paths |= _path_by_directory(node)
            continue
        for place in (place for loaded in last.loaded() for place in loaded.locations):
            if isinstance(place, UrlLocation):
                path = place.path
                directory = path.rpartition("/")[0] or path  # each file in the root by itself
                found[place.scheme, place.authority, directory] = place
    yield from found.values()
    yield from _resolved(paths)


def _urls(given: Input, dim: str) -> Iterator[UrlLocation]:
    """Yield an object of each directory that arrays along a dimension refer to."""
    with ThreadPoolExecutor(CONCURRENT) as threads:
        found = threads.map(_path_by_directory, (node for _, node, _ in given.along(dim)))
        paths = {name: path for by_directory in found for name, path in by_directory.items()}
    return _resolved(paths)


def _path_by_directory(node: ArrayNode) -> dict[str, str]:
    """Return one path of each directory, which most objects share: only prefixes are wanted."""
    return {_directory(path): path for part in parts_of(node.manifest) for path in part.paths}


def _resolved(paths: Mapping[str, str]) -> Iterator[UrlLocation]:
    locations = map(resolver(Base.parse("./")), paths.values())
    return (location for location in locations if isinstance(location, UrlLocation))


def _directory(path: str) -> str:
    directory = path.rpartition("/")[0]
    return path if not directory or directory.endswith("/") else directory
