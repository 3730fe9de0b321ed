"""Area ``content-encodings``: offsets count the bytes of the object, not those of an encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "content-encodings"
_SECTION = "content-encodings"
_IDENTITY = {"require_headers": {"Accept-Encoding": "identity"}}
_GZIP = {"encode": "gzip"}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _sources()
    yield from _documents()
    yield from _hierarchies()
    case = Case(
        f"{AREA}/range-in-a-bucket",
        _SECTION,
        "An object in a bucket that says it is encoded: its offsets are those of other bytes.",
        allow=[{"prefix": "s3://data/", "endpoint": "@S3@", "region": "us-east-1"}],
    )
    case.array(manifest={key: {**e, "path": "s3://data/d"} for key, e in ENTRIES.items()})
    case.source("data/d", SOURCE).serve("s3", {"path": "/data/d", **_GZIP})
    yield case.refuses("source_error", "chunk")


def _source(name: str, description: str, manifest: Any = ENTRIES, **effects: Any) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description, allow=[{"prefix": "@HTTP@/"}])
    case.array(manifest={key: {**e, "path": f"@HTTP@/{e['path']}"} for key, e in manifest.items()})
    case.source("data.bin", SOURCE)
    for index in ARRAY.indices():
        case.source(str(index[0]), ARRAY.chunk(index))
    rules = ({"path": f"/{file}", **effects} for file in ("data.bin", "0", "1"))
    return case.serve("http", *rules)


def _sources() -> Iterator[Case]:
    whole = {"0": {"path": "0"}, "1": {"path": "1"}}
    yield _source(
        "identity-is-asked-for",
        "A server that encodes unless it is asked for identity, which a request for a range does.",
        **_IDENTITY,
    ).reads()
    yield _source(
        "identity-is-no-encoding",
        "A server may say that it has encoded nothing: its bytes are those of the object.",
        headers={"Content-Encoding": "identity"},
    ).reads()
    yield _source(
        "range-of-an-encoding",
        "A range of the encoded object (206) is other bytes than those of the object: an error, "
        "also where they could be decoded.",
        **_GZIP,
    ).refuses("source_error", "chunk")
    yield _source(
        "unknown-encoding",
        "An encoding that the reader does not know leaves nothing to take for the object.",
        whole,
        headers={"Content-Encoding": "x-secret"},
    ).refuses("source_error", "chunk")
    for name, manifest, effects, description in (
        ("whole-object", whole, _GZIP, "A whole object that is encoded"),
        ("whole-object-for-a-range", ENTRIES, {**_GZIP, "ignore_range": True},
         "A whole object that is encoded, in answer to a request for a range"),
    ):  # fmt: skip
        case = _source(
            f"encoded-{name}",
            f"{description}: an error, unless the reader's platform has decoded it.",
            manifest,
            **effects,
        )
        yield _decoded_or_refused(case, "chunk")


def _decoded_or_refused(case: Case, phase: str, path: str = "a") -> Case:
    either = [case.values(path), failure("source_error", phase)]
    return case.ask("read", {"array": path, "selection": None}, {"any_of": either})


def _documents() -> Iterator[Case]:
    def remote(name: str, description: str, level: str, **effects: Any) -> Case:
        allow = [{"prefix": "@HTTP@/"}]
        case = Case(f"{AREA}/{name}", _SECTION, description, level=level, allow=allow)
        case.array(configuration={"manifest": "@HTTP@/m.json"}).put("a/data.bin", SOURCE)
        return case.source("m.json", ENTRIES).serve("http", {"path": "/m.json", **effects})

    yield remote(
        "identity-is-asked-for-documents",
        "Documents are asked for as they are, too, where the reader's platform lets it.",
        "should",
        **_IDENTITY,
    ).reads()
    yield _decoded_or_refused(
        remote(
            "encoded-document",
            "A document that the server encodes: an error, unless the reader's platform has "
            "decoded it.",
            "must",
            **_GZIP,
        ),
        "manifest",
    )


def _hierarchies() -> Iterator[Case]:
    for what, path, phase in (
        ("source", "a/data.bin", "chunk"),
        ("manifest", "a/manifest.json", "manifest"),
        ("metadata", "a/zarr.json", "declaration"),
        ("native-chunk", "n/c/0", "chunk"),
    ):
        case = Case(
            f"{AREA}/hierarchy-{what}",
            _SECTION,
            f"A hierarchy on a web server that encodes /{path}: what is encoded is not taken for "
            "what it encodes, and not for something missing.",
            via="http",
        )
        case.array(manifest=ENTRIES).put("a/data.bin", SOURCE)
        case.array("n", ARRAY, transformers=None).native_chunks("n")
        case.serve("http", {"path": f"/{path}", **_GZIP}, root="hierarchy")
        if what == "source":
            yield case.refuses("source_error", phase)
        else:
            yield _decoded_or_refused(case, phase, path[0])
