"""Authorisation, and the files that it covers: steps 9 and 10 of the precedence."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from conformance.adapters.core_reader.locations import ROOT, Location, covers, resolve
from conformance.adapters.core_reader.manifests import Reference
from conformance.adapters.json_lines import Phase, RefusedError

__all__ = ["Files", "wanted"]


class Files:
    """The files of a hierarchy, and those below authorised prefixes."""

    def __init__(self, hierarchy: str, prefixes: Iterable[str]) -> None:
        self._root = os.path.realpath(hierarchy)
        self.root = Path(hierarchy).absolute().parts[1:]
        authorised = (resolve(prefix, ROOT, directory=True) for prefix in prefixes)
        self._prefixes = [ROOT, *(one for one in authorised if one.origin == "file://")]
        self._real = [os.path.realpath(self._path(prefix)) for prefix in self._prefixes]

    def authorise(self, locations: Iterable[Location]) -> None:
        """Check that all of the locations may be read."""
        denied = [one for one in locations if not any(covers(p, one) for p in self._prefixes)]
        if denied:
            message = f"not authorised: {', '.join(sorted(set(map(str, denied))))}"
            raise RefusedError("location_not_allowed", "manifest", message)

    def read_whole(self, location: Location, phase: Phase, absent: str) -> bytes:
        """Return all bytes of a file; `absent` is the code of one that does not exist."""
        with self._opened(location, phase, absent) as file:
            return file.read()

    def read_chunk(self, source: Reference, part: Mapping[str, int] | None) -> bytes:
        """Return the bytes of a chunk, or the part of them that a request is for."""
        with self._opened(source.location, "chunk", "source_not_found") as file:
            size = os.fstat(file.fileno()).st_size
            length = size - source.offset if source.length is None else source.length
            if length < 1 or source.offset + length > size:
                message = f"{source.location} has {size} bytes, which is too few"
                raise RefusedError("range_out_of_bounds", "chunk", message)
            start, stop = wanted(part, length)
            file.seek(source.offset + start)
            found = file.read(stop - start)
        if len(found) < stop - start:
            raise RefusedError("short_read", "chunk", f"{source.location} has become shorter")
        return found

    def exists(self, location: Location) -> bool:
        """Whether there is a file."""
        return os.path.lexists(self._path(location))

    def _path(self, location: Location) -> Path:
        return Path("/" if location.origin else self._root, *location.segments)

    @contextmanager
    def _opened(self, location: Location, phase: Phase, absent: str) -> Iterator[IO[bytes]]:
        """Open the file to which a location leads through links."""
        real = os.path.realpath(self._path(location))
        if not any(os.path.commonpath((real, allowed)) == allowed for allowed in self._real):
            message = f"{location} leads to a file that is not authorised"
            raise RefusedError("location_not_allowed", phase, message)
        try:
            # Opening a pipe would wait for its other end.
            with os.fdopen(os.open(real, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise RefusedError("source_error", phase, f"{location} is not a file")
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RefusedError(absent, phase, f"{location} does not exist") from error
        except PermissionError as error:
            raise RefusedError("source_access_denied", phase, f"{location}: {error}") from error
        except OSError as error:
            raise RefusedError("source_error", phase, f"{location}: {error}") from error


def wanted(part: Mapping[str, int] | None, length: int) -> tuple[int, int]:
    """Return which bytes of an entry a request is for."""
    if part is None:
        return 0, length
    if "last" in part:
        return length - min(part["last"], length), length
    start = min(part["start"], length)
    return start, max(start, min(part.get("stop", length), length))
