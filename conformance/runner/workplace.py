"""A case's copy in a directory of its own, and the placeholders that it replaces."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from conformance.runner.cases import Case

__all__ = ["Workplace"]


class Workplace:
    """Where one case runs, as a context manager.

    Parameters
    ----------
    case : Case
        Only its `hierarchy/` and `sources/` are copied: an adapter sees no expected values.
    origins : Mapping[str, str]
        Origin of each server, by placeholder.
    keep : Path, optional
        Where the directory is made, named like the case, instead of a temporary one.
    """

    def __init__(self, case: Case, origins: Mapping[str, str], keep: Path | None = None) -> None:
        self.case = case
        self.is_kept = False
        if keep is None:
            made = Path(tempfile.mkdtemp(prefix="zarr-conformance-"))
        else:
            made = keep / case.id.replace("/", ".")
            made.mkdir()
        # The real path: readers resolve symbolic links, and /tmp is one on some systems.
        self.directory = made.resolve()
        sources = (self.directory / "sources").as_uri()
        self._replacements = {
            **origins,
            "@SOURCES@": sources,
            "@SOURCES_PATH@": urlsplit(sources).path,
            "@HIERARCHY@": (self.directory / "hierarchy").as_uri(),
        }

    def __enter__(self) -> Self:
        # Git keeps no empty directories, in which cases of writers begin.
        if "hierarchy" not in self.case.content().get("links", {}):
            self.hierarchy.mkdir()
        for name in ("hierarchy", "sources"):
            if (self.case.directory / name).is_dir():
                shutil.copytree(
                    self.case.directory / name,
                    self.directory / name,
                    symlinks=True,
                    dirs_exist_ok=True,
                )
        for path in self.case.documents():
            self._replace_in(self.directory / path.relative_to(self.case.directory))
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_kept:
            shutil.rmtree(self.directory)

    def documents(self) -> list[bytes]:
        """Return the metadata and the plain manifests of the hierarchy."""
        paths = (self.directory / "hierarchy").rglob("*.json")
        return [path.read_bytes() for path in paths if path.is_file()]

    def make_links(self, links: Mapping[str, str]) -> bool:
        """Make symbolic links, by their path in the case; return False where there are none."""
        for name, target in links.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.symlink_to(target)
            except (NotImplementedError, OSError):
                # File systems and operating systems say this in many ways.
                return False
        return True

    def _replace_in(self, path: Path) -> None:
        # As bytes: some of these files are deliberately not UTF-8.
        data = path.read_bytes()
        replaced = data
        for placeholder, value in self._replacements.items():
            replaced = replaced.replace(placeholder.encode(), value.encode())
        if replaced != data:
            path.write_bytes(replaced)

    def content(self) -> dict[str, Any]:
        """Return `case.json`, with its placeholders replaced."""
        return self.case.content(self._replacements)

    @property
    def hierarchy(self) -> Path:
        """The directory of the hierarchy."""
        return self.directory / "hierarchy"

    def anonymise(self, text: str) -> str:
        """Restore the placeholders for this run's locations, so that reports are comparable."""
        known = {value: name for name, value in self._replacements.items()}
        known[str(self.directory / "hierarchy")] = "@HIERARCHY@"
        known[str(self.directory / "sources")] = "@SOURCES@"
        known[str(self.directory)] = "@CASE@"
        known |= {value.removeprefix("http://"): name for value, name in known.items()}
        for value in sorted(known, key=len, reverse=True):
            text = text.replace(value, known[value])
        return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:@PORT@", text)
