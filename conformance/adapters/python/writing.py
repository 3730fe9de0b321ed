"""Writing an array as a user of ``zarr_manifest`` does, with ``create_array``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import zarr_manifest as zm
from conformance.adapters.json_lines import Request

__all__ = ["write_array"]


def write_array(request: Request) -> None:
    """Create the array of a request, with the chunks that it names."""
    metadata = request["metadata"]
    serializer, *compressors = metadata["codecs"]
    zm.create_array(
        request["hierarchy"],
        request["array"],
        [(tuple(stated["chunk"]), _entry(stated)) for stated in request["chunks"]],
        shape=tuple(metadata["shape"]),
        chunks=tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
        dtype=metadata["data_type"],
        inline=request["inline"],
        codecs=request["codecs"] or (),
        partition_shape=request["partition_shape"],
        serializer=serializer,
        compressors=compressors or None,
        fill_value=metadata["fill_value"],
        chunk_key_encoding=_key_encoding(metadata["chunk_key_encoding"]),
        attributes=metadata["attributes"],
    )


def _entry(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stated.items() if name not in ("chunk", "empty")}


def _key_encoding(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": stated["name"], **stated["configuration"]}
