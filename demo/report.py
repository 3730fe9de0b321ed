"""What the demonstration prints. Returns lines of text, and computes nothing else."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from demo.source_files import VirtualFile, VirtualVariable

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


def bytes_referenced(variable: VirtualVariable) -> int:
    """Return how many bytes of its file a variable refers to."""
    return sum(int(chunk["length"]) for chunk in variable.chunks.values() if "data" not in chunk)


def bytes_written(root: Path) -> tuple[int, int]:
    """Return the number of files below a directory, and of the bytes in them."""
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def tree(
    root: zarr.Group, files: list[VirtualFile], verdicts: dict[str, dict[str, str]]
) -> list[str]:
    """Draw the hierarchy: each group with its file, each array with what it refers to."""
    lines = ["/"]
    groups = {file.group: file for file in files}
    for position, (name, file) in enumerate(groups.items()):
        last_group = position == len(groups) - 1
        origin = f"{file.path.name}, {file.format_name}, {size(file.path.stat().st_size)}"
        lines.append(f"{'└' if last_group else '├'}── {name + '  ':─<32}── {origin}")
        group = root[name]
        assert isinstance(group, zarr.Group)
        arrays = sorted(group.arrays(), key=lambda pair: (-pair[1].ndim, pair[0]))
        known = {variable.name: variable for variable in file.variables}
        for index, (array_name, array) in enumerate(arrays):
            branch = ("    " if last_group else "│   ") + "├└"[index == len(arrays) - 1] + "── "
            text = _array_line(array, known.get(array_name))
            verdict = verdicts[name].get(array_name, "written here")
            lines.append(f"{branch}{array_name:<29}{text}{verdict}")
    return lines


def _array_line(array: zarr.Array[Any], variable: VirtualVariable | None) -> str:
    data_type = "string" if array.dtype.kind == "T" else str(array.dtype)
    shape = " x ".join(map(str, array.shape)) or "scalar"
    if variable is None:
        refers_to = "native Zarr chunks"
    elif not variable.chunks:
        refers_to = "never written: fill"
    elif any("data" in chunk for chunk in variable.chunks.values()):
        refers_to = f"{len(variable.chunks):>4} inline"
    else:
        amount = size(bytes_referenced(variable))
        unit = "ref " if len(variable.chunks) == 1 else "refs"
        refers_to = f"{len(variable.chunks):>4} {unit} {amount:>9}"
    return f"{shape:<15}{data_type:<9}{refers_to:<21}"


def temperatures(dataset: xr.Dataset) -> list[str]:
    """Tabulate some sea-surface temperatures of the last month, in degrees Celsius."""
    month = dataset["surface_temperature"].isel(time=-1)
    part = month.isel(latitude=slice(-2, None, -7), longitude=slice(24, None, 48)).load()
    lines = [" " * 9 + "".join(f"{value:>8.0f}E" for value in part["longitude"].values)]
    for row in part:
        cells = ("land" if np.isnan(kelvin) else f"{kelvin - 273.15:.1f}" for kelvin in row.values)
        latitude = float(row["latitude"])
        label = f"{abs(latitude):.1f}{'N' if latitude >= 0 else 'S'}"
        lines.append(f"{label:>9}" + "".join(f"{cell:>8} " for cell in cells))
    return [line.rstrip() for line in lines]


def short_repr(dataset: xr.Dataset) -> list[str]:
    """Return xarray's text representation, of the dimension coordinates and the data only."""
    others = [name for name in dataset.coords if name not in dataset.dims]
    return repr(dataset.drop_vars(others).drop_attrs(deep=False)).splitlines()
