"""BulkCodecPipeline: the codec pipeline of arrays that zarr opens from a ManifestStore.

zarr hands a codec pipeline all chunks of a selection in one call. Those of a manifest array are
read in bulk; everything else is left to the pipeline that zarr would use without this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from zarr.abc.codec import CodecPipeline

from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.pipeline.selection import read_selection

if TYPE_CHECKING:
    from zarr.abc.codec import Codec


class BulkCodecPipeline(CodecPipeline):
    """Reads whole selections of manifest arrays together.

    Parameters
    ----------
    usual : CodecPipeline
        The pipeline that zarr would use otherwise: writes, and reads whatever is not a chunk of
        a manifest array.
    """

    def __init__(self, usual: CodecPipeline) -> None:
        self.usual = usual

    def __repr__(self) -> str:
        return f"BulkCodecPipeline({self.usual!r})"

    # An array that was opened with it equals the same array without it.

    def __eq__(self, other: object) -> bool:
        same: bool = self.usual == (other.usual if isinstance(other, BulkCodecPipeline) else other)
        return same

    def __hash__(self) -> int:
        return hash(self.usual)

    def __iter__(self) -> Iterator[Codec]:
        usual: Any = self.usual
        return iter(usual)

    # Reading -------------------------------------------------------------------

    async def read(
        self,
        batch_info: Iterable[tuple[Any, Any, Any, Any, bool]],
        out: Any,
        drop_axes: tuple[int, ...] = (),
    ) -> Any:
        """Read a selection: its chunks, and where they go in the output."""
        return await read_selection(self.usual, list(batch_info), out, drop_axes)

    # Everything else is the usual pipeline's -------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Pipelines have more members than zarr declares, and sharding uses them.
        if name == "usual" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.usual, name)

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> Self:
        """Refuse: a pipeline of zarr is needed, which is made of codecs."""
        raise NotImplementedError

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        """Return the pipeline for arrays of a specification."""
        return type(self)(self.usual.evolve_from_array_spec(array_spec))

    @property
    def supports_partial_decode(self) -> bool:
        """Whether the usual pipeline decodes parts of chunks."""
        return self.usual.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        """Whether the usual pipeline encodes parts of chunks."""
        return self.usual.supports_partial_encode

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        """Check that all codecs are compatible with an array."""
        self.usual.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        """Return the size of an encoded chunk, in bytes."""
        return self.usual.compute_encoded_size(byte_length, array_spec)

    async def decode(self, chunk_bytes_and_specs: Any) -> Any:
        """Decode chunks."""
        return await self.usual.decode(chunk_bytes_and_specs)

    async def encode(self, chunk_arrays_and_specs: Any) -> Any:
        """Encode chunks."""
        return await self.usual.encode(chunk_arrays_and_specs)

    async def write(
        self,
        batch_info: Iterable[tuple[Any, Any, Any, Any, bool]],
        value: Any,
        drop_axes: tuple[int, ...] = (),
    ) -> None:
        """Write a selection, which only native arrays allow."""
        batch = list(batch_info)
        place: Any = batch[0][0] if batch else None
        store: object = getattr(place, "store", None)
        if not isinstance(store, ManifestStore):
            await self.usual.write(batch, value, drop_axes)
            return
        with store.writing_values(setter.path for setter, *_ in batch):
            await self.usual.write(batch, value, drop_axes)
