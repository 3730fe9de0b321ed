"""Area ``http``: sources, documents and hierarchies on web servers that fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "http"
_SECTION = "reading"
_ALLOWED = [{"prefix": "@HTTP@/"}]
_PATH = "/d/data.bin"
_URL = f"@HTTP@{_PATH}"
_NOT_ALL = ["short_read", "source_error"]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _readable()
    yield from _statuses()
    yield from _bodies()
    yield from _partial_answers()
    yield from _documents()
    yield from _hierarchies()


def _case(
    name: str,
    description: str,
    *rules: Any,
    url: str = _URL,
    level: str = "must",
    section: str = _SECTION,
) -> Case:
    manifest = {key: {**entry, "path": url} for key, entry in ENTRIES.items()}
    case = Case(f"{AREA}/{name}", section, description, level=level, allow=_ALLOWED)
    return case.array(manifest=manifest).source(_PATH[1:], SOURCE).serve("http", *rules)


def _readable() -> Iterator[Case]:
    yield (
        _case(
            "range",
            "Entries are ranges of an object on a web server, which are read by themselves.",
        )
        .reads()
        .reads(selection=[[1, 3]])
    )
    yield _case(
        "query",
        "A query is part of an http location: signed URLs have them.",
        url=f"{_URL}?token=a%2Fb&expires=1",
    ).reads()
    yield from _signed()
    base = Case(
        f"{AREA}/base",
        "path-resolution",
        "base may be an http URL: its last segment and its query are dropped before resolving.",
        allow=_ALLOWED,
    )
    configuration = {"manifest": "./manifest.json", "base": "@HTTP@/d/index.html?v=1"}
    base.array(configuration=configuration, manifest=ENTRIES).source("d/data.bin", SOURCE)
    yield base.serve("http").reads()
    base = Case(
        f"{AREA}/query-of-base-is-not-sent",
        "path-resolution",
        "The query of base is dropped: it is that of one object, and no other object is asked for "
        "with it.",
        allow=_ALLOWED,
    )
    base.array(configuration=configuration, manifest=ENTRIES).source("d/data.bin", SOURCE)
    plain = {"path": "/d/data.bin", "query": "", "headers": {"Server": "example"}}
    yield base.serve("http", plain, {"path": "/d/data.bin", "status": 403}).reads()
    case = Case(
        f"{AREA}/question-mark-and-hash-in-names",
        "path-resolution",
        "%3F is a question mark in a name, and %23 a hash: on the wire they stay encoded, or they "
        "would begin a query and a fragment, and name another object.",
        allow=_ALLOWED,
    )
    names = {"0": "what%3F.bin", "1": "what%23.bin"}
    manifest = {key: {**ENTRIES[key], "path": f"@HTTP@/{name}"} for key, name in names.items()}
    case.array(manifest=manifest).source("what#.bin", SOURCE).source("what", bytes(64))
    # A file of this name cannot be kept on every system.
    yield case.link("sources/what?.bin", "what#.bin").serve("http").reads()
    yield _case(
        "empty-query",
        "A question mark that nothing follows is a query without characters: the object is found.",
        url=f"{_URL}?",
        section="http",
    ).reads()
    case = Case(
        f"{AREA}/names",
        "path-resolution",
        "Names are percent-encoded on the wire, however the path spells them.",
        allow=_ALLOWED,
    )
    names = {"0": "@HTTP@/my%20d/%E6%B8%AC+%2B%25.bin", "1": "@HTTP@/my d/\u6e2c+%2B%25.bin"}
    case.array(manifest={key: {**ENTRIES[key], "path": path} for key, path in names.items()})
    yield case.source("my d/\u6e2c++%.bin", SOURCE).serve("http").reads()
    data = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)
    chunk = data.chunk((0,))
    for name, entry, start, end in (
        ("parts-of-an-entry", {"offset": 6, "length": 10}, b"before", b"after"),
        ("parts-of-an-open-ended-entry", {"offset": 6}, b"before", b""),
        ("parts-of-a-whole-object", {}, b"", b""),
    ):
        yield (
            Case(
                f"{AREA}/{name}",
                _SECTION,
                "Ranges and suffixes of an entry on a web server never leave the entry.",
                allow=_ALLOWED,
            )
            .array(array=data, manifest={"0": {"path": "@HTTP@/d.bin", **entry}})
            .source("d.bin", start + chunk + end)
            .serve("http")
            .gets([0], None, chunk)
            .gets([0], {"start": 8, "stop": 13}, chunk[8:])
            .gets([0], {"start": 4}, chunk[4:])
            .gets([0], {"last": 3}, chunk[-3:])
            .gets([0], {"last": 13}, chunk)
            .gets([0], {"start": 11, "stop": 13}, b"")
            .gets([0], {"last": 0}, b"")
        )
    yield _case(
        "no-accept-ranges",
        "A server that answers ranges need not say so in Accept-Ranges, nor send validators.",
        {"path": _PATH, "headers": {"Accept-Ranges": None, "ETag": None, "Last-Modified": None}},
    ).reads()
    yield _case(
        "head-is-refused",
        "Servers of signed URLs answer GET only: HEAD is not needed to read a range.",
        {"path": _PATH, "method": "HEAD", "status": 403},
        level="should",
        section="http",
    ).reads()
    yield _case(
        "unavailable-once",
        "A server that is unavailable for a moment is asked again.",
        {"path": _PATH, "times": 1, "status": 503},
        level="should",
    ).reads()


def _signed() -> Iterator[Case]:
    """Objects that are served to whoever sends the very query of their URL, and to nobody else."""
    query = "token=a%2Fb+c&expires=1&x=%7e"

    def asking(path: str) -> tuple[dict[str, Any], ...]:
        return {"path": path, "query": query}, {"path": path, "status": 403}

    yield _case(
        "query-is-needed",
        "A signed URL is worth nothing without its query, which is sent exactly as it is written: "
        "a signature may cover its escapes.",
        *asking(_PATH),
        url=f"{_URL}?{query}",
        section="http",
    ).reads()
    yield (
        _case(
            "query-of-another-entry",
            "The query is that of the entry, not that of another entry for the same object.",
            *asking(_PATH),
            section="http",
        )
        .array(
            manifest={
                "0": {**ENTRIES["0"], "path": f"{_URL}?{query}"},
                "1": {**ENTRIES["1"], "path": f"{_URL}?token=old"},
            }
        )
        .reads(selection=[[0, 2]])
        .refuses("source_access_denied", "chunk", selection=[[2, 4]])
    )
    case = Case(
        f"{AREA}/query-of-a-document-is-needed",
        "http",
        "The URL of a manifest document may be a signed one, too.",
        allow=_ALLOWED,
    )
    case.array(configuration={"manifest": f"@HTTP@/m.json?{query}"}).put("a/data.bin", SOURCE)
    yield case.source("m.json", ENTRIES).serve("http", *asking("/m.json")).reads()


def _statuses() -> Iterator[Case]:
    for status, code, description in (
        (404, "source_not_found", "404 says that the source does not exist"),
        (401, "source_access_denied", "401 says that credentials are needed"),
        (403, "source_access_denied", "403 says that the source must not be read"),
        (500, "source_error", "A server that fails again and again"),
        (503, "source_error", "A server that is unavailable for good"),
        (400, "source_error", "400 says that the server does not understand"),
    ):
        yield _case(
            f"status-{status}",
            f"{description}: an error, never fill values.",
            {"path": _PATH, "status": status},
            section="status-codes",
        ).refuses(code, "chunk")
    case = _case(
        "one-of-two-does-not-exist",
        "A source that does not exist leaves the other chunks readable.",
    )
    manifest = {"0": {**ENTRIES["0"], "path": _URL}, "1": {"path": "@HTTP@/d/gone.bin"}}
    yield (
        case.array(manifest=manifest).reads(selection=[[0, 2]]).refuses("source_not_found", "chunk")
    )


def _bodies() -> Iterator[Case]:
    yield _case(
        "body-is-cut-off",
        "A connection that closes before any of the promised bytes arrived: an error, and not a "
        "chunk that is filled up.",
        {"path": _PATH, "truncate": 0},
    ).refuses(_NOT_ALL, "chunk")
    case = _case(
        "body-is-cut-off-in-the-middle",
        "Connections that close after two bytes. A reader may ask for the rest until it has all, "
        "or raise; it must not return what it has.",
        {"path": _PATH, "truncate": 2},
    )
    yield _either(case)
    case = _case(
        "ranges-are-ignored",
        "A server that answers 200 with the whole object. A reader may take its range from that, "
        "or raise; it must not take the first bytes for the range.",
        {"path": _PATH, "ignore_range": True},
    )
    yield _either(case)
    case = _case(
        "another-range-is-sent",
        "A server that sends other bytes than were asked for, and says so in Content-Range: as "
        "many bytes, but not these.",
        {"path": _PATH, "wrong_range": 1},
    )
    yield _either(case)
    for name, size in (
        ("ends-within-an-entry", 10),
        ("ends-before-an-entry", 8),
        ("is-empty-now", 0),
    ):
        yield _case(
            f"source-{name}",
            "A source that is shorter than when the manifest was written: servers answer with "
            "fewer bytes, or with 416. Its chunks are out of bounds, and not missing.",
            {"path": _PATH, "size": size},
        ).refuses("range_out_of_bounds", "chunk", selection=[[2, 4]])


def _partial_answers() -> Iterator[Case]:
    section = "status-codes"
    case = _case(
        "partial-answer-without-content-range",
        "A 206 that does not say which range it holds. A reader must not have to guess: an error, "
        "unless its platform hides Content-Range.",
        {"path": _PATH, "headers": {"Content-Range": None}},
        section=section,
    )
    yield _either(case)
    yield _case(
        "another-range-without-content-range",
        "A 206 that holds other bytes than were asked for, and does not say so: as many bytes, but "
        "not these.",
        {"path": _PATH, "wrong_range": 1, "headers": {"Content-Range": None}},
        section=section,
    ).refuses("source_error", "chunk")
    whole = {key: {"path": f"@HTTP@/d/{key}"} for key in ENTRIES}
    case = Case(
        f"{AREA}/part-of-a-whole-object",
        section,
        "A 206 in answer to a request for a whole object, with as many bytes as the chunk needs: "
        "nobody asked for a part, and it is not the whole.",
        allow=_ALLOWED,
    )
    case.array(manifest=whole)
    parts = {key: [entry["offset"], entry["offset"] + 4] for key, entry in ENTRIES.items()}
    for key in whole:
        case.source(f"d/{key}", SOURCE)
    rules = [{"path": f"/d/{key}", "part": part} for key, part in parts.items()]
    yield case.serve("http", *rules).refuses("source_error", "chunk")
    case = _case(
        "beginning-of-a-range",
        "A 206 with the first bytes of the range that was asked for, correctly labelled. A reader "
        "may ask for the rest, or raise; it must not return what it has.",
        {"path": _PATH, "part": [4, 6]},
        section=section,
    ).refuses(_NOT_ALL, "chunk", selection=[[0, 2]])
    yield case
    yield _case(
        "first-bytes-of-another-range",
        "A 206 with the first bytes of the object, whatever was asked for, correctly labelled.",
        {"path": _PATH, "part": [0, 4]},
        section=section,
    ).refuses("source_error", "chunk")
    for name, effects, entry, part, expected, description in _UNKNOWN_SIZES:
        data = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)
        chunk = data.chunk((0,))
        case = Case(f"{AREA}/{name}", section, description, allow=_ALLOWED)
        case.array(array=data, manifest={"0": {"path": "@HTTP@/d.bin", **entry}})
        case.source("d.bin", b"before" + chunk)
        case.serve("http", {"path": "/d.bin", "unknown_size": True, **effects})
        wrong = failure(["range_out_of_bounds", *_NOT_ALL], "chunk")
        expect = wrong
        if expected != "error":
            right = case.answer("bytes", chunk if part is None else chunk[-part["last"] :])
            expect = right if expected == "bytes" else {"any_of": [right, wrong]}
        yield case.ask("get_chunk", {"array": "a", "chunk": [0], "range": part}, expect)


_BOUNDED = {"offset": 6, "length": 10}
# Name, effects, entry, range of the request, what may be answered, description.
_UNKNOWN_SIZES: list[tuple[str, dict[str, Any], dict[str, Any], Any, str, str]] = [
    ("range-of-an-object-of-unknown-size", {}, _BOUNDED, None, "bytes",
     "Content-Range may have * for the size of the object: the range is the one that was asked "
     "for, and nothing else is needed."),
    ("end-of-an-object-of-unknown-size", {}, {"offset": 6}, None, "either",
     "Up to the end of an object whose size the server does not know. A reader may take its word "
     "that this is all, or raise."),
    ("last-bytes-of-an-object-of-unknown-size", {}, _BOUNDED, {"last": 3}, "bytes",
     "The last bytes of an entry of known length need no size of the object."),
    ("less-of-an-object-of-unknown-size", {"size": 11}, _BOUNDED, None, "error",
     "Fewer bytes than were asked for, of an object whose size the server does not know: whatever "
     "the reason, they are not the chunk."),
]  # fmt: skip


def _either(case: Case) -> Case:
    options = [case.values(), failure(_NOT_ALL, "chunk")]
    return case.ask("read", {"array": "a", "selection": None}, {"any_of": options})


def _documents() -> Iterator[Case]:
    def remote(name: str, description: str, *rules: Any) -> Case:
        case = Case(f"{AREA}/manifest-{name}", _SECTION, description, allow=_ALLOWED)
        case.array(configuration={"manifest": "@HTTP@/m.json"}).put("a/data.bin", SOURCE)
        return case.source("m.json", ENTRIES).serve("http", *rules)

    yield remote(
        "document", "The manifest document may lie on a web server, its sources in the hierarchy."
    ).reads()
    for status, code, description in (
        (404, "manifest_not_found", "A document that does not exist"),
        (410, "manifest_not_found", "A document that does not exist any more"),
        (405, "source_error", "A document that the server does not let anybody GET"),
        (403, "source_access_denied", "A document that must not be read"),
        (500, "source_error", "A document on a server that fails"),
    ):
        yield remote(
            f"status-{status}",
            f"{description}: an error, and not a manifest without entries.",
            {"path": "/m.json", "status": status},
        ).refuses(code, "manifest")
    yield remote(
        "is-cut-off",
        "A document that does not arrive as a whole must not be read as far as it came.",
        {"path": "/m.json", "truncate": 0},
    ).refuses(_NOT_ALL, "manifest")
    document = json.dumps({key: {**e, "_notes": {}} for key, e in ENTRIES.items()}).encode()
    start = document.index(b"{}")
    case = Case(
        f"{AREA}/part-of-a-document",
        "status-codes",
        "A 206 in answer to a request for a whole document, with a part of it that happens to be "
        "an object of no members: not the document, and not a manifest without entries.",
        allow=_ALLOWED,
    )
    case.array(configuration={"manifest": "@HTTP@/m.json"}).put("a/data.bin", SOURCE)
    case.source("m.json", document)
    case.serve("http", {"path": "/m.json", "part": [start, start + 2]})
    yield case.refuses("source_error", "manifest")
    case = Case(
        f"{AREA}/hierarchy-part-of-a-document",
        "status-codes",
        "A 206 in answer to a request for a whole document of a hierarchy on a web server: not a "
        "manifest without entries.",
        via="http",
    )
    case.array(manifest=document).put("a/data.bin", SOURCE)
    case.serve("http", {"path": "/a/manifest.json", "part": [start, start + 2]}, root="hierarchy")
    yield case.refuses("source_error", "manifest")
    case = Case(
        f"{AREA}/hierarchy-part-of-a-native-chunk",
        "status-codes",
        "A 206 in answer to a request for a whole native chunk, with as many bytes as it has: they "
        "need not be the chunk.",
        via="http",
    )
    case.array("n", ARRAY, transformers=None).native_chunks("n").put("n/c/1", SOURCE)
    case.serve("http", {"path": "/n/c/1", "part": [4, 8]}, root="hierarchy")
    yield case.refuses("source_error", "chunk", "n")


def _hierarchies() -> Iterator[Case]:
    def hosted(name: str, description: str, *rules: Any) -> Case:
        case = Case(f"{AREA}/hierarchy{name}", _SECTION, description, via="http")
        manifest = {
            "0": {**ENTRIES["0"], "path": "data.bin"},
            "1": {**ENTRIES["1"], "path": "../raw/data.bin"},
        }
        case.array("g/a", ARRAY, manifest=manifest).put("g/a/data.bin", SOURCE)
        return case.put("g/raw/data.bin", SOURCE).serve("http", *rules, root="hierarchy")

    yield (
        hosted(
            "",
            "A hierarchy on a web server: relative paths are read from it, and need no "
            "authorisation.",
        )
        .reads("g/a")
        .reads("g/a", selection=[[1, 3]])
    )
    yield (
        hosted(
            "-below-a-path",
            "A hierarchy that is not at the root of its web server: paths resolve within it, and "
            "what lies beside it is no part of it.",
        )
        .serve("http", root=".")
        .reads("g/a")
    )
    data = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)
    chunk = data.chunk((0,))
    yield (
        Case(
            f"{AREA}/hierarchy-parts-of-an-open-ended-entry",
            _SECTION,
            "Ranges and suffixes of an entry without a length, in a hierarchy on a web server: the "
            "last 0 bytes are none, and not all.",
            via="http",
        )
        .array(array=data, manifest={"0": {"path": "d.bin", "offset": 6}})
        .put("a/d.bin", b"before" + chunk)
        .serve("http", root="hierarchy")
        .gets([0], None, chunk)
        .gets([0], {"start": 4}, chunk[4:])
        .gets([0], {"last": 3}, chunk[-3:])
        .gets([0], {"last": 13}, chunk)
        .gets([0], {"last": 0}, b"")
    )
    for name, path, status, code, phase in (
        ("-source-does-not-exist", "/g/raw/data.bin", 404, "source_not_found", "chunk"),
        ("-source-denied", "/g/raw/data.bin", 403, "source_access_denied", "chunk"),
        ("-source-fails", "/g/raw/data.bin", 500, "source_error", "chunk"),
        ("-manifest-does-not-exist", "/g/a/manifest.json", 404, "manifest_not_found", "manifest"),
        ("-manifest-denied", "/g/a/manifest.json", 403, "source_access_denied", "manifest"),
    ):
        yield hosted(
            name,
            f"Within a hierarchy on a web server, status {status} for {path} is the same error as "
            "elsewhere. Zarr's own chunks may be missing there; these may not.",
            {"path": path, "status": status},
        ).refuses(code, phase, "g/a")
