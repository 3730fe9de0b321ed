"""TIFF files (including GeoTIFF and COG) through VirtualiZarr's parser `virtual-tiff`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from xml.etree import ElementTree

from zarr_manifest.conversion.files.tiff.codecs import interleaved, with_announced_codecs
from zarr_manifest.conversion.files.tiff.no_data import NoData
from zarr_manifest.conversion.files.tiff.stored_chunks import Changed, StoredChunks
from zarr_manifest.conversion.files.tiff.structure import Completion, check_structure
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree, with_metadata
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.virtualizarr_internals import tiff_array, tiff_data_type
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.showing import counted
from zarr_manifest.zarr_internals import sync

__all__ = ["read_tiff"]

_FILL_ORDER = 266
_LERC = 34887

# Attributes that describe the packing of a band; xarray applies the first two.
_DECODED = {"scale_factor", "add_offset"}
_PACKING = {*_DECODED, "SCALE", "OFFSET"}

_INTERLEAVED = 1  # PlanarConfiguration: the samples of a pixel are stored together


@dataclass(frozen=True, slots=True)
class _Image:
    array: Any
    chunk_grid: dict[str, Any] | None
    is_sparse: bool
    notes: list[str]


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
    images: dict[str, _Image] = {}
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
) -> _Image:
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
    if is_by_pixel:
        array = interleaved(array, int(image.samples_per_pixel))
    if image.compression == _LERC and (array.dtype.kind == "f" or _has_mask(image, is_by_pixel)):
        raise NotConvertibleError(
            "LERC marks pixels that are NaN or transparent in a way that its codec for Zarr "
            "ignores: they would become 0"
        )
    array, grid = chunks.of_array(array)
    array = with_announced_codecs(array, last_is_shorter=chunks.are_cut_short)
    attributes = _unambiguous(array.metadata.attributes, image)
    notes: list[str] = []
    if no_data.other is not None:
        attributes["gdal_no_data"] = no_data.other
        notes.append(
            f"its GDAL_NODATA, {no_data.other!r}, is no value of the type {dtype.name}: it is kept "
            "as an attribute only"
        )
    changes: dict[str, Any] = {"attributes": attributes}
    if chunks.has_empty:
        # What GDAL reads there, whatever the fill value is for others.
        changes["fill_value"] = array.metadata.data_type.cast_scalar(no_data.fill_value)
    array = with_metadata(array, **changes)
    if chunks.are_cut_short and grid is None:
        array = chunks.with_last_inline(array, read, inline_limit)
    return _Image(array, grid, chunks.has_empty, [*notes, *chunks.notes(array)])


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


def _tree(images: dict[str, _Image], reasons: dict[str, str]) -> FileTree:
    tree = FileTree([FileGroup("", {})])
    is_alone = len(images) + len(reasons) == 1
    for name, image in images.items():
        path = name if is_alone else f"{name}/{name}"
        if is_alone:
            tree.groups[0].arrays[name] = image.array
        else:
            tree.groups.append(FileGroup(name, {}, {name: image.array}))
        if image.chunk_grid is not None:
            tree.chunk_grids[path] = image.chunk_grid
        if image.is_sparse:
            tree.sparse.add(path)
        for note in image.notes:
            tree.note(path, note)
    for name, reason in reasons.items():
        tree.refuse(name if is_alone else f"{name}/{name}", reason)
    return tree


def _open(url: str, registry: Any) -> Any:
    """Return what async-tiff reads from the file: its byte order, and a directory per image."""
    tiff: Any = library("async_tiff", "reading TIFF")
    size, _ = registry.state(url)
    completion = check_structure(partial(registry.read, url), size)
    store, key = registry.resolve(url)
    if completion is not None:
        store = _Completed(store, size, completion)

    async def opened() -> Any:
        return await tiff.TIFF.open(key, store=store)

    try:
        return sync(opened())
    except OSError:
        raise
    except Exception as error:
        # async-tiff does not export the class of its errors.
        problem = "a tag has an unexpected form" if "panicked" in str(error) else str(error)
        raise NotConvertibleError(f"async-tiff cannot read the file: {problem}") from error


class _Completed:
    """What async-tiff reads in place of a file whose directories are not complete."""

    def __init__(self, store: Any, size: int, completion: Completion) -> None:
        self._store = store
        self._size = size
        self._completion = completion

    async def get_range_async(
        self, path: str, *, start: int, end: int | None = None, length: int | None = None
    ) -> bytes:
        """Return a range; shorter at the end."""
        stop = start + (length or 0) if end is None else end
        head, tail = self._completion.head, self._completion.tail
        found = b""
        if start < self._size:
            found = bytes(
                await self._store.get_range_async(path, start=start, end=min(stop, self._size))
            )
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
