"""The directory in which commands are tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command_line.commands import make_inputs


@pytest.fixture(scope="session")
def pristine_inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Inputs, and a copy of them; among them are manifests that say where the first ones are."""
    directory = tmp_path_factory.mktemp("commands") / "inputs"
    directory.mkdir()
    make_inputs(directory)
    return directory, shutil.copytree(directory, directory.with_name("pristine"))


@pytest.fixture
def inputs(pristine_inputs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with inputs: the same one each time, with nothing else left in it."""
    directory, pristine = pristine_inputs
    shutil.rmtree(directory)
    shutil.copytree(pristine, directory)
    monkeypatch.chdir(directory)
    return directory
