"""Area ``older-writers``: what VirtualiZarr 0.x/1.x and the prototype of issue 287 produced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array, declaration
from conformance.generator.case import Case

AREA = "older-writers"
_SECTION = "compatibility"
_AIR = Array(
    shape=(3, 4, 5), chunks=(2, 2, 5), data_type="float32", fill_value="NaN",
    values=tuple(i + 0.25 for i in range(60)),
)  # fmt: skip
_ALLOWED = [{"prefix": "@SOURCES@/"}]


def _case(name: str, description: str, path: str, *, start: bytes = b"CDF", **options: Any) -> Case:
    entries, source = _AIR.lay_out(path, start=start, end=b"")
    case = Case(f"{AREA}/{name}", _SECTION, description, **options)
    return case.array("air", _AIR, manifest=entries).source("work/data/air.nc", source)


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    entries, source = _AIR.lay_out("air.nc", start=b"CDF")
    yield (
        Case(
            f"{AREA}/dots-beside-the-default-encoding",
            _SECTION,
            "They wrote keys like 0.0.0 beside the chunk key encoding default with slashes.",
        )
        .array("air", _AIR, manifest=entries)
        .put("air/air.nc", source)
        .reads("air")
    )
    yield _case(
        "file-url", "They wrote file:// URLs of local files. Authorised, they are read.",
         "file://@SOURCES_PATH@/work/data/air.nc",
        allow=_ALLOWED,
    ).reads("air")  # fmt: skip
    yield _case(
        "bare-absolute-path", "They wrote bare absolute paths. Authorised, they are read.",
        "@SOURCES_PATH@/work/data/air.nc",
        allow=_ALLOWED,
    ).reads("air")  # fmt: skip
    for name, path in (("", "data/air.nc"), ("-with-dot", "./data/air.nc")):
        yield _case(
            f"working-directory{name}",
            "They wrote paths relative to the directory that they were run in. A reader that lets "
            "its user override base can read these, too.",
            path,
            allow=_ALLOWED,
            base="@SOURCES@/work/",
        ).reads("air")
    yield _case(
        "working-directory-without-override",
        "Without an override, such a path resolves against the array, where there is no such "
        "source: an error, and not fill values.",
        "data/air.nc",
        allow=_ALLOWED,
    ).refuses("source_not_found", "chunk", "air")
    yield (
        Case(
            f"{AREA}/relative-to-the-root",
            _SECTION,
            "They wrote paths relative to the root of the store; an empty override of base, ./, "
            "finds them.",
            base="./",
        )
        .array("air", _AIR, manifest=_AIR.lay_out("raw/air.nc", start=b"CDF")[0])
        .put("raw/air.nc", source)
        .reads("air")
    )
    yield (
        _case(
            "metadata-that-is-not-zarr-v3",
            "They wrote codecs: null for uncompressed arrays, which is not valid Zarr v3. It is "
            "refused when the array is opened: guessing a byte order could return wrong values.",
            "@SOURCES_PATH@/work/data/air.nc",
            allow=_ALLOWED,
        )
        .put(
            "air/zarr.json",
            {**_AIR.metadata([declaration({"manifest": "./manifest.json"})]), "codecs": None},
        )
        .refuses("invalid_configuration", "declaration", "air")
    )
