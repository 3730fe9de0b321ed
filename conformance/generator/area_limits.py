"""Area ``limits``: what counts, who is at fault, and what every reader admits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.generator.area_array_metadata import with_metadata
from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, SOURCE, standard, with_source

AREA = "limits"
_SECTION = "limits"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _inline_manifests()
    yield from _code_points()
    yield from _conditions()
    yield from _least_defaults()


def _inline_manifests() -> Iterator[Case]:
    data = {"0": {"data": "ZQBmAA=="}, "1": {"data": "ZwBoAA=="}}
    spaced = {key: {**entry, "_\u00fc": "\u6e2c\U0001f600 \\ /"} for key, entry in ENTRIES.items()}
    compact = json.dumps(spaced, separators=(",", ":"), ensure_ascii=False).encode()
    long = {"0": ENTRIES["0"], "1": {**ENTRIES["1"], "path": "./././data.bin"}}
    for name, manifest, limit, most, description in (
        ("manifest-bytes", spaced, "manifest_bytes", len(compact),
         "An inline manifest has as many bytes as its compact JSON, without white space and with "
         "characters beyond ASCII in UTF-8, however zarr.json is written."),
        ("entries", ENTRIES, "entries", 2, "The entries of an inline manifest are counted."),
        ("inline-bytes", data, "inline_bytes", 8, "The data of an inline manifest are counted."),
        ("path-length", long, "path_length", 14, "The paths of an inline manifest are measured."),
    ):  # fmt: skip
        for enough in (True, False):
            at_fault = (
                "At the limit it is read."
                if enough
                else "Above the limit, the manifest is at fault, not the declaration around it."
            )
            case = Case(
                f"{AREA}/{'within-' if enough else ''}{name}-of-an-inline-manifest",
                _SECTION,
                f"{description} {at_fault}",
                limits={limit: most if enough else most - 1},
            )
            with_source(case, {}, configuration={"manifest": manifest})
            yield case.reads() if enough else case.refuses("limit_exceeded", "manifest")


def _code_points() -> Iterator[Case]:
    # Ten of these are twenty units of UTF-16, and forty bytes of UTF-8.
    name = "\U0001f30a" * 10 + ".bin"
    for enough in (True, False):
        case = Case(
            f"{AREA}/{'within-the-' if enough else ''}path-length-in-code-points",
            _SECTION,
            "The length of a path is counted in code points, neither in bytes nor in the units of "
            "UTF-16 that some languages count."
            + (" At the limit it is read." if enough else " One more than the limit is refused."),
            limits={"path_length": len(name) if enough else len(name) - 1},
        )
        case.array(manifest={key: {**entry, "path": name} for key, entry in ENTRIES.items()})
        case.put(f"a/{name}", SOURCE)
        yield case.reads() if enough else case.refuses("limit_exceeded", "manifest")


def _conditions() -> Iterator[Case]:
    # The longest that is admitted: ten times U+1F30A are twenty units of UTF-16.
    for member, value in (("etag", '"' + "x" * 30 + '"'), ("version", "\U0001f30a" * 10)):
        for enough in (True, False):
            case = Case(
                f"{AREA}/{'within-the-' if enough else ''}length-of-{member}",
                _SECTION,
                f"The limit on the length of a path is that of {member} as well, in code points: "
                "it becomes part of a request."
                + (" At the limit it is accepted." if enough else " One more is refused."),
                limits={"path_length": len(value) if enough else len(value) - 1},
                cls="safe",
            )
            entries = {k: {**e, "path": "d.bin", member: value} for k, e in ENTRIES.items()}
            case.array(manifest=entries).put("a/d.bin", SOURCE)
            # Files have neither, so that the entry is judged, and then the source.
            yield (
                case.refuses("source_changed", "chunk")
                if enough
                else case.refuses("limit_exceeded", "manifest")
            )


def _least_defaults() -> Iterator[Case]:
    path = "./" * 1020 + "data.bin"
    assert len(path) == 2048
    yield standard(
        f"{AREA}/path-of-2048-characters",
        _SECTION,
        "By default, every reader admits paths of 2,048 characters: signed URLs are long.",
        manifest={key: {**entry, "path": path} for key, entry in ENTRIES.items()},
    ).reads()
    nested: Any = []
    for _ in range(29):
        nested = [nested]
    yield standard(
        f"{AREA}/nesting-of-32-levels",
        _SECTION,
        "By default, every reader admits 32 levels of nesting: the document, its entry, and thirty "
        "lists within each other in an annotation.",
        manifest={key: {**entry, "_n": nested} for key, entry in ENTRIES.items()},
    ).reads()
    yield with_metadata(
        f"{AREA}/metadata-nested-by-32-levels",
        _SECTION,
        "By default, every reader admits 32 levels of nesting in metadata, such as attributes.",
        {"attributes": {"n": nested}},
    ).reads()
