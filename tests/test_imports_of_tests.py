"""Tests import packages through their interfaces, as packages do; what looks inside says why."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Modules that only these tests look into, and why no interface will do. "Smaller" are limits that
# take hundreds of megabytes, or seconds, to reach; "pure" are rules that are stated as properties.
INSIDE: dict[str, tuple[str, set[str]]] = {
    "command_line.application": (
        "called in this process; main() ends it",
        {"command_line/commands", "hierarchy/test_process_end"},
    ),
    "command_line.wording": (
        "the table of options, compared with all that the package advises",
        {"command_line/test_wording"},
    ),
    "conversion.files.combining.combination": ("pure", {"conversion/files/test_files_placement"}),
    "conversion.files.combining.placement": ("pure", {"conversion/files/test_files_placement"}),
    "conversion.files.combining.splitting": (
        "pure; smaller: references of an array",
        {"conversion/files/test_files_split"},
    ),
    "conversion.files.parsing": (
        "whether a file is parsed again: its bytes may be in memory",
        {"conversion/files/test_scans_used"},
    ),
    "conversion.files.scan_documents": ("smaller", {"conversion/files/test_scans_used"}),
    "conversion.files.typed_values": ("pure", {"conversion/files/test_typed_values"}),
    "conversion.kerchunk.export.json_sets": (
        "smaller: rows of a batch; URLs that no manifest may have",
        {"conversion/kerchunk/test_kerchunk_export_columns"},
    ),
    "conversion.kerchunk.json.decoding": (
        "smaller: parts of a document",
        {"conversion/kerchunk/test_kerchunk_columns"},
    ),
    "conversion.kerchunk.json.references": (
        "pure: the slow way, to compare with",
        {"conversion/kerchunk/test_kerchunk_columns"},
    ),
    "conversion.kerchunk.json.templates": (
        "pure: a language",
        {"conversion/kerchunk/test_kerchunk_templates"},
    ),
    "conversion.older_writers.arrays": (
        "pure: when a join is doubtful",
        {"conversion/older_writers/test_older_writers_manifests"},
    ),
    "hierarchy.manifest_documents": (
        "pure: a cache; smaller: its memory",
        {"hierarchy/test_document_cache"},
    ),
    "hierarchy.store": ("forgets what a process has unpickled", {"processes"}),
    "locations.kinds": ("adds a kind of storage", {"locations/test_kinds"}),
    "inspection.blocks": ("smaller: bytes of a block", {"inspection/test_verifying_runs"}),
    "manifest.chunk_numbers": ("pure; smaller: a batch", {"manifest/test_chunk_numbers"}),
    "manifest.encoding": ("pure; smaller: a batch", {"manifest/test_encoding"}),
    "manifest.parts": ("pure: what the scanner scans", {"manifest/test_scanner"}),
    "manifest.scanner": ("pure: the scanner", {"manifest/test_scanner"}),
    "pipeline.read_ahead": (
        "pure: blocks; what is held; smaller: times and memory",
        {"pipeline/test_read_ahead"},
    ),
    "pipeline.sharding": ("smaller: shards that are read whole", {"pipeline/test_bulk_sharding"}),
    "sources.concurrency": (
        "pure: a budget; makes threads anew, to profile them",
        {"read_path", "sources/test_bulk_ranges"},
    ),
    "sources.directories": ("opens files as other systems do", {"sources/test_local_files"}),
    "sources.momentary_files": ("smaller: seconds", {"conftest"}),
    "sources.range_reading": (
        "pure: pieces of an answer; smaller: bytes in flight and per thread",
        {"pipeline/test_bulk_servers", "sources/test_bulk_ranges", "sources/test_pieces"},
    ),
    "writing.array_writer": (
        "smaller: what readers accept",
        {"writing/test_writing_manifests", "writing/test_writing_partitions"},
    ),
    "writing.given_entries": ("pure; smaller: a batch", {"writing/test_entry_columns"}),
}


@cache
def is_package(name: str) -> bool:
    return (ROOT / name.replace(".", "/") / "__init__.py").exists()


@cache
def is_module(name: str) -> bool:
    return is_package(name) or (ROOT / f"{name.replace('.', '/')}.py").exists()


@cache
def interfaces() -> frozenset[str]:
    """The modules that the contracts name: packages, and modules that stand beside packages."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return frozenset(
        f"{container}.{name}"
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
        for name in re.findall(r"\w+", " ".join(contract["layers"]))
    )


@cache
def documented() -> str:
    """The pages for users, which name some modules: those are interfaces, too."""
    return "\n".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))


def reaches_past(place: str, module: str) -> bool:
    """Whether tests of a package may not import a module.

    They may import what the package may, but of the package itself only its interface.
    """
    parent = module.rpartition(".")[0]
    is_inside = parent == "zarr_manifest" or f"{place}.".startswith(f"{parent}.")
    is_interface = is_package(module) or module in interfaces()
    return not (is_inside and is_interface) and module not in documented()


def modules_in(source: str) -> Iterator[str]:
    """Yield the modules of the package that a test names: imports, and those in texts.

    Texts are programs for other processes, or say what is replaced.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, names in re.findall(r"from ([\w.]+) import ([\w, ]+)", node.value):
                yield from (f"{module}.{name}" for name in names.split(", "))
            yield from re.findall(r"\bzarr_manifest(?:\.\w+)+", node.value)


def longest_module(name: str) -> str:
    """Return the module of a name that may be that of a function in it."""
    while name and not is_module(name):
        name = name.rpartition(".")[0]
    return name


def imported_past_interfaces() -> dict[str, set[str]]:
    """Return the modules inside packages that tests name, and which tests do."""
    found: dict[str, set[str]] = {}
    for file in {*(ROOT / "tests").rglob("*.py")} - {Path(__file__)}:
        name = file.relative_to(ROOT / "tests").with_suffix("").as_posix()
        place = ".".join(["zarr_manifest", *name.split("/")[:-1]])
        for each in modules_in(file.read_text(encoding="utf-8")):
            module = longest_module(each)
            if module.startswith("zarr_manifest.") and reaches_past(place, module):
                found.setdefault(module.partition(".")[2], set()).add(name)
    return found


@pytest.mark.slow
def test_tests_import_packages_through_their_interfaces() -> None:
    assert imported_past_interfaces() == {module: tests for module, (_, tests) in INSIDE.items()}


@pytest.mark.parametrize(
    ("place", "module", "expected"),
    [
        ("zarr_manifest", "zarr_manifest.sources", False),
        ("zarr_manifest", "zarr_manifest.sources.plan", True),
        ("zarr_manifest", "zarr_manifest.sources.web", True),
        ("zarr_manifest.sources", "zarr_manifest.sources.web", False),
        ("zarr_manifest.sources", "zarr_manifest.sources.plan", True),
        ("zarr_manifest.sources", "zarr_manifest.errors", False),
        ("zarr_manifest.conversion.files", "zarr_manifest.conversion.nodes", False),
        ("zarr_manifest.writing", "zarr_manifest.conversion.nodes", True),
        ("zarr_manifest.writing", "zarr_manifest.integrations.dask_preload", False),
    ],
)
def test_what_reaches_past_an_interface(place: str, module: str, expected: bool) -> None:
    assert reaches_past(place, module) == expected


def test_texts_are_looked_at() -> None:
    source = """
program = "from zarr_manifest.a.b import c, d; import zarr_manifest.e"
monkeypatch.setattr("zarr_manifest.f.g", 1)
"""
    named = {"zarr_manifest.a.b.c", "zarr_manifest.a.b.d", "zarr_manifest.e", "zarr_manifest.f.g"}
    assert named <= {*modules_in(source)}
