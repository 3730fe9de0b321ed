"""Area ``statuses``: what is absent, what is denied, and what is an error, by transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE, standard
from conformance.generator.two_arrays import FILES, with_two_arrays

AREA = "statuses"
_HTTP = [{"prefix": "@HTTP@/"}]
_S3 = [{"prefix": "s3://data/", "endpoint": "@S3@", "region": "us-east-1"}]
_BLOCKS = {"manifest": "./{partition}.json", "partition_shape": [1]}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _sources()
    yield from _buckets()
    yield from _hierarchies()
    yield from _blocks()
    yield from _files()
    yield from _pipes()
    yield from _requests_for_no_bytes()


def _source(name: str, description: str, **effects: Any) -> Case:
    case = Case(f"{AREA}/source-{name}", "status-codes", description, allow=_HTTP)
    case.array(manifest={key: {**e, "path": "@HTTP@/data.bin"} for key, e in ENTRIES.items()})
    return case.source("data.bin", SOURCE).serve("http", {"path": "/data.bin", **effects})


def _sources() -> Iterator[Case]:
    for status, code, description in (
        (410, "source_not_found", "410 says that the source is gone, as absent as with 404"),
        (405, "source_error", "405 does not say that the source is absent, whatever some clients "
                              "make of it"),
        (402, "source_error", "402 asks for money: neither absent nor denied for want of rights"),
        (451, "source_error", "451 tells of a court order: neither absent nor denied for want of "
                              "credentials"),
        (429, "source_error", "429 says that there were too many requests, however often it is "
                              "tried again"),
        (204, "source_error", "204 has no body: an object without bytes would have 200"),
        (304, "source_error", "304 answers a condition that was not stated, and has no bytes"),
        (412, "source_error", "412 answers a condition that was not stated: the source need not "
                              "have changed"),
    ):  # fmt: skip
        yield _source(f"status-{status}", f"{description}.", status=status).refuses(code, "chunk")
    yield (
        _source(
            "status-300-with-location",
            "300 offers a choice, and Location only what the server prefers: it is no redirect, "
            "and has no bytes of the source.",
            status=300,
            location="@HTTP@/there.bin",
        )
        .source("there.bin", SOURCE)
        .refuses("source_error", "chunk")
    )
    for status in (300, 302, 308):
        yield _source(
            f"status-{status}-without-location",
            f"{status} without Location leads nowhere: a failure of the source.",
            status=status,
        ).refuses("source_error", "chunk")


def _buckets() -> Iterator[Case]:
    for status, code, description in (
        (410, "source_not_found", "410 means the same of an object in a bucket as elsewhere."),
        (405, "source_error", "405, as for a version that is a mark of deletion, is an error."),
        (301, "source_error", "301 without Location tells of a bucket in another region, and not "
                              "where it is."),
    ):  # fmt: skip
        case = Case(f"{AREA}/s3-status-{status}", "s3", description, allow=_S3)
        case.array(manifest={k: {**e, "path": "s3://data/d.bin"} for k, e in ENTRIES.items()})
        case.source("data/d.bin", SOURCE)
        yield case.serve("s3", {"path": "/data/d.bin", "status": status}).refuses(code, "chunk")


def _hosted(name: str, description: str, *rules: Any, **declared: Any) -> Case:
    """Make a hierarchy on a web server: an array with a manifest, and a native one."""
    case = Case(f"{AREA}/{name}", "status-codes", description, via="http")
    case.array(manifest=ENTRIES, **declared).put("a/data.bin", SOURCE)
    case.array("n", ARRAY, transformers=None).native_chunks("n")
    return case.serve("http", *rules, root="hierarchy")


def _hierarchies() -> Iterator[Case]:
    for what, path, phase, codes in (
        ("source", "/a/data.bin", "chunk",
         {405: "source_error", 410: "source_not_found", 418: "source_error"}),
        ("manifest", "/a/manifest.json", "manifest",
         {405: "source_error", 410: "manifest_not_found", 418: "source_error"}),
        ("metadata", "/a/zarr.json", "declaration",
         {403: "source_access_denied", 405: "source_error", 418: "source_error"}),
    ):  # fmt: skip
        for status, code in codes.items():
            yield _hosted(
                f"hierarchy-{what}-status-{status}",
                f"Within a hierarchy on a web server, {status} for {path} is what it is elsewhere.",
                {"path": path, "status": status},
            ).refuses(code, phase)
    yield (
        _hosted(
            "hierarchy-manifest-status-300-with-location",
            "300 with Location is no redirect within a hierarchy on a web server either.",
            {"path": "/a/manifest.json", "status": 300, "location": "/a/there.json"},
        )
        .put("a/there.json", ENTRIES)
        .refuses("source_error", "manifest")
    )
    for status in (404, 410):
        yield _hosted(
            f"native-chunk-status-{status}",
            f"A native chunk is missing if the server says {status}: that is all that Zarr needs.",
            {"path": "/n/c/1", "status": status},
        ).reads("n", missing=[(1,)])
    for status, code in ((405, "source_error"), (403, "source_access_denied")):
        yield _hosted(
            f"native-chunk-status-{status}",
            f"{status} does not say that a native chunk is missing: no fill values.",
            {"path": "/n/c/1", "status": status},
        ).refuses(code, "chunk", "n")


def _blocks() -> Iterator[Case]:
    def hosted(name: str, status: int, description: str) -> Case:
        case = _hosted(
            f"block-{name}",
            description,
            {"path": "/a/1.json", "status": status},
            configuration=_BLOCKS,
        )
        return case.put("a/0.json", {"0": ENTRIES["0"]}).put("a/1.json", {"1": ENTRIES["1"]})

    yield hosted(
        "status-410", 410, "410 for a block's document says that there is none: no entries."
    ).reads(missing=[(1,)])
    for status in (405, 418):
        yield hosted(
            f"status-{status}",
            status,
            f"{status} for a block's document does not say that there is none: no fill values.",
        ).refuses("source_error", "manifest", selection=[[2, 4]])


def _files() -> Iterator[Case]:
    section = "files"
    case = Case(
        f"{AREA}/directory-as-a-source",
        section,
        "A directory where a source should be is neither a source nor absent.",
    )
    yield (
        case.array(manifest=ENTRIES)
        .put("a/data.bin/file", SOURCE)
        .refuses("source_error", "chunk")
    )  # fmt: skip
    case = Case(
        f"{AREA}/directory-as-an-authorised-source",
        section,
        "A directory where a source should be is an error outside of the hierarchy as well.",
        allow=[{"prefix": "@SOURCES@/"}],
    )
    case.array(manifest={key: {**e, "path": "@SOURCES@/d"} for key, e in ENTRIES.items()})
    yield case.source("d/file", SOURCE).refuses("source_error", "chunk")
    case = Case(
        f"{AREA}/directory-as-a-manifest",
        section,
        "A directory where the document should be is neither a document nor absent.",
    )
    case.array(configuration={"manifest": "./manifest.json"}).put("a/data.bin", SOURCE)
    yield case.put("a/manifest.json/file", b"").refuses("source_error", "manifest")
    for name, path, description in (
        ("directory-as-a-block", "a/1.json/file",
         "A directory where a block's document should be is not a block without a document."),
    ):  # fmt: skip
        case = Case(f"{AREA}/{name}", section, description)
        case.array(configuration=_BLOCKS).put("a/data.bin", SOURCE)
        case.put("a/0.json", {"0": ENTRIES["0"]}).put(path, b"")
        yield case.reads(selection=[[0, 2]]).refuses("source_error", "manifest", selection=[[2, 4]])
    entries = {key: {**entry, "path": "file/data.bin"} for key, entry in ENTRIES.items()}
    yield (
        standard(
            f"{AREA}/source-below-a-file",
            section,
            "Nothing can lie below a file: such a source does not exist.",
            manifest=entries,
        )
        .put("a/file", SOURCE)
        .refuses("source_not_found", "chunk")
    )
    case = Case(
        f"{AREA}/block-below-a-file",
        section,
        "Nothing can lie below a file: such a block has no document, and its chunks are missing.",
    )
    case.array(configuration={**_BLOCKS, "manifest": "./m/{partition}.json"}).put("a/m", b"")
    yield case.reads(missing=[(0,), (1,)])


def _pipes() -> Iterator[Case]:
    for what, path, array, phase in FILES:
        case = with_two_arrays(
            Case(
                f"{AREA}/pipe-as-a-{what}",
                "files",
                f"/{path} is a named pipe: no regular file, and so an error. Opening one may wait "
                "for a writer, for ever: a reader must not hang.",
            )
        )
        case.without(f"hierarchy/{path}").pipe(f"hierarchy/{path}")
        yield case.refuses("source_error", phase, array)
    case = Case(
        f"{AREA}/pipe-as-a-block",
        "files",
        "A named pipe where a block's document should be is not a block without a document.",
    )
    case.array(configuration=_BLOCKS).put("a/data.bin", SOURCE).pipe("hierarchy/a/1.json")
    case.put("a/0.json", {"0": ENTRIES["0"]}).reads(selection=[[0, 2]])
    yield case.refuses("source_error", "manifest", selection=[[2, 4]])
    case = Case(
        f"{AREA}/pipe-as-an-authorised-source",
        "files",
        "A named pipe is an error outside of the hierarchy as well, whoever authorised it.",
        allow=[{"prefix": "@SOURCES@/"}],
    )
    case.array(manifest={key: {**e, "path": "@SOURCES@/pipe"} for key, e in ENTRIES.items()})
    yield case.pipe("sources/pipe").refuses("source_error", "chunk")


def _requests_for_no_bytes() -> Iterator[Case]:
    data = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)
    for name, entry, code in (
        ("that-does-not-exist", {"path": "gone.bin", "offset": 4, "length": 10},
         "source_not_found"),
        ("that-is-a-directory", {"path": "d", "offset": 4, "length": 10}, "source_error"),
        ("that-is-too-short", {"path": "short.bin", "offset": 4, "length": 10},
         "range_out_of_bounds"),
    ):  # fmt: skip
        case = Case(
            f"{AREA}/no-bytes-of-a-source-{name}",
            "reading",
            "A request for no bytes may be answered without a look at the source; a reader that "
            "looks raises what it finds. It is never a missing chunk.",
        )
        case.array(array=data, manifest={"0": entry}).put("a/d/file", b"").put("a/short.bin", b"12")
        for part in ({"start": 3, "stop": 3}, {"start": 12, "stop": 14}, {"last": 0}):
            either = [case.answer("bytes", b""), failure(code, "chunk")]
            request = {"array": "a", "chunk": [0], "range": part}
            case.ask("get_chunk", request, {"any_of": either})
        yield case
