"""The answers to read, get_chunk and list, for manifest arrays and native ones alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.adapters.core_reader.arrays import Codecs, Grid, NativeChunks
from conformance.adapters.core_reader.declarations import invalid, parse_declaration
from conformance.adapters.core_reader.files import Files
from conformance.adapters.core_reader.locations import Location
from conformance.adapters.core_reader.manifests import Index, parse_json
from conformance.adapters.core_reader.transformer import ChunkManifest
from conformance.adapters.json_lines import RefusedError, Values

__all__ = ["CoreHierarchy"]

type Chunks = ChunkManifest | NativeChunks


class CoreHierarchy:
    """A hierarchy in a directory; `prefixes` are URLs of what it may refer to elsewhere."""

    def __init__(
        self, directory: str, prefixes: Iterable[str], *, missing_is_an_error: bool
    ) -> None:
        self._files = Files(directory, prefixes)
        self._missing_is_an_error = missing_is_an_error

    def read(self, array: str, selection: Sequence[Sequence[int]] | None) -> Values:
        """Return the values of a selection, or of the whole array."""
        metadata, grid, chunks = self._open(array)
        codecs = Codecs(metadata, grid.chunk_shape)
        spans = [(0, n) for n in grid.array_shape] if selection is None else selection
        result = codecs.fill_values([stop - start for start, stop in spans])
        for index, inside, outside in grid.touched(spans):
            encoded = self._chunk(chunks, index, None)
            if encoded is not None:
                result[outside] = codecs.decode(encoded)[inside]
        little = result.astype(result.dtype.newbyteorder("<"))
        return Values(result.shape, result.dtype.name, little.tobytes())

    def get_chunk(self, array: str, index: Index, part: Mapping[str, int] | None) -> bytes | None:
        """Return the encoded bytes of a chunk, or a part of them; None if there are none."""
        _, _, chunks = self._open(array)
        return self._chunk(chunks, index, part)

    def list_chunks(self, array: str) -> list[str]:
        """Return the canonical keys of the chunks that exist, sorted by grid index."""
        _, _, chunks = self._open(array)
        return [".".join(map(str, index)) or "0" for index in chunks]

    def validate(self) -> list[dict[str, Any]]:
        """Refuse: a reader is not a validator."""
        raise NotImplementedError("the core reader has no validator")

    def _open(self, array: str) -> tuple[dict[str, Any], Grid, Chunks]:
        names = tuple(filter(None, array.split("/")))
        own = Location("", (*names, ""), root=self._files.root)
        key = Location("", (*names, "zarr.json"))
        try:
            metadata = parse_json(self._files.read_whole(key, "declaration", "zarr_error"))
        except ValueError as error:
            invalid(f"{key} is not JSON: {error}")
        except RecursionError as error:
            message = f"{key} is nested too deeply"
            raise RefusedError("limit_exceeded", "declaration", message) from error
        if not isinstance(metadata, dict) or metadata.get("node_type") != "array":
            invalid(f"{key} is not the metadata of an array")
        configuration = parse_declaration(metadata)
        grid = Grid(metadata)
        if not isinstance(metadata.get("codecs"), list) or not metadata["codecs"]:
            invalid("codecs is not a list of codecs")
        if metadata.get("zarr_format") != 3 or metadata.get("fill_value") is None:
            invalid(f"{key} is not of Zarr v3, or has no fill value")
        if configuration is None:
            return metadata, grid, NativeChunks(self._files, own, grid)
        manifest = ChunkManifest(self._files, own, configuration, grid.shape, grid.own_key)
        return metadata, grid, manifest

    def _chunk(self, chunks: Chunks, index: Index, part: Mapping[str, int] | None) -> bytes | None:
        try:
            return chunks.get(index, part)
        except KeyError as error:
            if self._missing_is_an_error:
                raise RefusedError("missing_chunk", "chunk", f"no chunk {index}") from error
            return None
