"""What the demonstration prints. Returns lines of text, and computes nothing else."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

WIDTH = 98


def size(count: float) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> size(864), size(1_712_000)
    ('864 B', '1.7 MB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def heading(text: str) -> str:
    """Return a heading with a rule that fills the line."""
    return f"{text} ".ljust(WIDTH, "─")


def wrapped(text: str, indent: str = "  ") -> str:
    """Wrap a paragraph, without breaking URLs and paths."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def bytes_written(root: Path) -> tuple[int, int]:
    """Return the number of files below a directory, and of the bytes in them."""
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def short_repr(dataset: xr.Dataset) -> list[str]:
    """Return xarray's text representation, with only dimension coordinates and data."""
    others = [name for name in dataset.coords if name not in dataset.dims]
    return repr(dataset.drop_vars(others).drop_attrs(deep=False)).splitlines()
