"""Every JSON block of the specification is what the comment before it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specs.tests.text import DOCUMENTS, Block, blocks, marked
from specs.tests.verdicts import METADATA, in_package, in_schema

KINDS = {
    "valid declaration",
    "invalid declaration",
    "valid lock",
    "invalid lock",
    "valid pending",
    "valid manifest",
    "invalid manifest",
    "file",
    "reads",
}

# Invalid blocks that the schema accepts, and why (see `specs.tests.differences`).
BEYOND_THE_SCHEMA: dict[str, str] = {}


def _id(block: Block) -> str:
    return f"{block.document}, line {block.line}: {block.mark}"


def _parameters(kind: str) -> list[Any]:
    """The blocks of a kind."""
    return [pytest.param(block, id=_id(block)) for block in marked(kind)]


def _metadata(declaration: object) -> dict[str, object]:
    """An array with as many dimensions as the declaration's partitions."""
    shape = json.loads(json.dumps(declaration))["configuration"].get("partition_shape", [1, 1])
    grid = {"name": "regular", "configuration": {"chunk_shape": [1] * len(shape)}}
    return {"shape": [8] * len(shape), "chunk_grid": grid}


@pytest.mark.parametrize(
    "block", [x for name, text in DOCUMENTS.items() for x in blocks(text, name)], ids=_id
)
def test_block_is_marked_and_is_json(block: Block) -> None:
    assert block.kind in KINDS, f"line {block.line} needs a comment that says what must hold"
    assert bool(block.argument) == (not block.kind.startswith("valid"))
    json.loads(block.body)


def test_block_without_a_mark_is_found() -> None:
    text = "<!-- valid manifest -->\n\ntext\n\n```json\n{}\n```\n\n  ```json\n  {}\n  ```\n"
    assert [block.mark for block in blocks(text)] == ["", ""]
    assert [block.mark for block in blocks("<!-- a: b -->\n```json\n{}\n```\n")] == ["a: b"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_fence_has_a_language(document: str) -> None:
    lines = DOCUMENTS[document].splitlines()
    fences = [line.strip() for line in lines if line.lstrip().startswith("```")]
    assert all(fence != "```" for fence in fences[::2])
    assert all(fence == "```" for fence in fences[1::2])


@pytest.mark.parametrize("block", _parameters("valid declaration"))
def test_valid_declaration(block: Block) -> None:
    declaration = json.loads(block.body)
    assert in_schema("declaration", declaration)
    assert in_package("declaration", declaration, **_metadata(declaration)) is None


@pytest.mark.parametrize("block", _parameters("invalid declaration"))
def test_invalid_declaration(block: Block) -> None:
    declaration = json.loads(block.body)
    assert in_schema("declaration", declaration) == (block.body in BEYOND_THE_SCHEMA)
    assert in_package("declaration", declaration, **_metadata(declaration)) == block.argument


@pytest.mark.parametrize("block", _parameters("valid lock"))
def test_valid_lock(block: Block) -> None:
    lock = json.loads(block.body)
    assert in_schema("lock", lock)
    assert in_package("lock", lock) is None


@pytest.mark.parametrize("block", _parameters("invalid lock"))
def test_invalid_lock(block: Block) -> None:
    lock = json.loads(block.body)
    assert not in_schema("lock", lock)
    assert in_package("lock", lock) == block.argument


@pytest.mark.parametrize("block", _parameters("valid pending"))
def test_valid_pending(block: Block) -> None:
    pending = json.loads(block.body)
    assert in_schema("pending", pending)
    assert {type(value) for value in pending.values()} == {str, type(None)}
    for value in ("sha256:", "2c26", 1, {}):
        assert not in_schema("pending", {**pending, "sst": value})


@pytest.mark.parametrize("block", _parameters("valid manifest"))
def test_valid_manifest(block: Block) -> None:
    manifest = json.loads(block.body)
    assert in_schema("manifest", manifest)
    assert in_package("manifest", manifest) is None


@pytest.mark.parametrize("block", _parameters("invalid manifest"))
def test_invalid_manifest(block: Block) -> None:
    manifest = json.loads(block.body)
    assert in_schema("manifest", manifest) == (block.body in BEYOND_THE_SCHEMA)
    assert in_package("manifest", manifest) == block.argument


def test_array_of_these_tests_is_valid() -> None:
    assert in_package("storage_transformers", []) is None
    assert METADATA["shape"] == [8, 8]
