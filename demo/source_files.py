"""The files of the package iris-sample-data, and the variables that netCDF4 finds in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import iris_sample_data
import netCDF4

DATA_DIRECTORY = Path(iris_sample_data.path).resolve()


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

    def variable_names(self) -> set[str]:
        """Return the names of the variables that netCDF4 finds in the file."""
        with netCDF4.Dataset(self.path) as file:
            return set(file.variables)


def every_source_file() -> list[SourceFile]:
    """Return all files of the package iris-sample-data, in any format."""
    paths = sorted(path for path in DATA_DIRECTORY.rglob("*") if path.is_file())
    return [SourceFile(path) for path in paths]
