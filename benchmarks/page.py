"""`docs/performance.md`: written by `python -m benchmarks --write-docs`, never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import plots
from benchmarks.cases import NATIVE, NATIVE_FUSED, TENSORSTORE, US, Case
from benchmarks.goals import judge
from benchmarks.layout import number, tabulate
from benchmarks.results import Results
from benchmarks.standing import goals

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "performance.md"

_INTRODUCTION = f"""\
# Performance

![What zarr-manifest and others take: less is better]({plots.SUMMARY})
"""

_COLUMNS = """\
- **zarr-manifest** is a `ManifestStore` in `zarr.open`.
- **zarr native** reads native chunks with zarr's default pipeline (`BatchedCodecPipeline`),
  **fused** with `FusedCodecPipeline`. **TensorStore** reads native chunks, too.
- **Icechunk**, **VirtualiZarr** and **fsspec** (kerchunk's references, in JSON or Parquet) read
  references.
- The **floor** is what the bytes cost: reading each object, or the document, with as few requests
  as possible, without decoding; writing documents that are ready. When exporting, it is encoding
  and writing references that are in memory, with the fastest library.
"""

_ABOUT = """\
## How it is measured

- This page is written by a command: `make bench ARGS=--write-docs`. `make bench` prints the table,
  `make bench ARGS=--quick` a small one in two minutes, and `python -m benchmarks remote` the rows
  R4 alone.
- All columns of a row are measured in the same run, over the same data: the same encoded chunks lie
  one after the other in objects, to which the references refer, and natively, as Zarr stores them.
  Data are made before, and are in the page cache for all.
- Each cell is measured in processes of its own, which have imported zarr and opened something
  small; times are minima of a few runs. CPU seconds are those of all threads; memory is that of the
  process, beyond what it had before.
- O3 opens a hierarchy of which only the partition that is read exists: the others would not be
  touched.
- Over HTTP, a server on this machine waits 30 ms before every answer. References are local; in the
  rows D, all is on the server but Icechunk's repository.
- In the rows D, native chunks are read through obstore. *By URL* is what `xarray.open_zarr(url)`
  does with them: zarr makes a store of fsspec and aiohttp, whose imports are part of the time in a
  new process, as those of obstore and of zarr-manifest are in the other row.
- In the rows D, the *first variable* is read of a dataset that has just been opened, and the *next
  variable* after it, from the same objects.
"""

_PLOTS = f"""\
## Plots

![Cost of opening, from a thousand references to 100 million]({plots.OPENING})

Beyond a million, there is no document of all references, and only the partition that is read
exists.

![Cost of reading, from one chunk to 20,000]({plots.READING})
"""


def page(cases: Sequence[Case], results: Results) -> str:
    """Return the page as Markdown."""
    size = (
        "\nThese are figures of a **quick** run, with less data than is said here.\n"
        if results.effort.quick
        else ""
    )
    machine = "\n".join(f"- {line}" for line in results.machine)
    return "\n".join(
        (
            _INTRODUCTION + size,
            f"{_what_matters(results)}\n",
            _PLOTS,
            f"## The table\n\n{_COLUMNS}\n{tabulate(cases, results).markdown()}\n",
            f"## Goals\n\n{judge(goals(), results).markdown()}\n",
            f"## The machine\n\n{machine}\n",
            _ABOUT,
        )
    )


def _what_matters(results: Results) -> str:
    """Return five lines: what most readers want to know, slow cases included."""

    def shown(case: str, column: str, quantity: str, scale: float = 1.0) -> str:
        value = results.value(case, column, quantity)
        # Requests are whole.
        return "?" if value is None else number(value * scale).removesuffix(".0")

    lines = (
        f"**Remote chunks**: 1,000 of them, on a server 30 ms away, take "
        f"{shown('R4', US, 'requests')} requests and {shown('R4', US, 'wall')} s; zarr "
        f"alone, over native chunks, {shown('R4', NATIVE, 'requests')} requests and "
        f"{shown('R4', NATIVE, 'wall')} s. [Which way is fast](fast.md) says when.",
        f"**Small chunks on disk**: 20,000 take {shown('R2', US, 'wall')} s; zarr alone, "
        f"{shown('R2', NATIVE, 'wall')} s, or {shown('R2', NATIVE_FUSED, 'wall')} s with its fused "
        f"pipeline; TensorStore, {shown('R2', TENSORSTORE, 'wall')} s.",
        f"**Opening** a million references takes {shown('O1', US, 'cpu')} CPU s and "
        f"{shown('O1', US, 'peak', 1e-6)} MB, of 100 million in partitions "
        f"{shown('O3', US, 'wall', 1e3)} ms and {shown('O3', US, 'peak', 1e-6)} MB to the first "
        f"chunk.",
        f"**Native arrays** of the same hierarchy: a group of 200 opens in "
        f"{shown('R5 open', US, 'wall', 1e3)} ms, with zarr alone in "
        f"{shown('R5 open', NATIVE, 'wall', 1e3)} ms.",
        f"**A task for each chunk** (`chunks={{}}`): 36 of them on that server, in 2 threads of "
        f"dask, take {shown('D tasks', US, 'first')} s, over native chunks "
        f"{shown('D tasks', NATIVE, 'first')} s, because chunks are read ahead. Of local files, "
        f"2,000 tasks in processes take {shown('R1 processes', US, 'wall')} s, over native chunks "
        f"{shown('R1 processes', NATIVE, 'wall')} s: choose "
        f"[larger chunks](fast.md#chunks-of-dask).",
    )
    return "\n".join(f"- {line}" for line in lines)


def write(cases: Sequence[Case], results: Results) -> None:
    """Write the page and its plots."""
    PAGE.write_text(page(cases, results), encoding="utf-8")
    plots.draw(results, DOCS)
