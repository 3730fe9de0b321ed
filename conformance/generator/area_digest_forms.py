"""Area ``digest-forms``: what a declaration may say of its documents' bytes, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import declaration
from conformance.generator.by_digest import SECTION, checksum, named, whole
from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, SOURCE

AREA = "digest-forms"
_RIGHT = checksum(ENTRIES)


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _readable()
    for name, code, configuration, description in _FORMS:
        yield from _refused(name, code, configuration, description)
    yield from _precedence()


def _readable() -> Iterator[Case]:
    for name, template, description in (
        ("plain-name", "./manifest.json", "A name without {digest} may have a checksum, too."),
        ("digest-alone", "{digest}", "The name may consist of {digest} alone."),
        ("digest-in-a-directory-name", "./{digest}/manifest.json",
         "{digest} may be anywhere in the path."),
        ("digest-beside-other-braces", "./{{digest}}.json",
         "What is around {digest} belongs to the name, other braces included."),
        ("digest-in-capitals", "./m-{Digest}.json",
         "{digest} is written as it is here: this is a name like others."),
    ):  # fmt: skip
        said = f"{description} The document is found, and has the checksum."
        yield whole(f"{AREA}/{name}", said, template=template).reads()
        yield whole(
            f"{AREA}/{name}-validate", f"A validator finds nothing wrong. {description}",
            template=template,
        ).reports()  # fmt: skip


def _refused(
    name: str, code: str, configuration: dict[str, Any], description: str
) -> Iterator[Case]:
    """Yield a case for readers, and one for validators; the documents are there."""
    for suffix, text in (
        ("", f"{description} The array is refused when it is opened."),
        ("-validate", f"A validator reports `{code}` for the array: {description}"),
    ):
        case = Case(f"{AREA}/{name}{suffix}", SECTION, text, needs=["document-digests"])
        case.array(transformers=[declaration(configuration)]).put("a/data.bin", SOURCE)
        for path in ("m.json", "m-{digest}.json", named("m-{digest}.json", ENTRIES)):
            case.put(f"a/{path}", ENTRIES)
        for block, entry in ENTRIES.items():
            case.put(f"a/{block}.json", {block: entry})
        yield case.reports(code) if suffix else case.refuses(code, "declaration")


_INVALID, _UNSUPPORTED = "invalid_configuration", "unsupported_checksum"


def _one(stated: Any, **members: Any) -> dict[str, Any]:
    return {"manifest": "./m.json", "checksum": stated, **members}


def _split(partitions: Any, manifest: str = "./{partition}.json", **members: Any) -> dict[str, Any]:
    return {"manifest": manifest, "partition_shape": [1], "partitions": partitions, **members}


def _two(stated: Any) -> dict[str, Any]:
    return _split({"0": checksum({"0": ENTRIES["0"]}), "1": stated})


_BLOCK = checksum({"1": ENTRIES["1"]})
_BOTH = {"0": checksum({"0": ENTRIES["0"]}), "1": _BLOCK}
_BY_DIGEST = "./{partition}-{digest}.json"

# Of a checksum in either place.
_MALFORMED: list[tuple[str, Any, str]] = [
    ("null", None, "null is not the absence of a checksum."),
    ("true", True, "A checksum is a text, and does not only say that there is one."),
    ("a-number", 44136, "A checksum is a text."),
    ("a-list", [_RIGHT], "There is one checksum, and it is a text."),
    ("empty", "", "The empty text is no checksum."),
    ("without-an-algorithm", _RIGHT.removeprefix("sha256:"), "A checksum names its algorithm."),
    ("with-an-empty-algorithm", _RIGHT.removeprefix("sha256"), "A checksum names its algorithm."),
    ("without-a-digest", "sha256:", "A checksum has a digest."),
    ("too-short", _RIGHT[:-1], "All 64 digits are there."),
    ("as-in-a-name", _RIGHT[:23], "The digits that are in a name are not all of them."),
    ("too-long", f"{_RIGHT}0", "There are 64 digits, and nothing after them."),
    ("in-capitals", f"sha256:{'AB' * 32}", "Digits are in small letters."),
    ("with-other-digits", f"sha256:{'g' * 64}", "Digits are hexadecimal."),
    ("with-a-line-break", f"{_RIGHT}\n", "Nothing follows the digits."),
    ("with-a-space", f"sha256: {_RIGHT[7:-1]}", "There is no space among the digits."),
]
_OTHER: list[tuple[str, str, str]] = [
    ("md5", f"md5:{'0' * 32}", "one that entries may have"),
    ("crc32c", "crc32c:00000000", "one that every reader of entries knows"),
    ("sha512", f"sha512:{'0' * 128}", "longer"),
    ("unknown", "xxh3:0011223344556677", "unknown"),
    ("in-capitals", f"SHA256:{_RIGHT[7:]}", "in capitals"),
]

# Name, code, configuration, description. The grid has two blocks of one chunk, in one dimension.
_FORMS: list[tuple[str, str, dict[str, Any], str]] = [
    *((f"checksum-{name}", _INVALID, _one(stated), said) for name, stated, said in _MALFORMED),
    *((f"block-checksum-{name}", _INVALID, _two(stated), said)
      for name, stated, said in _MALFORMED),
    *((f"algorithm-{name}", _UNSUPPORTED, _one(stated),
       f"The checksums of documents are of one algorithm, and this one is {said}.")
      for name, stated, said in _OTHER),
    *((f"block-algorithm-{name}", _UNSUPPORTED, _two(stated),
       f"The checksums of blocks' documents are of one algorithm, and this one is {said}.")
      for name, stated, said in _OTHER),
    ("checksum-beside-an-inline-manifest", _INVALID, {"manifest": ENTRIES, "checksum": _RIGHT},
     "An inline manifest is no document that a checksum could be of."),
    ("checksum-beside-partition-shape", _INVALID,
     {"manifest": "./{partition}.json", "partition_shape": [1], "checksum": _RIGHT},
     "A manifest of several documents has no single checksum."),
    ("checksum-beside-checksums-of-blocks", _INVALID, _split(_BOTH, checksum=_RIGHT),
     "A manifest of several documents has a checksum for each, and no other one."),
    ("object-without-partition-shape", _INVALID, {"manifest": "./m.json", "partitions": {}},
     "Without partition_shape, there are no blocks that could have a document."),
    ("object-beside-an-inline-manifest", _INVALID, {"manifest": ENTRIES, "partitions": {}},
     "An inline manifest is not split."),
    ("digest-without-a-checksum", _INVALID, {"manifest": "./m-{digest}.json"},
     "{digest} means nothing without a checksum; a file of this name is not looked for."),
    ("digest-beside-names", _INVALID, _split(["0", "1"], _BY_DIGEST),
     "{digest} means nothing where the blocks' checksums are not stated."),
    ("digest-beside-all", _INVALID, _split("all", _BY_DIGEST),
     "{digest} means nothing where the blocks' checksums are not stated."),
    ("digest-twice", _INVALID, _one(_RIGHT, manifest="./{digest}/m-{digest}.json"),
     "{digest} is there once at most."),
    ("digest-in-the-query", _INVALID, _one(_RIGHT, manifest="http://localhost/m?d={digest}"),
     "{digest} is in the path: queries are not part of every location."),
    ("digest-in-the-host", _INVALID, _one(_RIGHT, manifest="http://{digest}.localhost/m.json"),
     "{digest} is in the path: hosts are not made up from digests."),
    ("digest-in-the-fragment", _INVALID, _one(_RIGHT, manifest="./m.json#{digest}"),
     "{digest} is in the path, and a fragment names no document."),
    ("digest-twice-beside-blocks", _INVALID, _split(_BOTH, "./{digest}/{partition}{digest}.json"),
     "{digest} is there once at most, in the names of blocks' documents, too."),
    ("digest-without-partition", _INVALID, _split(_BOTH, "./{digest}.json"),
     "{digest} does not replace {partition}: two blocks with the same bytes are two blocks."),
    ("name-of-a-block-with-a-leading-zero", _INVALID, _split({**_BOTH, "01": _BLOCK}),
     "The names in the object are those of blocks, without leading zeros."),
    ("name-of-a-block-with-another-separator", _INVALID, _split({**_BOTH, "0/0": _BLOCK}),
     "The names in the object are those of blocks, whose numbers are joined by dots."),
    ("name-of-a-block-with-too-many-numbers", _INVALID, _split({**_BOTH, "0.0": _BLOCK}),
     "The names in the object have one number per dimension."),
    ("empty-name-of-a-block", _INVALID, _split({**_BOTH, "": _BLOCK}),
     "The empty text is not the name of a block."),
    ("all-as-a-name-of-a-block", _INVALID, _split({"all": _BLOCK}),
     '"all" is not the name of a block.'),
]  # fmt: skip


def _precedence() -> Iterator[Case]:
    md5 = f"md5:{'0' * 32}"
    for name, code, configuration, description in (
        ("algorithm-before-codecs", _UNSUPPORTED, _one(md5, codecs=["lzma"]),
         "the algorithm of a checksum comes before the names of codecs."),
        ("algorithm-before-the-template", _UNSUPPORTED, _one(md5, manifest="./{partition}.json"),
         "the algorithm of a checksum comes before the rules of {partition}."),
        ("type-of-base-before-the-algorithm", _INVALID, _one(md5, base=1),
         "the type of base comes before the checksum."),
        ("algorithm-of-a-block-before-the-checksum", _UNSUPPORTED,
         _split({"0": md5}, checksum="sha256:"), "partitions comes before checksum."),
        ("checksum-before-the-names-of-blocks", _UNSUPPORTED, _split({"01": md5}),
         "the declaration by itself, step 1, comes before the names in partitions, step 2."),
    ):  # fmt: skip
        case = Case(
            f"{AREA}/{name}",
            "precedence",
            f"Of several mistakes in a declaration the first decides: {description}",
            needs=["document-digests"],
            cls="document-digests",
        )
        case.array(configuration=configuration).put("a/m.json", ENTRIES)
        yield case.refuses(code, "declaration")
