"""The tiles or strips of a TIFF image where they are not all alike.

The last strip has fewer rows where the height is not a multiple of a strip's. Sparse files leave
out tiles: these have no bytes, and GDAL reads them as "no data".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, explained
from zarr_manifest.conversion.joining import in_pieces
from zarr_manifest.conversion.target import decoded_values, encoded_chunks, unwritten_array
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import grid_indices
from zarr_manifest.manifest import EMPTY, INLINE, TO_THE_END, Extras, References
from zarr_manifest.showing import counted

_UNCOMPRESSED = 1
_SEPARATE = 2  # PlanarConfiguration: each sample has chunks of its own
_MAX_REFERENCES = 1_000_000

# The path that VirtualiZarr gives to chunks without a source.

_RECTILINEAR = "array.rectilinear_chunks"


class Changed:
    """An image that pretends to have other tags, for virtual-tiff.

    Parameters
    ----------
    image : ImageFileDirectory
        Of async-tiff.
    **tags
        Values that replace its own.
    """

    def __init__(self, image: Any, **tags: Any) -> None:
        self._image = image
        self._tags = tags

    def __getattr__(self, name: str) -> Any:
        return self._tags[name] if name in self._tags else getattr(self._image, name)


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """The tiles or strips of an image.

    Parameters
    ----------
    name : {"tile", "strip"}
        Which of them.
    offsets, lengths : tuple of int
        Position and number of bytes of each; 0 for those that are left out.
    height, rows : int
        Number of rows of the image, and of each but the last strips.
    is_compressed : bool
        Whether they are compressed.
    """

    name: str
    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    height: int
    rows: int
    is_compressed: bool

    @classmethod
    def of(cls, image: Any) -> StoredChunks:
        """Return those of an image."""
        name = "tile" if image.tile_height else "strip"
        offsets = tuple(getattr(image, f"{name}_offsets") or ())
        lengths = tuple(getattr(image, f"{name}_byte_counts") or ())
        height = int(image.image_height)
        rows = height if name == "tile" else min(int(image.rows_per_strip or height), height)
        return cls(name, offsets, lengths, height, rows, image.compression != _UNCOMPRESSED)

    def require_all(self, image: Any) -> None:
        """Refuse an image that has other tiles or strips than its shape needs.

        Raises
        ------
        NotConvertibleError
        """
        tile = (int(image.tile_height or 0), int(image.tile_width or 0))
        height, width = tile if self.name == "tile" else (self.rows, int(image.image_width))
        if not height or not width:
            raise NotConvertibleError("it has no pixels")
        needed = -(-self.height // height) * -(-int(image.image_width) // width)
        if image.planar_configuration == _SEPARATE:
            needed *= int(image.samples_per_pixel)
        for what, stated in (("positions", self.offsets), ("lengths", self.lengths)):
            if len(stated) != needed:
                raise NotConvertibleError(
                    f"it states {what} of {counted(len(stated), self.name)}, but its shape and "
                    f"its other tags need {needed}"
                )

    @property
    def last_rows(self) -> int:
        """Number of rows of the last strips, if they have fewer; otherwise 0."""
        return self.height % self.rows if self.rows else 0

    @property
    def are_cut_short(self) -> bool:
        """Whether the last strips have fewer rows and are compressed, so that none can be split."""
        return self.is_compressed and self.last_rows > 0

    @property
    def padded_height(self) -> int:
        """Height of the image if all strips had the same number of rows."""
        return self.height - self.last_rows + self.rows if self.last_rows else self.height

    @property
    def has_empty(self) -> bool:
        """Whether some are left out."""
        return 0 in self.lengths

    def as_if_none_were_empty(self) -> dict[str, Any]:
        """Return tags with which virtual-tiff accepts the image."""
        if not self.has_empty:
            return {}
        offsets = [offset or 1 for offset in self.offsets]
        lengths = [length or 1 for length in self.lengths]
        return {f"{self.name}_offsets": offsets, f"{self.name}_byte_counts": lengths}

    def of_array(
        self, metadata: dict[str, Any], references: References, itemsize: int
    ) -> tuple[dict[str, Any], References]:
        """Return an array of the padded height with its own; those that are left out are empty.

        Raises
        ------
        NotConvertibleError
            The strips have other lengths than they need, or have to be split too often.
        """
        columns = references.columns()
        lengths = np.array(self.lengths, np.int64)
        is_empty = lengths == 0
        references = references.replaced(
            offsets=np.where(is_empty, 0, columns.offsets),
            lengths=np.where(is_empty, TO_THE_END, columns.lengths),
            path_numbers=np.where(is_empty, np.int32(EMPTY), columns.path_numbers),
        )
        if not self.last_rows:
            return metadata, references
        shape: list[int] = metadata["shape"]
        metadata = metadata | {"shape": [*shape[:-2], self.height, shape[-1]]}
        chunks: list[int] = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        row = itemsize * math.prod(chunks) // self.rows
        if self.is_compressed:
            if zarr.config.get(_RECTILINEAR, False):
                metadata["chunk_grid"] = self._rectilinear(chunks)
        elif not self._last_are_padded(lengths.reshape(references.grid_shape), row):
            piece = math.gcd(self.rows, self.last_rows)
            metadata["chunk_grid"] = _regular([*chunks[:-2], piece, chunks[-1]])
            references = self._split(references, piece, row)
        return metadata, references

    def _last_are_padded(self, lengths: npt.NDArray[np.int64], row: int) -> bool:
        if bool((lengths[lengths > 0] == self.rows * row).all()):
            return True
        last, others = lengths[..., -1, :], lengths[..., :-1, :]
        if not np.isin(last, (0, self.last_rows * row)).all() or not (
            np.isin(others, (0, self.rows * row)).all()
        ):
            raise NotConvertibleError("its strips do not have as many bytes as their rows need")
        return False

    def _split(self, references: References, piece: int, row: int) -> References:
        pieces = -(-self.height // piece)
        *others, strips, width = references.grid_shape
        count = len(references) // strips * pieces
        if count > _MAX_REFERENCES:
            raise NotConvertibleError(
                "its last strip is shorter, and splitting all into pieces of the same length takes "
                f"{count:,} references, more than {_MAX_REFERENCES:,}"
            )
        return in_pieces(
            references,
            (*others, pieces, width),
            len(others),
            pieces=self.rows // piece,
            nbytes=piece * row,
        )

    def _rectilinear(self, chunks: Sequence[int]) -> dict[str, Any]:
        """Return the chunk grid in which the last strips are shorter."""
        *others, _, width = chunks
        strips = [[self.rows, self.height // self.rows], self.last_rows]
        return {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [*others, strips, width]},
        }

    def with_last_inline(
        self,
        metadata: dict[str, Any],
        references: References,
        dtype: np.dtype[Any],
        read: Callable[[int, int], Any],
        limit: int,
    ) -> References:
        """Return references with the last strips inline, filled up to the height of others.

        Parameters
        ----------
        metadata : dict
            Of the array.
        references : References
            To strips that are cut short.
        dtype : numpy.dtype
            The data type.
        read : callable
            Returns a range of the file.
        limit : int
            Largest size of these strips, in bytes, before they are compressed.

        Raises
        ------
        NotConvertibleError
            They are too large, or are not the same when they are compressed again.
        """
        chunks: list[int] = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        row = dtype.itemsize * math.prod(chunks) // self.rows
        columns = references.columns()
        is_last = grid_indices(references.grid_shape, columns.numbers)[:, -2]
        is_last = is_last == references.grid_shape[-2] - 1
        places: list[int] = np.flatnonzero(is_last & (columns.path_numbers >= 0)).tolist()
        size = len(places) * self.rows * row
        if size > limit:
            raise _too_short(f"with {size} bytes is too large to be stored inline (limit: {limit})")
        codecs = ArrayV3Metadata.from_dict(metadata).codecs
        offsets, lengths = columns.offsets.copy(), columns.lengths.copy()
        path_numbers, extras = columns.path_numbers.copy(), references.extras_by_row()
        for place in places:
            start = offsets.item(place)
            raw = bytes(read(start, start + lengths.item(place)))
            filled = _filled_up(raw, codecs, self.last_rows * row, self.rows * row)
            offsets[place], lengths[place] = 0, len(filled)
            path_numbers[place], extras[place] = INLINE, Extras(filled)
        return references.replaced(
            offsets=offsets, lengths=lengths, path_numbers=path_numbers, extras=extras
        )

    def notes(self, metadata: dict[str, Any], references: References) -> list[str]:
        """Return what was done to the chunks of an array."""
        if references.counts()[1]:
            return ["its last strip is shorter than the others, and is stored inline, filled up"]
        grid = metadata["chunk_grid"]["configuration"]
        rows: int = grid["chunk_shape"][-2] if "chunk_shape" in grid else self.rows
        if self.last_rows and rows != self.rows:
            return [
                f"its strips of {counted(self.rows, 'row')} were split into pieces of {rows}, as "
                "the last is shorter"
            ]
        return []


def _regular(chunks: Sequence[int]) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": chunks}}


def _filled_up(raw: bytes, codecs: Sequence[Any], length: int, wanted: int) -> bytes:
    """Return compressed bytes as if zeros had followed before they were compressed."""
    compressors = [codec.to_dict() for codec in codecs if isinstance(codec, BytesBytesCodec)]

    def metadata(size: int) -> dict[str, Any]:
        unwritten = unwritten_array(
            (size,), np.dtype("u1"), dimension_names=[None], attributes={}, fill_value=0
        )
        stack = [{"name": "bytes"}, *compressors]
        return {**unwritten, "chunk_grid": _regular([size]), "codecs": stack}

    try:
        filled = np.zeros(wanted, "u1")
        filled[:length] = decoded_values(metadata(length), {(0,): raw})
        (found,) = encoded_chunks(metadata(wanted), filled).values()
        is_same = bool((decoded_values(metadata(wanted), {(0,): found}) == filled).all())
    except (*FOREIGN_ERRORS, OSError) as error:
        raise _too_short(f"cannot be compressed again ({explained(error)})") from error
    if not is_same:
        raise _too_short("changes when it is compressed again")
    return found


def _too_short(problem: str) -> NotConvertibleError:
    """Return the refusal of an image whose last strip is cut short, and cannot be stored inline."""
    remedy = "Store the image in tiles, or raise inline_limit."
    if zarr.config.get(_RECTILINEAR, None) is not None:
        remedy = (
            "Store the image in tiles, or set the environment variable "
            "ZARR_ARRAY__RECTILINEAR_CHUNKS to True, here and wherever it is read."
        )
    return NotConvertibleError(
        f"its last strip is shorter than the others and compressed, and {problem}", remedy=remedy
    )
