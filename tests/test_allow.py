"""One way to authorise: `allow` on everything that takes a location, with one meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from zarr.abc.codec import CodecPipeline

import zarr_manifest as zm
from zarr_manifest import conversion

# What is public, has no `allow`, and why: it takes no location.
WITHOUT_LOCATION = {
    "AcceptanceReport": "holds what was declared",
    "ArrayNode": "holds the metadata of an array and its manifest",
    "ChunkDifference": "holds numbers of chunks",
    "ConversionReport": "holds what was converted",
    "Difference": "holds what differs",
    "GroupNode": "holds the attributes of a group",
    "Limits": "holds numbers",
    "NodeDifference": "holds what differs",
    "Manifest": "holds references; its documents are bytes",
    "RefusedNode": "holds the reason",
    "RenewalReport": "holds what was checked and written",
    "TrimReport": "holds what was removed",
    "StreamedManifest": "holds parts of a manifest",
    "UpgradeReport": "holds what was repaired",
    "anonymous": "makes an access",
    "entries": "takes an array, which has been opened",
    "environment": "makes an access",
    "read_virtual": "takes objects of xarray, which others have opened",
}

# What holds a location, and reads nothing.
HOLDS_A_LOCATION = {"AppendReport", "RefusedSource", "Scan", "ScanReport"}

# Errors are raised; zarr calls codec pipelines, with stores that are open.
NOT_CALLED = (BaseException, CodecPipeline)

# By these, methods of the classes above would show that they take a location after all.
LOCATION_NAMES = {"location", "locations", "url", "urls", "file", "files", "directory", "target"}
LOCATION_TYPES = re.compile(r"\b(Path|PathLike|\w*Store)\b")


def public() -> dict[str, Callable[..., Any]]:
    """Return all that users call, by name."""
    found = {name: getattr(zm, name) for name in zm.__all__}
    found |= {name: getattr(conversion, name) for name in conversion.__all__}
    of_engine = vars(type(xr.backends.list_engines()["zarr-manifest"]))
    engine = {f"engine.{name}": each for name, each in of_engine.items() if "open_" in name}
    return {
        name: each
        for name, each in (found | engine).items()
        if callable(each) and not (isinstance(each, type) and issubclass(each, NOT_CALLED))
    }


def is_allow(parameter: inspect.Parameter | None) -> bool:
    """Whether it is the one that `ManifestStore` has."""
    return (
        parameter is not None
        and parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and parameter.annotation == "Allow"
        and parameter.default is None
    )


def test_all_that_takes_a_location_takes_allow() -> None:
    """A new public name either has `allow`, or is listed above with the reason."""
    parameters = {name: inspect.signature(each).parameters for name, each in public().items()}
    without = {name for name, found in parameters.items() if not is_allow(found.get("allow"))}
    assert without - WITHOUT_LOCATION.keys() == HOLDS_A_LOCATION
    assert {"ManifestStore", "create_array", "read_files", "engine.open_dataset"} <= (
        parameters.keys() - without
    )


def test_functions_without_allow_take_no_location() -> None:
    listed = {name: each for name, each in public().items() if name in WITHOUT_LOCATION}
    assert listed
    for name, each in listed.items():
        for called in callables_of(each):
            for parameter in inspect.signature(called).parameters.values():
                assert parameter.name not in LOCATION_NAMES | {"allow"}, name
                assert not LOCATION_TYPES.search(str(parameter.annotation)), name


def callables_of(public_object: Any) -> Iterator[Any]:
    """Yield a function; or a class, and its public methods."""
    yield public_object
    for name in vars(public_object) if isinstance(public_object, type) else ():
        if not name.startswith("_") and callable(getattr(public_object, name)):
            yield getattr(public_object, name)


# What is no `allow` -----------------------------------------------------------------------

CALLS: dict[str, Callable[[Path, Any], Any]] = {
    "ManifestStore": lambda root, allow: zm.ManifestStore(root, allow=allow),
    "create_array": lambda root, allow: zm.create_array(
        root, "a", {}, shape=1, chunks=1, dtype="u1", allow=allow
    ),
    "write_manifest": lambda root, allow: zm.write_manifest(root, "a", {}, allow=allow),
    "validate": lambda root, allow: zm.validate(root, allow=allow),
    "read_files": lambda root, allow: conversion.read_files(root, allow=allow),
    "read_kerchunk": lambda root, allow: conversion.read_kerchunk(root, allow=allow),
    "read_kerchunk_json": lambda root, allow: conversion.read_kerchunk_json({}, allow=allow),
    "read_kerchunk_parquet": lambda root, allow: conversion.read_kerchunk_parquet(
        root, allow=allow
    ),
    "read_zarr2": lambda root, allow: conversion.read_zarr2(root, allow=allow),
    "write_hierarchy": lambda root, allow: conversion.write_hierarchy(root, [], allow=allow),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("allow", ["s3://b/", Path("/data"), ["data"], ["s3://"], [""]])
def test_invalid_prefixes_are_refused_before_anything_is_done(
    call: Callable[[Path, Any], Any], allow: Any, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="prefix"):
        call(tmp_path / "data.zarr", allow)
    assert not (tmp_path / "data.zarr").exists()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_invalid_access_is_refused_before_anything_is_done(
    call: Callable[[Path, Any], Any], tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match="'s3://b/' is of type int"):
        call(tmp_path / "data.zarr", {"s3://b/": 1})
    assert not (tmp_path / "data.zarr").exists()
