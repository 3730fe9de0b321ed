"""The plots of `docs/performance.md`, drawn from the table and from the sweeps, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import cases, sweeps
from benchmarks.layout import number
from benchmarks.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUMMARY = "performance-summary.svg"
OPENING = "performance-opening.svg"
READING = "performance-reading.svg"

_COLOURS = {
    cases.US: "tab:red",
    cases.NATIVE: "tab:gray",
    cases.NATIVE_FUSED: "black",
    cases.TENSORSTORE: "tab:purple",
    cases.ICECHUNK: "tab:blue",
    cases.VIRTUALIZARR: "tab:green",
    cases.FSSPEC_JSON: "tab:orange",
    cases.FSSPEC_PARQUET: "tab:brown",
}


#: What the summary shows: a case, its title, and the quantity.
_SUMMARISED = (
    ("R4", "1,000 chunks over HTTP, 30 ms away: s", "wall"),
    ("R2", "20,000 chunks of 4 KiB on disk: s", "wall"),
    ("O1", "open 1,000,000 references: CPU s", "cpu"),
    ("write document", "write 1,000,000 references: CPU s", "cpu per million"),
)


def draw(results: Results, directory: Path) -> None:
    """Write all plots into a directory."""
    _draw(directory / SUMMARY, partial(_summary, results), (8, 5.5))
    _draw(directory / OPENING, partial(_sweep, _opening, results, *_OPENING_AXES), (8, 4.5))
    _draw(directory / READING, partial(_sweep, _reading, results, *_READING_AXES), (8, 4.5))


_OPENING_AXES = ("references", "CPU seconds to the first chunk")
_READING_AXES = ("chunks of 4 KiB", "seconds")


def _draw(path: Path, paint: Callable[[Any], None], size: tuple[float, float]) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Text stays text, and the same numbers make the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        figure: Any = Figure(figsize=size, layout="constrained")
        paint(figure)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _summary(results: Results, figure: Any) -> None:
    """Draw a bar for each participant."""
    for axes, (case, title, quantity) in zip(figure.subplots(2, 2).flat, _SUMMARISED, strict=True):
        found = {
            column: results.value(case, column, quantity)
            for column in cases.COLUMNS
            if column != cases.FLOOR
        }
        shown = {column: value for column, value in found.items() if value is not None}
        # Native chunks take no references: they are no answer to the lower two questions.
        if quantity != "wall":
            shown = {name: value for name, value in shown.items() if name not in _NATIVE}
        colours = ["tab:red" if column == cases.US else "tab:gray" for column in shown]
        drawn = axes.barh(list(shown), list(shown.values()), color=colours)
        axes.bar_label(drawn, [number(value) for value in shown.values()], padding=3, fontsize=8)
        axes.set_title(title, fontsize=9, loc="left")
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_visible(False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)


_NATIVE = (cases.NATIVE, cases.NATIVE_FUSED, cases.TENSORSTORE)


def _sweep(
    lines: Callable[[Axes, Results], None],
    results: Results,
    across: str,
    upwards: str,
    figure: Any,
) -> None:
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel=f"number of {across}", ylabel=upwards
    )
    lines(axes, results)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _opening(axes: Axes, results: Results) -> None:
    for column in sweeps.DOCUMENT_COLUMNS:
        label = f"{column}, {'one manifest' if column == cases.ICECHUNK else 'one document'}"
        _line(axes, results, column, "cpu", sweeps.REFERENCES, sweeps.open_document, label, "--")
    for column in sweeps.PARTITIONED_COLUMNS:
        label = f"{column}, split" if column == cases.ICECHUNK else f"{column}, partitions"
        _line(axes, results, column, "cpu", sweeps.REFERENCES, sweeps.open_partitions, label, "-")


def _reading(axes: Axes, results: Results) -> None:
    for column in sweeps.READ_COLUMNS:
        _line(axes, results, column, "wall", sweeps.CHUNKS, sweeps.read_chunks, column, "-")


def _line(
    axes: Axes,
    results: Results,
    column: str,
    quantity: str,
    counts: Iterable[int],
    case: Callable[[int], str],
    label: str,
    style: str,
) -> None:
    values = ((count, results.value(case(count), column, quantity)) for count in counts)
    points = [(count, value) for count, value in values if value is not None]
    if points:
        colour, marker = _COLOURS[column], "o"
        axes.plot(*zip(*points, strict=True), style, marker=marker, color=colour, label=label)
