"""Area ``checksums``: what an entry says of its bytes, and when it is verified."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.generator.arrays import Array, bytes_codec
from conformance.generator.case import Case, failure
from conformance.generator.frames import crc32c, gzip_member
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE, refused_and_reported, with_source

AREA = "checksums"
_SECTION = "checksums"
_DAMAGED = SOURCE[:9] + bytes([SOURCE[9] ^ 1]) + SOURCE[10:]  # within chunk 1
_ALGORITHMS: dict[str, Callable[[bytes], str]] = {
    "crc32c": lambda data: f"{crc32c(data):08x}",
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "crc32": lambda data: f"{zlib.crc32(data):08x}",
    "sha512": lambda data: hashlib.sha512(data).hexdigest(),
}
_OPTIONAL = {"crc32", "sha512"}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _registry()
    yield from _what_is_covered()
    yield from _policies()
    for name, code, checksum, description in _REFUSED:
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} A reader that ignores it would read bytes that nobody verified.",
            code,
            manifest={"0": ENTRIES["0"], "1": {**ENTRIES["1"], "checksum": checksum}},
            reported=name in ("unknown-algorithm", "upper-case-digest"),
            chunk="1",
        )


def checksum(algorithm: str, data: bytes) -> str:
    """Return a checksum as an entry states it."""
    return f"{algorithm}:{_ALGORITHMS[algorithm](data)}"


def _manifest(algorithm: str = "sha256") -> dict[str, Any]:
    return {
        key: {**ENTRIES[key], "checksum": checksum(algorithm, ARRAY.chunk((int(key),)))}
        for key in ("0", "1")
    }


def _case(name: str, description: str, source: bytes, manifest: Any, **options: Any) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description, **options)
    return case.array(manifest=manifest).put("a/data.bin", source)


def _registry() -> Iterator[Case]:
    for algorithm in _ALGORITHMS:
        level = "should" if algorithm in _OPTIONAL else "must"
        yield _case(
            f"{algorithm}-matches",
            f"Chunks with the right {algorithm} read as usual: the digest is computed as others "
            "do.",
            SOURCE,
            _manifest(algorithm),
            level=level,
        ).reads()
        yield (
            _case(
                f"{algorithm}-mismatch",
                f"One bit of a chunk is not what its {algorithm} says: an error, and not wrong "
                "values. The chunk beside it still reads.",
                _DAMAGED,
                _manifest(algorithm),
                level=level,
            )
            .refuses("checksum_mismatch", "chunk")
            .reads(selection=[[0, 2]])
        )


def _what_is_covered() -> Iterator[Case]:
    swapped = struct.pack("<I", crc32c(ARRAY.chunk((1,)))).hex()
    yield _case(
        "crc32c-least-significant-byte-first",
        "The digest of a CRC is written as a number, most significant byte first. The reverse is "
        "another checksum, and does not match.",
        SOURCE,
        {"0": ENTRIES["0"], "1": {**ENTRIES["1"], "checksum": f"crc32c:{swapped}"}},
    ).refuses("checksum_mismatch", "chunk")
    array = Array(codecs=(bytes_codec("little"), {"name": "gzip", "configuration": {"level": 1}}))
    for name, of_encoded in (("of-encoded-bytes", True), ("of-decoded-bytes", False)):
        entries, source = array.lay_out("data.bin", encode=gzip_member)
        for index in array.indices():
            data = gzip_member(array.chunk(index)) if of_encoded else array.chunk(index)
            entries[str(index[0])]["checksum"] = checksum("sha256", data)
        case = Case(
            f"{AREA}/{name}",
            _SECTION,
            "A checksum is that of the chunk's encoded bytes, as they lie in the source"
            + ("." if of_encoded else ": one of the decoded values does not match."),
            needs=["gzip"],
        )
        case.array(array=array, manifest=entries).put("a/data.bin", source)
        yield case.reads() if of_encoded else case.refuses("checksum_mismatch", "chunk")
    whole = checksum("sha256", SOURCE)
    yield _case(
        "of-the-whole-object",
        "A checksum is that of the chunk's bytes, not of the object that holds them.",
        SOURCE,
        {"0": {**ENTRIES["0"], "checksum": whole}, "1": ENTRIES["1"]},
    ).refuses("checksum_mismatch", "chunk")
    yield _case(
        "of-an-open-ended-entry",
        "The checksum of an entry without a length covers the bytes up to the end of the object.",
        SOURCE[:12],
        {
            "0": ENTRIES["0"],
            "1": {"path": "data.bin", "offset": 8, "checksum": checksum("md5", ARRAY.chunk((1,)))},
        },
    ).reads()


def _policies() -> Iterator[Case]:
    yield _case(
        "verify-never",
        "A reader that is told not to verify checksums returns what is there.",
        _DAMAGED,
        _manifest(),
        verify="never",
    ).gets([1], None, _DAMAGED[8:12])
    yield (
        _case(
            "verify-always",
            "A reader that is told to verify always reads the whole chunk for a part of it, and "
            "finds that it is damaged.",
            _DAMAGED,
            _manifest(),
            verify="always",
        )
        .refuses("checksum_mismatch", "chunk", op="get_chunk", chunk=[1], range={"start": 2})
        .gets([0], {"start": 1, "stop": 3}, SOURCE[5:7])
    )
    case = _case(
        "part-of-a-chunk",
        "By default a part of a chunk is not verified, because that would mean to read all of it; "
        "a reader that does so anyway must raise. Nobody may return other bytes.",
        _DAMAGED,
        _manifest(),
    )
    answer = case.answer("bytes", _DAMAGED[10:12])
    yield case.ask(
        "get_chunk",
        {"array": "a", "chunk": [1], "range": {"start": 2, "stop": 4}},
        {"any_of": [answer, failure("checksum_mismatch", "chunk")]},
    )
    yield with_source(
        Case(
            f"{AREA}/unsupported-although-never-verified",
            _SECTION,
            "An unknown algorithm is refused even by a reader that is told not to verify: "
            "documents are valid or not, whoever reads them.",
            verify="never",
        ),
        {"0": ENTRIES["0"], "1": {**ENTRIES["1"], "checksum": "xxh3:0011223344556677"}},
    ).refuses("unsupported_checksum", "manifest")


_SHA = hashlib.sha256(ARRAY.chunk((1,))).hexdigest()
_REFUSED = [
    ("unknown-algorithm", "unsupported_checksum", "xxh3:0011223344556677",
     "xxh3 is not in the registry."),
    ("upper-case-algorithm", "unsupported_checksum", f"SHA256:{_SHA}",
     "Names of algorithms are lower-case; SHA256 is not in the registry."),
    ("upper-case-digest", "invalid_entry", f"sha256:{_SHA.upper()}", "Digests are lower-case."),
    ("digest-too-short", "invalid_entry", f"sha256:{_SHA[:-2]}",
     "A digest has as many digits as its algorithm says; a shortened one is not a weaker one."),
    ("digest-is-empty", "invalid_entry", "sha256:", "An empty digest matches nothing."),
    ("digest-is-not-hex", "invalid_entry", f"sha256:{'g' * 64}", "g is no hex digit."),
    ("digest-in-base64", "invalid_entry", "md5:1B2M2Y8AsgTpgAmY7PhCfg==",
     "Digests are hex, not base64, as HTTP headers have them."),
    ("digest-with-spaces", "invalid_entry", f"sha256: {_SHA[1:]}", "Digests hold nothing but "
                                                                   "digits."),
    ("no-colon", "invalid_entry", _SHA, "A checksum names its algorithm."),
    ("no-algorithm", "invalid_entry", f":{_SHA}", "A checksum names its algorithm before the "
                                                  "colon."),
    ("empty-checksum", "invalid_entry", "", "An empty checksum is not the absence of one."),
]  # fmt: skip
