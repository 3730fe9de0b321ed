"""How large may a gap between two ranges be that are still worth one request?

100 chunks of one object on a web server 30 ms away, with gaps that are spread evenly over orders of
magnitude. The default of `max_gap` (zarr_manifest/sources/sources.py) rests on this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import zarr

from benchmarks.chunks import check, write_chunks
from benchmarks.effort import Effort
from benchmarks.layout import Table, number
from benchmarks.measuring import repeat
from benchmarks.participants import ours
from benchmarks.references import References
from benchmarks.remote_server import RemoteServer, running
from tests.servers.http_files import Recorded
from zarr_manifest import ManifestStore

LATENCY = 0.03
SHAPE = (100, 128, 128)
LARGEST_GAP = 4 * 1024 * 1024
GAPS = (-1, 0, 16 * 1024, 128 * 1024, 512 * 1024, 1024 * 1024, 4 * 1024 * 1024)


def run(effort: Effort) -> Iterator[Table]:
    with TemporaryDirectory() as directory, running(LATENCY) as server:
        place = Path(directory)
        references = _spread(write_chunks(place, SHAPE, objects=1), place, server.url)
        references.save(place)
        ours.write(references, place)
        server.serve(place)
        table = Table(
            ("max_gap", "ms", "requests", "MB fetched"),
            title=f"HTTP with {LATENCY * 1e3:.0f} ms latency, {SHAPE[0]} chunks of 64 KiB",
        )
        for gap in GAPS:
            table.add(*_row(gap, place, server, effort))
    yield table


def _row(gap: int, directory: Path, server: RemoteServer, effort: Effort) -> list[str]:
    references = References.load(directory)
    array = _open(directory, references, gap)
    check(references, array[:])
    server.clear()
    array[:]
    requests = server.requests
    seconds = repeat(partial(array.__getitem__, slice(None)), effort.rounds())["wall"]
    return [
        "never merging" if gap < 0 else f"{gap // 1024} KiB",
        number(seconds * 1e3),
        str(len(requests)),
        number(sum(map(_size_of, requests)) / 1e6),
    ]


def _spread(references: References, directory: Path, origin: str) -> References:
    """Write the object again with gaps between its chunks; it is on the server then."""
    path = directory / "sources/000.nc"
    body = path.read_bytes()
    random = np.random.default_rng(0)
    logarithms = random.uniform(np.log(1024), np.log(LARGEST_GAP), len(references))
    gaps = np.exp(logarithms).astype(np.int64)
    offsets = references.offsets + np.cumsum(gaps)
    with path.open("wb") as file:
        for old, new, length in zip(
            references.offsets.tolist(), offsets.tolist(), references.lengths.tolist(), strict=True
        ):
            file.seek(new)
            file.write(body[old : old + length])
    sources = f"{origin}/sources/"
    return replace(references, offsets=offsets, sources=sources, urls=(f"{sources}000.nc",))


def _open(directory: Path, references: References, gap: int) -> Any:
    store = ManifestStore(directory / ours.NAME, allow=[references.sources], max_gap=gap)
    return zarr.open_group(store, mode="r")["data"]


def _size_of(request: Recorded) -> int:
    """Return the number of bytes that a request asks for."""
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
    return int(match[2]) - int(match[1]) + 1 if match else 0
