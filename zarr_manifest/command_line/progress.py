"""Progress bars on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from zarr_manifest.command_line.wording import visible

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
