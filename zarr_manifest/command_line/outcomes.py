"""What several commands write and show: hierarchies, reports, pages, and progress bars."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from zarr_manifest import conversion
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome
from zarr_manifest.command_line.wording import command, spelled, visible
from zarr_manifest.conversion import ConversionReport, Node, RefusedNode, RefusedSource
from zarr_manifest.showing import html_page, note_lines


def members(found: object, *names: str) -> dict[str, Any]:
    """Return some attributes of a result as JSON values."""
    return {name: getattr(found, name) for name in names}


def refusals(refused: Iterable[RefusedNode]) -> list[dict[str, Any]]:
    """Return the refused nodes as JSON values."""
    return [
        {"path": node.path, "code": node.code, "reason": spelled(node.reason)} for node in refused
    ]


def noted(notes: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return notes as JSON values."""
    return [{"path": path, "note": spelled(note)} for path, note in notes]


def refused_sources(refused: Iterable[RefusedSource]) -> tuple[list[dict[str, str]], list[str]]:
    """Return refused sources as JSON values, and as lines."""
    documents = [
        {"location": each.location, "code": each.code, "reason": spelled(each.reason)}
        for each in refused
    ]
    return documents, [f"refused: {': '.join(each.values())}" for each in documents]


def hierarchy_outcome(hierarchy: str, report: ConversionReport, *, allow_refused: bool) -> Outcome:
    """Return the outcome of writing a hierarchy."""
    to_allow = [f"To see what readers must allow: {command('locations', hierarchy)}"]
    return conversion_outcome(
        {"hierarchy": hierarchy}, report, to_allow * bool(report.references), allow_refused
    )


def conversion_outcome(
    target: dict[str, str], report: ConversionReport, advice: Iterable[str], allow_refused: bool
) -> Outcome:
    """Return the outcome of writing a target, which is given as JSON names it."""
    (place,) = target.values()
    document = {
        **target,
        **members(report, "groups", "arrays", "references", "stated_bytes"),
        "refused": refusals(report.refused),
        "notes": noted(report.notes),
    }
    status = PROBLEMS if report.refused and not allow_refused else 0
    lines = [f"{place}: {report.summary}", *advice]
    return Outcome(document, lines, list(remarks(report.notes, report.refused)), status)


def remarks(notes: Iterable[tuple[str, str]], refused: Iterable[RefusedNode]) -> Iterator[str]:
    """Return the lines about notes and refusals."""
    for line in note_lines((path, spelled(note)) for path, note in notes):
        yield f"note: {line}"
    for node in refused:
        yield f"refused: /{node.path}: {node.code}: {spelled(node.reason)}"


def write(
    hierarchy: str,
    nodes: Iterable[Node],
    shown: Bars,
    how: Mapping[str, Any],
    *,
    allow_refused: bool = False,
) -> Outcome:
    """Write a hierarchy; `how` are the values of `writing_options`."""
    stated: object = how.get("partition_shape")
    by_array = cast("dict[str, object]", stated) if isinstance(stated, dict) else {}
    unused = dict[str, None].fromkeys(by_array)
    with no_empty_directories(hierarchy):
        report = conversion.write_hierarchy(
            hierarchy, _marking_used(nodes, unused), progress=shown.wrote, **how
        )
    report.notes += [
        (path, "there is no such array: its partition shape was ignored") for path in unused
    ]
    return hierarchy_outcome(hierarchy, report, allow_refused=allow_refused)


def _marking_used(nodes: Iterable[Node], paths: dict[str, None]) -> Iterator[Node]:
    """Pass nodes on, removing their paths from `paths`."""
    for node in nodes:
        paths.pop(node.path.strip("/"), None)
        yield node


@contextmanager
def no_empty_directories(hierarchy: str) -> Generator[None]:
    """On failure, remove the directories that were made for a hierarchy, if they are empty."""
    made = "://" not in hierarchy and not Path(hierarchy).exists()
    try:
        yield
    except BaseException:
        for directory, _, _ in os.walk(hierarchy, topdown=False) if made else ():
            with suppress(OSError):  # it is not empty
                Path(directory).rmdir()
        raise


# Pages ----------------------------------------------------------------------------------


# Of nodes, findings or differences: more would make a page of some ten megabytes.
MOST_OF_A_PAGE = 2_000

page_option = click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page for web browsers, which needs no network.",
)


def write_page(file: Path, title: str, *parts: str) -> None:
    """Write a page, replacing what is there."""
    file.write_text(html_page(title, "\n".join(parts)), encoding="utf-8")


# Progress bars on stderr, if it is a terminal --------------------------------------------


COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    # Names may look like markup.
    TextColumn("{task.fields[unit]}", markup=False),
)


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of one command."""

    progress: Progress
    finding: str

    def found(self, url: str, done: int, total: int | None) -> None:
        """Show how many sources have been parsed, and the last of them."""
        # The name only: a long URL would leave no room for the numbers.
        self._show(self.finding, url.rstrip("/").rpartition("/")[2], done, total)
        self.progress.refresh()

    def wrote(self, path: str, done: int, total: int | None) -> None:
        """Show that references of an array were written."""
        self._show("references", f"/{path}", done, total)

    def checked(self, what: str, done: int, total: int | None) -> None:
        """Show how much of a hierarchy was checked, and what last."""
        self._show(self.finding, what, done, total)

    def _show(self, counted: str, unit: str, done: int, total: int | None) -> None:
        task = next((t.id for t in self.progress.tasks if t.description == counted), None)
        if task is None:
            task = self.progress.add_task(counted, total=None, unit="")
        self.progress.update(task, completed=done, total=total, unit=visible(unit))


@contextmanager
def bars(finding: str) -> Generator[Bars]:
    """Show progress bars until the work is done.

    Parameters
    ----------
    finding : str
        What is counted before anything is written, such as ``"files"``.
    """
    console = Console(stderr=True)
    shown = sys.stderr.isatty() and console.is_terminal
    with Progress(*COLUMNS, console=console, transient=True, disable=not shown) as progress:
        yield Bars(progress, finding)
