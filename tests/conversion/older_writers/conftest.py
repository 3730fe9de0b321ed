"""Where the stores of older writers are written."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def writer(tmp_path: Path) -> Path:
    return tmp_path / "the writer's directory"
