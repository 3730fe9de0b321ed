"""Area ``partitions``: manifests that are split into one document per block of the grid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array, canonical
from conformance.generator.case import Case, problem
from conformance.generator.frames import zstd_frame
from conformance.generator.partitioned import (
    GRID,
    SECTION,
    TEMPLATE,
    partitioned,
    served,
    split,
)
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "partitions"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _shapes()
    yield from _documents()
    yield from _over_http()
    yield from _wrong_documents()
    for name, configuration, description, reported in _DECLARED:
        for ask in ("read", "validate") if reported else ("read",):
            suffix = "-validate" if ask == "validate" else ""
            refused = f"{description} The array is refused when it is opened."
            case = Case(f"{AREA}/{name}{suffix}", SECTION, refused, needs=["partitions"])
            case.array(array=ARRAY, configuration=configuration).put("a/data.bin", SOURCE)
            for document in ("0.json", "1.json", "{partition}.json"):
                case.put(f"a/m/{document}", ENTRIES)
            if ask == "read":
                yield case.refuses("invalid_configuration", "declaration")
            else:
                yield case.reports("invalid_configuration")


def _shapes() -> Iterator[Case]:
    yield (
        partitioned(
            f"{AREA}/two-dimensions",
            "Blocks of 2 by 2 chunks; those at the edges of the grid are smaller. Keys are grid "
            "indices of the whole array, not of the block.",
        )
        .reads()
        .reads(selection=[[3, 5], [3, 7]])
    )
    yield (
        partitioned(
            f"{AREA}/one-dimension",
            "Two documents of two chunks each: all four chunks are read and listed.",
            Array(shape=(8,)),
            (2,),
        )
        .reads()
        .lists("0", "1", "2", "3")
    )
    yield partitioned(
        f"{AREA}/one-chunk-per-block",
        "A block of one chunk: every chunk has a document of its own.",
        Array(shape=(4, 2), chunks=(2, 1)),
        (1, 1),
    ).reads()
    yield partitioned(
        f"{AREA}/block-larger-than-the-grid",
        "A block that is larger than the chunk grid holds all of it: there is one document.",
        Array(shape=(4,)),
        (1000,),
    ).reads()
    yield partitioned(
        f"{AREA}/block-of-the-largest-integer",
        "Numbers of partition_shape go up to 2^53-1; there is one document.",
        Array(shape=(4,)),
        (2**53 - 1,),
    ).reads()
    yield partitioned(
        f"{AREA}/zero-dimensional",
        "A zero-dimensional array has an empty partition_shape, and one document, called 0.",
        Array(shape=(), chunks=(), values=(4711,)),
        (),
    ).reads()
    yield partitioned(
        f"{AREA}/numbers-of-several-digits",
        "Names of partitions are decimal numbers without leading zeros.",
        Array(shape=(11,), chunks=(1,)),
        (1,),
    ).reads()
    yield partitioned(
        f"{AREA}/partition-in-a-directory-name",
        "The template may have {partition} anywhere in its path.",
        Array(shape=(8,)),
        (2,),
        template="./m/{partition}/manifest.json",
    ).reads()
    array = Array(shape=(8,))
    entries, source = array.lay_out("data.bin")
    case = Case(
        f"{AREA}/own-keys",
        SECTION,
        "Documents of partitions accept the array's own keys like whole manifests.",
        needs=["partitions"],
    ).array(array=array, configuration={"manifest": TEMPLATE, "partition_shape": [2]})
    for block, document in split(entries, (2,)).items():
        case.put(f"a/m/{block}.json", {f"c/{key}": entry for key, entry in document.items()})
    yield case.put("a/data.bin", source).reads()


def _documents() -> Iterator[Case]:
    gone = [(2, 2), (2, 3), (3, 2), (3, 3)]
    yield (
        partitioned(
            f"{AREA}/block-without-a-document",
            "A block whose document does not exist holds no entries: its chunks are missing. A "
            "sparse array has no document for its empty regions.",
            without=["1.1"],
        )
        .reads(missing=gone)
        .lists(*(canonical(i) for i in GRID.indices() if i not in gone))
    )
    yield (
        partitioned(
            f"{AREA}/no-document-at-all",
            "If no document exists, the array is empty: that is not manifest_not_found, which "
            "would need somebody to write documents that say nothing.",
            Array(shape=(8,)),
            (2,),
            without=["0", "1"],
        )
        .reads(missing=[(i,) for i in range(4)])
        .lists()
    )
    yield (
        partitioned(
            f"{AREA}/missing-as-error",
            "Chunks of a block without a document are missing, and a reader that treats missing "
            "chunks as errors raises.",
            Array(shape=(8,)),
            (2,),
            without=["1"],
            missing="error",
        )
        .refuses("missing_chunk", "chunk")
        .reads(selection=[[0, 4]])
    )
    case = partitioned(
        f"{AREA}/key-outside-the-grid",
        "Keys outside of the grid are ignored in every document, also in one of another block.",
        ARRAY,
        (1,),
    )
    beyond = {"7": {"path": "gone.bin"}}
    case.put("a/m/0.json", {"0": ENTRIES["0"], **beyond}).put(
        "a/m/1.json", {**beyond, "1": ENTRIES["1"]}
    )
    yield case.reads()
    yield (
        partitioned(
            f"{AREA}/corrupt-but-not-touched",
            "A reader loads the documents that it needs: one of another block does not matter for "
            "it.",
            Array(shape=(8,)),
            (2,),
            level="should",
        )
        .put("a/m/1.json", b"{")
        .reads(selection=[[0, 4]])
    )
    array = Array(shape=(8,))
    entries, source = array.lay_out("data.bin")
    case = Case(
        f"{AREA}/encoded",
        SECTION,
        "Each document of a partitioned manifest is encoded by itself.",
        needs=["partitions", "encoded-manifests"],
    )
    configuration = {"manifest": "m/{partition}.zst", "partition_shape": [2], "codecs": ["zstd"]}
    case.array(array=array, configuration=configuration).put("a/data.bin", source)
    for block, document in split(entries, (2,)).items():
        case.put(f"a/m/{block}.zst", zstd_frame(json.dumps(document).encode()))
    yield case.reads()


def _over_http() -> Iterator[Case]:
    yield (
        served(
            f"{AREA}/only-touched-documents-are-loaded",
            "A reader that reads one block of a large array requests the document of that block "
            "alone: that is what partitions are for.",
            level="should",
        )
        .reads(selection=[[2, 6]])
        .seen("http", paths=["/m/1.json", "/m/2.json"])
    )
    yield (
        served(
            f"{AREA}/documents-are-loaded-once",
            "Reading again from the same hierarchy requests no document a second time. One "
            "that asks for redirects and for the size first needs three requests for it.",
            level="should",
        )
        .reads(selection=[[2, 4]])
        .reads(selection=[[2, 4]], reuse=True)
        .reads(selection=[[3, 4]], reuse=True)
        .seen("http", paths=["/m/1.json"], max=3)
    )
    yield served(
        f"{AREA}/document-not-found-over-http",
        "404 for a block's document says that it does not exist: its chunks are missing.",
        {"path": "/m/1.json", "status": 404},
    ).reads(missing=[(1,)])
    yield served(
        f"{AREA}/document-that-cannot-be-got-over-http",
        "Only 404 and 410 say that a block's document does not exist: 405, which some clients take "
        "for that, is an error.",
        {"path": "/m/1.json", "status": 405},
    ).refuses("source_error", "manifest", selection=[[2, 4]])
    yield served(
        f"{AREA}/document-denied",
        "A document that must not be read may well exist: its chunks are not missing.",
        {"path": "/m/1.json", "status": 403},
    ).refuses("source_access_denied", "manifest")
    yield served(
        f"{AREA}/document-fails",
        "A server's failure does not mean that there is no document.",
        {"path": "/m/1.json", "status": 500},
    ).refuses("source_error", "manifest")
    case = served(
        f"{AREA}/documents-not-allowed",
        "Documents outside of the hierarchy need authorisation: without it, no request leaves.",
    )
    case.options["allow"] = [{"prefix": "@HTTP@/other/"}]
    yield case.refuses("location_not_allowed", "manifest").seen("http", max=0)


def _wrong_documents() -> Iterator[Case]:
    wrong: list[tuple[str, str, Any, str]] = [
        ("entry-of-another-block", "invalid_chunk_key", {"1": ENTRIES["1"], "0": ENTRIES["0"]},
         "An entry whose chunk is in the grid, but belongs to another block, would never be found: "
         "dropping it silently would read as fill values."),
        ("keys-relative-to-the-block", "invalid_chunk_key", {"0": ENTRIES["1"]},
         "Keys count from the array's first chunk, not from the block's."),
        ("corrupt-document", "invalid_json", b"{", "A corrupt document is not one that does not "
                                                   "exist."),
        ("document-is-a-list", "invalid_manifest", [], "Every document is an object; a list "
                                                       "without members is not one without "
                                                       "entries."),
        ("document-is-empty", "invalid_json", b"", "A file of no bytes is not one that does not "
                                                   "exist."),
        ("document-with-invalid-entry", "invalid_entry", {"1": {"path": "data.bin", "length": 0}},
         "Entries are judged in every document, as in whole manifests."),
    ]  # fmt: skip
    for name, code, document, description in wrong:
        case = partitioned(f"{AREA}/{name}", description, ARRAY, (1,)).put("a/m/1.json", document)
        yield case.refuses(code, "manifest")
    yield (
        partitioned(
            f"{AREA}/entry-of-another-block-validate",
            "A validator looks into the documents of all blocks.",
            ARRAY,
            (1,),
        )
        .put("a/m/1.json", ENTRIES)
        .reports(problem("invalid_chunk_key", "0"))
    )


def _shaped(shape: Any, manifest: Any = TEMPLATE) -> dict[str, Any]:
    return {"manifest": manifest, "partition_shape": shape}


# Name, configuration, description, whether a validator is asked too. The grid has two chunks.
_DECLARED: list[tuple[str, Any, str, bool]] = [
    ("shape-too-long", _shaped([1, 1]), "partition_shape has one number per dimension.", True),
    ("shape-too-short", _shaped([]), "partition_shape has one number per dimension.", False),
    ("shape-of-zero", _shaped([0]), "A block has at least one chunk in every dimension.", True),
    ("shape-is-negative", _shaped([-1]), "-1 does not mean the whole dimension.", False),
    ("shape-is-a-fraction", _shaped([1.5]), "partition_shape holds integers.", False),
    ("shape-is-a-boolean", _shaped([True]), "true is not the number 1.", False),
    ("shape-is-a-string", _shaped(["1"]), "partition_shape holds integers, not texts.", False),
    ("shape-is-not-a-list", _shaped(1), "partition_shape is a list, in one dimension as well.",
     False),
    ("shape-is-null", _shaped(None), "partition_shape: null is not the absence of it.", False),
    ("shape-is-too-large", _shaped([2**53]), "Numbers go up to 2^53-1.", False),
    ("template-without-partition", _shaped([1], "./m/0.json"),
     "Without {partition}, all blocks would share a document.", True),
    ("template-with-partition-twice", _shaped([1], "./m/{partition}/{partition}.json"),
     "{partition} is there exactly once.", False),
    ("template-with-partition-in-capitals", _shaped([1], "./m/{Partition}.json"),
     "{partition} is written as it is here: names have case.", False),
    ("template-with-partition-percent-encoded", _shaped([1], "./m/%7Bpartition%7D.json"),
     "{partition} is replaced before the reference is decoded: an encoded brace is one of the "
     "name.", False),
    ("partition-in-the-fragment", _shaped([1], "./m.json#{partition}"),
     "{partition} is in the path, and a fragment names no document.", False),
    ("partition-in-the-query", _shaped([1], "http://localhost/m.json?p={partition}"),
     "{partition} is in the path: queries are not part of every location.", False),
    ("partition-in-the-host", _shaped([1], "http://{partition}.localhost/m.json"),
     "{partition} is in the path: hosts are not made up from numbers.", False),
    ("template-without-shape", {"manifest": TEMPLATE},
     "{partition} means nothing without partition_shape; a file of this name is not looked "
     "for.", True),
    ("shape-beside-an-inline-manifest", _shaped([1], ENTRIES),
     "An inline manifest is not split.", True),
]  # fmt: skip
