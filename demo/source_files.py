"""The scientific files of the demonstration, and the variables that netCDF4 finds in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import iris_sample_data
import netCDF4

DATA_DIRECTORY = Path(iris_sample_data.path).resolve()

#: Files of the package iris-sample-data; each becomes a group of the same name.
FILES = (
    "ostia_monthly.nc",
    "NEMO/nemo_1m_20150101-20150201_grid-T.nc",
    "A1B_north_america.nc",
    "space_weather.nc",
    "vlstr_type.nc",
)


@dataclass(frozen=True)
class SourceFile:
    """A file, and those of its variables that cannot be expressed, with the reasons."""

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
        """Return the names of the variables that netCDF4 finds in the file."""
        with netCDF4.Dataset(self.path) as file:
            return set(file.variables)


def every_source_file() -> list[SourceFile]:
    """Return all files of the package iris-sample-data, in any format."""
    paths = sorted(path for path in DATA_DIRECTORY.rglob("*") if path.is_file())
    return [SourceFile(path) for path in paths]


def source_files() -> list[SourceFile]:
    """Return the files that the demonstration uses."""
    return [SourceFile(DATA_DIRECTORY / name) for name in FILES]
