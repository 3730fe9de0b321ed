"""Area ``document-digests``: a declaration says which bytes a document has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import ABSENT, Array
from conformance.generator.by_digest import SECTION, blocks, checksum, named, of_blocks, whole
from conformance.generator.case import Case, problem, to_json
from conformance.generator.frames import gzip_member
from conformance.generator.partitioned import GRID, ROW
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "document-digests"
_MISMATCH = "checksum_mismatch"
_STALE = {"0": ENTRIES["0"]}
_RIGHT = checksum(ENTRIES)
_GZIP = {"name": "gzip", "configuration": {"level": 5}}
_EMPTY = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # of {}
_KEYS = [".".join(map(str, index)) for index in GRID.indices()]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _one_document()
    yield from _blocks()
    yield from _encoded()
    yield from _other_bytes()
    yield from _stale_blocks()
    yield from _over_http()
    yield from _through_redirects()
    yield from _over_s3()


def _whole(name: str, description: str, *rest: Any, **options: Any) -> Case:
    return whole(f"{AREA}/{name}", description, *rest, **options)


def _of_blocks(name: str, description: str, **options: Any) -> Case:
    return of_blocks(f"{AREA}/{name}", description, **options)


def _one_document() -> Iterator[Case]:
    yield (
        _whole(
            "named-by-its-digest",
            "In the document's name, the first 16 digits of its SHA-256 take the place of "
            "{digest}. The document has that checksum: the array reads.",
        )
        .reads()
        .lists("0", "1")
        .gets([1], None, ARRAY.chunk((1,)))
    )
    yield _whole(
        "named-by-its-digest-validate",
        "A validator finds nothing wrong with a document that has the checksum.",
    ).reports()
    yield (
        Case(
            f"{AREA}/in-another-place",
            SECTION,
            "A document outside of the hierarchy has a digest in its name like others.",
            allow=[{"prefix": "@SOURCES@/m/"}],
        )
        .array(configuration={"manifest": "@SOURCES@/m/{digest}.json", "checksum": _RIGHT})
        .put("a/data.bin", SOURCE)
        .source(named("m/{digest}.json", ENTRIES), ENTRIES)
        .reads()
    )
    yield (
        Case(
            f"{AREA}/in-a-place-that-is-not-allowed",
            SECTION,
            "That a document's bytes are known does not authorise to ask for them.",
        )
        .array(configuration={"manifest": "@SOURCES@/m/{digest}.json", "checksum": _RIGHT})
        .put("a/data.bin", SOURCE)
        .source(named("m/{digest}.json", ENTRIES), ENTRIES)
        .refuses("location_not_allowed", "manifest")
    )
    yield _whole(
        "empty-document",
        "An empty document with its checksum is one without entries: all chunks are missing.",
        {},
    ).reads(missing=[(0,), (1,)])
    for name, document, code in (
        ("no-json", b"{", "invalid_json"),
        ("no-object", [], "invalid_manifest"),
        ("invalid-entry", {"0": {"path": "data.bin", "length": 0}}, "invalid_entry"),
    ):
        yield _whole(
            f"right-bytes-with-{name}",
            "That a document has the stated checksum does not make it valid.",
            document,
        ).refuses(code, "manifest")


def _blocks() -> Iterator[Case]:
    for name, template in (
        ("blocks", "./m/{partition}-{digest}.json"),
        ("blocks-with-plain-names", "./m/{partition}.json"),
        ("blocks-in-a-directory-of-their-digest", "./{digest}/{partition}.json"),
    ):
        yield (
            _of_blocks(
                name,
                "partitions as an object names the blocks that have a document, and says which "
                "bytes these have.",
                template=template,
                array=GRID,
                shape=(2, 2),
            )
            .reads()
            .lists(*_KEYS)
        )
    yield _of_blocks(
        "blocks-validate", "A validator finds nothing wrong with blocks that have the checksums."
    ).reports()
    yield _of_blocks(
        "zero-dimensional",
        "The only block of a zero-dimensional array is called 0.",
        array=Array(shape=(), chunks=(), values=(4711,)),
        shape=(),
    ).reads()
    documents, _ = blocks()
    some = {name: checksum(documents[name]) for name in ("3", "1")}
    yield (
        _of_blocks(
            "some-blocks",
            "A block that the object does not name holds no entries, and its document is not "
            "read, even if there is one.",
            partitions=some,
            stored={"0": b"{", "2": b"{"},
        )
        .reads(missing=[(0,), (2,)])
        .lists("1", "3")
    )
    yield (
        _of_blocks(
            "no-blocks",
            "An empty object says that no block has a document: the array is empty.",
            partitions={},
        )
        .reads(missing=list(ROW.indices()))
        .lists()
        .reports()
    )
    outside = {name: checksum(document) for name, document in documents.items()} | {"7": _EMPTY}
    description = (
        "Names outside the grid of blocks are no error to readers: the array may have been longer."
    )
    yield (
        _of_blocks("outside-the-grid", description, partitions=outside)
        .reads()
        .lists("0", "1", "2", "3")
    )
    yield _of_blocks(
        "outside-the-grid-validate", "A validator reports names outside the grid of blocks.",
        partitions=outside,
    ).reports("invalid_configuration")  # fmt: skip


def _encoded() -> Iterator[Case]:
    stored = gzip_member(to_json(ENTRIES))
    options: dict[str, Any] = {"template": "m-{digest}.json.gz", "declared": {"codecs": [_GZIP]}}
    yield _whole(
        "encoded", "The checksum is that of the document as it is stored, after its codecs.",
        stored, **options,
    ).reads()  # fmt: skip
    yield _whole(
        "encoded-with-other-bytes",
        "The checksum is compared before anything is decoded: other bytes are a mismatch, also "
        "where no codec could decode them.",
        stored,
        stored=stored[:-1],
        **options,
    ).refuses(_MISMATCH, "manifest")
    yield _whole(
        "encoded-again",
        "The same document, encoded in another way, has other bytes.",
        stored,
        stored=gzip_member(json.dumps(ENTRIES).encode()),
        **options,
    ).refuses(_MISMATCH, "manifest")
    yield (
        _whole(
            "checksum-of-what-is-decoded",
            "The checksum of what a document decodes to is not its checksum.",
            stored,
            template="m.json.gz",
            declared={"codecs": [_GZIP], "checksum": _RIGHT},
        ).refuses(_MISMATCH, "manifest")
    )
    documents, source = blocks()
    encoded = {name: gzip_member(to_json(document)) for name, document in documents.items()}
    template = "m/{partition}-{digest}.gz"
    case = Case(
        f"{AREA}/encoded-blocks",
        SECTION,
        "Each block's document is encoded by itself, and so are its checksum and its name.",
    )
    configuration = {
        "manifest": template,
        "partition_shape": [1],
        "partitions": {name: checksum(body) for name, body in encoded.items()},
        "codecs": [_GZIP],
    }
    case.array(array=ROW, configuration=configuration).put("a/data.bin", source)
    for name, body in encoded.items():
        case.put(f"a/{named(template, body, name)}", body)
    yield case.reads()


_OTHER_BYTES: list[tuple[str, Any, str]] = [
    ("stale", _STALE,
     "A document of another time lacks a chunk: it must not read as fill values."),
    ("stale-with-other-entries", {**ENTRIES, "1": ENTRIES["0"]},
     "A document of another time has other entries: its values are not those of this array."),
    ("written-in-another-way", json.dumps(ENTRIES).encode(),
     "A document that means the same has other bytes: it is not the one that is declared."),
    ("longer", to_json(ENTRIES) + b"\n",
     "A byte more, even if it means nothing to JSON, is another document."),
    ("truncated", to_json(ENTRIES)[:-40],
     "A document that was cut off, as an interrupted copy leaves it, is another one."),
    ("empty-file", b"",
     "A file of no bytes, as an interrupted copy leaves it, is not the document."),
    ("no-json", b"\xff{", "Bytes that are not the stated ones are not parsed, either."),
]  # fmt: skip


def _other_bytes() -> Iterator[Case]:
    for name, stored, description in _OTHER_BYTES:
        yield _whole(name, description, stored=stored).refuses(_MISMATCH, "manifest")
    yield _whole(
        "stale-under-a-plain-name",
        "A document that was replaced under its name, before zarr.json was, does not count.",
        template="./manifest.json",
        stored=_STALE,
    ).refuses(_MISMATCH, "manifest")
    description = "Nobody knows what the right document says: nothing of a stale one counts."
    yield (
        _whole("stale-in-parts", description, stored=_STALE)
        .refuses(_MISMATCH, "manifest", selection=[[0, 2]])
        .refuses(_MISMATCH, "manifest", selection=[[2, 4]])
        .refuses(_MISMATCH, "manifest", op="get_chunk", chunk=[0], range=None)
        .refuses(_MISMATCH, "manifest", op="get_chunk", chunk=[1], range={"last": 1})
        .refuses(_MISMATCH, "manifest", op="list")
    )
    yield _whole(
        "stale-validate",
        "A validator reports a document with other bytes, and what is wrong with these.",
        stored={"0": {}, "no key": {}},
    ).reports(problem(_MISMATCH, None), problem("invalid_chunk_key", "no key"))  # fmt: skip
    yield _whole(
        "stale-where-missing-is-an-error",
        "To a reader that takes missing chunks for errors, a stale document is a stale document.",
        stored=_STALE,
        missing="error",
    ).refuses(_MISMATCH, "manifest", selection=[[2, 4]])
    yield _whole(
        "stale-where-checksums-are-not-verified",
        "A reader that does not verify the checksums of chunks verifies those of documents: its "
        "user gave up the one, and not the other.",
        stored=_STALE,
        verify="never",
    ).refuses(_MISMATCH, "manifest")
    other = f"{_RIGHT[:-1]}{'0' if _RIGHT[-1] != '0' else '1'}"
    yield _whole(
        "other-digest-of-the-same-name",
        "The name has the first digits of the digest. All of its digits count.",
        declared={"checksum": other},
    ).refuses(_MISMATCH, "manifest")
    lost = _whole("lost", "A document that does not exist is an error, and not an empty one.")
    (path,) = (path for path in lost.paths if "/a/m-" in path)
    yield lost.without(path).refuses("manifest_not_found", "manifest")
    yield (
        _whole(
            "another-digest-in-the-name",
            "A document of another time may lie beside it, under its own name: it is not read.",
        )
        .without(path)
        .put(f"a/{named('m-{digest}.json', _STALE)}", _STALE)
        .refuses("manifest_not_found", "manifest")
    )


def _stale_blocks() -> Iterator[Case]:
    documents, _ = blocks()
    stale: dict[str, Any] = {"1": {}}
    description = "The document of the block has other bytes: its chunk is not missing."
    yield (
        _of_blocks("stale-block", description, stored=stale)
        .refuses(_MISMATCH, "manifest")
        .refuses(_MISMATCH, "manifest", selection=[[2, 4]])
        .refuses(_MISMATCH, "manifest", op="list")
    )
    yield _of_blocks(
        "stale-block-elsewhere",
        "A reader of other blocks has no need of the document with other bytes.",
        stored=stale,
        level="should",
    ).reads(selection=[[4, 8]])
    yield _of_blocks(
        "stale-block-validate", "A validator reports a block's document with other bytes.",
        stored=stale,
    ).reports(problem(_MISMATCH, None))  # fmt: skip
    yield _of_blocks(
        "document-of-another-block",
        "A block's document in the place of another one's has other bytes.",
        stored={"1": documents["2"]},
    ).refuses(_MISMATCH, "manifest")
    for suffix in ("", "-validate"):
        case = _of_blocks(
            f"lost-block{suffix}",
            "A block that the object names has a document: one that does not exist was lost.",
            lost="2",
        )
        if suffix:
            yield case.reports(problem("manifest_not_found", None))
        else:
            yield case.refuses("manifest_not_found", "manifest")


# ------------------------------------------------------------------ caches


def _served(
    name: str, description: str, *rules: Any, stored: Any = ENTRIES, **options: Any
) -> Case:
    """Make a case with a document on a server, under a plain name."""
    case = Case(f"{AREA}/{name}", SECTION, description, allow=[{"prefix": "@HTTP@/m.json"}],
                **options)  # fmt: skip
    case.array(configuration={"manifest": "@HTTP@/m.json", "checksum": _RIGHT})
    case.put("a/data.bin", SOURCE).source("old.json", _STALE)
    if stored is not ABSENT:
        case.source("m.json", stored)
    return case.serve("http", *rules)


def _over_http() -> Iterator[Case]:
    cached = {"path": "/m.json", "cached": "old.json"}
    most = {"paths": ["/m.json"], "max": 6, "whole": 2}
    yield (
        _served(
            "stale-in-a-cache",
            "A cache answers with what the document was before. A reader asks once more with "
            "Cache-Control: no-cache, gets the right one, and reads on.",
            cached,
        )
        .reads()
        .seen("http", **most)
    )
    yield (
        _served(
            "stale-at-the-server",
            "The server itself has another document: asking past caches does not help, and a "
            "reader asks no more than once. One that asks for redirects and for the size first "
            "needs three requests for each.",
            stored=_STALE,
        )
        .refuses(_MISMATCH, "manifest")
        .seen("http", **most)
    )
    yield (
        _served(
            "stale-in-a-cache-and-at-the-server",
            "What the server has is not the document that is declared, either.",
            cached,
            stored={},
        )
        .refuses(_MISMATCH, "manifest")
        .seen("http", **most)
    )
    yield (
        _served(
            "in-a-cache-alone",
            "The answer of the server counts: if it has no such document, there is none.",
            cached,
            stored=ABSENT,
        )
        .refuses("manifest_not_found", "manifest")
        .seen("http", **most)
    )
    yield (
        _served(
            "right-in-a-cache",
            "Caches may answer as long as the document has the checksum: that is what they are "
            "for.",
        )
        .reads()
        .seen("http", max=3, whole=1, without_headers=["cache-control", "pragma"])
    )
    yield (
        _served(
            "truncated-at-the-server",
            "A complete answer with a part of the document is another document.",
            {"path": "/m.json", "size": 20},
        )
        .refuses(_MISMATCH, "manifest")
        .seen("http", **most)
    )
    yield (
        _whole(
            "stale-in-a-cache-in-front-of-the-hierarchy",
            "What is said of caches holds for the documents of a hierarchy on a web server.",
            template="./m.json",
            via="http",
        )
        .put("a/old.json", _STALE)
        .serve("http", {"path": "/a/m.json", "cached": "a/old.json"}, root="hierarchy")
        .reads()
    )
    yield (
        _whole(
            "stale-on-the-server-of-the-hierarchy",
            "A stale document of a hierarchy on a web server is an error, and no fill value.",
            template="./m.json",
            stored=_STALE,
            via="http",
        )
        .serve("http", root="hierarchy")
        .refuses(_MISMATCH, "manifest")
    )
    documents, source = blocks()
    case = Case(
        f"{AREA}/stale-blocks-in-a-cache",
        SECTION,
        "Each document with other bytes is asked for once more, and no other one.",
        allow=[{"prefix": "@HTTP@/m/"}],
    )
    configuration = {
        "manifest": "@HTTP@/m/{partition}.json",
        "partition_shape": [1],
        "partitions": {name: checksum(document) for name, document in documents.items()},
    }
    case.array(array=ROW, configuration=configuration).put("a/data.bin", source)
    for name, document in documents.items():
        case.source(f"m/{name}.json", document)
    case.source("old.json", {})
    rules = [{"path": f"/m/{name}.json", "cached": "old.json"} for name in ("1", "2")]
    yield case.serve("http", *rules).reads()


def _through_redirects() -> Iterator[Case]:
    case = _served(
        "stale-in-a-cache-behind-a-redirect",
        "A reader that asks past caches follows redirects like any other time, and asks past the "
        "caches there.",
        {"path": "/m.json", "status": 307, "location": "@HTTP2@/there.json"},
        stored=ABSENT,
    )
    case.options["allow"].append({"prefix": "@HTTP2@/"})
    case.source("there.json", ENTRIES)
    case.serve("http2", {"path": "/there.json", "cached": "old.json"})
    yield case.reads()


def _over_s3() -> Iterator[Case]:
    prefix: dict[str, Any] = {"prefix": "s3://data/", "endpoint": "@S3@", "region": "us-east-1"}
    credentials = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "not-a-secret-of-anybody"}
    cached = {"path": "/data/m.json", "cached": "data/old.json"}
    for name, server, description in (
        ("", {}, "What is said of caches holds for those in front of a bucket."),
        (
            "-signed",
            {"credentials": credentials},
            "A signed request for a document passes the caches in front of a bucket as well.",
        ),
    ):
        access = {**prefix, **server}
        needs = ["s3-credentials"] if server else []
        for where, stored in (("in-a-cache", ENTRIES), ("at-the-server", _STALE)):
            case = Case(f"{AREA}/stale-{where}-of-s3{name}", SECTION, description, allow=[access],
                        needs=needs)  # fmt: skip
            case.array(configuration={"manifest": "s3://data/m.json", "checksum": _RIGHT})
            case.put("a/data.bin", SOURCE)
            case.source("data/old.json", _STALE).source("data/m.json", stored)
            case.serve("s3", *([cached] if where == "in-a-cache" else []), **server)
            if where == "in-a-cache":
                case.reads()
            else:
                case.refuses(_MISMATCH, "manifest")
            yield case.seen("s3", paths=["/data/m.json"], max=6, whole=2)
