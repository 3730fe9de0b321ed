"""Placeholders and checksums of a declaration: which are valid, and what they become."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    Configuration,
    Limits,
    VerifiedBody,
    collect,
    document_checksum,
    document_reference,
    interpret_declaration,
    parse_declaration,
    strict,
)
from zarr_manifest.manifest import Grid, interpret_manifest

VALID = f"sha256:{'0123456789abcdef' * 4}"


def declare(manifest: Any, **members: Any) -> dict[str, Any]:
    configuration = {"manifest": manifest, **members}
    return {"storage_transformers": [{"name": TRANSFORMER_NAME, "configuration": configuration}]}


def test_a_document_with_a_checksum() -> None:
    found = parse_declaration(declare("./m-{digest}.json", checksum=VALID))
    assert found == Configuration("./m-{digest}.json", checksum=VALID)
    assert found.has_checksums
    assert parse_declaration(declare("./m.json", checksum=VALID)) is not None


def test_partitions_with_checksums() -> None:
    split = {"partition_shape": [1], "partitions": {"0": VALID, "2": VALID}}
    found = parse_declaration(declare("{partition}-{digest}", **split))
    assert found is not None
    assert found.partitions == {"0": VALID, "2": VALID}
    assert found.has_checksums
    assert parse_declaration(declare("{partition}", **split)) is not None
    none = parse_declaration(declare("{digest}/{partition}", partition_shape=[1], partitions={}))
    assert none is not None
    assert none.has_checksums


SPLIT: dict[str, Any] = {"partition_shape": [1]}


def test_a_digest_is_no_part_of_a_scheme() -> None:
    for manifest, members in (
        ("a{digest}:b", {"checksum": VALID}),
        ("a{digest}{partition}:b", {**SPLIT, "partitions": {"0": VALID}}),
    ):
        with pytest.raises(zm.errors.InvalidConfigurationError, match="once"):
            parse_declaration(declare(manifest, **members))


MALFORMED: list[Any] = [None, 7, True, [], {}, "", "sha256", "sha256:", ":", f":{'a' * 64}",
             VALID.upper()[7:], VALID[:-1], VALID + "0", VALID[:-1] + "F",
             VALID + "\n"]  # fmt: skip
OTHERS: list[Any] = [" " + VALID, "crc32c:00000000", f"sha512:{'0' * 128}", f"SHA256:{VALID[7:]}",
                     "blake3:x", "md5:"]  # fmt: skip


def test_messages_are_short_and_say_where() -> None:
    name, value = "9" * 10_000, "x" * 10_000
    declared = declare("{partition}", **SPLIT, partitions={name: f"{value}:{value}"})
    _, (problem,) = collect(interpret_declaration(declared))
    assert "'partitions'" in problem.problem
    assert len(str(problem)) < 400


CHECKSUMS = st.binary(max_size=3).map(document_checksum)
TEXTS = CHECKSUMS | st.sampled_from(MALFORMED + OTHERS) | st.text(max_size=3)
LINES = st.lists(CHECKSUMS, min_size=2, max_size=2).map("\n".join)


@given(st.lists(TEXTS | LINES, max_size=4))
def test_checking_many_at_once_is_checking_each(declared: list[Any]) -> None:
    def codes_of(*values: Any) -> list[str]:
        partitions = {str(number): value for number, value in enumerate(values)}
        declaration = declare("{partition}", **SPLIT, partitions=partitions)
        return [problem.code for problem in collect(interpret_declaration(declaration))[1]]

    each = [code for value in declared for code in codes_of(value)]
    assert codes_of(*declared) == each[:1]


@given(st.binary(max_size=100))
def test_a_name_contains_the_first_digits_of_the_digest(body: bytes) -> None:
    checksum = document_checksum(body)
    assert checksum == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert document_reference("a/{digest}.json", None, checksum) == f"a/{checksum[7:23]}.json"
    filled = document_reference("{digest}/{partition}", (3, 0), checksum)
    assert filled == f"{checksum[7:23]}/3.0"


# Documents that are verified while they are read ---------------------------------------


class Lazy:
    """A document that counts the bytes that are read of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.count = 0

    def __len__(self) -> int:
        return len(self.body)

    def __getitem__(self, places: slice) -> bytes:
        found = self.body[places]
        self.count += len(found)
        return found

    def __bytes__(self) -> bytes:
        return self[:]

    def read_into(self, start: int, view: memoryview) -> None:
        view[:] = self[start : start + len(view)]


PLACES = st.integers(0, 3000)
READS = st.lists(st.tuples(st.sampled_from(["slice", "into", "bytes"]), PLACES, PLACES), max_size=6)


@given(st.binary(max_size=10), st.integers(0, 300), READS)
def test_the_checksum_is_that_of_all_bytes_however_they_were_read(
    piece: bytes, times: int, reads: list[tuple[str, int, int]]
) -> None:
    body = piece * times
    verified = VerifiedBody(Lazy(body), document_checksum(body))
    other = VerifiedBody(Lazy(body), document_checksum(body + b"x"))
    for kind, start, stop in reads:
        if kind == "bytes":
            assert bytes(verified) == body
            with pytest.raises(zm.errors.ChecksumMismatchError):
                bytes(other)
        elif kind == "slice":
            assert verified[start:stop] == other[start:stop] == body[start:stop]
        else:
            view = memoryview(bytearray(len(body[start:stop])))
            for document in (verified, other):
                document.read_into(start, view)
            assert view == body[start:stop]
    for _ in range(2):
        verified.verify()
        with pytest.raises(zm.errors.ChecksumMismatchError):
            other.verify()


@pytest.mark.slow
@pytest.mark.parametrize("part_bytes", [2**16, 2**18, None])
def test_a_document_is_read_once(part_bytes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if part_bytes is not None:
        monkeypatch.setattr("zarr_manifest.manifest.decoding._PART_BYTES", part_bytes)
    entries = {str(i): {"path": "s3://b/f.nc", "offset": i, "length": 1} for i in range(20_000)}
    body = json.dumps(entries).encode()
    grid = Grid(1, (20_000,))
    plain, lazy = Lazy(body), Lazy(body)
    strict(interpret_manifest(plain, grid, Limits()))
    verified = VerifiedBody(lazy, document_checksum(body))
    strict(interpret_manifest(verified, grid, Limits()))
    assert lazy.count - plain.count < 100  # what is between two parts
    verified.verify()
    assert lazy.count - plain.count < 100  # nothing was left to be read
