"""The distributions of the suite say the same as the suite; `make dist` builds and tries them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import zarr_manifest
from conformance.runner.command_line import main

SUITE = Path(__file__).parents[1]
ROOT = SUITE.parent
PROJECT: dict[str, Any] = tomllib.loads((SUITE / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE: dict[str, Any] = json.loads((SUITE / "npm" / "package.json").read_bytes())
INCLUDED: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
# What makes, tests or uses the suite, and is of no use without the checkout.
LEFT_OUT = {"adapters", "expectations", "fuzzer", "generator", "npm", "pyproject.toml", "tests"}


def test_the_wheel_has_all_that_is_not_for_developers_of_the_suite() -> None:
    there = {path.name for path in SUITE.iterdir() if path.name != "__pycache__"}
    included = {name.partition("/")[0] for name in INCLUDED}
    # The licence goes where wheels have it.
    assert included - {"adapters"} == there - LEFT_OUT - {"LICENSE"}
    assert all((SUITE / name).exists() for name in INCLUDED)


def test_what_the_wheel_has_needs_nothing_that_it_lacks() -> None:
    """Of other packages, the core reader needs numpy, and the runner none: other tests say so."""
    modules = [*(SUITE / "runner").glob("*.py"), *(SUITE / "adapters/core_reader").glob("*.py")]
    imported = {
        name
        for path in modules
        for name in re.findall(
            r"^(?:from|import) (conformance[\w.]*)", path.read_text(), re.MULTILINE
        )
    }
    parts = {name.removeprefix("conformance.").replace(".", "/") for name in imported}
    assert {part for part in parts if not _is_included(part)} == set()


def _is_included(module: str) -> bool:
    return any(f"{module}.py" == name or f"{module}/".startswith(f"{name}/") for name in INCLUDED)


def test_versions_and_licences_are_those_of_the_package() -> None:
    released = re.sub(r"\.dev\d+$", "", zarr_manifest.__version__)
    assert PACKAGE["version"] == released
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "../zarr_manifest/__init__.py"
    assert PROJECT["project"]["license"] == PACKAGE["license"]
    assert (SUITE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_both_distributions_have_one_name_and_it_is_that_of_the_command() -> None:
    name = PROJECT["project"]["name"]
    assert PACKAGE["name"] == name
    assert [*PROJECT["project"]["scripts"]] == [*PACKAGE["bin"]] == [name]
    module, _, function = PROJECT["project"]["scripts"][name].partition(":")
    assert (module, function) == (main.__module__, main.__name__)


def test_the_npm_package_exports_what_the_wheel_has() -> None:
    exported = {path.removeprefix("./conformance/") for path in PACKAGE["exports"].values()}
    assert exported - {"./package.json", "cases/*"} <= set(INCLUDED)
    for name in PACKAGE["bin"].values():
        assert (SUITE / "npm" / name).is_file()
