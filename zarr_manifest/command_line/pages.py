"""``--html FILE``: what a command found, as one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import click

from zarr_manifest.showing import html_page

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
