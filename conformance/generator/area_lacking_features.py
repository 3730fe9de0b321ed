"""Area ``lacking-features``: a reader that lacks a feature refuses what needs it, loudly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.by_digest import checksum, named
from conformance.generator.case import Case, failure, to_json
from conformance.generator.frames import gzip_member, zstd_frame
from conformance.generator.standard import ENTRIES, SOURCE, standard

AREA = "lacking-features"
_SECTION = "optional-features"
_UNSUPPORTED = "unsupported_transformer"
_TEMPLATE = {"manifest": "./{partition}.json", "partition_shape": [1]}
_GZIP = {"name": "gzip", "configuration": {"level": 5}}
_ETAG = {"etag": '"5d41402abc4b2a76"'}
_CHECKSUM = {"checksum": "crc32c:00000000"}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _partitions()
    yield from _codecs()
    yield from _digests()
    yield from _entries()
    yield standard(
        f"{AREA}/nothing-is-needed",
        _SECTION,
        "A reader without any of the features reads what needs none: annotations are no feature.",
        manifest={key: {**entry, "example.org:etag": "1"} for key, entry in ENTRIES.items()},
        lacks=[
            "partitions",
            "encoded-manifests",
            "document-digests",
            "checksums",
            "source-conditions",
        ],
    ).reads()
    yield (
        _declared(
            "several-features",
            "A declaration that needs two features is refused, whichever of them a reader lacks.",
            {**_TEMPLATE, "codecs": [_GZIP]},
            "partitions",
            "encoded-manifests",
        ).refuses(_UNSUPPORTED, "declaration")
    )


def _declared(name: str, description: str, configuration: Any, *lacks: str, **options: Any) -> Case:
    """Make a case whose documents say all that a reader with the features would need."""
    case = Case(f"{AREA}/{name}", _SECTION, description, lacks=lacks, **options)
    case.array(configuration=configuration).put("a/data.bin", SOURCE)
    case.put("a/manifest.json", ENTRIES)
    for key, entry in ENTRIES.items():
        case.put(f"a/{key}.json", {key: entry})
    return case


def _partitions() -> Iterator[Case]:
    for name, more, description in (
        ("partition-shape", {}, "the template is no name of a document."),
        ("partitions-all", {"partitions": "all"}, "that all documents exist does not help."),
        ("partitions-named", {"partitions": ["0", "1"]}, "nor do the names of those that exist."),
    ):
        yield (
            _declared(
                name,
                "A reader without the feature refuses a split manifest when it opens the array: "
                f"{description}",
                {**_TEMPLATE, **more},
                "partitions",
            )
            .refuses(_UNSUPPORTED, "declaration")
            .refuses(_UNSUPPORTED, "declaration", op="get_chunk", chunk=[0], range=None)
            .refuses(_UNSUPPORTED, "declaration", op="list")
        )
    yield (
        _declared(
            "partition-shape-of-the-whole-grid",
            "A manifest in one block is a split manifest all the same: it is refused even if its "
            "template contains the one document's name.",
            {"manifest": "./{partition}.json", "partition_shape": [4]},
            "partitions",
        )
        .put("a/{partition}.json", ENTRIES)
        .refuses(_UNSUPPORTED, "declaration")
    )
    yield (
        _declared(
            "split-arrays-beside-others",
            "What a reader refuses is the array that needs the feature; others in the hierarchy "
            "are read.",
            _TEMPLATE,
            "partitions",
        )
        .array("b", manifest=ENTRIES)
        .put("b/data.bin", SOURCE)
        .refuses(_UNSUPPORTED, "declaration")
        .reads("b")
    )


def _codecs() -> Iterator[Case]:
    yield (
        _declared(
            "codecs",
            "A reader without the feature refuses an encoded manifest when it opens the array, "
            "before it takes the bytes of the document for JSON.",
            {"manifest": "./manifest.json.gz", "codecs": [_GZIP]},
            "encoded-manifests",
        )
        .put("a/manifest.json.gz", gzip_member(to_json(ENTRIES)))
        .refuses(_UNSUPPORTED, "declaration")
    )
    yield _declared(
        "codecs-of-a-plain-document",
        "The declaration decides, and not the document: codecs are refused although the document "
        "happens to be plain JSON.",
        {"manifest": "./manifest.json", "codecs": [_GZIP]},
        "encoded-manifests",
    ).refuses(_UNSUPPORTED, "declaration")
    yield _declared(
        "empty-list-of-codecs",
        "A reader without the feature refuses the member, whatever is in it.",
        {"manifest": "./manifest.json", "codecs": []},
        "encoded-manifests",
    ).refuses(_UNSUPPORTED, "declaration")
    yield (
        _declared(
            "zstd",
            "A reader of encoded manifests need not know zstd, and refuses it by its name when it "
            "opens the array.",
            {"manifest": "./manifest.json.zst", "codecs": ["zstd"]},
            "manifest-zstd",
            needs=["encoded-manifests"],
            cls="encoded-manifests",
        )
        .put("a/manifest.json.zst", zstd_frame(to_json(ENTRIES)))
        .refuses(_UNSUPPORTED, "declaration")
    )


def _digests() -> Iterator[Case]:
    right: Any = checksum(ENTRIES)
    for name, stated, description in (
        ("a-checksum", right, "nobody would notice a stale document."),
        ("a-checksum-of-another-algorithm", "md5:00",
         "which algorithm it is does not matter to a reader that knows none."),
        ("a-checksum-that-is-none", 1, "the refusal takes the place of every check of the member."),
    ):  # fmt: skip
        yield (
            _declared(
                f"document-with-{name}",
                "A reader without the feature refuses the checksum of a document when it opens the "
                f"array: {description}",
                {"manifest": "./manifest.json", "checksum": stated},
                "document-digests",
            )
            .refuses(_UNSUPPORTED, "declaration")
            .refuses(_UNSUPPORTED, "declaration", op="list")
        )
    template = "./m-{digest}.json"
    for description, path in (
        ("a-digest-in-its-name", named(template, ENTRIES)),
        ("a-placeholder-as-its-name", "m-{digest}.json"),
    ):
        yield (
            _declared(
                f"document-with-{description}",
                "A reader without the feature refuses the array, and looks for no document, "
                "neither under the name with the digest nor under the template.",
                {"manifest": template, "checksum": right},
                "document-digests",
            )
            .put(f"a/{path}", ENTRIES)
            .refuses(_UNSUPPORTED, "declaration")
        )
    blocks = {key: checksum({key: entry}) for key, entry in ENTRIES.items()}
    none: dict[str, Any] = {"0": None}
    for name, digests in (("", blocks), ("-without-blocks", {}), ("-without-digests", none)):
        yield _declared(
            f"document-digests-of-blocks{name}",
            "A reader of split manifests without the feature refuses partitions that is an object, "
            "whatever is in it: it would not notice a stale document.",
            {**_TEMPLATE, "partitions": digests},
            "document-digests",
        ).refuses(_UNSUPPORTED, "declaration")


def _entries() -> Iterator[Case]:
    inline = {"data": "ZwBoAA=="}
    for name, entry, feature, description in (
        ("checksum", {**ENTRIES["1"], **_CHECKSUM}, "checksums",
         "Bytes that nobody verified are not what the manifest promises."),
        ("checksum-of-inline-data", {**inline, **_CHECKSUM}, "checksums",
         "Inline data have checksums as well."),
        ("checksum-of-an-unknown-algorithm", {**ENTRIES["1"], "checksum": "xxh3:00"}, "checksums",
         "Which algorithm it is does not matter to a reader that knows none."),
        ("checksum-that-is-no-checksum", {**ENTRIES["1"], "checksum": "?"}, "checksums",
         "The refusal takes the place of every check of the member."),
        ("etag", {**ENTRIES["1"], **_ETAG}, "source-conditions",
         "A source that has changed would be read without a word."),
        ("last-modified", {**ENTRIES["1"], "last_modified": "2999-01-01T00:00:00Z"},
         "source-conditions", "That the time is in the future does not make it less a condition."),
        ("version", {**ENTRIES["1"], "version": "3"}, "source-conditions",
         "The current version may be another one."),
        ("size", {**ENTRIES["1"], "size": 20}, "source-conditions",
         "A source that was replaced by another would be read without a word."),
        ("etag-that-is-no-etag", {**ENTRIES["1"], "etag": "\u00e9"}, "source-conditions",
         "The refusal takes the place of every check of the member."),
    ):  # fmt: skip
        code = "unsupported_checksum" if feature == "checksums" else _UNSUPPORTED
        yield _stating(name, entry, feature, description).refuses(code, "manifest")
    for name, entry, feature, code in (
        ("checksum-alone", _CHECKSUM, "checksums", "unsupported_checksum"),
        ("checksum-that-is-a-number", {**ENTRIES["1"], "checksum": 1}, "checksums",
         "unsupported_checksum"),
        ("etag-beside-data", {**inline, **_ETAG}, "source-conditions", _UNSUPPORTED),
        ("version-alone", {"version": "1"}, "source-conditions", _UNSUPPORTED),
    ):  # fmt: skip
        case = _stating(
            name,
            entry,
            feature,
            "That the entry is invalid may be found first: either code is right.",
        )
        yield case.refuses([code, "invalid_entry"], "manifest")
    for name, members, feature, code in (
        ("another-checksum", _CHECKSUM, "checksums", "unsupported_checksum"),
        ("another-etag", _ETAG, "source-conditions", _UNSUPPORTED),
    ):
        case = _stating(
            name,
            {**ENTRIES["1"], **members},
            feature,
            "A reader may refuse the document, or no more than the chunk that needs the feature.",
        )
        either = {"any_of": [case.values(selection=[[0, 2]]), failure(code, "manifest")]}
        case.ask("read", {"array": "a", "selection": [[0, 2]]}, either)
        yield case.refuses(code, "manifest", selection=[[2, 4]])


def _stating(name: str, entry: Mapping[str, Any], feature: str, description: str) -> Case:
    """Make a case in which the entry of chunk 1 needs a feature."""
    return standard(
        f"{AREA}/{name}",
        _SECTION,
        f"An entry that needs a feature is refused by a reader that lacks it. {description}",
        manifest={"0": ENTRIES["0"], "1": entry},
        lacks=[feature],
    )
