"""Programs that the tests of the JavaScript reader run, and its package, installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.adapters.javascript.pages import READER
from conformance.adapters.javascript.programs import run, tool


@pytest.fixture(scope="session")
def node() -> str:
    """Return Node.js, with the packages of the reader."""
    found = tool("node", "install Node.js 20 or later")
    if not (READER / "node_modules" / "zarrita").is_dir():
        pytest.fail(f"the packages of the reader are not installed: cd {READER} && npm install")
    return found


@pytest.fixture(scope="session")
def npm(node: str) -> str:
    """Return the package manager of Node.js."""
    return tool("npm", "install Node.js 20 or later, with npm")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the browser."""
    return tool("chromium", "install it, in Debian with apt-get install chromium")


@pytest.fixture(scope="session")
def tarball(npm: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the package, as npm publishes it."""
    directory = tmp_path_factory.mktemp("packed")
    run(npm, "pack", "--pack-destination", str(directory))
    [packed] = directory.iterdir()
    return packed


@pytest.fixture(scope="session")
def installed(npm: str, tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into an empty directory."""
    directory = tmp_path_factory.mktemp("installed")
    (directory / "package.json").write_text('{"private": true, "type": "module"}')
    quick = ("--prefer-offline", "--no-audit", "--no-fund")
    run(npm, "install", *quick, str(tarball), "zarrita", directory=directory)
    return directory
