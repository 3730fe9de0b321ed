"""Area ``encoded-manifests``: documents that codecs have encoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.generator.case import Case
from conformance.generator.frames import add_crc32c, gzip_member, zstd_bomb, zstd_frame
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "encoded-manifests"
_SECTION = "encoded-manifests"
_TEXT = json.dumps(ENTRIES).encode()
_HALF = len(_TEXT) // 2
_GZIP = {"name": "gzip", "configuration": {"level": 5}}
_ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
_CRC32C = {"name": "crc32c"}
_MIB = 2**20


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, codecs, document, description in _READABLE:
        yield _case(name, f"{description} It reads like a plain one.", codecs, document).reads()
    for name, codecs, document, description in _CORRUPT:
        yield _case(
            name,
            f"{description} It must not be read as far as it goes: what is lost would read as fill "
            "values.",
            codecs,
            document,
        ).refuses("invalid_manifest", "manifest")
    for name, code, codecs, description in _DECLARED:
        refused = f"{description} The array is refused before any document is read."
        yield _case(name, refused, codecs, _TEXT).refuses(code, "declaration")
    yield from _json()
    yield from _limits()
    yield from _validated()


def _case(name: str, description: str, codecs: Any, document: bytes, **options: Any) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description, needs=["encoded-manifests"], **options)
    configuration = {"manifest": "./manifest.bin", "codecs": codecs}
    case.array(array=ARRAY, configuration=configuration)
    return case.put("a/manifest.bin", document).put("a/data.bin", SOURCE)


_READABLE: list[tuple[str, Sequence[Any], bytes, str]] = [
    ("no-codecs", [], _TEXT, "An empty list of codecs is a plain document."),
    ("gzip", [_GZIP], gzip_member(_TEXT), "A document that is a gzip member."),
    ("zstd", [_ZSTD], zstd_frame(_TEXT), "A document that is a zstd frame with its content size."),
    ("zstd-without-content-size", [_ZSTD], zstd_frame(_TEXT, content_size=False),
     "A zstd frame need not state its content size: streaming writers do not know it in advance."),
    ("zstd-with-a-checksum", [_ZSTD], zstd_frame(_TEXT, checksum=True),
     "A zstd frame may have a checksum, whatever the codec's configuration says."),
    ("crc32c", [_CRC32C], add_crc32c(_TEXT), "A document with four bytes of CRC-32C behind it."),
    ("zstd-then-crc32c", [_ZSTD, _CRC32C], add_crc32c(zstd_frame(_TEXT)),
     "Codecs are undone in reverse order: the checksum is that of the frame."),
    ("crc32c-then-zstd", [_CRC32C, _ZSTD], zstd_frame(add_crc32c(_TEXT)),
     "Codecs are undone in reverse order: the checksum is that of the text."),
    ("gzip-of-gzip", [_GZIP, _GZIP], gzip_member(gzip_member(_TEXT)),
     "The same codec may be applied twice, and is undone twice."),
    ("gzip-of-several-members", [_GZIP], gzip_member(_TEXT[:_HALF]) + gzip_member(_TEXT[_HALF:]),
     "gzip members may be concatenated: all of them are the document, not the first alone."),
    ("zstd-of-several-frames", [_ZSTD], zstd_frame(_TEXT[:_HALF]) + zstd_frame(_TEXT[_HALF:]),
     "zstd frames may be concatenated: all of them are the document, not the first alone."),
    ("names-alone", ["zstd", "crc32c"], add_crc32c(zstd_frame(_TEXT)),
     "A codec may be given by its name alone."),
    ("must-understand-of-a-codec", [{"name": "gzip", "must_understand": False}, {
        "name": "crc32c", "must_understand": True}], add_crc32c(gzip_member(_TEXT)),
     "A codec may have must_understand, like other extensions; a known one is understood."),
    ("configuration-left-out", [{"name": "gzip"}], gzip_member(_TEXT),
     "A codec's configuration may be left out: decoding does not depend on it."),
    ("configuration-ignored", [{"name": "gzip", "configuration": {"level": "high", "window": 31}}],
     gzip_member(_TEXT), "What a codec's configuration says does not matter for decoding."),
]  # fmt: skip

_WRONG_CRC = _TEXT + b"\x00\x00\x00\x00"
_MEMBER, _FRAME = gzip_member(_TEXT), zstd_frame(_TEXT)
_CORRUPT: list[tuple[str, Sequence[Any], bytes, str]] = [
    ("gzip-but-plain", [_GZIP], _TEXT, "A plain document where gzip is declared."),
    ("zstd-but-plain", [_ZSTD], _TEXT, "A plain document where zstd is declared."),
    ("zstd-but-gzip", [_ZSTD], _MEMBER, "A gzip member where zstd is declared."),
    ("gzip-truncated", [_GZIP], _MEMBER[:-30], "A gzip member that was cut off."),
    ("gzip-without-trailer", [_GZIP], _MEMBER[:-8],
     "A gzip member without its checksum: all of the text is there, but nobody can know."),
    ("gzip-wrong-checksum", [_GZIP], _MEMBER.replace(b'"offset": 8', b'"offset": 6'),
     "A gzip member whose content is not what its checksum says."),
    ("gzip-trailing-garbage", [_GZIP], _MEMBER + b"garbage", "Bytes after a gzip member."),
    ("gzip-trailing-zeros", [_GZIP], _MEMBER + bytes(8),
     "Zero bytes after a gzip member, which some tools skip: RFC 1952 has none."),
    ("gzip-zeros-between-members", [_GZIP],
     gzip_member(_TEXT[:_HALF]) + bytes(4) + gzip_member(_TEXT[_HALF:]),
     "Zero bytes between two gzip members."),
    ("gzip-empty", [_GZIP], b"", "No bytes at all are no gzip member."),
    ("zstd-truncated", [_ZSTD], _FRAME[:-20], "A zstd frame that was cut off."),
    ("zstd-trailing-garbage", [_ZSTD], _FRAME + b"garbage", "Bytes after a zstd frame."),
    ("zstd-trailing-zeros", [_ZSTD], _FRAME + bytes(8), "Zero bytes after a zstd frame."),
    ("zstd-wrong-checksum", [_ZSTD],
     zstd_frame(_TEXT, checksum=True).replace(b'"offset": 8', b'"offset": 6'),
     "A zstd frame whose content is not what its checksum says."),
    ("zstd-wrong-checksum-without-content-size", [_ZSTD],
     zstd_frame(_TEXT, content_size=False, checksum=True)[:-1] + b"?",
     "A zstd frame of a streaming writer, with a wrong checksum."),
    ("zstd-second-frame-wrong-checksum", [_ZSTD],
     zstd_frame(_TEXT[:_HALF]) + zstd_frame(_TEXT[_HALF:], checksum=True)[:-1] + b"?",
     "A second frame with a wrong checksum."),
    ("zstd-empty", [_ZSTD], b"", "No bytes at all are no zstd frame."),
    ("zstd-second-frame-truncated", [_ZSTD],
     zstd_frame(_TEXT[:_HALF]) + zstd_frame(_TEXT[_HALF:])[:-5], "A second frame that was cut "
                                                                 "off."),
    ("crc32c-mismatch", [_CRC32C], _WRONG_CRC, "A document whose CRC-32C is another one."),
    ("crc32c-most-significant-byte-first", [_CRC32C], _TEXT + add_crc32c(_TEXT)[:-5:-1],
     "A CRC-32C with its most significant byte first."),
    ("crc32c-too-short", [_CRC32C], b"{}", "A document shorter than its checksum."),
]  # fmt: skip

_INVALID = "invalid_configuration"
_DECLARED: list[tuple[str, str, Any, str]] = [
    ("codecs-are-not-a-list", _INVALID, _GZIP, "codecs is a list, not one codec."),
    ("codecs-are-null", _INVALID, None, "codecs: null is not an empty list."),
    ("codec-is-a-number", _INVALID, [1], "A codec is an object or a string."),
    ("codec-without-a-name", _INVALID, [{"configuration": {}}], "A codec has a name."),
    ("codec-name-is-not-a-string", _INVALID, [{"name": None}], "The name of a codec is a string."),
    ("codec-configuration-is-not-an-object", _INVALID, [{"name": "gzip", "configuration": 5}],
     "A codec's configuration is an object."),
    ("codec-with-an-unknown-member", _INVALID, [{"name": "gzip", "level": 5}],
     "A codec has no members but name, configuration and must_understand."),
    ("codec-must-understand-is-not-a-boolean", _INVALID,
     [{"name": "gzip", "must_understand": "false"}], "must_understand of a codec is a boolean."),
    ("unknown-codec-that-need-not-be-understood", "unsupported_transformer",
     [{"name": "urn:example:cipher", "must_understand": False}],
     "Nobody can decode a document without one of its codecs, whatever must_understand says."),
    ("unknown-codec", "unsupported_transformer", [{"name": "urn:example:cipher"}],
     "A codec that the reader does not implement is an error that names it: the plain text that "
     "the document happens to be must not be read."),
    ("unknown-codec-beside-a-known-one", "unsupported_transformer", ["gzip", "urn:example:cipher"],
     "Every codec of the list must be known."),
    ("form-before-names", _INVALID, ["urn:example:cipher", 1],
     "The form of the list is judged before the names of its codecs."),
]  # fmt: skip


def _json() -> Iterator[Case]:
    yield _case(
        "decoded-but-not-json",
        "What comes out of the codecs is judged like a plain document.",
        [_ZSTD],
        zstd_frame(_TEXT[:-4]),
    ).refuses("invalid_json", "manifest")
    yield _case(
        "encoded-but-not-declared",
        "A document that is encoded, and not declared to be, is not JSON: readers do not guess.",
        [],
        _MEMBER,
    ).refuses("invalid_json", "manifest")
    yield (
        _case(
            "document-does-not-exist",
            "An encoded document that does not exist is an error like a plain one.",
            [_GZIP],
            _MEMBER,
        )
        .array("b", configuration={"manifest": "gone.json.gz", "codecs": [_GZIP]})
        .refuses("manifest_not_found", "manifest", "b")
    )
    configuration = {"manifest": ENTRIES, "codecs": []}
    yield (
        Case(
            f"{AREA}/codecs-beside-an-inline-manifest",
            "partitioned-manifests",
            "An inline manifest is not encoded: codecs beside it say something that cannot be "
            "meant.",
            needs=["encoded-manifests"],
        )
        .array(configuration=configuration)
        .put("a/data.bin", SOURCE)
        .refuses(_INVALID, "declaration")
    )


def _limits() -> Iterator[Case]:
    bomb = zstd_bomb(_TEXT[:-1], b" ", 512, b"}")
    for name, document in (("bomb", bomb), ("bomb-of-two-frames", zstd_frame(_TEXT[:1]) + bomb)):
        yield _case(
            name,
            "A document of a few kilobytes that decodes to 64 MiB: the limit holds for the decoded "
            "size as well, and a reader stops at it instead of filling its memory first.",
            [_ZSTD],
            document,
            limits={"manifest_bytes": _MIB},
        ).refuses("limit_exceeded", "manifest")
    yield _case(
        "bomb-within-gzip",
        "The limit holds for what every single codec returns, not only for the last one.",
        [_ZSTD, _GZIP],
        gzip_member(bomb),
        limits={"manifest_bytes": _MIB},
    ).refuses("limit_exceeded", "manifest")
    yield _case(
        "below-the-limit",
        "Documents that are within the limit, stored and decoded, read as usual.",
        [_ZSTD],
        zstd_frame(_TEXT),
        limits={"manifest_bytes": _MIB},
    ).reads()


def _validated() -> Iterator[Case]:
    for name, document, code in (
        ("validate-corrupt", _MEMBER[:-30], "invalid_manifest"),
        ("validate-not-json", gzip_member(_TEXT[:-4]), "invalid_json"),
        ("validate-nothing-wrong", _MEMBER, None),
    ):
        says = f"reports {code}" if code else "has nothing to say"
        case = _case(
            name, f"A validator decodes documents as well, and {says} here.", [_GZIP], document
        )
        yield case.reports(*([code] if code else []))
