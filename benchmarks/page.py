"""`docs/performance.md`: written by `python -m benchmarks --write-docs`, never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import plots
from benchmarks.cases import Case
from benchmarks.goals import judge
from benchmarks.layout import tabulate
from benchmarks.results import Results
from benchmarks.standing import goals

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "performance.md"

_INTRODUCTION = """\
# Performance

What it costs to open, read, write and convert references, beside what else can do it. This page is
written by a command: `make bench ARGS=--write-docs`. `make bench` prints the table, `make bench
ARGS=--quick` a small one in two minutes.
"""

_ABOUT = """\
## How it is measured

- All are measured in the same run, over the same data: the same encoded chunks lie one after the
  other in objects, to which the references refer, and natively, as Zarr stores them. Data are made
  before, and are in the page cache for all.
- Each cell is measured in processes of its own, which have imported zarr and opened something
  small; times are minima of a few runs. CPU seconds are those of all threads; memory is that of the
  process, beyond what it had before.
- **us** is a `ManifestStore` in `zarr.open`; **us, bulk** is the same with
  `zarr_manifest.BulkCodecPipeline`, which `enable()` and the xarray engine use by themselves.
  **zarr native** reads native chunks with zarr's default pipeline (`BatchedCodecPipeline`),
  **fused** with `FusedCodecPipeline`. TensorStore reads native chunks, too.
- The **floor** is what the bytes cost: reading each object, or the document, with as few requests
  as possible, without decoding; writing documents that are ready. When exporting, it is encoding
  and writing references that are in memory, with the fastest library.
- O3 opens a hierarchy of which only the partition that is read exists: the others would not be
  touched.
- Over HTTP, a server on this machine waits 30 ms before every answer. References are local.
- Where the two of our paths differ, the bulk one decides whether a goal is met.
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
        "\nThese are figures of a **quick** run, with less data.\n" if results.effort.quick else ""
    )
    machine = "\n".join(f"- {line}" for line in results.machine)
    return "\n".join(
        (
            _INTRODUCTION + size,
            f"## The table\n\n{tabulate(cases, results).markdown()}\n",
            f"## Goals\n\n{judge(goals(), results).markdown()}\n",
            _PLOTS,
            f"## The machine\n\n{machine}\n",
            _ABOUT,
        )
    )


def write(cases: Sequence[Case], results: Results) -> None:
    """Write the page and its plots."""
    PAGE.write_text(page(cases, results), encoding="utf-8")
    plots.draw(results, DOCS)
