"""Runs the reproductions of `docs/upstream/`, with the installed releases and with patched copies.

The docstring of a reproduction begins with the package and the release that its fault is known in.
Its last line of output begins with ``fault:`` or ``mended:``.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

UPSTREAM = Path(__file__).resolve().parents[2] / "docs/upstream"

_RELEASE = re.compile(r"(\w+) ([\d.]+): ")


@dataclass(frozen=True)
class Reproduction:
    """A folder of `docs/upstream/`.

    Parameters
    ----------
    directory : Path
        Has `reproduction.py`, and `change.diff` if the package can be patched.
    package, release : str
        What the fault is known in.
    imports : frozenset of str
        The packages that the script imports.
    """

    directory: Path
    package: str
    release: Version
    imports: frozenset[str]

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def diff(self) -> Path:
        return self.directory / "change.diff"

    @property
    def installed(self) -> Version:
        """The release that is installed."""
        return Version(importlib.metadata.version(self.package))

    def missing(self) -> list[str]:
        """Return which of the imports are not installed."""
        return [name for name in sorted(self.imports) if not importlib.util.find_spec(name)]

    def run(self, *arguments: str, path: Path | None = None) -> str:
        """Run the script, and return what it prints.

        Parameters
        ----------
        path : Path, optional
            Directory with packages that come before those that are installed.
        """
        done = subprocess.run(
            [sys.executable, str(self.directory / "reproduction.py"), *arguments],
            env=os.environ | {"PYTHONPATH": str(path or "")},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise AssertionError(f"{self.name}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def patch(self, directory: Path) -> Path:
        """Copy the installed package into a directory, patch the copy, and return the directory."""
        spec = importlib.util.find_spec(self.package)
        assert spec is not None
        assert spec.submodule_search_locations
        source = Path(next(iter(spec.submodule_search_locations)))
        shutil.copytree(source, directory / self.package, ignore=shutil.ignore_patterns("tests"))
        # In a repository, git would leave out what the repository does not contain.
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(directory.parent)}
        command = ["git", "apply", "--unidiff-zero", "-p1", str(self.diff)]
        subprocess.run(command, cwd=directory, env=environment, check=True)
        return directory


def reproductions() -> list[Reproduction]:
    """Return all of `docs/upstream/`."""
    return [_parse(path) for path in sorted(UPSTREAM.glob("*/reproduction.py"))]


def _parse(path: Path) -> Reproduction:
    module = ast.parse(path.read_text())
    found = _RELEASE.match(ast.get_docstring(module) or "")
    assert found, f"{path}: the docstring does not begin with a package and its release"
    imported = [
        name
        for node in ast.walk(module)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    packages = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    return Reproduction(path.parent, found[1], Version(found[2]), frozenset(packages))
