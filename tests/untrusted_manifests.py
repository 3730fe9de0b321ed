"""Arrays whose manifests refer to whatever a test says, and how readers refuse them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array

RAW = bytes(range(100, 124))
VALUES = list(RAW[4:12])


def declare(root: Path, *paths: str, name: str = "a", **options: Any) -> None:
    """Declare an array of one chunk of 8 bytes per path."""
    manifest = {str(i): {"path": p, "offset": 4, "length": 8} for i, p in enumerate(paths)}
    write_manifest_array(root, name, np.zeros(8 * len(paths), "u1"), 8, manifest, **options)


def read(root: Any, **options: Any) -> list[int]:
    array = zarr.open(zm.ManifestStore(root, **options), mode="r")["a"]
    values: list[int] = array[...].tolist()  # type: ignore[union-attr,index]
    return values


def refused(
    root: Any, expected: type[zm.ManifestError] = zm.errors.LocationNotAllowedError, **options: Any
) -> zm.ManifestError:
    with pytest.raises(zm.ManifestError) as raised:
        read(root, **options)
    assert type(raised.value) is expected, raised.value
    assert raised.value.array == "a"
    assert "secret" not in str(raised.value).lower()
    return raised.value


def suggested(error: zm.ManifestError) -> list[str]:
    """What the remedy says to paste."""
    assert error.remedy is not None
    found = re.search(r"allow=(\[.*\])", error.remedy)
    assert found is not None
    prefixes: list[str] = eval(found[1], {})
    return prefixes
