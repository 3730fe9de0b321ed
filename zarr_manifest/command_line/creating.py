"""``create``: a hierarchy over the chunks of files."""

from __future__ import annotations

import importlib
import operator
import signal
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import passed_to, writing_options
from zarr_manifest.command_line.outcomes import bars, write
from zarr_manifest.command_line.tasks import Outcome, Task, stating_usage
from zarr_manifest.conversion import FORMATS, Parallel

list_option = click.option(
    "--from-file",
    "list_",
    type=click.File(errors="surrogateescape"),
    metavar="LIST",
    help="Read the names of more files from this one, one a line; from standard input, if it is -.",
)

recursive_option = click.option(
    "--recursive",
    is_flag=True,
    help="Take all files below those that are directories or prefixes of buckets, sorted.",
)

format_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Format of the files; by default, detected from their first bytes.",
)

parallel_option = click.option(
    "--parallel",
    metavar="HOW",
    help="Parse files in parallel: threads or a number of them, processes, dask, lithops, or the "
    "address of a dask scheduler, such as tcp://127.0.0.1:8786.",
)


def load_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names variables to load."""
    return click.option("--load", "loadable_variables", multiple=True, metavar="NAME", help=help)


keep_going_option = click.option(
    "--keep-going",
    is_flag=True,
    help="Leave out files that cannot be read or converted, as long as there are others.",
)

checksum_option = click.option(
    "--checksum",
    type=click.Choice(["crc32c", "crc32", "md5", "sha256", "sha512"]),
    help="Record a checksum of every chunk that has none. Reads every such chunk.",
)

scans_option = click.option(
    "--scans",
    metavar="PLACE",
    help="Keep what is found in each file in this directory, or below this URL, and use what is "
    "there: for files that have not changed, and after an interruption.",
)


# Options of how files are read.
_READING = (
    *("format", "recursive", "group_per_file", "keep_going", "concat_dim", "override"),
    *("fill_missing", "loadable_variables", "checksum", "scans", "record_conditions"),
)


@click.command(
    cls=Task,
    short_help="Make a hierarchy from files, without copying them.",
    examples=[
        ("create 2023.nc 2024.nc data.zarr --concat-dim time", "one array from many files"),
        ("create '20*.nc' all.zarr --concat-dim time", "all files that match, sorted"),
        ("create 2023.nc 2024.nc apart.zarr --group-per-file", "each file as its own group"),
        (
            "create s3://bucket/2023.nc data.zarr --environment s3://bucket/",
            "from a bucket, with credentials from the environment; for a public one: --allow",
        ),
        (
            "create 2023.nc 2024.nc data.zarr --concat-dim time --scans scans",
            "what is found in each file is kept: tomorrow, only new ones are read",
        ),
        (
            "create 2023.nc small.zarr --checksum crc32c --codec zstd",
            "with a checksum of every chunk, which reads them all, and a compressed manifest",
        ),
    ],
)
@click.argument("sources", nargs=-1)
@click.argument("hierarchy")
@list_option
@recursive_option
@keep_going_option
@format_option
@click.option(
    "--concat-dim",
    metavar="NAME",
    help="Dimension along which the files are concatenated, in the order given. Without it, "
    "their coordinates determine how they are combined.",
)
@load_option(
    "When combining files: read this variable, and store it inline. Repeatable; by default, "
    "the coordinates named after their dimension, as of a single file."
)
@click.option(
    "--override",
    multiple=True,
    metavar="NAME",
    help="When combining files: do not compare this variable. It is taken from the first file even "
    "if others differ, or keeps repeated values along --concat-dim. Repeatable.",
)
@click.option(
    "--fill-missing",
    is_flag=True,
    help="When combining files: where a file lacks a variable, leave its chunks out.",
)
@click.option("--group-per-file", is_flag=True, help="Do not combine files: make a group of each.")
@parallel_option
@checksum_option
@scans_option
@click.option(
    "--no-conditions",
    "record_conditions",
    is_flag=True,
    callback=passed_to(operator.not_),
    help="Do not record the files' etag and last_modified, by which readers detect changes.",
)
@writing_options
def create(
    sources: tuple[str, ...],
    hierarchy: str,
    list_: TextIO | None,
    parallel: str | None,
    allow_refused: bool,
    **how: Any,
) -> Outcome:
    """Make HIERARCHY from the files SOURCES, without copying their data.

    SOURCES are paths or URLs of netCDF, HDF5, FITS, TIFF, GRIB, DMR++ or Zarr, or patterns
    for these, such as 's3://bucket/prefix/*.nc', in quotes. Variables that references cannot
    express are refused, each by name and with the reason, and the rest is converted; the exit
    status is then 1. All files are checked first, by one request each. One that is missing,
    damaged, or in an unknown format is an error that names all of these; with --keep-going
    it is refused, as a file in an unknown format is with --group-per-file.

    Sources below the directory of HIERARCHY get relative paths, so that both can be
    moved together.
    """
    if Path(hierarchy).is_file():
        raise click.UsageError(
            f"the last argument is the hierarchy to create, but {hierarchy} is a file"
        )
    named = [*sources, *lines_of(list_)]
    if not named:
        raise click.UsageError("name the files: SOURCES, or --from-file LIST")
    reading = {name: how.pop(name) for name in _READING}
    reading["loadable_variables"] = reading["loadable_variables"] or None
    with bars("files") as shown, executor(parallel) as workers:
        with stating_usage(ValueError):
            nodes = conversion.read_files(
                named, parallel=workers, progress=shown.found, allow=how["allow"], **reading
            )
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)


def lines_of(file: TextIO | None) -> list[str]:
    """Return the lines of a file that are not empty."""
    return [] if file is None else [line for line in file.read().splitlines() if line.strip()]


@contextmanager
def executor(how: str | None) -> Generator[Parallel]:
    """Provide what works in parallel; False if nothing does.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    match how:
        case None:
            yield False
        case _ if how == "threads" or (how.isdecimal() and int(how)):
            number = None if how == "threads" else int(how)
            with ThreadPoolExecutor(number) as threads, _leaving_no_work(threads):
                yield threads
        case "processes":
            # Not forked: forks would lack the threads of obstore.
            processes = ProcessPoolExecutor(
                mp_context=get_context("spawn"),
                # Only this process handles interrupts; it stops the workers.
                initializer=signal.signal,
                initargs=(signal.SIGINT, signal.SIG_IGN),
            )
            with processes, _leaving_no_work(processes):
                yield processes
        case "dask" | "lithops":
            yield how
        case _ if "://" in how:
            with dask_client(how) as client:
                yield client.get_executor()
        case _:
            raise click.UsageError(
                "--parallel takes threads or a number of them, processes, dask, lithops or an "
                f"address, not {how!r}"
            )


@contextmanager
def _leaving_no_work(workers: Executor) -> Generator[None]:
    """Cancel pending work on a failure or an interrupt."""
    try:
        yield
    except BaseException:
        workers.shutdown(cancel_futures=True)
        raise


def dask_client(address: str | None) -> Any:
    """Return a client of a scheduler, or of a cluster of this machine.

    Raises
    ------
    UsageError
        dask is not installed.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise click.UsageError("a dask cluster needs: pip install distributed") from error
    return distributed.Client(address)
