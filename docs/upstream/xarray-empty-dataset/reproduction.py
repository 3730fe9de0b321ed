"""zarr 3.4.2: what a web server does not list opens as an empty dataset in xarray.

The server has no page that lists a directory, like most. Without consolidated metadata, the members
of a group are then unknown; zarr says that there are none. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import functools
import http.server
import tempfile
import threading
import warnings
from pathlib import Path

import aiohttp  # noqa: F401  # fsspec reads web servers with it
import numpy as np
import xarray as xr
import zarr


class NoListing(http.server.SimpleHTTPRequestHandler):
    """A web server that answers 404 to requests for a directory."""

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def log_message(self, *arguments: object) -> None:
        pass


def opened(location: str) -> str:
    """Return the variables that xarray finds, or the first words of the error."""
    try:
        return f"variables {sorted(xr.open_zarr(location, consolidated=False).variables)}"
    except ValueError as error:
        return f"refused: {str(error)[:80]}…"


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        dataset = xr.Dataset({"a": ("x", np.arange(4))})
        dataset.to_zarr(f"{directory}/data.zarr", zarr_format=3, consolidated=False)
        zarr.create_group(f"{directory}/empty.zarr")
        handler = functools.partial(NoListing, directory=directory)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever).start()
            remote = opened(f"http://127.0.0.1:{server.server_port}/data.zarr")
            server.shutdown()
        local = opened(f"{directory}/data.zarr")
        empty = opened(f"{directory}/empty.zarr")
        assert Path(directory, "data.zarr/a/zarr.json").exists()
    print(f"on a web server: {remote}\nlocal: {local}\nlocal, a group without members: {empty}")
    assert (local, empty) == ("variables ['a']", "variables []")
    if remote == "variables []":
        print("fault: an empty dataset, and no error")
    else:
        print(f"mended: {remote}")


if __name__ == "__main__":
    main()
