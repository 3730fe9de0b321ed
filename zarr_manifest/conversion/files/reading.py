"""Files of many formats as nodes: one file as it is, or many similar ones combined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from zarr_manifest.conversion.files.finding import (
    FoundFile,
    Unusable,
    check_files,
    files_named,
    group_names,
    unusable_files,
)
from zarr_manifest.conversion.files.formats import ZARR_FORMATS
from zarr_manifest.conversion.files.parsing import (
    INLINE_LIMIT,
    FileWork,
    digests_of,
    load_variable,
    opened,
    parse_file,
)
from zarr_manifest.conversion.files.scan_documents import FileScan
from zarr_manifest.conversion.files.scanning import (
    Scan,
    ScanReport,
    each_file,
    keep_scan,
    opened_scan,
    scan_of,
)
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, ParsedFile
from zarr_manifest.conversion.files.workers import Parallel, in_parallel
from zarr_manifest.conversion.files.zarr3 import read_named
from zarr_manifest.conversion.joining import (
    Input,
    JoinRules,
    KnownInputs,
    is_coordinate,
    join_inputs,
    joined_values,
)
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    Progress,
    RefusedNode,
    array_or_refused,
    held,
    inside,
    parts_of,
)
from zarr_manifest.conversion.values import as_array, unstable_types_accepted
from zarr_manifest.errors import Advice, ManifestError, NotConvertibleError, Setting
from zarr_manifest.format import element_size
from zarr_manifest.locations import redact
from zarr_manifest.sources import Allow


def read_files(
    urls: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    recursive: bool = False,
    group_per_file: bool = False,
    keep_going: bool = False,
    concat_dim: str | None = None,
    override: Iterable[str] = (),
    fill_missing: bool = False,
    parallel: Parallel = False,
    loadable_variables: Iterable[str] | None = None,
    inline_limit: int = INLINE_LIMIT,
    record_conditions: bool = True,
    checksum: str | None = None,
    scans: str | Path | None = None,
    allow: Allow = None,
    progress: Progress | None = None,
) -> Iterator[Node]:
    """Yield the nodes of files; what references can express is not copied.

    What a Zarr hierarchy says of its chunks, such as checksums and conditions, stays as it is.
    Symbolic links in its directory are followed, wherever they lead.

    Parameters
    ----------
    urls : str, Path or a sequence of them
        URLs, or paths of local files. A single file is taken as it is, but for the coordinates
        of dimensions, which are stored inline; several are combined. Files with different
        variables on the same coordinates are merged.
        In texts, ``*``, ``**``, ``[...]``, and ``?`` in the path of a local file, stand for
        other characters, as in a shell: the files that match are sorted. Web servers cannot be
        asked which files they have.
    format : str, optional
        ``"hdf5"`` (netCDF-4), ``"netcdf3"``, ``"fits"``, ``"tiff"``, ``"grib"``,
        ``"dmrpp"``, ``"zarr2"``, ``"zarr3"``. By default, detected from the first bytes
        of each file.
    recursive : bool
        Whether a directory, or a prefix of a bucket, stands for all files below it, sorted,
        but for those with a name that begins with a dot, and for Zarr hierarchies.
    group_per_file : bool
        Make a group of each file, named after it, instead of combining them. A file in an
        unknown format is refused.
    keep_going : bool
        Whether to leave out files that cannot be read or converted, each as a `RefusedNode`,
        as long as there are others. Before the first is parsed, all are checked: that they are
        there, their first bytes, and for HDF5 their size. By default, the error names all that
        fail, each in a note (``__notes__``).
    concat_dim : str, optional
        Dimension along which several files are concatenated, in the order given. By default,
        the files' coordinates determine how they are combined.
    override : iterable of str
        Names of variables of several files that are not compared: those without the
        dimension of concatenation are taken from the first file even if others differ,
        and coordinates along it may have repeated values.
    fill_missing : bool
        Whether a variable that some of the files lack is combined anyway, without
        chunks for those files; by default, it is refused.
    parallel : {"dask", "lithops", False} or Executor
        What parses several files: one of VirtualiZarr's executors, one of
        `concurrent.futures`, or that of a dask cluster (``client.get_executor()``).
        A process pool must spawn its workers, since forks lack the threads of obstore:
        ``ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))``.
    loadable_variables : iterable of str, optional
        Variables of several files to read, combine and store inline; by default,
        one-dimensional coordinates named after their dimension, and the value of each
        file along a new dimension.
    inline_limit : int
        Largest size, in bytes, of a variable that is stored inline because Zarr cannot
        decode its chunks, such as strings of different lengths; and of a coordinate of a file
        that is not combined with others.
    record_conditions : bool
        Whether to record the entity tag and modification time of the files.
    checksum : str, optional
        Algorithm (``"crc32c"``, ``"sha256"``, …) of a checksum to record for every
        chunk that has none, all of which are read.
    scans : str or Path, optional
        A directory, or a prefix of a bucket, in which what is found in each file is kept, and
        used again while the file's entity tag, or its size and time, stay the same. Any number
        of processes may use it at once. With `parallel`, the workers write there. See
        :func:`scan`, which makes scans anywhere.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The files need
        no authorisation; they are read without credentials unless a prefix says otherwise.
    progress : callable, optional
        Called with the URL of the file parsed last, the number of files parsed, and how many
        there are.

    Yields
    ------
    Node
        Groups before their members. A variable that cannot be expressed is a
        `RefusedNode` with the reason.

    Raises
    ------
    NotConvertibleError
        Nothing of a file can be expressed, or the files cannot be combined.
    SourceNotFoundError
        No file matches.
    ManifestError
        A file cannot be read.
    ValueError
        No file, an unknown `format`, options that exclude each other, two files that would be
        the same group, forked workers, or something in `allow` that is not a URL prefix.
    TypeError
        Something in `allow` that is not an access.
    ImportError
        The library that reads the format is not installed.

    Examples
    --------
    >>> from zarr_manifest.conversion import write_hierarchy
    >>> import h5py, tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with h5py.File(directory / "f.h5", "w") as file:
    ...     file["sst"] = [1.5, 2.5]
    >>> print(write_hierarchy(directory / "h.zarr", read_files(directory / "f.h5")))
    1 group, 1 array, 1 reference to 16 B
    """
    names = [urls] if isinstance(urls, str | Path) else list(urls)
    if not names:
        raise ValueError("no files")
    how: dict[str, Any] = {"concat_dim": concat_dim, "loadable_variables": loadable_variables}
    how |= {"override": override, "fill_missing": fill_missing, "parallel": parallel}
    stated = [Setting(name, value) for name, value in how.items() if value]
    if group_per_file and stated:
        problem = "files that become a group each are not combined: omit "
        raise ValueError(Advice(problem, stated[0]))
    work = FileWork.of(
        format,
        loadable_variables,
        inline_limit,
        checksum,
        scans,
        allow,
        record_conditions=record_conditions,
        keep_going=keep_going,
    )
    located = files_named(names, work.sources, recursive=recursive)
    work = replace(work, sources=work.sources.of_files(located))
    if group_per_file:
        return _apart(located, group_names(located), work, progress)
    if len(located) == 1 and concat_dim is None:
        return _alone(located, work, progress)
    rules = JoinRules(concat_dim, frozenset(override), fill_missing)
    return _many_files(located, work, rules, parallel, progress)


def _alone(urls: Sequence[str], work: FileWork, progress: Progress | None) -> Iterator[Node]:
    (file,) = check_files(urls, work.format, work.sources)
    if isinstance(file, Unusable):
        raise file.error
    yield from _one_file(file, work)
    if progress is not None:
        progress(file.url, 1, 1)


def _apart(
    urls: Sequence[str], names: Sequence[str], work: FileWork, progress: Progress | None
) -> Iterator[Node]:
    """Yield the nodes of every file, below a group named after it."""
    found = check_files(urls, work.format, work.sources)
    failed = [each for each in found if isinstance(each, Unusable)]
    # Others are not affected by a file that is of no known format.
    harmful = [each for each in failed if not isinstance(each.error, NotConvertibleError)]
    if harmful and (not work.keep_going or len(failed) == len(found)):
        raise unusable_files(harmful, len(urls))
    yield GroupNode("", {})
    for number, (name, file) in enumerate(zip(names, found, strict=True), start=1):
        try:
            if isinstance(file, Unusable):
                raise file.error
            for node in _one_file(file, work):
                yield inside(name, node)
        except ManifestError as error:
            if not (work.keep_going or isinstance(error, NotConvertibleError)):
                raise
            yield RefusedNode(name, error.code, error.message)
        if progress is not None:
            progress(file.url, number, len(urls))


@unstable_types_accepted
def _by_itself(file: FoundFile, work: FileWork) -> list[Node] | Unusable | None:
    try:
        return None if file.format in ZARR_FORMATS else list(_one_file(file, work))
    except ManifestError as error:
        if not work.keep_going:
            raise
        return Unusable(file.url, error)


def read_one_by_one(
    urls: Sequence[str],
    *,
    keep_going: bool,
    parallel: Parallel,
    loadable_variables: Iterable[str] | None,
    scans: str | Path | None,
    allow: Allow,
) -> list[list[Node] | Unusable | None]:
    """Return what is in each file by itself, or why it is left out; None for a Zarr hierarchy.

    Parameters
    ----------
    urls : sequence of str
        The files.
    keep_going, parallel, loadable_variables, scans, allow
        As for `read_files`.

    Raises
    ------
    ManifestError
        A file cannot be read or converted, and `keep_going` is false.
    """
    work = FileWork.of(
        None, loadable_variables, INLINE_LIMIT, None, scans, allow, keep_going=keep_going
    )
    # Kept scans are looked for where files are parsed.
    driven, make = replace(work, scans=None), partial(_by_itself, work=work)
    found: dict[int, Any] = dict(each_file(urls, driven, make, ScanReport(), parallel=parallel))
    return [found[number] for number in range(len(urls))]


def _one_file(file: FoundFile, work: FileWork) -> Iterator[Node]:
    work = work.of_file(file.url)
    if file.format in ZARR_FORMATS:
        for node in _zarr_nodes(file, work):
            yield node if work.checksum is None else _recorded(node, work, {})
        return
    scan = None if work.scans is None else scan_of(file, work)
    parsed = parse_file(file, work) if scan is None else scan.parsed
    loaded: Mapping[str, Any] = {} if scan is None else scan.loaded
    for node in parsed.nodes:
        if isinstance(node, ArrayNode):
            shape: list[int] = node.metadata["shape"]
            is_small = element_size(node.metadata) * math.prod(shape) <= work.inline_limit
            is_named = node.path.rpartition("/")[2] in (work.loadable or ())
            if is_named or (is_small and is_coordinate(node)):
                # All who open the dataset read coordinates.
                known = node.path in loaded
                values = loaded[node.path] if known else load_variable(node, work)
                node = node if values is None else _held(node, values)
        yield _recorded(node, work, parsed.conditions)


def _zarr_nodes(file: FoundFile, work: FileWork) -> Iterator[Node]:
    is_recorded = work.record_conditions
    return read_named(file.url, file.format, work.sources, record_conditions=is_recorded)


def _recorded(
    node: Node, work: FileWork, conditions: Mapping[str, Mapping[str, str | int]]
) -> Node:
    return array_or_refused(node, partial(work.recorded, conditions=conditions))


def _held(node: ArrayNode, values: Any) -> ArrayNode:
    """Return an array with its values inline; as it is, if its codecs only decode."""
    try:
        return joined_values(node, [values], 0)
    except (NotConvertibleError, *FOREIGN_ERRORS):
        return node


# Many files -------------------------------------------------------------------------------


@unstable_types_accepted
def _open(file: FoundFile, work: FileWork, concat_dim: str | None) -> Input | Scan | Unusable:
    work, url = work.of_file(file.url), file.url
    try:
        if file.format in ZARR_FORMATS:
            nodes = [array_or_refused(node, held) for node in _zarr_nodes(file, work)]
            parsed = ParsedFile(nodes)
        elif work.scans is not None:
            return keep_scan(file, work)
        else:
            parsed = parse_file(file, work)
        return opened(url, parsed, work.sources, work.loadable, concat_dim)
    except ManifestError as error:
        if not work.keep_going:
            raise
        return Unusable(url, error)


@dataclass
class _AllOpened:
    """Many files, ready to be joined, and what is known of all of them."""

    inputs: dict[int, Input] = field(default_factory=dict[int, Input])
    unusable: list[Unusable] = field(default_factory=list[Unusable])
    conditions: dict[str, Mapping[str, str | int]] = field(default_factory=dict[str, Any])
    coordinates: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    known: KnownInputs = field(default_factory=KnownInputs)

    def add(self, number: int, found: Input | Unusable) -> None:
        """Add a file, or a hierarchy."""
        if isinstance(found, Unusable):
            self.unusable.append(found)
            return
        self.conditions.update(found.conditions)
        given = self.known.alike(found)
        self.inputs[number] = given
        stated: list[tuple[str, Mapping[Any, Any]]]
        stated = [(node.path, node.attributes) for node in given.groups]
        stated += [(path.rpartition("/")[0], given.attributes(path)) for path in given.paths]
        for group, attributes in stated:
            if names := attributes.get("coordinates"):
                listed = as_array(names) or str(names).split()
                self.coordinates.setdefault(group, set()).update(map(str, listed))


def _all_opened(
    urls: Sequence[str],
    work: FileWork,
    concat_dim: str | None,
    parallel: Parallel,
    progress: Progress | None,
) -> tuple[_AllOpened, list[str]]:
    """Return all files, and notes about scans."""
    every_opened, report = _AllOpened(), ScanReport()
    make = partial(_open, work=work, concat_dim=concat_dim)
    every: Iterator[tuple[int, Input | FileScan | Scan | Unusable]]
    every = each_file(urls, work, make, report, parallel=parallel, progress=progress)
    for number, found in every:
        if isinstance(found, Scan):
            found = opened_scan(found, work)
        if isinstance(found, FileScan):
            how = work.sources, work.loadable, concat_dim
            found = opened(found.url, found.parsed, *how, found.loaded)
        every_opened.add(number, found)
    return every_opened, report.notes()


def _many_files(
    urls: Sequence[str],
    work: FileWork,
    rules: JoinRules,
    parallel: Parallel,
    progress: Progress | None,
) -> Iterator[Node]:
    found, notes = _all_opened(urls, work, rules.dim, parallel, progress)
    inputs = [found.inputs[number] for number in sorted(found.inputs)]
    if not inputs:
        raise unusable_files(found.unusable, len(urls))
    require_variables(work.loadable or (), inputs, "loaded")
    require_variables(sorted(rules.override), inputs, "taken from the first file")

    def digests(
        files: Sequence[Input], arrays: Sequence[Mapping[str, ArrayNode]]
    ) -> Iterator[dict[str, str]]:
        names = [file.name for file in files]
        for node in itertools.chain.from_iterable(each.values() for each in arrays):
            for part in parts_of(node.manifest):
                work.sources.require(part.paths)  # workers do not know all files
        return in_parallel(partial(digests_of, sources=work.sources), arrays, names, parallel)

    joined = join_inputs(inputs, rules, digests)
    arrays = [node for node in joined.nodes() if isinstance(node, ArrayNode)]
    for group in joined.groups:
        coordinates = _coordinates(group.path, arrays, found.coordinates.get(group.path, set()))
        own = tuple(notes) if not group.path else ()
        attributes = {n: each for n, each in group.attributes.items() if n != "coordinates"}
        yield GroupNode(group.path, attributes | coordinates, (*own, *group.notes))
    for node in arrays:
        yield _recorded(node, work, found.conditions)
    yield from joined.refused
    for each in found.unusable:
        reason = Advice(f"the file {redact(each.url)} was left out: ", each.error.problem)
        yield RefusedNode("", each.error.code, reason)


def require_variables(names: Iterable[str], inputs: Sequence[Input], purpose: str) -> None:
    """Refuse the name of a variable to be loaded, for example, that no file has."""
    there = {path.rpartition("/")[2] for file in inputs for path in file.paths}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise NotConvertibleError(
            f"no file has a variable {' or '.join(map(repr, unknown))}, which was to be {purpose}",
            remedy=f"Existing variables: {', '.join(map(repr, sorted(there)))}.",
        )


def _coordinates(path: str, arrays: Sequence[ArrayNode], stated: set[str]) -> dict[str, str]:
    """Return the attribute by which xarray recognises coordinates of no dimension."""
    own = [node for node in arrays if node.path.rpartition("/")[0] == path]
    dims = {dim for node in own for dim in node.metadata.get("dimension_names") or ()}
    names = [node.path.rpartition("/")[2] for node in own]
    # Names are separated by spaces; xarray, too, leaves out names that contain one.
    listed = [name for name in names if name in stated - dims and " " not in name]
    return {"coordinates": " ".join(listed)} if listed else {}
