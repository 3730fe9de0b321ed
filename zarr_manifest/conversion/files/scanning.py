"""Scans of files: made by any engine, one file at a time, kept, and used again."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from zarr_manifest.conversion.files.finding import (
    FoundFile,
    Unusable,
    check_files,
    files_named,
    unusable_files,
)
from zarr_manifest.conversion.files.formats import ZARR_FORMATS
from zarr_manifest.conversion.files.parsing import INLINE_LIMIT, FileWork, scan_file
from zarr_manifest.conversion.files.scan_documents import (
    FileScan,
    UnusableScanError,
    decode_scan,
    encode_scan,
    scan_name,
)
from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.workers import Parallel, in_parallel
from zarr_manifest.conversion.nodes import Progress
from zarr_manifest.conversion.renewal import RefusedSource
from zarr_manifest.errors import ManifestError, NotConvertibleError, SourceError
from zarr_manifest.locations import redact
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow
from zarr_manifest.writing import Call, in_threads


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan of one file.

    Parameters
    ----------
    url : str
        The file, percent-encoded.
    name : str or None
        Name of the document where scans are kept; None if the file's states cannot be told
        apart, so that its scan could be used only once. So are those of Zarr hierarchies.
    document : bytes or None
        The document; None if it has been kept, or if there is none: of a Zarr hierarchy.

    Examples
    --------
    >>> Scan("s3://bucket/f.nc", "ce/ce4b.json.zst", None).document is None
    True
    """

    url: str
    name: str | None
    document: bytes | None


# Of one file ---------------------------------------------------------------------------


def keep_scan(file: FoundFile, work: FileWork) -> Scan | Unusable:
    """Scan a file, and keep the scan where that is possible. Runs in the workers."""
    if file.format in ZARR_FORMATS:
        return Scan(file.url, None, None)
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


# Of many files -------------------------------------------------------------------------


@dataclass(slots=True)
class ScanReport:
    """What was scanned.

    Parameters
    ----------
    found, made : int
        How many scans were there, and how many were made and kept.
    unkept : list of str
        Files whose scans cannot be kept, because their states cannot be told apart.
    refused : list of RefusedSource
        Files that cannot be read or converted.
    damaged : list of str
        Why scans that were there were made again.

    Examples
    --------
    >>> print(ScanReport(found=97, made=3))
    97 scans found, 3 made
    """

    found: int = 0
    made: int = 0
    unkept: list[str] = field(default_factory=list[str])
    refused: list[RefusedSource] = field(default_factory=list[RefusedSource])
    damaged: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        lines = [f"not kept: {url}" for url in self.unkept]
        lines += [f"refused: {each.location}: {each.reason}" for each in self.refused]
        lines += [f"made again: {each}" for each in self.damaged]
        return "\n".join([self.summary, *lines])

    @property
    def summary(self) -> str:
        """How many scans there are, in a line."""
        return f"{counted(self.found, 'scan')} found, {self.made:,} made"

    def notes(self) -> list[str]:
        """Return what to tell those who combine the files, of which some have scans."""
        if not (self.found or self.made or self.unkept):
            return []
        found = [self.summary]
        if self.unkept:
            found.append(
                f"{counted(len(self.unkept), 'scan')} could not be kept: the state of the file is "
                "unknown, or it has just been written"
            )
        if self.damaged:
            more = len(self.damaged) - 1
            others = f", and {more:,} more" if more else ""
            found.append(f"unusable scans were made again: {self.damaged[0]}{others}")
        return found

    def add(self, made: Scan | Unusable) -> None:
        """Count a file of which there was no scan."""
        if isinstance(made, Unusable):
            self.refused.append(made.refused)
        elif made.name is None:
            self.unkept.append(redact(made.url))
        else:
            self.made += 1


def each_file[T](
    urls: Sequence[str],
    work: FileWork,
    make: Callable[[FoundFile], T | Unusable],
    report: ScanReport,
    *,
    parallel: Parallel = False,
    progress: Progress | None = None,
) -> Iterator[tuple[int, FileScan | T | Unusable]]:
    """Yield what is known of every file, with its number: what is kept first, then what is made.

    Parameters
    ----------
    urls : sequence of str
        The files.
    work : FileWork
        How they are read, and where scans are kept, if they are.
    make : callable
        Reads a file of which no scan is kept; sent to the workers.
    report : ScanReport
        Gets all that is found and made.
    parallel : {"dask", "lithops", False} or Executor
        What calls it.
    progress : callable, optional
        Called after each file.

    Yields
    ------
    number : int
        Of the file.
    found : FileScan, T or Unusable
        What is kept; what has just been made; or why there is none.

    Raises
    ------
    ManifestError
        A file cannot be read or converted, and the work is not to be kept going.
    """
    done = itertools.count(1)

    def finished(url: str) -> None:
        if progress is not None:
            progress(url, next(done), len(urls))

    missing: list[int] = [] if work.scans is not None else list(range(len(urls)))
    for number, scan in enumerate(_kept(urls, work, report) if work.scans is not None else ()):
        if scan is None:
            missing.append(number)
        else:
            report.found += 1
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
            report.add(each)
            yield number, each
            finished(each.url)
    names = [file.url for file in files]
    all_made = in_parallel(make, files, names, parallel)
    for number, made in zip(numbers, all_made, strict=True):
        if isinstance(made, Unusable) and not work.keep_going:
            raise made.error
        if isinstance(made, Scan | Unusable):
            report.add(made)
        yield number, made
        finished(urls[number])


def scan_of(file: FoundFile, work: FileWork) -> FileScan:
    """Return the scan of one file: the one that is kept, or a new one, which is then kept.

    Raises
    ------
    ManifestError
        The file cannot be read or converted, or the scan not be kept.
    """
    assert work.scans is not None
    (scan,) = _kept([file.url], work, ScanReport())
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
        raise SourceError(
            f"the scan {scan.name} cannot be used: {error}",
            location=redact(work.scans.url),
            remedy="All workers must reach this place, and nobody else may write there.",
        ) from error


def _kept(urls: Sequence[str], work: FileWork, report: ScanReport) -> Iterator[FileScan | None]:
    """Yield the scan of every file that is there, and matches its present state."""
    stored = in_threads(Call(0, partial(_document, url, work)) for url in urls)
    for url, found in zip(urls, stored, strict=True):
        yield None if found is None else _usable(url, *found, work.sources, report)


def _document(url: str, work: FileWork) -> tuple[str, bytes] | None:
    """Return the name and the bytes of the document that is kept for the state of a file."""
    if work.scans is None:
        return None
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
    url: str, name: str, document: bytes, sources: FileSources, report: ScanReport
) -> FileScan | None:
    try:
        scan = decode_scan(document, name, url)
        if any(sources.identity(other) != state for other, state in scan.others.items()):
            return None
    except UnusableScanError as error:
        report.damaged.append(f"{name}: {error}")
        return None
    return scan


# For users -------------------------------------------------------------------------------


def scan(
    url: str | Path,
    *,
    scans: str | Path | None = None,
    format: str | None = None,
    loadable_variables: Iterable[str] | None = None,
    inline_limit: int = INLINE_LIMIT,
    checksum: str | None = None,
    allow: Allow = None,
) -> Scan:
    """Scan one file: find where its chunks are, for :func:`read_files` to use.

    Depends on nothing but its arguments and the file, and can be pickled: any engine can call
    it, such as an executor, dask, Ray, a Slurm array or AWS Lambda.

    Parameters
    ----------
    url : str or Path
        The file; not a pattern.
    scans : str or Path, optional
        Where the scan is kept, as for :func:`read_files`. If it is there, the file is not
        read again. Without it, the document is returned, to be written there under its name.
    format, loadable_variables, inline_limit, checksum
        As for :func:`read_files`, which uses scans that were made with the same.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix.

    Returns
    -------
    Scan

    Raises
    ------
    ManifestError
        The file cannot be read or converted, has changed meanwhile, or the scan cannot be kept.

    Examples
    --------
    >>> import h5py, tempfile
    >>> from zarr_manifest.conversion import read_files
    >>> directory = Path(tempfile.mkdtemp())
    >>> with h5py.File(directory / "f.h5", "w") as file:
    ...     file["sst"] = [1.5, 2.5]
    >>> import os
    >>> os.utime(directory / "f.h5", (0, 0))  # it was not written just now
    >>> scan(directory / "f.h5", scans=directory / "scans").document is None
    True
    >>> [node.path for node in read_files(directory / "f.h5", scans=directory / "scans")]
    ['', 'sst']
    """
    work = FileWork.of(format, loadable_variables, inline_limit, checksum, scans, allow)
    ((_, found),) = each_file([file_url(url)], work, partial(keep_scan, work=work), ScanReport())
    if isinstance(found, Unusable):
        raise found.error
    if isinstance(found, FileScan):
        assert found.state is not None  # it was kept
        return Scan(found.url, scan_name(found.url, found.state, found.options), None)
    return found


def scan_files(
    urls: str | Path | Sequence[str | Path],
    scans: str | Path,
    *,
    part: tuple[int, int] = (1, 1),
    recursive: bool = False,
    format: str | None = None,
    loadable_variables: Iterable[str] | None = None,
    inline_limit: int = INLINE_LIMIT,
    checksum: str | None = None,
    parallel: Parallel = False,
    allow: Allow = None,
    progress: Progress | None = None,
) -> ScanReport:
    """Scan many files, or one part of them, and keep the scans for :func:`read_files`.

    Every file stands for itself: those that fail are reported, and the others are kept.

    Parameters
    ----------
    urls : str, Path or a sequence of them
        As for :func:`read_files`.
    scans : str or Path
        A directory, or a prefix of a bucket.
    part : tuple of int
        Which part of the files, from 1, and of how many. A file belongs to one part, by a hash of
        its URL, whatever other files there are: jobs that see different files miss none and
        scan none twice.
    recursive, format, loadable_variables, inline_limit, checksum, parallel, allow
        As for :func:`read_files`.
    progress : callable, optional
        Called with the URL of the file scanned last, the number of files scanned, and how many
        there are.

    Raises
    ------
    ValueError
        There is no such part.
    SourceNotFoundError
        No file matches.
    SourceError, SourceAccessDeniedError
        Scans cannot be kept there.

    Examples
    --------
    >>> import h5py, tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with h5py.File(directory / "f.h5", "w") as file:
    ...     file["sst"] = [1.5, 2.5]
    >>> print(scan_files(directory / "f.h5", directory / "scans", part=(1, 2)).refused)
    []
    """
    number, count = part
    if not 1 <= number <= count:
        raise ValueError(f"there is no part {number} of {count}: parts are 1 to {count}")
    work = FileWork.of(format, loadable_variables, inline_limit, checksum, scans, allow)
    named = [urls] if isinstance(urls, str | Path) else list(urls)
    located = files_named(named, work.sources, recursive=recursive)
    own = [url for url in dict.fromkeys(located) if part_of(url, count) == number]
    report = ScanReport()
    make = partial(keep_scan, work=work)
    for _ in each_file(own, work, make, report, parallel=parallel, progress=progress):
        pass
    return report


def part_of(url: str, count: int) -> int:
    """Return the part that a file belongs to, from 1, of so many.

    Examples
    --------
    >>> [part_of(f"s3://bucket/{day}.nc", 3) for day in range(6)]
    [2, 2, 1, 3, 1, 3]
    """
    return int.from_bytes(hashlib.sha256(url.encode()).digest()[:8]) % count + 1
