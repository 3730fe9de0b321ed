"""Area ``writing``: arrays that a writer writes, which the runner reads by itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.generator.area_checksums import checksum
from conformance.generator.arrays import Array
from conformance.generator.case import Case
from conformance.generator.standard import ARRAY

AREA = "writing"
_LARGEST = 2**53 - 1
_GRID = Array((4, 6), (2, 2))  # 2 × 3 chunks
_GZIP = [{"name": "gzip", "configuration": {"level": 5}}]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _entries()
    yield from _documents()
    yield from _partitions()
    yield from _refused_entries()
    yield from _refused_declarations()


def _case(name: str, section: str, description: str, *needs: str) -> Case:
    return Case(f"{AREA}/{name}", section, description, needs=needs)


def _of(chunk: int, **members: Any) -> dict[str, Any]:
    return {"chunk": [chunk], **members}


def _inline(data: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(data).decode()}


def _entries() -> Iterator[Case]:
    five = Array((10,), (2,))
    yield _case(
        "ranges",
        "entries",
        "A whole object, ranges with and without a length, an explicitly empty chunk and a missing "
        "one: each becomes the entry that says so. A missing chunk is no entry, and not {}.",
    ).writes(
        [
            _of(0, path="whole.bin"),
            _of(1, path="data.bin", offset=4, length=4),
            _of(2, path="data.bin", offset=8),
            _of(3, empty=True),
        ],
        five,
    )
    yield _case(
        "first-bytes",
        "entries",
        "A length without an offset: the first bytes of the object, stated or left out.",
    ).writes([_of(0, path="data.bin", length=4), _of(1, path="data.bin", offset=0, length=4)])
    yield _case(
        "largest-integers",
        "manifest-document",
        "An offset near 2⁵³: it is written as an integer, without fraction and exponent, and no "
        "digit is lost.",
    ).writes([_of(0, path="data.bin", offset=_LARGEST - 4, length=4)])
    yield _case(
        "inline-data",
        "entries",
        "Chunks that the manifest holds itself, as canonical base64.",
    ).writes([_of(i, **_inline(ARRAY.chunk((i,)))) for i in range(2)])
    yield _case(
        "checksums",
        "checksums",
        "Checksums beside a path and beside data are written as they were given.",
        "checksums",
    ).writes(
        [
            _of(0, path="data.bin", length=4, checksum=checksum("sha256", ARRAY.chunk((0,)))),
            _of(1, **_inline(b"\1\2\3\4"), checksum=checksum("crc32c", b"\1\2\3\4")),
        ]
    )
    yield _case(
        "conditions",
        "source-conditions",
        "The state of the source when the manifest was written: none of it is lost.",
        "source-conditions",
    ).writes(
        [
            _of(0, path="data.bin", etag="0123-abc", last_modified="2024-01-01T12:00:00Z"),
            _of(1, path="data.bin", offset=4, version="v 1"),
        ]
    )
    yield _case(
        "sizes",
        "source-conditions",
        "The size of a source is kept, as an integer: that of an empty one, too.",
        "source-conditions",
    ).writes(
        [
            _of(0, path="data.bin", length=4, size=_LARGEST),
            _of(1, path="data.bin", offset=4, size=0, etag="0123-abc"),
        ]
    )
    yield _case(
        "paths",
        "path-resolution",
        "Queries, escapes and letters beyond ASCII stay as they are; a first segment with a colon "
        "gets ./ before it, because readers take what is before a colon for a scheme.",
    ).writes(
        [
            _of(0, path="https://example.org/d%20e.bin?X-Amz-Expires=60&sig=a%2Fb"),
            _of(1, path="./wrf_d01_00:00.nc"),
            _of(2, path="../größe.bin"),
            _of(3, path="s3://bucket/a+b.bin"),
        ],
        five,
    )


def _documents() -> Iterator[Case]:
    yield _case(
        "no-chunks",
        "listing-size-writing-deleting",
        "An array without any chunk has a manifest all the same: without one it could not be read.",
    ).writes([])
    yield _case(
        "inline-manifest",
        "name-and-configuration",
        "The manifest in the declaration itself: an object, and no document beside it.",
    ).writes([_of(0, path="data.bin", length=4), _of(1, empty=True)], inline=True)
    yield _case(
        "canonical-keys",
        "chunk-keys",
        "Keys are canonical, whatever the array's chunk_key_encoding is.",
    ).writes(
        [{"chunk": [i, j], "path": f"{i}{j}.bin"} for i in range(2) for j in range(3)],
        Array((4, 6), (2, 2), key_encoding=("v2", "/")),
    )
    yield _case(
        "no-dimensions",
        "chunk-keys",
        "The only chunk of an array without dimensions has the key 0.",
    ).writes([{"chunk": [], "path": "data.bin"}], Array((), ()))
    yield _case(
        "array-in-a-group",
        "name-and-configuration",
        "The array is written below groups that do not exist yet; its manifest lies beside it.",
    ).writes([_of(0, path="data.bin", length=4)], array="g/h/a")
    yield _case(
        "gzip",
        "encoded-manifests",
        "The document is encoded with gzip, and the declaration says so.",
        "encoded-manifests",
    ).writes([_of(0, path="data.bin", length=4)], codecs=_GZIP)


def _partitions() -> Iterator[Case]:
    def chunks(*indices: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"chunk": [*index], "path": "data.bin", "offset": sum(index)} for index in indices]

    for name, indices, codecs, what in (
        ("every-block", [(i, j) for i in range(2) for j in range(3)], None, "Every block has"),
        ("some-blocks", [(0, 0), (1, 0), (0, 2)], None, "Two of four blocks have"),
        ("encoded-blocks", [(0, 1), (1, 2)], _GZIP, "Each document is encoded alone; some have"),
        ("no-block", [], None, "No block has"),
    ):  # fmt: skip
        yield _case(
            name,
            "partitioned-manifests",
            f"{what} entries. Every block that the declaration says to have a document has one, "
            "and the entries of a block are in its own document, under the array's keys.",
            "partitions",
            *(["encoded-manifests"] if codecs else []),
        ).writes(chunks(*indices), _GRID, partition_shape=[1, 2], codecs=codecs or [])


_REFUSED: Sequence[tuple[str, str, Mapping[str, Any], str]] = (
    ("length-zero", "invalid_entry", {"path": "d.bin", "length": 0}, "A length of 0 is no bytes"),
    ("empty-data", "invalid_entry", {"data": ""}, "Empty data names no bytes"),
    ("path-and-data", "invalid_entry", {"path": "d.bin", "data": "AA=="}, "Two places"),
    ("offset-without-path", "invalid_entry", {"data": "AA==", "offset": 0}, "An offset into data"),
    ("negative-offset", "invalid_entry", {"path": "d.bin", "offset": -1}, "No byte comes before 0"),
    ("fraction", "invalid_entry", {"path": "d.bin", "offset": 1.5}, "No byte lies at 1.5"),
    ("past-the-largest-integer", "invalid_entry",
     {"path": "d.bin", "offset": _LARGEST, "length": 1}, "The range ends above 2⁵³ - 1"),
    ("misspelt-member", "invalid_entry", {"path": "d.bin", "ofset": 8},
     "A misspelt offset would read other bytes"),
    ("no-place", "invalid_entry", {"checksum": "crc32c:00000000"}, "Neither path, data nor empty"),
    ("null", "invalid_entry", {"path": None}, "A path that is null"),
    ("empty-path", "invalid_path", {"path": ""}, "An empty path names no object"),
    ("backslash", "invalid_path", {"path": "dir\\d.bin"}, "A backslash separates nothing in a URL"),
    ("unknown-scheme", "invalid_path", {"path": "ftp://host/d.bin"}, "No reader knows ftp"),
    ("unknown-checksum", "unsupported_checksum", {"path": "d.bin", "checksum": "md4:00"},
     "No reader can verify md4"),
    ("line-break-in-version", "invalid_entry", {"path": "d.bin", "version": "1\n2"},
     "A line break could change a reader's request"),
)  # fmt: skip


def _refused_entries() -> Iterator[Case]:
    good = _of(0, path="data.bin", offset=4, length=4)
    for name, code, members, why in _REFUSED:
        needs = ["checksums"] if "checksum" in members else []
        needs += ["source-conditions"] if "version" in members else []
        yield _refused(name, "entries", code, "manifest", why, [good, _of(1, **members)], *needs)
    for name, bad, why in (
        ("chunk-outside-the-grid", {"chunk": [2], "path": "d.bin"}, "The array has no such chunk"),
        ("too-many-dimensions", {"chunk": [1, 0], "path": "d.bin"}, "The array has one dimension"),
        ("two-entries-for-a-chunk", {"chunk": [0], "path": "e.bin"}, "Only one of them can hold"),
    ):
        yield _refused(name, "chunk-keys", "invalid_chunk_key", "manifest", why, [good, bad])


def _refused_declarations() -> Iterator[Case]:
    chunks = [_of(0, path="data.bin", offset=4, length=4)]
    for name, request, code, why, *needs in (
        ("partition-shape-too-long", {"partition_shape": [1, 1]}, "invalid_configuration",
         "The array has one dimension", "partitions"),
        ("partition-shape-zero", {"partition_shape": [0]}, "invalid_configuration",
         "A block of no chunks", "partitions"),
        ("inline-and-partitioned", {"partition_shape": [1], "inline": True},
         "invalid_configuration", "One place cannot be several documents", "partitions"),
        ("inline-and-encoded", {"codecs": _GZIP, "inline": True}, "invalid_configuration",
         "There is no document to encode", "encoded-manifests"),
        ("unknown-codec", {"codecs": ["rot13"]}, "unsupported_transformer",
         "No reader can decode it", "encoded-manifests"),
    ):  # fmt: skip
        yield _refused(
            name, "name-and-configuration", code, "declaration", why, chunks, *needs, **request
        )


def _refused(
    name: str,
    section: str,
    code: str,
    phase: str,
    why: str,
    chunks: Sequence[Mapping[str, Any]],
    *needs: str,
    **request: Any,
) -> Case:
    says = f"{why}: the writer refuses the array, and leaves nothing that reads as one."
    return _case(name, section, says, *needs).refuses_to_write(code, phase, chunks, **request)
