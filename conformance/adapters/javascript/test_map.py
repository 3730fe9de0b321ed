"""The page with a map, in Chromium: it shows what the netCDF files hold, where they say."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import matplotlib as mpl
import netCDF4
import numpy as np
import numpy.typing as npt
import pytest

from conformance.adapters.javascript.browser import Visit, look
from conformance.runner.exchanges import Reply, Request
from demo.map import HIERARCHY, MAPS, DrawnVariable, address, archive_of, pages
from demo.source_files import DATA_DIRECTORY

type Numbers = npt.NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 1440
PIXELS = 60
TRANSPARENT = [0, 0, 0, 0]
#: The page mixes its colours from 17 of matplotlib's.
TOLERANCE = 6
SEEN = """(page, points) => {
  const canvas = page.querySelector("#map canvas");
  const pixel = ([x, y]) => [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
  const text = (id) => page.getElementById(id).textContent;
  return {
    title: text("title"), time: text("time"), error: text("error"),
    scale: [...page.querySelectorAll("#scale span")].map((label) => label.textContent),
    visible: ["figure", "error"].filter((id) => !page.getElementById(id).hidden),
    size: canvas && [canvas.width, canvas.height],
    colours: canvas && points.map(pixel),
  };
}"""
TITLES = {
    "tos": "Sea Surface Temperature",
    "surface_temperature": "surface temperature",
    "air_temperature": "air temperature",
}
TIMES = {"tos": "time_centered"}


@dataclass
class Field:
    """What a netCDF file holds at one time: values, and four corners of each cell, in degrees."""

    time: str
    units: str
    values: np.ma.MaskedArray[Any, Any]
    longitudes: Numbers
    latitudes: Numbers

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, east, south and north."""
        west, east = self.longitudes.min(), self.longitudes.max()
        if east - west > 360:
            return -180, 180, self.latitudes.min(), self.latitudes.max()
        return west, east, self.latitudes.min(), self.latitudes.max()

    @property
    def height(self) -> int:
        """Height of the map, in pixels."""
        west, east, south, north = self.extent
        return round(WIDTH * (north - south) / (east - west))

    def cells_at(self, longitude: float, latitude: float) -> npt.NDArray[np.int_]:
        """Return which cells contain a place."""
        found = []
        for shift in (-360, 0, 360):
            west, east, south, north = self.bounds
            x, y = longitude + shift, latitude
            near = np.flatnonzero((west <= x) & (x <= east) & (south <= y) & (y <= north))
            xs, ys = self.longitudes[near] - x, self.latitudes[near] - y
            crossed = np.zeros(len(near), dtype=bool)
            for i in range(4):
                x1, y1, x2, y2 = xs[:, i - 1], ys[:, i - 1], xs[:, i], ys[:, i]
                with np.errstate(divide="ignore", invalid="ignore"):
                    crossed ^= ((y1 > 0) != (y2 > 0)) & (x1 - y1 * (x2 - x1) / (y2 - y1) < 0)
            found.append(near[crossed])
        return np.concatenate(found)

    @cached_property
    def bounds(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """West, east, south and north of each cell."""
        x, y = self.longitudes, self.latitudes
        return x.min(axis=1), x.max(axis=1), y.min(axis=1), y.max(axis=1)

    def colours_at(self, column: int, row: int) -> list[list[int]]:
        """Return the colours that a pixel may have: several at the border of cells."""
        west, east, _, north = self.extent
        degrees = (east - west) / WIDTH
        colours = []
        for nudge in (-1e-7, 1e-7):
            place = west + (column + 0.5 + nudge) * degrees, north - (row + 0.5 + nudge) * degrees
            found = self.values[self.cells_at(*place)].compressed()
            colours += [self.colour(value) for value in found] or [TRANSPARENT]
        return colours

    def colour(self, value: float) -> list[int]:
        """Return the colour of a value: red, green, blue, opaque."""
        fraction = (value - self.values.min()) / (self.values.max() - self.values.min())
        return [round(255 * part) for part in mpl.colormaps["viridis"](float(fraction))]


def read_field(drawn: DrawnVariable) -> Field:
    """Read what a map shows with netCDF4."""
    with netCDF4.Dataset(DATA_DIRECTORY / drawn.file) as file:
        variable = file[drawn.name]
        values = variable[drawn.time].astype("f8").ravel()
        times = file[TIMES.get(drawn.name, "time")]
        time: Any = netCDF4.num2date(times[drawn.time], times.units, times.calendar)
        shown = time.strftime("%Y-%m-%d %H:%M")
        if times.calendar == "360_day":
            shown += ", in years of 360 days"
        if "nav_lon" in file.variables:
            x, y = (
                file[name][:].reshape(-1, 4).astype("f8") for name in ("bounds_lon", "bounds_lat")
            )
            x -= 360 * np.round((x - file["nav_lon"][:].astype("f8").reshape(-1, 1)) / 360)
            return Field(shown, variable.units, values, x.data, y.data)
        latitudes, longitudes = (edges(file[name][:].data) for name in variable.dimensions[-2:])
        units = variable.units
    south, west = np.meshgrid(latitudes[:-1], longitudes[:-1], indexing="ij")
    north, east = np.meshgrid(latitudes[1:], longitudes[1:], indexing="ij")
    corners = ([west, east, east, west], [south, south, north, north])
    stacked = (np.stack(list(map(np.ravel, each)), axis=1) for each in corners)
    return Field(shown, units, values, *stacked)


def edges(centres: npt.NDArray[Any]) -> Numbers:
    middles = (centres[1:].astype("f8") + centres[:-1]) / 2
    return np.concatenate(
        [[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]], dtype="f8"
    )


@dataclass
class Seen:
    """What pages showed: maps by variable, failures by what was wrong, and what was not found."""

    fields: dict[DrawnVariable, Field]
    points: dict[DrawnVariable, list[list[int]]]
    maps: dict[DrawnVariable, Any]
    problems: dict[str, Any]
    absent: list[str]


@pytest.fixture(scope="module")
def seen(installed: Path, chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Open every map, and pages that cannot draw one, in one browser."""
    directory = tmp_path_factory.mktemp("maps")
    random = np.random.default_rng(20261122)
    fields = {drawn: read_field(drawn) for drawn in MAPS}
    points = {
        drawn: random.integers([WIDTH, field.height], size=(PIXELS, 2)).tolist()
        for drawn, field in fields.items()
    }
    with archive_of(directory) as archive:
        damaged = directory / "damaged.zarr"
        shutil.copytree(directory / HIERARCHY, damaged)
        (manifest,) = (damaged / MAPS[0].array).glob("manifest-*.json")
        manifest.write_bytes(manifest.read_bytes()[:-20])
        page = f"/{address(MAPS[0], archive)}"
        problems = {
            "damaged": page.replace(HIERARCHY, damaged.name),
            "not authorised": page.replace(archive, "http://elsewhere.example"),
            "no such time": page.replace("time=0", "time=1"),
        }
        visits = [Visit(f"/{address(drawn, archive)}", points[drawn]) for drawn in MAPS]
        visits += [Visit(problem, []) for problem in problems.values()]
        beside = {"node_modules": installed / "node_modules", damaged.name: damaged}
        absent: list[str] = []
        found = pages(directory, beside).respond

        def respond(request: Request) -> Reply:
            reply = found(request)
            if reply.status == 404:
                absent.append(request.path)
            return reply

        shown = look(chromium, respond, visits, SEEN, directory / "profile")
    maps, failed = shown[: len(MAPS)], shown[len(MAPS) :]
    return Seen(
        fields,
        points,
        dict(zip(MAPS, maps, strict=True)),
        dict(zip(problems, failed, strict=True)),
        absent,
    )


def test_the_pages_ask_only_for_what_is_there(seen: Seen) -> None:
    assert seen.absent == []


@pytest.mark.parametrize("drawn", MAPS, ids=lambda drawn: drawn.name)
def test_a_map_says_what_it_shows(seen: Seen, drawn: DrawnVariable) -> None:
    field, shown = seen.fields[drawn], seen.maps[drawn]
    assert shown["visible"] == ["figure"], shown["error"]
    assert (shown["title"], shown["time"]) == (TITLES[drawn.name], field.time)
    least, most = field.values.min(), field.values.max()
    labels = [f"{value:.4g} {field.units}" for value in (least, (least + most) / 2, most)]
    assert shown["scale"] == labels


@pytest.mark.parametrize("drawn", MAPS, ids=lambda drawn: drawn.name)
def test_a_map_has_the_colours_of_what_the_file_holds_there(
    seen: Seen, drawn: DrawnVariable
) -> None:
    field, points, shown = seen.fields[drawn], seen.points[drawn], seen.maps[drawn]
    assert shown["size"] == [WIDTH, field.height]
    expected = [field.colours_at(*point) for point in points]
    for point, colour, allowed in zip(points, shown["colours"], expected, strict=True):
        differences = [np.abs(np.subtract(colour, each)).max() for each in allowed]
        assert min(differences) <= TOLERANCE, (point, colour, allowed)
    transparent = sum(TRANSPARENT in allowed for allowed in expected)
    assert (transparent >= 5) == np.ma.is_masked(field.values)
    assert transparent < PIXELS / 2


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ("damaged", "ManifestError: checksum_mismatch: "),
        ("not authorised", "ManifestError: location_not_allowed: "),
        ("no such time", ""),
    ],
)
def test_an_error_stands_in_place_of_a_map(seen: Seen, problem: str, error: str) -> None:
    shown = seen.problems[problem]
    assert shown["visible"] == ["error"]
    assert shown["size"] is None
    assert shown["error"].startswith(error)
    assert shown["error"] != ""


def test_the_command_serves_the_maps_until_it_is_interrupted(node: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo.map", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = (line.strip() for line in process.stdout)
            urls = list(
                itertools.islice((line for line in lines if "/map.html?" in line), len(MAPS))
            )
            site = urls[0].partition("/map.html")[0]
            for path in (
                "map.html",
                "packages.js",
                "node_modules/chunk-manifest-json/src/index.js",
            ):
                with urlopen(f"{site}/{path}") as answer:
                    assert answer.status == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
