"""docs/architecture.md names packages, modules and functions that exist; class names are unique."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.architecture_page import PACKAGE, PAGE, layers, page

STEPS = re.findall(r"^\d+\. .*?(?=^\d+\. |^$)", PAGE.read_text(encoding="utf-8"), re.M | re.DOTALL)


def test_the_picture_is_drawn_from_the_contract() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.architecture_page"


def test_every_package_is_in_the_picture() -> None:
    packages = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert {package for row in layers() for package in row} == packages - {
        "__init__",
        "__pycache__",
    }


def test_the_modules_exist() -> None:
    modules = re.findall(r"`([a-z_0-9/]+/[a-z_0-9]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert modules
    assert [module for module in modules if not (PACKAGE / module).exists()] == []


@pytest.mark.parametrize("step", STEPS, ids=lambda step: re.sub(r"\W+", "-", step[:24]))
def test_the_functions_of_a_step_are_in_the_modules_that_it_names(step: str) -> None:
    modules = re.findall(r"`([a-z_0-9/]+\.py)`", step)
    source = "\n".join((PACKAGE / module).read_text(encoding="utf-8") for module in modules)
    for class_name, function in re.findall(r"`(?:(\w+)\.)?(\w+)\(\)`", step):
        assert re.search(rf"^\s*(async )?def {function}\(", source, re.M), function
        assert not class_name or re.search(rf"^class {class_name}\b", source, re.M), class_name


def test_class_names_are_unique() -> None:
    names = Counter(
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"^ *class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert names["ManifestStore"] == 1
    assert [name for name, count in names.items() if count > 1] == []
