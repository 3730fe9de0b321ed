"""Scans by themselves: of one file, for any engine; and of many, or of one part of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zarr_manifest.conversion.files.finding import (
    FoundFile,
    Unusable,
    check_files,
    files_named,
)
from zarr_manifest.conversion.files.formats import format_of
from zarr_manifest.conversion.files.scanning import (
    FileWork,
    KeptScans,
    Scan,
    ScanCounts,
    keep_scan,
    kept_name,
    scanned,
)
from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.workers import Parallel
from zarr_manifest.conversion.nodes import Progress
from zarr_manifest.conversion.renewal import RefusedSource
from zarr_manifest.format import compute_checksum
from zarr_manifest.locations import redact
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, access_by_prefix

INLINE_LIMIT = 2**20


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
    work = _work(format, loadable_variables, inline_limit, checksum, scans, allow)
    located = file_url(url)
    if work.scans is not None and (name := kept_name(located, work)) is not None:
        return Scan(located, name, None)
    (found,) = check_files([located], work.format, work.sources)
    made = keep_scan(found, work) if isinstance(found, FoundFile) else found
    if isinstance(made, Unusable):
        raise made.error
    return made


@dataclass(slots=True)
class ScanReport:
    """What was scanned.

    Parameters
    ----------
    found, made : int
        How many scans were there, and how many were made.
    unkept : list of str
        Files whose scans cannot be kept, because their states cannot be told apart.
    refused : list of RefusedSource
        Files that cannot be read or converted.

    Examples
    --------
    >>> print(ScanReport(found=97, made=3))
    97 scans found, 3 made
    """

    found: int = 0
    made: int = 0
    unkept: list[str] = field(default_factory=list[str])
    refused: list[RefusedSource] = field(default_factory=list[RefusedSource])

    def __str__(self) -> str:
        lines = [f"{counted(self.found, 'scan')} found, {self.made:,} made"]
        lines += [f"not kept: {url}" for url in self.unkept]
        lines += [f"refused: {each.location}: {each.reason}" for each in self.refused]
        return "\n".join(lines)


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
    work = _work(format, loadable_variables, inline_limit, checksum, scans, allow)
    named = [urls] if isinstance(urls, str | Path) else list(urls)
    located = files_named(named, work.sources, recursive=recursive)
    own = [url for url in dict.fromkeys(located) if part_of(url, count) == number]
    report, counts = ScanReport(), ScanCounts()
    for _, made in scanned(own, work, counts, parallel=parallel, progress=progress):
        if isinstance(made, Unusable):
            problem = RefusedSource(redact(made.url), made.error.code, made.error.problem)
            report.refused.append(problem)
        elif isinstance(made, Scan) and made.name is None:
            report.unkept.append(redact(made.url))
    report.found, report.made = counts.used, counts.made - counts.unkept
    return report


def part_of(url: str, count: int) -> int:
    """Return the part that a file belongs to, from 1, of so many.

    Examples
    --------
    >>> [part_of(f"s3://bucket/{day}.nc", 3) for day in range(6)]
    [2, 2, 1, 3, 1, 3]
    """
    return int.from_bytes(hashlib.sha256(url.encode()).digest()[:8]) % count + 1


def _work(
    format: str | None,
    loadable: Iterable[str] | None,
    inline_limit: int,
    checksum: str | None,
    scans: str | Path | None,
    allow: Allow,
) -> FileWork:
    if checksum is not None:
        compute_checksum(checksum, b"")  # raises if it is unknown
    sources = FileSources(access_by_prefix(allow))
    return FileWork(
        sources,
        None if format is None else format_of(format),
        None if loadable is None else tuple(loadable),
        inline_limit,
        record_conditions=True,
        checksum=checksum,
        keep_going=True,
        scans=None if scans is None else KeptScans(scans, sources),
    )
