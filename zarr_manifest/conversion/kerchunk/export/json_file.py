"""A file with one JSON object, written member by member: a million take no memory at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["MembersFile"]


class MembersFile:
    """An object whose members are being written.

    Parameters
    ----------
    file : binary file
        Where they go, from its position on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._is_empty = True

    @classmethod
    @contextmanager
    def created(cls, path: Path, opening: bytes, closing: bytes) -> Generator[MembersFile]:
        """Create a file, with what comes before and after the members.

        There is no file afterwards if anything is raised.
        """
        with path.open("xb") as file:
            try:
                file.write(opening)
                yield cls(file)
                file.write(closing)
                file.flush()
            except BaseException:
                path.unlink()
                raise

    def add(self, members: Iterable[bytes | memoryview]) -> None:
        """Write members, or several at once with what belongs between them."""
        for member in members:
            if not self._is_empty:
                self._file.write(b", ")
            self._file.write(member)
            self._is_empty = False

    @contextmanager
    def all_or_none(self) -> Generator[None]:
        """Take back what was added within, if anything is raised."""
        end, was_empty = self._file.tell(), self._is_empty
        try:
            yield
        except BaseException:
            self._file.seek(end)
            self._file.truncate()
            self._is_empty = was_empty
            raise
