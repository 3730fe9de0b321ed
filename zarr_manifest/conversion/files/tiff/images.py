"""TIFF files (including GeoTIFF and COG) through VirtualiZarr's parser `virtual-tiff`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from zarr_manifest.conversion.files.tiff.codecs import interleaved_array, with_announced_codecs
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree, with_metadata
from zarr_manifest.conversion.virtual import library
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.showing import counted

__all__ = ["read_tiff"]

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
    arrays: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    # Its codecs warn that they are not in the Zarr specification.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiff = _open(url, registry)
        for number in range(len(tiff.ifds)):
            name = str(number)
            try:
                arrays[name] = _array(tiff, number, url, registry)
            except (*FOREIGN_ERRORS, ElementTree.ParseError) as error:
                reasons[name] = f"virtual-tiff cannot express it: {error}"
            except NotConvertibleError as error:
                reasons[name] = error.problem
    return _tree(arrays, reasons)


def _array(tiff: Any, number: int, url: str, registry: Any) -> Any:
    image = tiff.ifds[number]
    if image.other_tags.get(_FILL_ORDER, 1) != 1:
        raise NotConvertibleError("the bits in its bytes are in reverse order (FillOrder 2)")
    is_by_pixel = image.samples_per_pixel > 1 and image.planar_configuration == _INTERLEAVED
    if is_by_pixel:
        array = interleaved_array(image, url, tiff.endianness)
    else:
        store: Any = library("virtual_tiff").VirtualTIFF(ifd=number)(url, registry)
        array = with_announced_codecs(store._group.arrays[str(number)])
    bits = int(image.bits_per_sample[0])
    if bits != 8 * array.dtype.itemsize:
        raise NotConvertibleError(
            f"its samples have {counted(bits, 'bit')}, and Zarr has no such data type"
        )
    if image.compression == _LERC and (array.dtype.kind == "f" or _has_mask(image, is_by_pixel)):
        raise NotConvertibleError(
            "LERC marks pixels that are NaN or transparent in a way that its codec for Zarr "
            "ignores: they would become 0"
        )
    return with_metadata(array, attributes=_unambiguous(array.metadata.attributes, image))


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


def _tree(images: dict[str, Any], reasons: dict[str, str]) -> FileTree:
    tree = FileTree([FileGroup("", {})])
    if len(images) + len(reasons) == 1:
        tree.groups[0].arrays.update(images)
        for name, reason in reasons.items():
            tree.refuse(name, reason)
        return tree
    for name, image in images.items():
        tree.groups.append(FileGroup(name, {}, {name: image}))
    for name, reason in reasons.items():
        tree.refuse(f"{name}/{name}", reason)
    return tree


def _open(url: str, registry: Any) -> Any:
    """Return what async-tiff reads from the file: its byte order, and a directory per image."""
    tiff: Any = library("async_tiff", "reading TIFF")
    sync: Any = library("zarr.core.sync").sync
    store, key = registry.resolve(url)

    async def opened() -> Any:
        return await tiff.TIFF.open(key, store=store)

    try:
        return sync(opened())
    except OSError:
        raise
    except Exception as error:
        # async-tiff does not export the class of its errors.
        raise NotConvertibleError(f"async-tiff cannot read the file: {error}") from error
