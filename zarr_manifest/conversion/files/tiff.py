"""TIFF files (GeoTIFF and COG among them) through VirtualiZarr's parser `virtual-tiff`."""

from __future__ import annotations

import warnings
from typing import Any

from zarr_manifest.conversion.files.tiff_codecs import interleaved_array, with_announced_codecs
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.conversion.virtual.library import library

__all__ = ["read_tiff"]

_FILL_ORDER = 266

_INTERLEAVED = 1  # PlanarConfiguration: the samples of a pixel are beside each other


def read_tiff(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a TIFF file.

    Its images are named by their numbers: array ``0`` of a file with one image;
    ``0/0``, ``1/1``, … of a file with several, so that each has dimensions of its own.

    Raises
    ------
    NotConvertibleError
        It is no TIFF file.
    """
    library("virtual_tiff", "reading TIFF")
    arrays: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    # Its codecs warn that they are not in the specification of Zarr.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiff = _open(url, registry)
        for number in range(len(tiff.ifds)):
            name = str(number)
            try:
                arrays[name] = _array(tiff, number, url, registry)
            except FOREIGN_ERRORS as error:
                reasons[name] = f"virtual-tiff cannot express it: {error}"
            except NotConvertibleError as error:
                reasons[name] = error.problem
    return _tree(arrays, reasons)


def _array(tiff: Any, number: int, url: str, registry: Any) -> Any:
    image = tiff.ifds[number]
    if image.other_tags.get(_FILL_ORDER, 1) != 1:
        raise NotConvertibleError("the bits of its bytes are in reversed order (FillOrder 2)")
    if image.samples_per_pixel > 1 and image.planar_configuration == _INTERLEAVED:
        return interleaved_array(image, url, tiff.endianness)
    store: Any = library("virtual_tiff").VirtualTIFF(ifd=number)(url, registry)
    return with_announced_codecs(store._group.arrays[str(number)])


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
    """Return what async-tiff reads of the file: its byte order, and a directory for each image."""
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
