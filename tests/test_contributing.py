"""CONTRIBUTING.md names what is there, and what it says of error codes holds."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.documentation import ROOT
from zarr_manifest import errors

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TARGETS = sorted(set(re.findall(r"`?make ([a-z-]+)\b", TEXT)))
PATHS = sorted(set(re.findall(r"`([\w.]+(?:/[\w.-]+)+/?)`", TEXT)))


@pytest.mark.parametrize("target", TARGETS)
def test_the_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


#: What a contributor makes, or what is made by make.
MADE = {
    "zarr_manifest/conversion/files/xyz.py",
    "zarr_manifest/command_line/xyz.py",
    ".venv/bin/pre-commit",
}


@pytest.mark.parametrize("path", sorted(set(PATHS) - MADE))
def test_the_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.slow
def test_the_names_in_the_code_exist() -> None:
    modules = (ROOT / "zarr_manifest").rglob("*.py")
    source = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    for name in re.findall(r"`(?:\w+\.)?([a-z_]+)\(\)`", TEXT):
        assert f"def {name}(" in source, name
    for name in ("_READERS", "_BEGINNINGS"):
        assert f"`{name}`" in TEXT
        assert re.search(rf"^{name}\b", source, re.M), name


def test_the_catalogue_of_errors_has_every_code() -> None:
    catalogue = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    codes = {each.code for each in classes} - {errors.ManifestError.code}
    assert {code for code in codes if f"`{code}`" not in catalogue} == set()


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {name for listed in extras.values() for name in listed} | set(project["dependencies"])
    needed = {re.match(r"[\w-]+", name)[0] for name in named} - {project["name"]}  # type: ignore[index]
    table = TEXT.partition("## Dependencies")[2].partition("\n## ")[0]
    cells = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")]
    assert {name for cell in cells[1:] for name in cell.split(", ")} == needed


def test_the_extra_all_has_every_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"all"}
    assert project["optional-dependencies"]["all"] == [f"zarr-manifest[{','.join(sorted(extras))}]"]
