"""Codecs of TIFF images that readers can find, in place of those private to virtual-tiff."""

from __future__ import annotations

from typing import Any

from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import NotConvertibleError

__all__ = ["interleaved", "with_announced_codecs"]

_PREDICTOR = "HorizontalDeltaCodec"

# The order of dimensions in the file (row, column, band) in terms of those of the array.
_BY_PIXEL = [1, 2, 0]


def with_announced_codecs(array: Any, *, last_is_shorter: bool) -> Any:
    """Give the horizontal predictor a name that readers can find; virtual-tiff uses another.

    Parameters
    ----------
    array : ManifestArray
        An image, as virtual-tiff describes it.
    last_is_shorter : bool
        Whether its last chunks are shorter than the others.

    Raises
    ------
    NotConvertibleError
        No codec that Zarr can find reverses the predictor.
    """
    document: dict[str, Any] = array.metadata.to_dict()
    names = [codec["name"] for codec in document["codecs"]]
    is_big_endian = {"name": "bytes", "configuration": {"endian": "big"}} in document["codecs"]
    if "imagecodecs_floatpred" in names and is_big_endian:
        raise NotConvertibleError(
            "the codec that Zarr finds does not reverse its predictor for big-endian floats"
        )
    if "imagecodecs_floatpred" in names and last_is_shorter:
        raise NotConvertibleError(
            "its last strip is shorter, which the codec that reverses its predictor does not allow"
        )
    if _PREDICTOR not in names:
        return array
    if is_big_endian and not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "zarr before 3.3 does not reverse its horizontal predictor for big-endian integers",
            remedy="Upgrade zarr.",
        )
    if array.dtype.kind not in "iu":
        raise NotConvertibleError(
            "its horizontal predictor is applied to floats, which no codec that Zarr finds reverses"
        )
    delta = _delta(array, is_by_pixel=names[0] == "transpose", any_shape=last_is_shorter)
    codecs = [
        delta if name == _PREDICTOR else codec
        for name, codec in zip(names, document["codecs"], strict=True)
    ]
    return _with_metadata(array, {**document, "codecs": codecs})


def interleaved(plane: Any, count: int) -> Any:
    """Return an image with interleaved samples as an array by band, row and column.

    virtual-tiff has a codec for this, which readers cannot find. So it parses the image as
    if it had one sample, and the chunks get another dimension afterwards.

    Parameters
    ----------
    plane : ManifestArray
        The image, parsed as if it had one sample.
    count : int
        Number of samples.
    """
    document: dict[str, Any] = plane.metadata.to_dict()
    if any(codec["name"] == "imagecodecs_floatpred" for codec in document["codecs"]):
        raise NotConvertibleError(
            "its predictor for floats is applied to interleaved samples, which no codec that Zarr "
            "finds reverses"
        )
    pixels = {"name": "transpose", "configuration": {"order": _BY_PIXEL}}
    chunks = [count, *plane.metadata.chunk_grid.chunk_shape]
    document |= {
        "shape": [count, *plane.metadata.shape],
        "dimension_names": ["band", *document["dimension_names"]],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "codecs": [pixels, *document["codecs"]],
    }
    return _with_metadata(plane, document)


def _delta(array: Any, *, is_by_pixel: bool, any_shape: bool) -> dict[str, Any]:
    """Return the codec for differences along rows, for chunks as they are in the file."""
    axis = 1 if is_by_pixel else -1
    if any_shape:
        return {"name": "imagecodecs_delta", "configuration": {"axis": axis, "dist": 1}}
    shape: list[int] = list(array.metadata.chunk_grid.chunk_shape)
    if is_by_pixel:
        shape = [shape[dimension] for dimension in _BY_PIXEL]
    return {
        "name": "imagecodecs_delta",
        "configuration": {
            "dtype": array.dtype.newbyteorder("=").str,
            "shape": shape,
            "axis": axis,
            "dist": 1,
        },
    }


def _with_metadata(array: Any, document: dict[str, Any]) -> Any:
    """Return an array with new metadata, its manifest reshaped to as many dimensions."""
    metadata = ArrayV3Metadata.from_dict(document)
    counts = (1,) * (len(metadata.shape) - array.ndim) + array.manifest.shape_chunk_grid
    return ManifestColumns.of(array.manifest).reshaped(counts).array(metadata)
