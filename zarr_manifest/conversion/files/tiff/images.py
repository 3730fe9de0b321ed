"""TIFF files (including GeoTIFF and COG) through VirtualiZarr's parser `virtual-tiff`.

Its own codecs are replaced by ones that readers find; "no data", which GDAL keeps as text, by a
number of the type of the image.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np

from zarr_manifest.conversion.files.tiff.stored_chunks import Changed, StoredChunks
from zarr_manifest.conversion.files.tiff.structure import Completion, check_structure
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree
from zarr_manifest.conversion.nodes import ArrayNode, grid_of
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, json_attributes
from zarr_manifest.conversion.virtual import checked_metadata, json_metadata, manifest_of_array
from zarr_manifest.conversion.virtualizarr_internals import tiff_array, tiff_data_type
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.showing import counted
from zarr_manifest.zarr_internals import sync

_FILL_ORDER = 266
_LERC = 34887

# Attributes that describe the packing of a band; xarray applies the first two.
_DECODED = {"scale_factor", "add_offset"}
_PACKING = {*_DECODED, "SCALE", "OFFSET"}

_INTERLEAVED = 1  # PlanarConfiguration: the samples of a pixel are stored together


def read_tiff(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a TIFF file.

    Images are named by number: array ``0`` in a file with one image; ``0/0``, ``1/1``, …
    in a file with several, so that each has its own dimensions.

    Raises
    ------
    NotConvertibleError
        It is not a TIFF file.
    """
    library("virtual_tiff", "reading TIFF")
    read = partial(registry.read, url)
    images: dict[str, ArrayNode] = {}
    reasons: dict[str, str] = {}
    # Its codecs warn that they are not in the Zarr specification.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiff = _open(url, registry)
        for number in range(len(tiff.ifds)):
            name = str(number)
            try:
                images[name] = _image(tiff, number, url, read, inline_limit)
            except (*FOREIGN_ERRORS, ElementTree.ParseError) as error:
                reasons[name] = f"virtual-tiff cannot express it: {error}"
            except NotConvertibleError as error:
                reasons[name] = error.message
    return _tree(images, reasons)


def _image(
    tiff: Any, number: int, url: str, read: Callable[[int, int], Any], inline_limit: int
) -> ArrayNode:
    image = tiff.ifds[number]
    if image.other_tags.get(_FILL_ORDER, 1) != 1:
        raise NotConvertibleError("the bits in its bytes are in reverse order (FillOrder 2)")
    bits = int(image.bits_per_sample[0])
    dtype = None if bits % 8 else tiff_data_type(image)
    if dtype is None or bits != 8 * dtype.itemsize:
        raise NotConvertibleError(
            f"its samples have {counted(bits, 'bit')}, and Zarr has no such data type"
        )
    is_by_pixel = image.samples_per_pixel > 1 and image.planar_configuration == _INTERLEAVED
    no_data = NoData.of(image.gdal_nodata, dtype)
    chunks = StoredChunks.of(image)
    chunks.require_all(image)
    changed = Changed(
        image,
        gdal_nodata=no_data.stated,
        image_height=chunks.padded_height,
        rows_per_strip=chunks.rows,
        **({"samples_per_pixel": 1} if is_by_pixel else {}),
        **chunks.as_if_none_were_empty(),
    )
    array = tiff_array(url, tiff, changed)
    metadata = json_metadata(array.metadata)
    references = references_of(manifest_of_array(array, grid_of(metadata).counts))
    if is_by_pixel:
        metadata = interleaved(metadata, int(image.samples_per_pixel))
        references = references.replaced(grid_shape=grid_of(metadata).counts)
    if image.compression == _LERC and (dtype.kind == "f" or _has_mask(image, is_by_pixel)):
        raise NotConvertibleError(
            "LERC marks pixels that are NaN or transparent in a way that its codec for Zarr "
            "ignores: they would become 0"
        )
    metadata, references = chunks.of_array(metadata, references, dtype.itemsize)
    codecs = announced_codecs(metadata, dtype, last_is_shorter=chunks.are_cut_short)
    attributes = _unambiguous(array.metadata.attributes, image)
    notes: list[str] = []
    if no_data.other is not None:
        attributes["gdal_no_data"] = no_data.other
        notes.append(
            f"its GDAL_NODATA, {no_data.other!r}, is no value of the type {dtype.name}: it is kept "
            "as an attribute only"
        )
    found, changes = json_attributes(attributes, dtype)
    metadata |= {"codecs": codecs, "attributes": found}
    if chunks.has_empty:
        # What GDAL reads there, whatever the fill value is for others.
        kind = array.metadata.data_type
        scalar = kind.cast_scalar(no_data.fill_value)
        metadata["fill_value"] = kind.to_json_scalar(scalar, zarr_format=3)
    metadata = checked_metadata(metadata)
    if chunks.are_cut_short and metadata["chunk_grid"]["name"] == "regular":
        references = chunks.with_last_inline(metadata, references, dtype, read, inline_limit)
    notes += [*chunks.notes(metadata, references), *changes]
    return ArrayNode("", metadata, Manifest(references), tuple(notes))


def _unambiguous(attributes: Mapping[str, Any], image: Any) -> dict[str, Any]:
    """Return attributes in which those that describe the packing hold for every band.

    GDAL stores them as text, for all bands or for each; virtual-tiff keeps those of the last.
    """
    found = dict(attributes)
    for name in sorted(_PACKING & found.keys()):
        items = ElementTree.fromstring(image.gdal_metadata).findall(f"Item[@name='{name}']")
        stated = {item.get("sample"): (item.text or "").strip() for item in items}
        texts = [stated.get(str(band), stated.get(None)) for band in range(image.samples_per_pixel)]
        value = found.pop(name)
        if name in _DECODED:
            value = _number(value)
        if len(set(texts)) > 1 or value is None:
            found[f"{name}_by_band"] = texts
        else:
            found[name] = value
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _has_mask(image: Any, is_by_pixel: bool) -> bool:
    """Whether LERC may store the opacity of pixels as a mask instead of as a sample."""
    return bool(is_by_pixel and image.extra_samples)


def _tree(images: dict[str, ArrayNode], reasons: dict[str, str]) -> FileTree:
    tree = FileTree()
    tree.add_group("", {})
    is_alone = len(images) + len(reasons) == 1
    for name, image in images.items():
        path = name
        if not is_alone:
            tree.add_group(name, {})
            path = f"{name}/{name}"
        tree.add(replace(image, path=path))
    for name, reason in reasons.items():
        tree.refuse(name if is_alone else f"{name}/{name}", reason)
    return tree


def _open(url: str, registry: Any) -> Any:
    """Return what async-tiff reads from the file: its byte order, and a directory per image."""
    tiff: Any = library("async_tiff", "reading TIFF")
    size, _ = registry.state(url)
    completion = check_structure(partial(registry.read, url), size)
    store, key = registry.resolve(url)
    file = _CompletedFile(store, size, completion or Completion(b"", b""))

    async def opened() -> Any:
        return await tiff.TIFF.open(key, store=file)

    try:
        return sync(opened())
    except Exception as error:
        # async-tiff does not export the class of its errors.
        if file.failure is not None:
            raise file.failure from error
        problem = "a tag has an unexpected form" if "panicked" in str(error) else str(error)
        raise NotConvertibleError(f"async-tiff cannot read the file: {problem}") from error


class _CompletedFile:
    """What async-tiff reads: a file, and what its directories lack."""

    def __init__(self, store: Any, size: int, completion: Completion) -> None:
        self._store = store
        self._size = size
        self._completion = completion
        #: Why it could not be read.
        self.failure: Exception | None = None

    async def get_range_async(
        self, path: str, *, start: int, end: int | None = None, length: int | None = None
    ) -> bytes:
        """Return a range; shorter at the end."""
        stop = start + (length or 0) if end is None else end
        head, tail = self._completion.head, self._completion.tail
        found = b""
        if start < self._size:
            end = min(stop, self._size)
            try:
                found = bytes(await self._store.get_range_async(path, start=start, end=end))
            except Exception as error:
                self.failure = error
                raise
        new = head[start:stop]
        past = max(0, start - self._size), max(0, stop - self._size)
        return new + found[len(new) :] + tail[slice(*past)]

    async def get_ranges_async(
        self,
        path: str,
        *,
        starts: Sequence[int],
        ends: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[bytes]:
        """Return several ranges."""
        stops = ends or [start + more for start, more in zip(starts, lengths or (), strict=True)]
        pairs = zip(starts, stops, strict=True)
        return [await self.get_range_async(path, start=start, end=end) for start, end in pairs]


# No data ---------------------------------------------------------------------------------


# As Microsoft's compilers print them.
_SPELLINGS = {
    "1.#INF": "inf",
    "-1.#INF": "-inf",
    "1.#QNAN": "nan",
    "-1.#QNAN": "nan",
    "1.#IND": "nan",
    "-1.#IND": "nan",
}


@dataclass(frozen=True, slots=True)
class NoData:
    """What ``GDAL_NODATA`` says.

    Attributes
    ----------
    stated : str or None
        The text, if it is a value of the type.
    other : str or None
        The text, if it is not.
    fill_value : int or float
        What GDAL reads where a file has no data: the nearest value, or 0.

    Examples
    --------
    >>> NoData.of("255.0", np.dtype("u1")).stated
    '255'
    >>> NoData.of("-9999", np.dtype("u1"))
    NoData(stated=None, other='-9999', fill_value=0)
    """

    stated: str | None
    other: str | None
    fill_value: int | float

    @classmethod
    def of(cls, text: str | None, dtype: np.dtype[Any]) -> NoData:
        """Return what a text means for a data type."""
        stripped = (text or "").strip("\0 \t\r\n")
        if not stripped:
            return cls(None, None, 0)
        spelled = _SPELLINGS.get(stripped, stripped)
        try:
            value = _integer(spelled)
        except ValueError:
            return cls(None, stripped, 0)
        if dtype.kind not in "iu":
            return cls(spelled, None, float(value))
        limits = np.iinfo(dtype)
        nearest = 0 if math.isnan(value) else min(max(value, int(limits.min)), int(limits.max))
        # Halves are rounded away from 0.
        nearest = int(nearest + math.copysign(0.5, nearest)) if nearest % 1 else int(nearest)
        if nearest == value:
            return cls(str(nearest), None, nearest)
        return cls(None, stripped, nearest)


def _integer(text: str) -> int | float:
    """Return a number; an integer if it is one, which may have more digits than a float."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else number


# Codecs ----------------------------------------------------------------------------------


_PREDICTOR = "HorizontalDeltaCodec"

# The order of dimensions in the file (row, column, band) in terms of those of the array.
_BY_PIXEL = [1, 2, 0]


def announced_codecs(
    metadata: dict[str, Any], dtype: np.dtype[Any], *, last_is_shorter: bool
) -> list[dict[str, Any]]:
    """Return the codecs of an image, with a horizontal predictor that readers can find.

    virtual-tiff uses another.

    Parameters
    ----------
    metadata : dict
        That of the image, as virtual-tiff describes it.
    dtype : numpy.dtype
        Its data type.
    last_is_shorter : bool
        Whether its last chunks are shorter than the others.

    Raises
    ------
    NotConvertibleError
        No codec that Zarr can find reverses the predictor.
    """
    codecs: list[dict[str, Any]] = metadata["codecs"]
    names = [codec["name"] for codec in codecs]
    is_big_endian = {"name": "bytes", "configuration": {"endian": "big"}} in codecs
    if "imagecodecs_floatpred" in names and is_big_endian:
        raise NotConvertibleError(
            "the codec that Zarr finds does not reverse its predictor for big-endian floats"
        )
    if "imagecodecs_floatpred" in names and last_is_shorter:
        raise NotConvertibleError(
            "its last strip is shorter, which the codec that reverses its predictor does not allow"
        )
    if _PREDICTOR not in names:
        return codecs
    if is_big_endian and not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "zarr before 3.3 does not reverse its horizontal predictor for big-endian integers",
            remedy="Upgrade zarr.",
        )
    if dtype.kind not in "iu":
        raise NotConvertibleError(
            "its horizontal predictor is applied to floats, which no codec that Zarr finds reverses"
        )
    # Differences along rows, for chunks as they are in the file.
    is_by_pixel = names[0] == "transpose"
    delta: dict[str, Any] = {"axis": 1 if is_by_pixel else -1, "dist": 1}
    if not last_is_shorter:
        shape: list[int] = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        if is_by_pixel:
            shape = [shape[dimension] for dimension in _BY_PIXEL]
        delta |= {"dtype": dtype.newbyteorder("=").str, "shape": shape}
    own = {"name": "imagecodecs_delta", "configuration": delta}
    return [own if codec["name"] == _PREDICTOR else codec for codec in codecs]


def interleaved(plane: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the metadata of an image with interleaved samples, by band, row and column.

    virtual-tiff has a codec for this, which readers cannot find. So it parses the image as
    if it had one sample, and the chunks get another dimension afterwards.

    Parameters
    ----------
    plane : dict
        The metadata of the image, parsed as if it had one sample.
    count : int
        Number of samples.
    """
    if any(codec["name"] == "imagecodecs_floatpred" for codec in plane["codecs"]):
        raise NotConvertibleError(
            "its predictor for floats is applied to interleaved samples, which no codec that Zarr "
            "finds reverses"
        )
    pixels = {"name": "transpose", "configuration": {"order": _BY_PIXEL}}
    chunks = [count, *plane["chunk_grid"]["configuration"]["chunk_shape"]]
    return plane | {
        "shape": [count, *plane["shape"]],
        "dimension_names": ["band", *plane["dimension_names"]],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "codecs": [pixels, *plane["codecs"]],
    }
