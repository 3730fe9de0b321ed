"""The scientific files of the demonstration, and what netCDF4 sees in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import iris_sample_data
import netCDF4

DATA_DIRECTORY = Path(iris_sample_data.path).resolve()

#: Files of the package iris-sample-data, each of which becomes a group that is named like it.
FILES = (
    "ostia_monthly.nc",
    "NEMO/nemo_1m_20150101-20150201_grid-T.nc",
    "A1B_north_america.nc",
    "space_weather.nc",
    "vlstr_type.nc",
)


@dataclass(frozen=True)
class SourceFile:
    """A file, and the variables of it that cannot be expressed, with the reason."""

    path: Path
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Path of its group in the hierarchy."""
        return self.path.stem

    @property
    def name(self) -> str:
        """Path in the package."""
        return self.path.relative_to(DATA_DIRECTORY).as_posix()

    @property
    def format_name(self) -> str:
        """Name of the file format, such as ``"netCDF-3"``."""
        return "HDF5/netCDF-4" if h5py.is_hdf5(self.path) else "netCDF-3"

    def variable_names(self) -> set[str]:
        """Return the names of the variables that netCDF4 sees in the file."""
        with netCDF4.Dataset(self.path) as file:
            return set(file.variables)


def every_source_file() -> list[SourceFile]:
    """Return all files of the package iris-sample-data, of whatever format."""
    paths = sorted(path for path in DATA_DIRECTORY.rglob("*") if path.is_file())
    return [SourceFile(path) for path in paths]


def source_files() -> list[SourceFile]:
    """Return the files that the demonstration shows."""
    return [SourceFile(DATA_DIRECTORY / name) for name in FILES]
