"""Placeholders and checksums of a declaration: which are valid, and what they become."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import (
    Configuration,
    collect,
    document_checksum,
    document_reference,
    interpret_declaration,
    parse_declaration,
)
from zarr_manifest.format.declaration import TRANSFORMER_NAME
from zarr_manifest.format.documents_by_digest import (
    are_document_checksums,
    interpret_document_checksum,
)

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
CONTRADICTIONS: list[tuple[Any, dict[str, Any]]] = [
    ({}, {"checksum": VALID}),
    ("{partition}", {**SPLIT, "checksum": VALID}),
    ("{partition}", {**SPLIT, "partitions": {"0": VALID}, "checksum": VALID}),
    ("m", {"partitions": {"0": VALID}}),
    ("{digest}", {}),
    ("{partition}-{digest}", SPLIT),
    ("{partition}-{digest}", {**SPLIT, "partitions": "all"}),
    ("{partition}-{digest}", {**SPLIT, "partitions": ["0"]}),
    ("{digest}/{digest}", {"checksum": VALID}),
    ("m?{digest}", {"checksum": VALID}),
    ("s3://{digest}/m", {"checksum": VALID}),
    ("a{digest}:b", {"checksum": VALID}),
    ("a{digest}{partition}:b", {**SPLIT, "partitions": {"0": VALID}}),
    ("{digest}", {**SPLIT, "partitions": {"0": VALID}}),
]


@pytest.mark.parametrize(("manifest", "members"), CONTRADICTIONS)
def test_contradictions(manifest: Any, members: dict[str, Any]) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError):
        parse_declaration(declare(manifest, **members))


MALFORMED: list[Any] = [None, 7, True, [], {}, "", "sha256", "sha256:", ":", f":{'a' * 64}",
             VALID.upper()[7:], VALID[:-1], VALID + "0", VALID[:-1] + "F",
             VALID + "\n"]  # fmt: skip
OTHERS: list[Any] = [" " + VALID, "crc32c:00000000", f"sha512:{'0' * 128}", f"SHA256:{VALID[7:]}",
                     "blake3:x", "md5:"]  # fmt: skip


@pytest.mark.parametrize("code_of", ["checksum", "partitions"])
@pytest.mark.parametrize("value", [*MALFORMED, *OTHERS])
def test_checksums_that_are_refused(value: Any, code_of: str) -> None:
    if code_of == "checksum":
        declared = declare("m", checksum=value)
    else:
        declared = declare("{partition}", **SPLIT, partitions={"0": VALID, "1": value})
    found, problems = collect(interpret_declaration(declared))
    assert found is None
    is_other = isinstance(value, str) and value in OTHERS
    expected = "unsupported_checksum" if is_other else "invalid_configuration"
    assert [problem.code for problem in problems] == [expected]


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
    each = [collect(interpret_document_checksum(value, "it"))[1] for value in declared]
    assert are_document_checksums(declared) == (not any(each))


@given(st.binary(max_size=100))
def test_a_name_contains_the_first_digits_of_the_digest(body: bytes) -> None:
    checksum = document_checksum(body)
    assert checksum == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert document_reference("a/{digest}.json", None, checksum) == f"a/{checksum[7:23]}.json"
    filled = document_reference("{digest}/{partition}", (3, 0), checksum)
    assert filled == f"{checksum[7:23]}/3.0"
