"""The form that the registry of Zarr extensions asks for (zarr-developers/zarr-extensions).

A directory with a README.md that describes the extension, and a schema.json that prettier
formatted; a name without reserved characters; maintainers, changes, and the registry's licence.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specs.tests.text import CORE, DIRECTORY, DOCUMENTS, headings, section
from specs.tests.verdicts import MANIFEST_SCHEMA, SCHEMA

SCHEMAS = {"schema.json": SCHEMA, "manifest.schema.json": MANIFEST_SCHEMA}
PRETTIER = (
    Path(__file__).resolve().parents[2]
    / "conformance/adapters/javascript/node_modules/prettier/bin/prettier.cjs"
)
# What the registry reserves: the delimiters of URIs, and those of its own namespaces.
RESERVED = set(":/?#[]@!$&'()*+,;=.~")
SECTIONS = [
    *("Abstract", "Motivation", "Conventions", "Definitions", "Name and configuration"),
    *("Manifest document", "Chunk keys", "Entries", "Path resolution", "Reading"),
    *("Missing and explicitly empty", "Listing, size, writing, deleting", "Sharding"),
    *("Conformance classes", "Security considerations", "Compatibility", "Examples"),
    *("Versioning", "Prior work", "Current maintainers", "Licence", "Change log"),
]


def test_sections() -> None:
    second_level = re.findall(r"^## (.+)$", DOCUMENTS[CORE], re.M)
    assert second_level == SECTIONS
    assert headings(DOCUMENTS[CORE])[0] == "Chunk manifest (JSON) storage transformer"


def test_name() -> None:
    (stated,) = re.findall(r"^\| \*\*Name\*\* \| `(.+)` \|$", DOCUMENTS[CORE], re.M)
    assert stated == SCHEMA["properties"]["name"]["const"]
    assert set(stated) & RESERVED == set()


def test_version_has_an_entry_in_the_change_log() -> None:
    (stated,) = re.findall(r"^\| \*\*Version\*\* \| (\S+)", DOCUMENTS[CORE], re.M)
    newest, *_ = re.findall(r"^- (\S+) \(", section("Change log"), re.M)
    assert newest == stated


def test_licence_and_maintainers() -> None:
    licence = "https://creativecommons.org/licenses/by/3.0/"
    assert licence in section("Licence")
    assert licence in (DIRECTORY / "LICENSE").read_text(encoding="utf-8")
    assert section("Current maintainers").strip()


def test_companions_say_what_they_belong_to() -> None:
    for name, text in DOCUMENTS.items():
        assert name == CORE or "Companion of the [chunk manifest specification](README.md)" in text


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_complete(name: str) -> None:
    """Titles, named definitions, and no reference beyond this directory."""
    schema = SCHEMAS[name]
    assert schema["$id"] == name
    assert schema["title"]
    assert schema["description"]
    assert [key for key, part in schema["$defs"].items() if "title" not in part] == []
    references = list(_references(schema))
    assert references
    for reference in references:
        document, _, pointer = reference.partition("#")
        part: Any = SCHEMAS[document or name]
        for key in pointer.split("/")[1:]:
            part = part[key]


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for member in part.values():
            yield from _references(member)
    elif isinstance(part, list):
        for member in part:
            yield from _references(member)


def test_every_definition_is_used_or_a_kind_of_document() -> None:
    texts = "".join(json.dumps(schema) for schema in SCHEMAS.values())
    unused = {
        key
        for schema in SCHEMAS.values()
        for key in schema["$defs"]
        if f'#/$defs/{key}"' not in texts
    }
    assert unused == {"lock", "pending", "storage_transformers"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_formatted_by_prettier(name: str) -> None:
    if shutil.which("node") is None or not PRETTIER.exists():
        pytest.skip("`make conformance` installs prettier")
    # With prettier's defaults: no configuration of ours reaches the registry.
    command = ["node", PRETTIER, "--no-config", "--no-editorconfig", "--check", DIRECTORY / name]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
