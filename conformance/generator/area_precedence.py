"""Area ``precedence``: which of several mistakes a reader reports, and which it may not meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.area_array_metadata import with_metadata
from conformance.generator.arrays import declaration
from conformance.generator.case import Case, failure
from conformance.generator.standard import ENTRIES, standard

AREA = "precedence"
_SECTION = "precedence"
_INVALID, _UNSUPPORTED, _PATH = "invalid_configuration", "unsupported_transformer", "invalid_path"
_NO_PATH = "ftp://localhost/"
_SPIRAL = {"chunk_grid": {"name": "urn:example:spiral"}}
_HILBERT = {"chunk_key_encoding": {"name": "urn:example:hilbert"}}
_NO_ENCODING = {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield with_metadata(
        f"{AREA}/transformer-that-is-not-judged",
        _SECTION,
        "Of a transformer that need not be understood nothing but its name is judged: its other "
        "members may be anything.",
        {},
        transformers=[
            {"name": "urn:example:x", "must_understand": False, "configuration": 1, "more": []},
            declaration({"manifest": "./manifest.json"}),
        ],
    ).reads()
    for name, members, configuration, options, code, description in _METADATA:
        yield with_metadata(
            f"{AREA}/{name}",
            _SECTION,
            f"Step 2: {description}",
            members,
            transformers=[declaration({"manifest": "./manifest.json", **configuration})],
            **options,
        ).refuses(code, "declaration")
    for name, entry, code, description in _ENTRIES:
        yield standard(
            f"{AREA}/{name}",
            _SECTION,
            f"Of several mistakes in one entry the first step decides: {description}",
            manifest={"0": ENTRIES["0"], "1": {**ENTRIES["1"], **entry}},
        ).refuses(code, "manifest")
    yield standard(
        f"{AREA}/entry-before-its-key",
        _SECTION,
        "Of several mistakes in one member the first step decides: the entry by itself (4) comes "
        "before its key (5).",
        manifest={**ENTRIES, "no key": {"path": "data.bin", "length": 0}},
    ).refuses("invalid_entry", "manifest")
    yield from _deferred()
    case = standard(
        f"{AREA}/two-sources-that-fail",
        "reading",
        "A read of several chunks fails with the error of any one that fails, and never returns "
        "the others.",
        manifest={"0": {"path": "gone.bin", "length": 4}, "1": {"path": "data.bin", "length": 999}},
    )
    yield case.refuses(["source_not_found", "range_out_of_bounds"], "chunk")


def _deferred() -> Iterator[Case]:
    others: list[tuple[str, Any, str, str]] = [
        ("another-entry-that-is-bad", {"path": "data.bin", "offset": "8"}, "invalid_entry",
         "A reader may check the entry that it needs, or the document as a whole."),
        ("another-path-that-is-bad", {"path": "data.bin#4"}, _PATH,
         "A reader may resolve the path that it needs, or all of them."),
        ("another-checksum-that-is-bad", {"path": "data.bin", "checksum": "xxh3:00"},
         "unsupported_checksum", "A reader may look at the checksum that it needs, or at all."),
        ("another-location-that-is-not-allowed", {"path": "@SOURCES@/data.bin"},
         "location_not_allowed", "A reader may list all that is not authorised, or read the rest."),
    ]  # fmt: skip
    for name, entry, code, description in others:
        case = standard(
            f"{AREA}/{name}",
            "lazy-readers",
            f"{description} What it returns for the other chunk is right in either case; the chunk "
            "itself is refused.",
            manifest={"0": ENTRIES["0"], "1": entry},
        )
        either = {"any_of": [case.values(selection=[[0, 2]]), failure(code, "manifest")]}
        case.ask("read", {"array": "a", "selection": [[0, 2]]}, either)
        yield case.refuses(code, "manifest", selection=[[2, 4]])
    case = standard(
        f"{AREA}/missing-chunk-beside-a-location-that-is-not-allowed",
        "lazy-readers",
        "Whether a reader refuses a document for a location that it does not need is left to it: "
        "a missing chunk is missing, or the document is refused.",
        manifest={"0": {"path": "@SOURCES@/data.bin"}},
    )
    missing = case.values(missing=[(1,)], selection=[[2, 4]])
    either = {"any_of": [missing, failure("location_not_allowed", "manifest")]}
    yield case.ask("read", {"array": "a", "selection": [[2, 4]]}, either)


# Name, members of the metadata, of the configuration, options, code, description.
_METADATA: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = [
    ("shape-before-grid", {"shape": "4", **_SPIRAL}, {}, {}, _INVALID,
     "the shape of the array comes before its chunk grid."),
    ("grid-before-encoding", {**_SPIRAL, **_NO_ENCODING}, {}, {}, _UNSUPPORTED,
     "the chunk grid comes before the chunk key encoding."),
    ("encoding-before-partition-shape", _HILBERT,
     {"manifest": "{partition}", "partition_shape": [1, 1]}, {}, _UNSUPPORTED,
     "the chunk key encoding comes before the length of partition_shape."),
    ("partition-shape-before-base", {},
     {"manifest": "{partition}", "partition_shape": [1, 1], "base": _NO_PATH}, {}, _INVALID,
     "the length of partition_shape comes before base."),
    ("grid-before-base", _SPIRAL, {"base": _NO_PATH}, {}, _UNSUPPORTED,
     "the metadata of the array come before base, also unknown ones."),
    ("encoding-before-base", _NO_ENCODING, {"base": _NO_PATH}, {}, _INVALID,
     "a chunk key encoding that is invalid comes before base."),
    ("grid-before-manifest", _SPIRAL, {"manifest": _NO_PATH}, {}, _UNSUPPORTED,
     "the array's metadata come before the place of the manifest."),
    ("encoding-before-override", _HILBERT, {}, {"base": _NO_PATH}, _UNSUPPORTED,
     "the array's metadata come before an override of base."),
    ("declaration-before-metadata", _SPIRAL, {"base": 1}, {}, _INVALID,
     "step 1, the declaration by itself, comes before the array's metadata."),
    ("base-before-documents", {}, {"base": _NO_PATH, "manifest": "gone.json"}, {}, _PATH,
     "what the declaration says of places is judged before a document is asked for."),
]  # fmt: skip

# Name, members of the entry, code, description.
_ENTRIES: list[tuple[str, dict[str, Any], str, str]] = [
    ("entry-before-checksum", {"checksum": "xxh3:00", "length": 0}, "invalid_entry",
     "what the entry says of itself (4) comes before the algorithm of its checksum (7)."),
    ("unknown-member-before-checksum", {"checksum": "xxh3:00", "ofset": 1}, "invalid_entry",
     "an unknown member (4) comes before the algorithm of the checksum (7)."),
    ("unknown-member-before-path", {"path": "a#b", "ofset": 1}, "invalid_entry",
     "an unknown member (4) comes before the path (8)."),
    ("checksum-before-etag", {"checksum": "xxh3:00", "etag": "\u00e9"}, "unsupported_checksum",
     "the algorithm of the checksum comes before the form of etag."),
    ("checksum-before-last-modified", {"checksum": "xxh3:00", "last_modified": "now"},
     "unsupported_checksum", "the algorithm of the checksum comes before last_modified."),
    ("form-of-checksum-before-etag", {"checksum": "md5", "etag": "\u00e9"}, "invalid_entry",
     "the form of the checksum is judged like that of etag."),
    ("checksum-before-path", {"path": "a#b", "checksum": "xxh3:00"}, "unsupported_checksum",
     "the checksum (7) comes before the path (8)."),
    ("etag-before-path", {"path": "a#b", "etag": "\u00e9"}, "invalid_entry",
     "the form of etag (7) comes before the path (8)."),
    ("last-modified-before-location", {"path": "@SOURCES@/x", "last_modified": "now"},
     "invalid_entry", "the form of last_modified (7) comes before authorisation (9)."),
    ("checksum-before-location", {"path": "@SOURCES@/x", "checksum": "xxh3:00"},
     "unsupported_checksum", "the checksum (7) comes before authorisation (9)."),
    ("path-before-location", {"path": "http://127.1/x"}, "invalid_path",
     "that a host is invalid (8) comes before that it is not authorised (9)."),
    ("location-before-source", {"path": "@SOURCES@/gone.bin"}, "location_not_allowed",
     "authorisation (9) comes before the source (10), so that nobody learns what exists."),
]  # fmt: skip
