"""The core reader is as small as the README says, and stands on its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

SUITE = Path(__file__).parents[1]
READER = SUITE / "adapters" / "core_reader"


def _lines(modules: Iterable[Path]) -> int:
    """Count lines that are not blank, as ``grep -c .`` does."""
    return sum(bool(line) for path in modules for line in path.read_text().split("\n"))


def test_its_size_is_what_the_readme_says() -> None:
    readme = (SUITE / "README.md").read_text(encoding="utf-8")
    _, _, section = readme.partition("### The smallest reader\n")
    (command, printed), *_ = re.findall(r"\$ cat (.*) \| grep -c \.\n([0-9]+)\n", section)
    (added, rest), *_ = re.findall(r"takes ([0-9]+) lines.* another ([0-9]+) ", section)
    modules = {READER / name for name in command.split()}
    others = {*READER.glob("*.py")} - modules
    assert int(printed) == int(added) == pytest.approx(_lines(modules), rel=0.05)
    assert int(rest) == pytest.approx(_lines(others), rel=0.05)


@pytest.mark.slow
def test_it_needs_numpy_and_the_standard_library_alone() -> None:
    program = "import sys, conformance.adapters.core_reader.hierarchy; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, cwd=SUITE.parent, capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in loaded.stdout.split()}
    foreign = {name for name in packages if not name.startswith("_")} - sys.stdlib_module_names
    assert foreign - {"numpy", "conformance", "cython_runtime"} == set()
