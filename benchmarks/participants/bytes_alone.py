"""The floor: the bytes of the chunks, fetched with as few requests as possible, and not decoded.

Uncompressed chunks go straight into the output, which is all that there is to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.references import References


class Objects:
    """Reads all referenced bytes when it is sliced; each object is one read."""

    def __init__(self, references: References) -> None:
        self.references = references
        first = np.flatnonzero(np.diff(references.objects, prepend=-1))
        last = np.append(first[1:], len(references)) - 1
        ends = references.offsets + references.lengths
        self._spans = [
            (references.urls[references.objects[a]], int(references.offsets[a]), int(ends[b]))
            for a, b in zip(first, last, strict=True)
        ]
        local = references.sources.startswith("file:")
        self._read = _read_file if local else _fetcher(references.sources)
        self._pool = ThreadPoolExecutor(os.cpu_count() if local else len(self._spans))

    def __getitem__(self, selection: Any) -> Any:
        out = np.empty(sum(stop - start for _, start, stop in self._spans), np.uint8)
        list(self._pool.map(lambda piece: self._read(*piece), self._pieces(out)))
        if self.references.zstd:
            return out
        return out.view(self.references.dtype).reshape(self.references.shape)

    def _pieces(self, out: Any) -> list[tuple[str, int, Any]]:
        pieces, position = [], 0
        for url, start, stop in self._spans:
            pieces.append((url, start, out[position : position + stop - start]))
            position += stop - start
        return pieces


def open_array(directory: Path) -> Objects:
    return Objects(References.load(directory))


def _read_file(url: str, start: int, out: Any) -> None:
    with Path(urlsplit(url).path).open("rb", buffering=0) as file:
        file.seek(start)
        if file.readinto(memoryview(out)) != len(out):
            raise OSError(f"{url} is too short")


def _fetcher(sources: str) -> Callable[[str, int, Any], None]:
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(sources.rstrip("/"), client_options={"allow_http": True})

    def fetch(url: str, start: int, out: Any) -> None:
        body = store.get_range(url.removeprefix(sources), start=start, length=len(out))
        out[:] = np.frombuffer(body, np.uint8)

    return fetch
