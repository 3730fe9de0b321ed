"""What every selection that is read in bulk has: its chunks, and where their values go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import CodecPipeline

from zarr_manifest.errors import ManifestError
from zarr_manifest.hierarchy import ChunkManifestTransformer, LocatedChunks, ManifestStore
from zarr_manifest.pipeline.delivery import ChunkRequest

__all__ = ["WantedChunks"]


class WantedChunks:
    """Chunks of one manifest array, told by their positions in the selection.

    Parameters
    ----------
    store : ManifestStore
        The array's store.
    array : ChunkManifestTransformer
        The array.
    indices : ndarray of int64
        Grid indices of the chunks.
    requests : sequence of ChunkRequest
        What is wanted of them.
    out : NDBuffer
        The output.
    drop_axes : tuple of int
        Axes of what is selected of a chunk that the output does not have.
    usual : CodecPipeline
        Reads what cannot be read in bulk.
    """

    def __init__(
        self,
        store: ManifestStore,
        array: ChunkManifestTransformer,
        indices: npt.NDArray[np.int64],
        requests: Sequence[ChunkRequest],
        out: Any,
        drop_axes: tuple[int, ...],
        usual: CodecPipeline,
    ) -> None:
        self._store = store
        self._array = array
        self._indices = indices
        self._requests = requests
        self._out = out
        self._drop_axes = drop_axes
        self._usual = usual

    def _results(self, located: LocatedChunks) -> list[Any]:
        """Fill what has no bytes, and return what zarr wants to know if all others are read."""
        results: list[Any] = [{"status": "present"}] * len(self._requests)
        for position in (*located.missing, *located.empty):
            results[position] = self._fill(position)
        return results

    def _fill(self, position: int) -> dict[str, str]:
        request = self._requests[position]
        fill = request.spec.fill_value
        self._out[request.out_selection] = (
            request.spec.dtype.default_scalar() if fill is None else fill
        )
        return {"status": "missing"}

    def _in_chunk(self, error: ManifestError, position: int) -> ManifestError:
        return self._array.in_chunk(error, self._indices[position].tolist())
