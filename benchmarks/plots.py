"""The plots of `docs/performance.md`, drawn from the sweeps, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import cases, sweeps
from benchmarks.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OPENING = "performance-opening.svg"
READING = "performance-reading.svg"

_COLOURS = {
    cases.US: "tab:red",
    cases.US_BULK: "darkred",
    cases.NATIVE: "tab:gray",
    cases.NATIVE_FUSED: "black",
    cases.TENSORSTORE: "tab:purple",
    cases.ICECHUNK: "tab:blue",
    cases.VIRTUALIZARR: "tab:green",
    cases.FSSPEC_JSON: "tab:orange",
    cases.FSSPEC_PARQUET: "tab:brown",
}


def draw(results: Results, directory: Path) -> None:
    """Write both plots into a directory."""
    _draw(directory / OPENING, _opening, results, "references", "CPU seconds to the first chunk")
    _draw(directory / READING, _reading, results, "chunks of 4 KiB", "seconds")


def _draw(
    path: Path,
    lines: Callable[[Axes, Results], None],
    results: Results,
    across: str,
    upwards: str,
) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Text stays text, and the same numbers make the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        figure: Any = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot(
            xscale="log", yscale="log", xlabel=f"number of {across}", ylabel=upwards
        )
        lines(axes, results)
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


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
