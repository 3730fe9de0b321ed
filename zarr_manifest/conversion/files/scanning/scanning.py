"""Scans of files: made by any engine, one file at a time, kept, and used again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from zarr_manifest.conversion.files.checksums import Chunk, checksums_of
from zarr_manifest.conversion.files.combining import is_coordinate, load_variables
from zarr_manifest.conversion.files.finding import (
    FoundFile,
    Unusable,
    check_files,
    unusable_files,
)
from zarr_manifest.conversion.files.formats import ZARR_FORMATS
from zarr_manifest.conversion.files.scanning.documents import (
    FileScan,
    Identity,
    UnusableScanError,
    decode_scan,
    encode_scan,
    scan_name,
)
from zarr_manifest.conversion.files.scanning.parsing import FileWork, parse_file
from zarr_manifest.conversion.files.scanning.typed_values import can_hold
from zarr_manifest.conversion.files.sources import READ_ERRORS, FileSources
from zarr_manifest.conversion.files.trees import FileTree, parse_one_by_one
from zarr_manifest.conversion.files.workers import Parallel, in_parallel
from zarr_manifest.conversion.nodes import Progress
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual import manifest_of_columns
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import ManifestError, NotConvertibleError, SourceChangedError
from zarr_manifest.format import join
from zarr_manifest.locations import redact
from zarr_manifest.manifest import Reference
from zarr_manifest.showing import counted
from zarr_manifest.stores import store_failure

_CONCURRENT_REQUESTS = 32

# Documents that are in memory at a time, as stored.
_BATCH_SIZE = 256


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan of one file.

    Parameters
    ----------
    url : str
        The file, percent-encoded.
    name : str or None
        Name of the document where scans are kept; None if the file's states cannot be told
        apart, so that its scan could be used only once.
    document : bytes or None
        The document; None if it has been kept.

    Examples
    --------
    >>> Scan("s3://bucket/f.nc", "ce/ce4b.json.zst", None).document is None
    True
    """

    url: str
    name: str | None
    document: bytes | None


# Make ----------------------------------------------------------------------------------


@unstable_types_accepted
def scan_file(file: FoundFile, work: FileWork) -> FileScan:
    """Return the scan of a file.

    Raises
    ------
    SourceChangedError
        Somebody has written to it meanwhile.
    ManifestError
        It cannot be read or converted.
    """
    sources = work.sources
    state: Identity | None = None
    if file.format not in ZARR_FORMATS:
        if file.state is not None:
            sources.know(file.url, file.state)
        state = sources.identity(file.url)
    before = None if state is None else sources.state(file.url)
    tree = parse_file(file, work)
    loaded = _loaded(tree, work)
    checksums = _checksums(tree, work)
    others: dict[str, Identity] = {}
    for url in tree.conditions if state is not None else ():
        if url != file.url:
            other = sources.identity(url)
            if other is None:
                state = None
                break
            others[url] = other
    if state is not None:
        sources.forget(file.url)
        if sources.state(file.url) != before or sources.identity(file.url) != state:
            raise SourceChangedError(
                "the file changed while it was scanned",
                location=redact(file.url),
                remedy="Scan it again once it is complete.",
            )
    return FileScan(file.url, state, work.options, tree, loaded, checksums, others)


def _loaded(tree: FileTree, work: FileWork) -> dict[str, Any]:
    """Return the variables whose values combining may need, however files are combined."""
    found: dict[str, Any] = {}
    for group in tree.groups:
        small = {
            name: array
            for name, array in group.arrays.items()
            if not array.shape or is_coordinate(name, array) or name in (work.loadable or ())
        }
        if not small:
            continue
        read = partial(_read, small, work.sources)
        values, _ = parse_one_by_one(list(small), read)  # others are read when they are needed
        held = {name: v for name, v in values.items() if can_hold(v.values)}
        found |= {join(group.path, name): variable for name, variable in held.items()}
    return found


def _read(arrays: Mapping[str, Any], sources: FileSources, names: Sequence[str]) -> dict[str, Any]:
    try:
        return load_variables({name: arrays[name] for name in names}, sources)
    except READ_ERRORS as error:
        raise store_failure(error) from error


def _checksums(tree: FileTree, work: FileWork) -> dict[Chunk, str]:
    found: dict[Chunk, str] = {}
    for array in (each for group in tree.groups for each in group.arrays.values()):
        if work.checksum is None:
            break
        columns = ManifestColumns.of(array.manifest)
        manifest = manifest_of_columns(columns, columns.paths.shape, {})
        for index, text in checksums_of(manifest, work.sources, work.checksum).items():
            found[chunk_of(manifest[index])] = text
    return found


def chunk_of(reference: Reference) -> Chunk:
    """Return what identifies the chunk of a reference that has a path and a length."""
    assert reference.path is not None
    assert reference.length is not None
    return reference.path, reference.offset, reference.length


def keep_scan(file: FoundFile, work: FileWork) -> Scan | Unusable:
    """Scan a file, and keep the scan where that is possible. Runs in the workers."""
    try:
        scan = scan_file(file, work)
        try:
            document = encode_scan(scan)
        except (TypeError, UnicodeEncodeError) as error:
            raise NotConvertibleError(
                f"a scan cannot hold it: {error}", location=redact(file.url)
            ) from error
    except ManifestError as error:
        return Unusable(file.url, error)
    if scan.state is None:
        return Scan(file.url, None, document)
    name = scan_name(file.url, scan.state, scan.options)
    if work.scans is None:
        return Scan(file.url, name, document)
    work.scans.write(name, document)
    return Scan(file.url, name, None)


# Use -----------------------------------------------------------------------------------


@dataclass
class ScanCounts:
    """How many scans were used, and made.

    Parameters
    ----------
    used, made : int
        Numbers of files.
    unkept : int
        Of those made, how many could not be kept.
    damaged : list of str
        Why documents could not be used.
    """

    used: int = 0
    made: int = 0
    unkept: int = 0
    damaged: list[str] = field(default_factory=list[str])

    def notes(self) -> list[str]:
        """Return what to tell users."""
        found = [f"{counted(self.used, 'scan')} found, {self.made:,} made"]
        if self.unkept:
            found.append(
                f"{counted(self.unkept, 'scan')} could not be kept: the state of the file is "
                "unknown, or it has just been written"
            )
        if self.damaged:
            more = len(self.damaged) - 1
            others = f", and {more:,} more" if more else ""
            found.append(f"unusable scans were made again: {self.damaged[0]}{others}")
        return found


def scanned(
    urls: Sequence[str],
    work: FileWork,
    counts: ScanCounts,
    *,
    parallel: Parallel = False,
    progress: Progress | None = None,
) -> Iterator[tuple[int, FileScan | Scan | Unusable]]:
    """Yield what is known of every file, with its number: what is kept first, then what is made.

    Parameters
    ----------
    urls : sequence of str
        The files.
    work : FileWork
        How they are read, and where scans are kept.
    counts : ScanCounts
        Counts.
    parallel : {"dask", "lithops", False} or Executor
        What makes scans that are not there, and keeps them.
    progress : callable, optional
        Called after each file.

    Yields
    ------
    number : int
        Of the file.
    scan : FileScan, Scan or Unusable
        What is kept; what has just been made, see `opened_scan`; or why there is none.

    Raises
    ------
    ManifestError
        A file cannot be read or converted, and the work is not to be kept going.
    """
    done = itertools.count(1)

    def finished(url: str) -> None:
        if progress is not None:
            progress(url, next(done), len(urls))

    missing: list[int] = []
    for number, scan in enumerate(_kept(urls, work, counts)):
        if scan is None:
            missing.append(number)
        else:
            counts.used += 1
            yield number, scan
            finished(scan.url)
    checked = check_files([urls[number] for number in missing], work.format, work.sources)
    failed = [each for each in checked if isinstance(each, Unusable)]
    if failed and not work.keep_going:
        raise unusable_files(failed, len(urls))
    files: list[FoundFile] = []
    numbers: list[int] = []
    for number, each in zip(missing, checked, strict=True):
        if isinstance(each, FoundFile):
            files.append(each)
            numbers.append(number)
        else:
            yield number, each
            finished(each.url)
    names = [file.url for file in files]
    all_made = in_parallel(partial(keep_scan, work=work), files, names, parallel)
    for number, made in zip(numbers, all_made, strict=True):
        if isinstance(made, Scan):
            counts.made += 1
            counts.unkept += made.name is None
        elif not work.keep_going:
            raise made.error
        yield number, made
        finished(made.url)


def scan_of(file: FoundFile, work: FileWork) -> FileScan:
    """Return the scan of one file: the one that is kept, or a new one, which is then kept.

    Raises
    ------
    ManifestError
        The file cannot be read or converted, or the scan not be kept.
    """
    assert work.scans is not None
    (scan,) = _kept([file.url], work, ScanCounts())
    if scan is not None:
        return scan
    made = keep_scan(file, work)
    if isinstance(made, Unusable):
        raise made.error
    return opened_scan(made, work)


def opened_scan(scan: Scan, work: FileWork) -> FileScan:
    """Return what a scan says that has just been made.

    Raises
    ------
    SourceError
        It is no longer there, or was damaged at once.
    """
    assert work.scans is not None
    document = scan.document
    if document is None:
        assert scan.name is not None
        document = work.scans.read(scan.name)
    try:
        if document is None:
            raise UnusableScanError("it is not there")
        return decode_scan(document, scan.name, scan.url)
    except UnusableScanError as error:
        raise work.scans.failure(scan.name, str(error)) from error


def kept_name(url: str, work: FileWork) -> str | None:
    """Return the name of the document that is kept for the present state of a file, or None."""
    found = _document(url, work)
    if found is None or _usable(url, *found, work.sources, ScanCounts()) is None:
        return None
    return found[0]


def _kept(urls: Sequence[str], work: FileWork, counts: ScanCounts) -> Iterator[FileScan | None]:
    """Yield the scan of every file that is there, and matches its present state."""
    look = partial(_document, work=work)
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS) as threads:
        try:
            for batch in itertools.batched(urls, _BATCH_SIZE):
                for url, stored in zip(batch, threads.map(look, batch), strict=True):
                    yield None if stored is None else _usable(url, *stored, work.sources, counts)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _document(url: str, work: FileWork) -> tuple[str, bytes] | None:
    """Return the name and the bytes of the document that is kept for the state of a file."""
    assert work.scans is not None
    try:
        state = work.sources.identity(url)
    except (ManifestError, OSError):
        return None  # to be checked, with all that are not scanned yet
    if state is None:
        return None
    name = scan_name(url, state, work.options)
    document = work.scans.read(name)
    return None if document is None else (name, document)


def _usable(
    url: str, name: str, document: bytes, sources: FileSources, counts: ScanCounts
) -> FileScan | None:
    try:
        scan = decode_scan(document, name, url)
        if any(sources.identity(other) != state for other, state in scan.others.items()):
            return None
    except UnusableScanError as error:
        counts.damaged.append(f"{name}: {error}")
        return None
    return scan
