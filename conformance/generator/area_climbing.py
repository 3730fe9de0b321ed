"""Area ``climbing``: references that lead out of the hierarchy, to what lies beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.case import Case
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE, refused_and_reported

AREA = "climbing"
_SECTION = "path-resolution"
_ALLOWED = [{"prefix": "@SOURCES@/"}]
_DECOY = bytes(range(200, 232))
# No file system of a test is as deep as this.
_ABOVE = "../" * 64


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _beside()
    yield from _beside_on_the_web()
    yield from _not_authorised()
    yield from _documents()
    yield from _back_again()
    yield from _overrides()
    yield from _above_the_root()


def _case(name: str, description: str, *, array: str = "a", path: str, **options: Any) -> Case:
    """Make a case with the standard array, whose entries have this path."""
    configuration = {"manifest": "./manifest.json"}
    if "declared_base" in options:
        configuration["base"] = options.pop("declared_base")
    case = Case(f"{AREA}/{name}", _SECTION, description, **options)
    manifest = {key: {**entry, "path": path} for key, entry in ENTRIES.items()}
    return case.array(array, ARRAY, configuration=configuration, manifest=manifest)


def _beside() -> Iterator[Case]:
    for name, array, base, path, description in (
        ("path", "a", "./", "../../sources/x/data.bin", "A path may lead out of the hierarchy."),
        ("path-of-a-deep-array", "g/h/a", "./", "../../../../sources/x/data.bin",
         "It climbs from the array's own location, however deep that is."),
        ("path-of-an-array-at-the-root", "", "./", "../sources/x/data.bin",
         "An array that is opened directly may have the same references as in its group."),
        ("base", "a", "../../sources/x/", "data.bin",
         "base may lead out of the hierarchy: an archive beside archive.zarr."),
        ("base-without-a-slash", "a", "../../sources/x/y", "data.bin",
         "The last segment of such a base is dropped like that of any other."),
        ("path-from-a-base-outside", "a", "../../sources/x/y/", "../data.bin",
         "A path may climb from a base that lies outside."),
        ("path-and-base", "a", "../", "../sources/x/data.bin",
         "A path may lead out of the hierarchy where base does not."),
        ("escapes", "a", "../../s%6Furces/", "%78/data.bin",
         "Escapes are decoded outside as they are inside."),
    ):  # fmt: skip
        case = _case(
            name,
            f"{description} It is a location like any other, and is read where it is authorised.",
            array=array,
            declared_base=base,
            path=path,
            allow=_ALLOWED,
        )
        yield (
            case.source("x/data.bin", SOURCE)
            .source("x/y/data.bin", _DECOY)
            .put(f"{array}/data.bin".lstrip("/"), _DECOY)
            .put("sources/x/data.bin", _DECOY)
            .reads(array)
        )


def _beside_on_the_web() -> Iterator[Case]:
    for name, base, path in (
        ("path-on-a-web-server", "./", "../../sources/x/data.bin"),
        ("base-on-a-web-server", "../../sources/x/", "data.bin"),
    ):
        for suffix, allow in (("", [{"prefix": "@HTTP@/sources/x/"}]), ("-not-authorised", [])):
            case = _case(
                f"{name}{suffix}",
                "What lies beside a hierarchy on the same web server is a location like any other: "
                "it is read where it is authorised, and only there.",
                declared_base=base,
                path=path,
                allow=allow,
                via="http",
            )
            case.source("x/data.bin", SOURCE).serve("http", root=".")
            yield case.reads() if allow else case.refuses("location_not_allowed", "manifest")


def _not_authorised() -> Iterator[Case]:
    for name, base, path in (
        ("path-that-is-not-authorised", "./", "../../sources/x/data.bin"),
        ("base-that-is-not-authorised", "../../sources/x/", "data.bin"),
    ):
        case = _case(
            name,
            "What lies outside the hierarchy needs authorisation, although the reference is "
            "relative: whoever wrote the hierarchy must not choose among the reader's files.",
            declared_base=base,
            path=path,
        )
        case = case.source("x/data.bin", SOURCE).put("sources/x/data.bin", _DECOY)
        yield case.refuses("location_not_allowed", "manifest")
    case = _case(
        "beside-an-authorised-prefix",
        "A prefix covers whole segments of what a relative reference names, too.",
        path="../../sources/x2/data.bin",
        allow=[{"prefix": "@SOURCES@/x"}],
    )
    yield case.source("x2/data.bin", SOURCE).refuses("location_not_allowed", "manifest")
    case = _case(
        "out-through-a-link",
        "Where the file really is counts, as for every location: this one is a link out of the "
        "authorised directory.",
        path="../../sources/x/data.bin",
        allow=[{"prefix": "@SOURCES@/x/"}],
        cls="safe",
    )
    yield (
        case.source("y/data.bin", SOURCE)
        .link("sources/x/data.bin", "../y/data.bin")
        .refuses("location_not_allowed", "chunk")
    )
    case = _case(
        "listing-needs-no-authorisation",
        "The chunks of such an array can be listed without authorisation, as any others.",
        path="../../sources/x/data.bin",
    )
    yield case.source("x/data.bin", SOURCE).lists("0", "1")
    case = _case(
        "valid-for-validators",
        "A validator finds nothing wrong with a path that leads out of the hierarchy, and asks for "
        "no authorisation.",
        path="../../sources/x/data.bin",
    )
    yield case.source("x/data.bin", SOURCE).reports()


def _documents() -> Iterator[Case]:
    def case(name: str, description: str, **options: Any) -> Case:
        made = Case(f"{AREA}/{name}", _SECTION, description, **options)
        configuration = {"manifest": "../../sources/manifest.json"}
        made.array("a", ARRAY, configuration=configuration).put("a/data.bin", SOURCE)
        return made.source("manifest.json", ENTRIES).put("sources/manifest.json", b"no JSON")

    yield case(
        "manifest",
        "manifest may lead out of the hierarchy, as paths may; the paths in it do not move.",
        allow=_ALLOWED,
    ).reads()
    yield case(
        "manifest-that-is-not-authorised",
        "A manifest document that lies outside needs authorisation before it is read.",
    ).refuses("location_not_allowed", "manifest")


def _back_again() -> Iterator[Case]:
    for name, base, path in (
        ("out-and-back", "./", "../../hierarchy/a/data.bin"),
        ("base-out-and-back", "../../", "hierarchy/a/data.bin"),
        ("in-the-middle", "./", "b/../../../hierarchy/x/../a/data.bin"),
    ):
        case = _case(
            name,
            "What a relative reference names below the hierarchy's root needs no authorisation, "
            "whichever way it leads there.",
            declared_base=base,
            path=path,
        )
        yield case.put("a/data.bin", SOURCE).reads()
    case = _case(
        "the-hierarchy-itself",
        "The name of the hierarchy's own directory, without a slash, is not below it.",
        path="../../hierarchy",
    )
    yield case.refuses("location_not_allowed", "manifest")


def _overrides() -> Iterator[Case]:
    for name, base in (("override", "../sources/x/"), ("override-without-a-slash", "../sources/x")):
        case = _case(
            name,
            "An override of base may lead out of the hierarchy, from its root; it authorises "
            "nothing by itself.",
            path="data.bin",
            base=base,
            allow=_ALLOWED,
        )
        yield case.source("x/data.bin", SOURCE).put("a/data.bin", _DECOY).reads()
    case = _case(
        "override-that-is-not-authorised",
        "An override says where sources are, and not that they may be read.",
        path="data.bin",
        base="../sources/x/",
    )
    case.source("x/data.bin", SOURCE).put("a/data.bin", _DECOY)
    yield case.refuses("location_not_allowed", "manifest")


def _above_the_root() -> Iterator[Case]:
    why = "Nothing is above the root of the file system: RFC 3986 would drop the dot segments."
    for case in refused_and_reported(
        f"{AREA}/path-above-the-file-system",
        _SECTION,
        why,
        "invalid_path",
        manifest={"0": ENTRIES["0"], "1": {"path": f"{_ABOVE}data.bin"}},
        chunk="1",
    ):
        yield case
    for name, declared in (
        ("base-above-the-file-system", {"manifest": "./manifest.json", "base": _ABOVE}),
        ("manifest-above-the-file-system", {"manifest": f"{_ABOVE}manifest.json"}),
    ):
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            why,
            "invalid_path",
            declared={"configuration": declared},
            phase="declaration",
        )
    case = _case("override-above-the-file-system", why, path="data.bin", base=_ABOVE)
    yield case.refuses("invalid_path", "declaration")
    case = _case(
        "path-above-the-host",
        "This hierarchy is at the root of its server: nothing is above it.",
        path="../../sources/data.bin",
        allow=[{"prefix": "@HTTP@/"}],
        via="http",
    )
    yield case.serve("http", root="hierarchy").refuses("invalid_path", "manifest")
    case = _case(
        "path-with-a-query",
        "Files have no query, whether they lie in the hierarchy or beside it.",
        path="../../sources/x/data.bin?x=1",
        allow=_ALLOWED,
    )
    yield case.source("x/data.bin", SOURCE).refuses("invalid_path", "manifest")
