"""``python -m conformance.adapters.zarr_python``: answer the suite with plain zarr-python.

Announces what zarr-python can do with ordinary arrays, and the reading that it
does of manifest arrays. All of its errors are ``unexpected``: it has no codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zarr

from conformance.adapters.json_lines import (
    Implementation,
    Request,
    Values,
    serve,
)
from conformance.adapters.zarr_arrays import (
    MISSING_ERROR,
    ZarrArray,
    array_of,
    chunk_bytes,
    listed_chunks,
    missing_chunks,
    read_values,
)

# Without what only a reader of manifests can have: other schemes, policies, limits, partitions.
FEATURES = (
    "read",
    "get_chunk",
    "list",
    "hierarchy-http",
    "sharding",
    "blosc",
    "zstd",
    "gzip",
    "crc32c",
    "transpose",
    "consolidated",
    *MISSING_ERROR,
)


@dataclass(frozen=True)
class PlainHierarchy:
    """A hierarchy as zarr opens it by itself."""

    location: str
    missing_is_an_error: bool

    def read(self, array: str, selection: Sequence[Sequence[int]] | None) -> Values:
        """Return values, as ``group[name][...]`` does."""
        with missing_chunks(are_errors=self.missing_is_an_error):
            return read_values(self._open(array), selection)

    def get_chunk(
        self, array: str, index: tuple[int, ...], part: Mapping[str, int] | None
    ) -> bytes | None:
        """Return what the store answers for a chunk."""
        return chunk_bytes(self._open(array), index, part)

    def list_chunks(self, array: str) -> list[str]:
        """Return the chunks that the store lists."""
        return listed_chunks(self._open(array))

    def validate(self) -> list[dict[str, Any]]:
        """Refuse: zarr does not validate."""
        raise NotImplementedError("zarr-python has no validator")

    def _open(self, array: str) -> ZarrArray:
        # Through the group, as most users do: opening the array itself is refused.
        if not array:
            return zarr.open_array(self.location, mode="r")
        return array_of(zarr.open_group(self.location, mode="r"), array)


def _open(request: Request) -> PlainHierarchy:
    return PlainHierarchy(request["hierarchy"], request.get("missing", "fill") == "error")


serve(Implementation("zarr-python", zarr.__version__, FEATURES, _open))
