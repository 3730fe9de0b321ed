"""``verify``: whether the chunks of a hierarchy are still what its manifests say."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import zarr_manifest
from zarr_manifest import conversion
from zarr_manifest.command_line.creating import dask_client, executor
from zarr_manifest.command_line.options import (
    arrays_option,
    duration,
    hierarchy_argument,
    reading_options,
    sole_writer_option,
)
from zarr_manifest.command_line.outcomes import MOST_OF_A_PAGE, bars, page_option, write_page
from zarr_manifest.command_line.refreshing import renewal_outcome
from zarr_manifest.command_line.tasks import Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.errors import ManifestError
from zarr_manifest.inspection import contents_html, finding_line
from zarr_manifest.showing import shortened

# Nobody reads more in a terminal; `--json` and `--state` have all.
_MOST_LINES = 100


@click.command(
    cls=Task,
    short_help="Check that chunks are still what the manifests say.",
    examples=[
        ("verify mirror.zarr", "documents and objects; no chunk is read"),
        ("verify mirror.zarr --read 3/30", "also the third thirtieth of all chunks"),
        ("verify mirror.zarr --html mirror.html", "a page with what was found, and maps of chunks"),
        (
            "verify mirror.zarr --read 1% --decode --time-limit 2h --state state.jsonl",
            "a sample that is decoded; if it takes longer, it goes on next time",
        ),
        (
            "verify mirror.zarr --read all --state state.jsonl --since 30d --parallel 4",
            "only what has not been found ok within a month, in four threads",
        ),
    ],
)
@hierarchy_argument
@arrays_option("Verify only this array. Repeatable. Needed on web servers, which cannot list.")
@click.option(
    "--read",
    metavar="WHICH",
    help="Read chunks, and compare them with their checksums: all; a part such as 3/30, all of "
    "which together are all chunks; a random sample such as 1%; or an amount such as 10GB.",
)
@click.option("--decode", is_flag=True, help="Decode the chunks that are read.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="FILE",
    help="Keep what was checked in this file, and continue from there after an interruption. "
    "Repeatable: several are taken together, and the first is written.",
)
@click.option(
    "--since",
    metavar="AGE",
    help="Do not check again what earlier runs found ok so long ago at most, as 30d or 12h; what "
    "was not ok is checked first. Needs --state.",
)
@click.option(
    "--time-limit", metavar="TIME", help="Begin nothing more after this time, as 2h or 30m."
)
@click.option(
    "--parallel",
    metavar="HOW",
    help="Check in parallel: threads or a number of them, processes, dask, or the address of a "
    "dask scheduler, such as tcp://127.0.0.1:8786. By default, a few threads.",
)
@click.option(
    "--rate",
    default=1000.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="NUMBER",
    help="Number of objects that each process asks for their state in a second, at most.",
)
@click.option(
    "--add",
    "added",
    metavar="WHAT",
    help="If nothing was found, record what manifests lack, as one change: checksums, for which "
    "all chunks without one are read; etags, or the time where there is none; or both, as "
    "checksums,etags.",
)
@sole_writer_option
@page_option
@reading_options
def verify(
    hierarchy: str,
    arrays: tuple[str, ...],
    read: str | None,
    decode: bool,
    states: tuple[str, ...],
    since: str | None,
    time_limit: str | None,
    parallel: str | None,
    rate: float,
    added: str | None,
    sole_writer: bool,
    page: Path | None,
    **how: Any,
) -> Outcome:
    """Verify that the chunks of HIERARCHY are what its manifests say.

    Checks the manifests, and that the objects that they refer to exist, have the recorded
    state, and do not end too early; with --read, also the bytes of chunks. The exit status is 1
    if something is damaged, and 3 if something could not be checked.
    """
    if since is not None and not states:
        raise click.UsageError("--since says how old results may be: name their file with --state")
    what = [] if added is None else added.split(",")
    if added is not None and not set(what) <= {"checksums", "etags"}:
        raise click.UsageError(f"--add takes checksums, etags or both, not {added!r}")
    with bars("chunks") as shown, _workers(parallel) as workers, stating_usage(ValueError):
        report = zarr_manifest.verify(
            hierarchy,
            arrays or None,
            read=read,
            decode=decode,
            state=states,
            since=None if since is None else duration(since, "--since"),
            time_limit=None if time_limit is None else duration(time_limit, "--time-limit"),
            parallel=workers,
            per_second=rate,
            progress=shown.checked,
            **how,
        )
    report.hierarchy = hierarchy
    if page is not None:
        try:
            tree = zarr_manifest.contents(hierarchy, native_chunks=True, **how)
        except ManifestError:  # native chunks cannot be listed on web servers
            tree = zarr_manifest.contents(hierarchy, **how)
        parts = report.html(MOST_OF_A_PAGE), contents_html(tree, MOST_OF_A_PAGE)
        write_page(page, hierarchy, *parts)
    findings = [finding_line(each, spelled) for each in report]
    document = report.to_json()
    for shown_as, each in zip(document["findings"], report, strict=True):
        shown_as["message"] = spelled(each.message)
    lines = [*shortened(findings, _MOST_LINES), *report.lines(findings=False)]
    outcome = Outcome(document, lines, status=report.status)
    if not what:
        return outcome
    if report.status:
        return replace(outcome, remarks=["nothing was added"])
    renewal = conversion.complete(
        hierarchy,
        arrays or None,
        checksum="crc32c" if "checksums" in what else None,
        etags="etags" in what,
        allow=how["allow"],
        limits=how["limits"],
        sole_writer=sole_writer,
    )
    renewed = renewal_outcome(hierarchy, renewal)
    return Outcome(
        {**document, "added": {k: v for k, v in renewed.document.items() if k != "hierarchy"}},
        [*outcome.lines, *renewed.lines],
        renewed.remarks,
        renewed.status,
    )


@contextmanager
def _workers(how: str | None) -> Generator[Executor | None]:
    """Provide what checks blocks of chunks."""
    if how == "dask":
        with dask_client(None) as client:
            yield client.get_executor()
        return
    with executor(how) as found:
        if isinstance(found, str):
            raise click.UsageError(f"--parallel {found} is for files, not for chunks")
        yield found or None
