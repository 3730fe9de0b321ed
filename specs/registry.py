"""Writes the specification as it is submitted to the registry of Zarr extensions, and checks it.

``python -m specs.registry DIRECTORY`` writes ``storage-transformers/chunk-manifest-json/`` there:
the text, with what pyproject.toml alone says (repository, maintainers, implementations), schemas,
examples, licence. Then it checks what the registry asks for: links, the form of schemas, prettier,
a name, a change log, maintainers.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource

from specs.tests.text import CORE, DIRECTORY, anchors, headings

__all__ = ["PLACE", "check", "main", "write"]

PLACE = f"storage-transformers/{DIRECTORY.name}"
_ROOT = DIRECTORY.parent.parent
_PRETTIER = _ROOT / "conformance/adapters/javascript/node_modules/prettier/bin/prettier.cjs"
_MAINTAINERS = "<!-- filled in where this text is published -->"
_AFTER = re.compile(r"^\| \*\*Schemas\*\* .*\n", re.M)
_LINK = re.compile(r"\[[^\[\]]+\]\(([^)\s|]+)\)")
_SECTIONS = ("Name and configuration", "Examples", "Compatibility", "Change log")
_SUFFIXES = {".md", ".json", ".gz", ".bin"}


def write(directory: Path) -> Path:
    """Write the submission below a directory, and return its own directory."""
    target = directory / PLACE
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DIRECTORY, target)
    core = target / CORE
    core.write_text(_completed(core.read_text(encoding="utf-8")), encoding="utf-8")
    return target


def _completed(text: str) -> str:
    """Return the core with the repository, the maintainers and the implementations."""
    stated = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository = stated["project"]["urls"]["Repository"]
    registry = stated["tool"]["registry"]
    listed = "; ".join(registry["implementations"])
    rows = (
        f"| **Implementations** | {listed} |\n"
        f"| **Repository** | [this text, implementations, conformance suite]({repository}) |\n"
    )
    text, added = _AFTER.subn(lambda match: match[0] + rows, text)
    maintainers = "\n".join(f"* {name}" for name in registry["maintainers"])
    if added != 1 or text.count(_MAINTAINERS) != 1:
        raise ValueError("the core has no place for its implementations or maintainers")
    return text.replace(_MAINTAINERS, maintainers)


def check(target: Path) -> Iterator[str]:
    """Yield what the registry would find wrong with a submission."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(target.rglob("*.md"))}
    for page, text in pages.items():
        for link in _LINK.findall(text):
            wrong = _wrong_link(page, link, target)
            if wrong:
                yield f"{page.relative_to(target)}: {link} {wrong}"
    yield from _wrong_form(pages.get(target / CORE, ""), target)
    schemas = sorted(target.glob("*schema.json"))
    yield from _wrong_schemas(schemas, target)
    # With prettier's defaults: no configuration of ours reaches the registry.
    command = ["node", _PRETTIER, "--no-config", "--no-editorconfig", "--check", *schemas]
    formatted = subprocess.run(command, capture_output=True, text=True, check=False)
    if formatted.returncode != 0:
        yield f"prettier: {formatted.stderr.strip()}"


def _wrong_link(page: Path, link: str, target: Path) -> str | None:
    if link.startswith("https://"):
        return None  # the registry asks the servers; this is no place to
    if ":" in link:
        return "is no https URL"
    name, _, anchor = link.partition("#")
    found = (page.parent / name if name else page).resolve()
    if not found.is_relative_to(target.resolve()):
        return "leads out of the submission"
    if not found.exists():
        return "leads nowhere"
    if anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
        return "names no heading"
    return None


def _wrong_form(core: str, target: Path) -> Iterator[str]:
    found = headings(core)
    if not core.startswith("# "):
        yield "README.md does not begin with its title"
    yield from (f"README.md has no section {name!r}" for name in _SECTIONS if name not in found)
    if not re.search(r"^## Current maintainers\n+\* \S", core, re.M):
        yield "README.md names no maintainer"
    if not (target / "LICENSE").exists():
        yield "there is no LICENSE"
    for path in sorted(target.rglob("*")):
        in_chunks = "c" in path.relative_to(target).parts
        if (
            path.is_file()
            and path.suffix not in _SUFFIXES
            and path.name != "LICENSE"
            and not in_chunks
        ):
            yield f"{path.relative_to(target)} is no file of a specification"


def _wrong_schemas(paths: Sequence[Path], target: Path) -> Iterator[str]:
    schemas: dict[str, Any] = {path.name: json.loads(path.read_bytes()) for path in paths}
    if "schema.json" not in schemas:
        yield "there is no schema.json"
        return
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(schema)) for name, schema in schemas.items()
    )
    for name, schema in schemas.items():
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            yield f"{name}: {error.message}"
            return
        for example in schema.get("examples", ()):
            for error in Draft202012Validator(schema, registry=registry).iter_errors(example):
                yield f"{name}, an example: {error.message}"
    if schemas["schema.json"]["properties"]["name"].get("const") != target.name:
        yield "schema.json has another name than the directory"
    declared = Draft202012Validator({"$ref": "schema.json"}, registry=registry)
    for node in sorted(target.rglob("zarr.json")):
        for transformer in json.loads(node.read_bytes()).get("storage_transformers", ()):
            for error in declared.iter_errors(transformer):
                yield f"{node.relative_to(target)}: {error.message}"


def main(arguments: Sequence[str]) -> int:
    """Write and check; return the exit status."""
    target = write(Path(arguments[0]))
    problems = list(check(target))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        files = sum(path.is_file() for path in target.rglob("*"))
        print(f"{target}: {files} files, as the registry asks for")
    if "https://example.org/" in (target / CORE).read_text(encoding="utf-8"):
        print(
            "note: fill in pyproject.toml before this is submitted: the repository has no URL yet"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
