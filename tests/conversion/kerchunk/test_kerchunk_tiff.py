"""References that tifffile wrote, with the codecs of imagecodecs."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import tifffile
import zarr
from zarr.storage import FsspecStore

import zarr_manifest as zm
from zarr_manifest.conversion import (
    ArrayNode,
    export_kerchunk_json,
    read_kerchunk_json,
    write_hierarchy,
)
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*codecs are not in the Zarr")]

NUMBERS = np.random.default_rng(1).integers(0, 250, (40, 36))
PIXELS = np.random.default_rng(2).integers(0, 250, (40, 36, 3)).astype("u1")
RGB = {"photometric": "rgb"}


def metadata_of(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "zarr.json").read_text())
    return found


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (NUMBERS.astype("u2"), {"compression": "lzw"}),
        (NUMBERS.astype("u2"), {"compression": "lzw", "predictor": True}),
        pytest.param(
            NUMBERS.astype("u2"),
            {"compression": "lzw", "predictor": True, "byteorder": ">"},
            marks=pytest.mark.skipif(not HAS_ALL_BYTE_ORDERS, reason="refused before zarr 3.3"),
        ),
        (NUMBERS.astype("f4"), {"compression": "zlib", "predictor": 3}),
        (NUMBERS.astype("u1"), {"compression": "packbits"}),
        (NUMBERS.astype("u2"), {"compression": "zstd"}),
        (NUMBERS.astype("u2"), {"compression": "lzma"}),
        (NUMBERS.astype("u2"), {"compression": "png"}),
        (NUMBERS.astype("u2"), {"compression": "jpeg2000"}),
        (NUMBERS.astype("u2"), {"compression": "jpegxr"}),
        (NUMBERS.astype("u1"), {"compression": "jpegxl"}),
        (NUMBERS.astype("f4"), {"compression": "lerc"}),
        (PIXELS, {"compression": "lzw", "predictor": True, **RGB}),
        (PIXELS, {"compression": "jpeg", **RGB}),
        (PIXELS, {"compression": "webp", **RGB}),
    ],
    ids=str,
)
def test_images(data: Any, options: dict[str, Any], tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "f.tif", data, tile=(16, 16), **options)
    with tifffile.imread(tmp_path / "f.tif", aszarr=True) as image:
        image.write_fsspec(tmp_path / "refs.json", url=f"{tmp_path.as_uri()}/")
    references = json.loads((tmp_path / "refs.json").read_text())
    report = write_hierarchy(tmp_path / "h.zarr", read_kerchunk_json(references))
    assert report.refused == []
    store = zm.ManifestStore(tmp_path / "h.zarr", allow=[tmp_path.as_uri()])
    found = zarr.open_array(store, mode="r")[...]
    filesystem = fsspec.filesystem("reference", fo=references, asynchronous=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_array(FsspecStore(filesystem, path=""), mode="r", zarr_format=2)[...]
    assert np.array_equal(found, theirs)
    expected = tifffile.imread(tmp_path / "f.tif")
    assert np.array_equal(found, expected)
    if options["compression"] in ("lzw", "packbits", "zstd") and "predictor" not in options:
        export_kerchunk_json(store, tmp_path / "again.json")
        (again,) = read_kerchunk_json(tmp_path / "again.json")
        assert isinstance(again, ArrayNode)
        assert again.metadata["codecs"] == metadata_of(tmp_path / "h.zarr")["codecs"]
    names = {
        codec for _, note in report.notes for codec in note.split("'") if "imagecodecs" in codec
    }
    codecs = metadata_of(tmp_path / "h.zarr")["codecs"]
    used = {codec["name"] for codec in codecs if "imagecodecs" in codec["name"]}
    assert names == used
