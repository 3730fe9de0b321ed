"""Area ``inline``: chunks and manifests that lie in the metadata itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from conformance.generator.area_checksums import checksum
from conformance.generator.arrays import Array, bytes_codec, declaration
from conformance.generator.case import Case
from conformance.generator.frames import gzip_member
from conformance.generator.standard import (
    ARRAY,
    ENTRIES,
    SOURCE,
    refused_and_reported,
    standard,
    with_source,
)

AREA = "inline"


def inline(data: bytes) -> dict[str, str]:
    """Return an entry with these bytes."""
    return {"data": base64.b64encode(data).decode()}


_MANIFEST = {str(i): inline(ARRAY.chunk((i,))) for i in range(2)}
_BYTES = Array(shape=(10,), chunks=(10,), data_type="uint8", fill_value=255)


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _chunks()
    yield from _manifests()
    for name, data, description in _REFUSED:
        yield from refused_and_reported(
            f"{AREA}/{name}",
            "entries",
            f"{description} Decoders that skip what they do not know would return other bytes.",
            "invalid_entry",
            manifest={"0": ENTRIES["0"], "1": {"data": data}},
            reported=name == "not-base64",
            chunk="1",
        )


def _chunks() -> Iterator[Case]:
    yield (
        Case(
            f"{AREA}/data",
            "entries",
            "The encoded bytes of a chunk may lie in its entry, in base64.",
        )
        .array(manifest=_MANIFEST)
        .reads()
    )
    yield (
        standard(
            f"{AREA}/data-beside-references",
            "entries",
            "One manifest may hold some chunks inline and refer to others, as kerchunk's small "
            "arrays do.",
            manifest={"0": _MANIFEST["0"], "1": ENTRIES["1"]},
        )
        .reads()
        .lists("0", "1")
    )
    array = Array(codecs=(bytes_codec("little"), {"name": "gzip", "configuration": {"level": 1}}))
    yield (
        Case(
            f"{AREA}/data-is-encoded",
            "entries",
            "Inline data are the chunk's encoded bytes: the array's codecs decode them.",
            needs=["gzip"],
        )
        .array(
            array=array,
            manifest={str(i): inline(gzip_member(array.chunk((i,)))) for i in range(2)},
        )
        .reads()
    )
    every_byte = Array(
        shape=(256,), chunks=(256,), data_type="uint8", values=tuple(range(256)), fill_value=7
    )
    yield (
        Case(
            f"{AREA}/every-byte",
            "entries",
            "All 256 bytes survive base64, with its characters + and /.",
        )
        .array(array=every_byte, manifest={"0": inline(every_byte.chunk((0,)))})
        .reads()
    )
    chunk = _BYTES.chunk((0,))
    yield (
        Case(
            f"{AREA}/parts-of-data",
            "reading",
            "Ranges and suffixes of inline data are clamped to it, as those of sources are.",
        )
        .array(array=_BYTES, manifest={"0": inline(chunk)})
        .gets([0], None, chunk)
        .gets([0], {"start": 7, "stop": 40}, chunk[7:])
        .gets([0], {"last": 3}, chunk[-3:])
        .gets([0], {"last": 40}, chunk)
        .gets([0], {"last": 0}, b"")
        .gets([0], {"start": 11}, b"")
    )
    yield standard(
        f"{AREA}/annotations-beside-data",
        "entries",
        "Annotations are ignored beside data as well as beside a path.",
        manifest={key: {"_source": "x", "a:b": "y", **entry} for key, entry in _MANIFEST.items()},
    ).reads()
    yield from refused_and_reported(
        f"{AREA}/unknown-member-beside-data",
        "entries",
        "A member beside data that is neither known nor an annotation may change what the bytes "
        "mean.",
        "invalid_entry",
        manifest={"0": _MANIFEST["0"], "1": {**_MANIFEST["1"], "compression": "gzip"}},
        reported=False,
    )
    for name, data in (("matches", ARRAY.chunk((1,))), ("mismatch", ARRAY.chunk((0,)))):
        entry = {**_MANIFEST["1"], "checksum": checksum("crc32c", data)}
        case = Case(
            f"{AREA}/checksum-{name}",
            "checksums",
            "Checksums of inline data are verified like others: a manifest may be damaged as well.",
        ).array(manifest={"0": _MANIFEST["0"], "1": entry})
        yield case.reads() if name == "matches" else case.refuses("checksum_mismatch", "chunk")


def _manifests() -> Iterator[Case]:
    for name, manifest, description in (
        (
            "manifest",
            ENTRIES,
            "The manifest may be an object in the declaration: no document is read.",
        ),
        (
            "manifest-with-data",
            _MANIFEST,
            "An array may lie in its zarr.json altogether: neither document nor source is read.",
        ),
        (
            "manifest-with-own-keys",
            {f"c/{key}": entry for key, entry in ENTRIES.items()},
            "Inline manifests have the same keys as documents, canonical or the array's own.",
        ),
    ):
        case = Case(f"{AREA}/{name}", "name-and-configuration", description)
        yield with_source(case, {}, configuration={"manifest": manifest}).reads()
    case = Case(
        f"{AREA}/empty-manifest",
        "name-and-configuration",
        "An empty object is a manifest without entries: all chunks are missing, and "
        "./manifest.json is not looked for.",
    )
    yield with_source(case, ENTRIES, configuration={"manifest": {}}).reads(missing=[(0,), (1,)])
    case = Case(
        f"{AREA}/manifest-with-base",
        "name-and-configuration",
        "base holds for inline manifests as well: their relative paths resolve against it.",
    )
    configuration = {"manifest": ENTRIES, "base": "../raw/"}
    yield case.array(configuration=configuration).put("raw/data.bin", SOURCE).reads()
    for name, manifest, code in (
        (
         "manifest-with-invalid-entry",
          {"0": ENTRIES["0"], "1": {"path": "data.bin", "offset": -1}},
         "invalid_entry"),
        ("manifest-with-invalid-key", {"0": ENTRIES["0"], "01": ENTRIES["1"]}, "invalid_chunk_key"),
    ):  # fmt: skip
        yield from refused_and_reported(
            f"{AREA}/{name}",
            "manifest-document",
            "Inline manifests are judged like documents, in the same phase: zarr.json itself is "
            "valid.",
            code,
            declared={"transformers": [declaration({"manifest": manifest})]},
            chunk="01" if "01" in manifest else "1",
        )


# Name, data of chunk 1 ("ZwBoAA==" would be right), description.
_REFUSED: list[tuple[str, Any, str]] = [
    ("not-base64", "g h ?!", "data that is not base64."),
    ("base64-without-padding", "ZwBoAA", "base64 is padded."),
    ("base64-with-too-much-padding", "ZwBoAA===", "base64 is padded to a multiple of four, not "
                                                  "more."),
    ("base64-with-a-line-break", "ZwBo\nAA==", "base64 has no line breaks, as MIME has."),
    ("base64-with-a-space", "ZwBo AA==", "base64 has no spaces."),
    ("base64-of-urls", "-_-_ZwA=", "The alphabet is that of RFC 4648 section 4, not that of URLs."),
    ("base64-with-padding-inside", "Zw==AGgA", "Padding ends base64; nothing follows it."),
    ("base64-with-a-prefix", "base64:ZwBoAA==", "kerchunk's prefix base64: is not part of data."),
    ("data-url", "data:;base64,ZwBoAA==", "data is base64, not a data: URL."),
    ("empty-data", "", "Empty data names no bytes: an explicitly empty chunk is {}."),
]  # fmt: skip
