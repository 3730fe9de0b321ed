"""The sea-surface temperature of the demonstration's files: a map in the terminal, and as PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich_pixels import Pixels

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["print_map", "save_picture"]

#: The range of the colours, and the step of the digits in the plain map, in degrees Celsius.
COLDEST, WARMEST, STEP = -2.0, 32.0, 5.0
WIDTH = 72
LAND = "0.75"
COLOURS = mpl.colormaps["turbo"].with_extremes(bad=LAND)
SCALE = mpl.colors.Normalize(COLDEST, WARMEST)


def print_map(ocean: xr.Dataset) -> None:
    """Print a world map: in colour on a terminal, otherwise with a digit per 5 °C."""
    console = Console()
    if console.is_terminal and console.color_system is not None:
        columns = min(WIDTH, console.width)
        world = np.ma.masked_invalid(mean_of_boxes(ocean, columns // 2, columns))
        console.print(Pixels.from_image(Image.fromarray(COLOURS(SCALE(world), bytes=True))))
        return
    # Characters are twice as high as wide.
    for row in mean_of_boxes(ocean, WIDTH // 4, WIDTH):
        line = "".join(" " if np.isnan(value) else str(max(0, int(value / STEP))) for value in row)
        print(f"  {line}".rstrip())
    print(f"  0: below {STEP:.0f} °C, 1: below {2 * STEP:.0f} °C, …; blank: land")


def mean_of_boxes(ocean: xr.Dataset, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Return the mean temperature in boxes of latitude and longitude, north first.

    The model's grid is curvilinear, with one pole in Canada and another in Siberia.
    """
    temperature = ocean["tos"].values.ravel()
    sea = ~np.isnan(temperature)
    sums, counts = (
        np.histogram2d(
            ocean["nav_lat"].values.ravel()[sea],
            ocean["nav_lon"].values.ravel()[sea],
            bins=(rows, columns),
            range=((-90, 90), (-180, 180)),
            weights=weights,
        )[0]
        for weights in (temperature[sea], None)
    )
    with np.errstate(invalid="ignore"):
        return (sums / counts)[::-1]


def save_picture(ocean: xr.Dataset, path: Path) -> None:
    """Draw the temperature of the world's oceans.

    Parameters
    ----------
    ocean : xarray.Dataset
        One month of the ocean model NEMO: `tos`, and the corners of its cells.
    path : Path
        The PNG file to write.
    """
    figure = Figure(figsize=(10, 5), layout="constrained")
    world = figure.subplots()
    _draw_cells(world, ocean)
    world.set(title="NEMO ocean model, January 2015", aspect="equal", facecolor=LAND)
    world.set(xlim=(-180, 180), ylim=(-80, 90), xticks=range(-180, 181, 60))
    world.set(yticks=range(-60, 91, 30), xlabel="longitude", ylabel="latitude")
    colours = mpl.cm.ScalarMappable(SCALE, COLOURS)
    figure.colorbar(colours, ax=world, label="sea-surface temperature, °C", shrink=0.8)
    figure.suptitle("Read from netCDF files through zarr-manifest")
    figure.savefig(path, dpi=110)


def _draw_cells(axes: Axes, ocean: xr.Dataset) -> None:
    """Draw each cell of the model's curvilinear grid by its corners."""
    centres = ocean["nav_lon"].values[..., None]
    longitudes = ocean["bounds_lon"].values
    # Cells at the date line have corners on both sides of it.
    longitudes = longitudes - 360 * np.round((longitudes - centres) / 360)
    corners = np.stack([longitudes, ocean["bounds_lat"].values], axis=-1)
    temperature = ocean["tos"].values.reshape(centres.shape[:-1])
    sea = ~np.isnan(temperature)
    cells = PolyCollection(corners[sea], array=temperature[sea], cmap=COLOURS, norm=SCALE)
    cells.set(edgecolor="face", linewidth=0.5, antialiased=False)
    axes.add_collection(cells)
