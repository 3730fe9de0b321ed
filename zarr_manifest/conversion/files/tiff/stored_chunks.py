"""The tiles or strips of a TIFF image where they are not all alike.

The last strip has fewer rows where the height is not a multiple of a strip's. Sparse files leave
out tiles: these have no bytes, and GDAL reads them as "no data".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, explained
from zarr_manifest.conversion.joining import in_pieces
from zarr_manifest.conversion.target import decoded_values, encoded_chunks, unwritten_array
from zarr_manifest.conversion.virtual import add_references
from zarr_manifest.conversion.virtualizarr_internals import INLINED, MISSING, ManifestColumns
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import references_from_columns
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

    def of_array(self, array: Any) -> tuple[Any, dict[str, Any] | None]:
        """Return an array of the padded height with its own, and its chunk grid if not regular.

        Raises
        ------
        NotConvertibleError
            The strips have other lengths than they need, or have to be split too often.
        """
        shape = tuple(array.manifest.shape_chunk_grid)
        is_empty = (np.array(self.lengths, np.int64) == 0).reshape(shape)
        columns = ManifestColumns.of(array.manifest)
        found = ManifestColumns(
            np.where(is_empty, MISSING, columns.paths),
            np.where(is_empty, 0, columns.offsets).astype(np.uint64),
            np.where(is_empty, 0, columns.lengths).astype(np.uint64),
            {},
        )
        if not self.last_rows:
            return _with_references(array, found, {}) if self.has_empty else array, None
        row = array.dtype.itemsize * math.prod(array.metadata.chunk_grid.chunk_shape) // self.rows
        members = {"shape": (*array.shape[:-2], self.height, array.shape[-1])}
        if self.is_compressed:
            grid = self._rectilinear(array) if zarr.config.get(_RECTILINEAR, False) else None
            return _with_references(array, found, members), grid
        if self._last_are_padded(found, row):
            return _with_references(array, found, members), None
        return self._split(array, found, row, members), None

    def _last_are_padded(self, found: ManifestColumns, row: int) -> bool:
        lengths = found.lengths[found.lengths > 0]
        if bool((lengths == self.rows * row).all()):
            return True
        last = found.lengths[..., -1, :]
        others = found.lengths[..., :-1, :]
        if not np.isin(last, (0, self.last_rows * row)).all() or not (
            np.isin(others, (0, self.rows * row)).all()
        ):
            raise NotConvertibleError("its strips do not have as many bytes as their rows need")
        return False

    def _split(self, array: Any, found: ManifestColumns, row: int, members: dict[str, Any]) -> Any:
        piece = math.gcd(self.rows, self.last_rows)
        pieces = -(-self.height // piece)
        count = found.paths.size // found.paths.shape[-2] * pieces
        if count > _MAX_REFERENCES:
            raise NotConvertibleError(
                "its last strip is shorter, and splitting all into pieces of the same length takes "
                f"{count:,} references, more than {_MAX_REFERENCES:,}"
            )
        stored = references_from_columns(
            found.paths.shape, paths=found.paths, offsets=found.offsets, lengths=found.lengths
        )
        shape = (*found.paths.shape[:-2], pieces, found.paths.shape[-1])
        of_strip = self.rows // piece
        whole = in_pieces(stored, shape, len(shape) - 2, pieces=of_strip, nbytes=piece * row)
        split = ManifestColumns.of_grid(shape)
        add_references(split, whole, whole.paths)
        grid = array.metadata.chunk_grid
        chunks = (*grid.chunk_shape[:-2], piece, grid.chunk_shape[-1])
        members["chunk_grid"] = dataclasses.replace(grid, chunk_shape=chunks)
        return _with_references(array, split, members)

    def _rectilinear(self, array: Any) -> dict[str, Any]:
        """Return the chunk grid in which the last strips are shorter."""
        *others, _, width = array.metadata.chunk_grid.chunk_shape
        strips = [[self.rows, self.height // self.rows], self.last_rows]
        return {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [*others, strips, width]},
        }

    def with_last_inline(self, array: Any, read: Callable[[int, int], Any], limit: int) -> Any:
        """Return an array whose last strips are stored inline, filled up to the height of others.

        Parameters
        ----------
        array : ManifestArray
            With references to strips that are cut short.
        read : callable
            Returns a range of the file.
        limit : int
            Largest size of these strips, in bytes, before they are compressed.

        Raises
        ------
        NotConvertibleError
            They are too large, or are not the same when they are compressed again.
        """
        metadata = array.metadata
        row = array.dtype.itemsize * math.prod(metadata.chunk_grid.chunk_shape) // self.rows
        made = ManifestColumns.of(array.manifest).copied()
        paths, offsets, lengths = made.paths, made.offsets, made.lengths
        places = [i for i in np.ndindex(*paths.shape) if i[-2] == paths.shape[-2] - 1 and paths[i]]
        size = len(places) * self.rows * row
        if size > limit:
            raise _too_short(f"with {size} bytes is too large to be stored inline (limit: {limit})")
        for place in places:
            start, length = int(offsets[place]), int(lengths[place])
            raw = bytes(read(start, start + length))
            made.inlined[place] = _filled_up(
                raw, metadata.codecs, self.last_rows * row, self.rows * row
            )
            paths[place], offsets[place], lengths[place] = INLINED, 0, len(made.inlined[place])
        return made.array(metadata)

    def notes(self, array: Any) -> list[str]:
        """Return what was done to the chunks of an array."""
        rows = array.metadata.chunk_grid.chunk_shape[-2]
        if ManifestColumns.of(array.manifest).inlined:
            return ["its last strip is shorter than the others, and is stored inline, filled up"]
        if self.last_rows and rows != self.rows:
            return [
                f"its strips of {counted(self.rows, 'row')} were split into pieces of {rows}, as "
                "the last is shorter"
            ]
        return []


def _filled_up(raw: bytes, codecs: Sequence[Any], length: int, wanted: int) -> bytes:
    """Return compressed bytes as if zeros had followed before they were compressed."""
    compressors = [codec.to_dict() for codec in codecs if isinstance(codec, BytesBytesCodec)]

    def metadata(size: int) -> ArrayV3Metadata:
        unwritten = unwritten_array(
            (size,), np.dtype("u1"), dimension_names=[None], attributes={}, fill_value=0
        )
        grid = {"name": "regular", "configuration": {"chunk_shape": [size]}}
        stack = [{"name": "bytes"}, *compressors]
        document: dict[str, Any] = {**unwritten, "chunk_grid": grid, "codecs": stack}
        return ArrayV3Metadata.from_dict(document)

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


def _with_references(array: Any, found: ManifestColumns, members: dict[str, Any]) -> Any:
    return found.array(dataclasses.replace(array.metadata, **members))
