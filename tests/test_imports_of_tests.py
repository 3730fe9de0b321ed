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

# Modules that only these tests look into, and why no interface will do. Rules are pure, and stated
# as properties.
INSIDE: dict[str, tuple[str, set[str]]] = {
    "command_line.application": (
        "called in this process; main() ends it",
        {"command_line/commands", "hierarchy/test_process_end"},
    ),
    "command_line.wording": ("options, compared with all advice", {"command_line/test_wording"}),
    "conversion.files.parsing": ("what is parsed again", {"conversion/files/test_scans_used"}),
    "conversion.files.typed_values": ("rules", {"conversion/files/test_typed_values"}),
    "conversion.joining.placing": ("rules", {"conversion/files/test_files_split"}),
    "conversion.kerchunk.export.json_sets": (
        "rules, also of URLs that no manifest may have",
        {"conversion/kerchunk/test_kerchunk_export_columns"},
    ),
    "conversion.kerchunk.json.references": (
        "the slow way, to compare with",
        {"conversion/kerchunk/test_kerchunk_columns"},
    ),
    "conversion.kerchunk.json.templates": (
        "rules of a language",
        {"conversion/kerchunk/test_kerchunk_templates"},
    ),
    "conversion.older_writers.arrays": (
        "rules of what is doubtful",
        {"conversion/older_writers/test_older_writers_manifests"},
    ),
    "hierarchy.manifest_documents": ("rules of a cache", {"hierarchy/test_document_cache"}),
    "hierarchy.store": ("forgets what this process has unpickled", {"processes"}),
    "manifest.chunk_numbers": ("rules of blocks", {"manifest/test_chunk_numbers"}),
    "manifest.parts": ("what the scanner scans", {"manifest/test_scanner"}),
    "manifest.scanner": ("rules of the scanner", {"manifest/test_scanner"}),
    "pipeline.read_ahead": ("rules of blocks, and what is held", {"pipeline/test_read_ahead"}),
    "sources.arrival": ("rules of pieces", {"sources/receivers", "sources/test_pieces"}),
    "sources.concurrency": (
        "rules of a budget; makes threads anew, to profile them",
        {"read_path", "sources/test_bulk_ranges"},
    ),
    "sources.directories": ("opens files as other systems do", {"sources/test_local_files"}),
    "sources.range_reading": ("the budgets of loops", {"pipeline/test_bulk_servers"}),
    "writing.array_writer": ("smaller limits of readers", {"writing/test_writing_manifests"}),
    "writing.given_entries": ("rules of columns", {"writing/test_entry_columns"}),
}

# Constants that tests replace, by name: all but the first are sizes and times that take hundreds of
# megabytes, or seconds, to reach.
REPLACED = {
    "locations.kinds._KINDS",
    "conversion.files.scan_documents.LARGEST",
    "conversion.kerchunk.export.json_sets._BATCH_SIZE",
    "conversion.kerchunk.json.decoding._BATCH_SIZE",
    "conversion.kerchunk.json.decoding._PART",
    "hierarchy.following_manifests._PATIENCE",
    "hierarchy.manifest_documents._MOST_MEMORY",
    "inspection.blocks._MOST_BYTES",
    "inspection.verifying._SECONDS",
    "manifest.chunk_numbers._BATCH_SIZE",
    "manifest.decoding._LEAST_BYTES",
    "manifest.decoding._PART_BYTES",
    "manifest.decoding._WHOLE_BYTES",
    "manifest.encoding._BATCH_SIZE",
    "manifest.encoding._FEW",
    "pipeline.read_ahead.MOST_BYTES_AHEAD",
    "pipeline.read_ahead._LONGEST",
    "pipeline.read_ahead._SECONDS",
    "pipeline.read_ahead._TOLERATED",
    "pipeline.sharding._LARGEST_WHOLE_ON_DISK",
    "pipeline.sharding._MOST_INNER_CHUNKS",
    "sources.arrival._LEAST_ROOM",
    "sources.arrival._MOST_ROOM",
    "sources.momentary_files._PATIENCE",
    "sources.processes._LONGEST_ANSWER",
    "sources.range_reading.MOST_BYTES_IN_FLIGHT",
    "sources.range_reading._MOST_BYTES_PER_CALL",
    "sources.range_reading._WORTH_A_THREAD",
    "sources.web.web_reader._PIECE",
    "writing.array_writer.MOST_NAMES",
    "writing.given_entries._BATCH_SIZE",
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


def names_in(source: str) -> Iterator[tuple[str, bool]]:
    """Yield what a test names of the package, and whether in a text.

    Texts are programs for other processes, or say what is replaced.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", False) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, names in re.findall(r"from ([\w.]+) import ([\w, ]+)", node.value):
                yield from ((f"{module}.{name}", True) for name in names.split(", "))
            yield from (
                (name, True) for name in re.findall(r"\bzarr_manifest(?:\.\w+)+", node.value)
            )


def module_of(name: str) -> str:
    """Return the module of a name, which may be that of something in it."""
    while name and not is_module(name):
        name = name.rpartition(".")[0]
    return name


@cache
def named_past_interfaces() -> tuple[dict[str, set[str]], set[str]]:
    """Return the modules inside packages that tests look into, by test; and replaced constants."""
    modules: dict[str, set[str]] = {}
    constants: set[str] = set()
    for file in {*(ROOT / "tests").rglob("*.py")} - {Path(__file__)}:
        test = file.relative_to(ROOT / "tests").with_suffix("").as_posix()
        place = ".".join(["zarr_manifest", *test.split("/")[:-1]])
        for name, is_text in names_in(file.read_text(encoding="utf-8")):
            module = module_of(name)
            if not module.startswith("zarr_manifest.") or not reaches_past(place, module):
                continue
            if is_text and re.fullmatch(r"[A-Z_]+", name.rpartition(".")[2]):
                constants.add(name.partition(".")[2])
            else:
                modules.setdefault(module.partition(".")[2], set()).add(test)
    return modules, constants


@pytest.mark.slow
def test_tests_import_packages_through_their_interfaces() -> None:
    modules, constants = named_past_interfaces()
    assert modules == {module: tests for module, (_, tests) in INSIDE.items()}
    assert constants == REPLACED


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
    assert dict.fromkeys(named, True).items() <= dict(names_in(source)).items()
