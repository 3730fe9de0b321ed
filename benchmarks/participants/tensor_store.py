"""TensorStore, over a native copy of the chunks: it has no references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.references import Places


class Sliced:
    """An array of TensorStore, which reads when it is sliced, as zarr's do."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.shape: tuple[int, ...] = opened.shape
        self.chunks: tuple[int, ...] = opened.chunk_layout.read_chunk.shape

    def __getitem__(self, selection: Any) -> Any:
        return self._opened[selection].read().result()


def open_array(directory: Path) -> Sliced:
    import tensorstore

    location = f"{Places.load(directory).native}/data/"
    kept: Any = location if "://" in location else {"driver": "file", "path": location}
    opened = tensorstore.open({"driver": "zarr3", "kvstore": kept}, read=True, open=True)
    return Sliced(opened.result())
