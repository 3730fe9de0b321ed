"""The programs of Node.js that tests run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.adapters.javascript.pages import READER

__all__ = ["ESBUILD", "TSC", "run", "tool"]

_SECONDS = 120
_PROGRAMS = READER / "node_modules" / ".bin"

ESBUILD = str(_PROGRAMS / "esbuild")
TSC = str(_PROGRAMS / "tsc")


def tool(name: str, advice: str) -> str:
    """Find a program; without it the test fails, since nothing else would say that it is gone."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} was not found: {advice}")
    return found


def run(
    *command: str, directory: Path = READER, stdin: str | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program, which must succeed unless `check` is false."""
    done = subprocess.run(
        command, cwd=directory, input=stdin, capture_output=True, text=True, timeout=_SECONDS
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
