"""Cells are measured in forks of the process whose forks other tests use, too."""

from __future__ import annotations

import pytest

from tests.processes import start_server


@pytest.fixture(scope="session", autouse=True)
def _server_of_forks() -> None:
    """Start it before the benchmarks do, with what they import alone."""
    start_server()
