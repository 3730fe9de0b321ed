"""Files that tests write, one after the other."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conversion.files.converted_files import Variable, Write, write_netcdf


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes netCDF files that are named by numbers, in order."""
    numbers = itertools.count()

    def file(**variables: Variable) -> Path:
        return write_netcdf(tmp_path / f"{next(numbers)}.nc", **variables)

    return file
