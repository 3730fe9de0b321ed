"""CONTRIBUTING.md names what is there, and what it says of error codes holds."""

from __future__ import annotations

import re

import pytest

from tests.documentation import ROOT
from zarr_manifest import errors

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TARGETS = sorted(set(re.findall(r"`?make ([a-z-]+)\b", TEXT)))
PATHS = sorted(set(re.findall(r"`([\w.]+(?:/[\w.-]+)+/?)`", TEXT)))


@pytest.mark.parametrize("target", TARGETS)
def test_the_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


# What a contributor makes, or what is made by make.
@pytest.mark.parametrize(
    "path", sorted(set(PATHS) - {"zarr_manifest/conversion/files/xyz.py", ".venv/bin/pre-commit"})
)
def test_the_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_names_in_the_code_exist() -> None:
    modules = ROOT.rglob("zarr_manifest/**/*.py")
    source = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    for name in re.findall(r"`(?:\w+\.)?([a-z_]+)\(\)`", TEXT):
        assert f"def {name}(" in source, name
    for name in ("_READERS", "_BEGINNINGS", "_OTHER_NAMES"):
        assert f"`{name}`" in TEXT
        assert re.search(rf"^{name}\b", source, re.M), name


def test_the_catalogue_of_errors_has_every_code() -> None:
    catalogue = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    codes = {each.code for each in classes} - {errors.ManifestError.code}
    assert {code for code in codes if f"`{code}`" not in catalogue} == set()
