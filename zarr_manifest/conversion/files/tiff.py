"""TIFF files (GeoTIFF and COG among them) through VirtualiZarr's parser `virtual-tiff`."""

from __future__ import annotations

import warnings
from typing import Any

from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.conversion.unstable_types import HAS_ALL_BYTE_ORDERS
from zarr_manifest.conversion.virtual.library import library

__all__ = ["read_tiff"]

_FILL_ORDER = 266


def read_tiff(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a TIFF file.

    Its images are named by their numbers: array ``0`` of a file with one image;
    ``0/0``, ``1/1``, … of a file with several, so that each has dimensions of its own.

    Raises
    ------
    NotConvertibleError
        It is no TIFF file.
    """
    virtual_tiff: Any = library("virtual_tiff", "reading TIFF")
    images: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    # Its codecs warn that they are not in the specification of Zarr.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, problem in enumerate(_images(url, registry)):
            name = str(number)
            if problem is not None:
                reasons[name] = problem
                continue
            try:
                store = virtual_tiff.VirtualTIFF(ifd=number)(url, registry)
                images[name] = _with_announced_codecs(store._group.arrays[name])
            except FOREIGN_ERRORS as error:
                reasons[name] = f"virtual-tiff cannot express it: {error}"
            except NotConvertibleError as error:
                reasons[name] = error.problem
    return _tree(images, reasons)


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


def _images(url: str, registry: Any) -> list[str | None]:
    """Return, for each image, what virtual-tiff passes over, or None."""
    tiff: Any = library("async_tiff", "reading TIFF")
    sync: Any = library("zarr.core.sync").sync
    store, key = registry.resolve(url)

    async def images() -> list[str | None]:
        found = await tiff.TIFF.open(key, store=store)
        return [
            "the bits of its bytes are in reversed order (FillOrder 2)"
            if image.other_tags.get(_FILL_ORDER, 1) != 1
            else None
            for image in found.ifds
        ]

    try:
        problems: list[str | None] = sync(images())
    except OSError:
        raise
    except Exception as error:
        # async-tiff does not export the class of its errors.
        raise NotConvertibleError(f"async-tiff cannot read the file: {error}") from error
    return problems


def _with_announced_codecs(array: Any) -> Any:
    """Name the horizontal predictor as readers find it: virtual-tiff announces another name."""
    manifests: Any = library("virtualizarr.manifests")
    document: dict[str, Any] = array.metadata.to_dict()
    names = [codec["name"] for codec in document["codecs"]]
    big_endian = {"name": "bytes", "configuration": {"endian": "big"}}
    if "imagecodecs_floatpred" in names and big_endian in document["codecs"]:
        raise NotConvertibleError(
            "its predictor of big-endian floats is not undone by the codec that Zarr finds"
        )
    if "HorizontalDeltaCodec" not in names:
        return array
    if big_endian in document["codecs"] and not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "its horizontal predictor of big-endian integers is not undone by zarr before 3.3",
            remedy="Upgrade zarr.",
        )
    if "bytes" not in names or array.dtype.kind not in "iu":
        raise NotConvertibleError(
            "its horizontal predictor is applied to interleaved samples or to floats, which no "
            "codec that Zarr finds can undo"
        )
    delta = {
        "name": "imagecodecs_delta",
        "configuration": {
            "dtype": array.dtype.newbyteorder("=").str,
            "shape": list(array.metadata.chunk_grid.chunk_shape),
            "axis": -1,
            "dist": 1,
        },
    }
    codecs: list[Any] = [
        delta if name == "HorizontalDeltaCodec" else codec
        for name, codec in zip(names, document["codecs"], strict=True)
    ]
    metadata = ArrayV3Metadata.from_dict({**document, "codecs": codecs})
    return manifests.ManifestArray(metadata=metadata, chunkmanifest=array.manifest)
