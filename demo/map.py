"""Draw maps in a web browser, from netCDF files and manifests that two web servers have.

Usage: python -m demo.map [OUTPUT_DIR]

One server is the archive with netCDF files. zarr-manifest makes OUTPUT_DIR/map.zarr (default
./demo-output), which refers to them. The other server has that hierarchy, and a page that reads it
with the JavaScript package. Prints the addresses of three maps, and serves them until Ctrl-C.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from conformance.adapters.javascript.pages import PACKAGES, Pages, serving
from conformance.runner.exchanges import Rules
from conformance.runner.http_server import file_server
from demo.commands import run
from demo.source_files import DATA_DIRECTORY, SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["HIERARCHY", "MAPS", "DrawnVariable", "address", "archive_of", "pages"]

HIERARCHY = "map.zarr"


@dataclass(frozen=True)
class DrawnVariable:
    """A variable that is drawn at one time."""

    file: str
    name: str
    time: int = 0

    @property
    def array(self) -> str:
        """Path of its array in the hierarchy."""
        return f"{SourceFile(DATA_DIRECTORY / self.file).group}/{self.name}"


MAPS = (
    DrawnVariable("NEMO/nemo_1m_20150101-20150201_grid-T.nc", "tos"),
    DrawnVariable("A1B_north_america.nc", "air_temperature"),
    DrawnVariable("E1_north_america.nc", "air_temperature", time=239),
)


def main(arguments: list[str]) -> int:
    """Serve the maps until a person stops it; return the exit status."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    if not PACKAGES["node_modules"].is_dir():
        print("The packages of the JavaScript reader are not installed: make map", file=sys.stderr)
        return 1
    directory = Path(arguments[0] if arguments else "demo-output").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with archive_of(directory) as archive, serving(pages(directory, PACKAGES).respond) as site:
        print("Open a map in your browser; Ctrl-C stops the servers:")
        for drawn in MAPS:
            print(f"  {site}/{address(drawn, archive)}", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


@contextmanager
def archive_of(directory: Path) -> Iterator[str]:
    """Serve the netCDF files, and make the hierarchy that refers to them; yield the origin."""
    with serving(file_server(DATA_DIRECTORY, Rules([]))) as origin:
        urls = [f"{origin}/{drawn.file}" for drawn in MAPS]
        # People may look at the manifests.
        documents = ("--inline-below", "0")
        options = ("--overwrite", "--group-per-file", "--allow-refused", *documents)
        options += ("--allow", f"{origin}/")
        shown = ["create", *options, f"{origin}/…", HIERARCHY]
        if run(directory, "create", *options, *urls, HIERARCHY, shown=shown).status != 0:
            raise RuntimeError(f"{HIERARCHY} could not be made")
        yield origin


def pages(directory: Path, packages: Mapping[str, Path]) -> Pages:
    """Return a web server's answers for the page and the hierarchy.

    Parameters
    ----------
    directory : Path
        Where the hierarchy is.
    packages : mapping
        What the page loads from node_modules/: directories by path.
    """
    return Pages({**packages, HIERARCHY: directory / HIERARCHY})


def address(drawn: DrawnVariable, archive: str) -> str:
    """Return the URL of a map on its server, which lets the page read the archive."""
    query = {"hierarchy": HIERARCHY, "array": drawn.array, "time": drawn.time}
    return f"map.html?{urlencode(query | {'allow': f'{archive}/'}, safe='/:')}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
