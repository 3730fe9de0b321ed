"""What was checked when, kept in a file of JSON lines: one for each block, and each MiB of it.

A run that was interrupted goes on where it was; files of several workers count together. The last
line may be incomplete, if its writer was killed.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
from msgspec import Struct

from zarr_manifest.inspection.damage import BlockResult, Examined


@dataclass(slots=True)
class RecordedRun:
    """One run that the state file records.

    Parameters
    ----------
    asked : str
        What was read.
    began : datetime
        When it began.
    is_complete : bool
        Whether it came to its end.
    chunks, sampled, damaged : int
        Number of chunks that were checked, of those that were to be read, and of those of them
        that are damaged.
    not_ok : int
        Number of chunks that were checked and are not ok.
    """

    asked: str
    began: datetime
    is_complete: bool = False
    chunks: int = 0
    sampled: int = 0
    damaged: int = 0
    not_ok: int = 0


class _Line(Struct, omit_defaults=True):
    """One line: a run begins or ends, or has checked a block, or chunks of one."""

    run: str
    began: float | None = None
    asked: str | None = None
    salt: int = 0
    ended: float | None = None
    block: BlockResult | None = None
    examined: Examined | None = None


class _RecordedBlock(Struct, frozen=True):
    """Where the result of a block is: its bytes in a file."""

    path: Path
    start: int
    run: str
    time: float
    is_ok: bool


class VerifyState:
    """State files: results that still count, and where new ones are added.

    Parameters
    ----------
    paths : sequence of path
        The files; results are added to the first one. None for none.
    asked : str
        What is read: only runs that were asked for the same count.
    since : float or None
        Results from before this time, in seconds since 1970, do not count; those from after it
        count, unless something is not ok. None to count only those of runs that did not end.
    """

    def __init__(self, paths: Iterable[str | Path], asked: str, since: float | None) -> None:
        self._paths = [Path(path) for path in paths]
        self._asked = asked
        self._since = since
        self._file: IO[bytes] | None = None
        self._places: dict[str, _RecordedBlock] = {}
        self._examined: dict[str, list[tuple[str, Examined]]] = {}
        self._runs: dict[str, RecordedRun] = {}
        self._salts: dict[str, int] = {}
        for path in self._paths:
            for start, line in _lines(path):
                self._add(path, start, line)
        same = [n for n, run in self._runs.items() if run.asked == asked]
        self._open = [name for name in same if not self._counts_as_ended(name)]
        self.run = self._open[-1] if self._open else uuid.uuid4().hex
        self.salt = self._salts.get(self.run) or uuid.uuid4().int % 2**63
        self._same = set(same)

    def _counts_as_ended(self, run: str) -> bool:
        is_old = self._since is not None and self._runs[run].began.timestamp() < self._since
        return self._runs[run].is_complete or is_old

    def _add(self, path: Path, start: int, line: _Line) -> None:
        if line.began is not None and line.asked is not None:
            began = datetime.fromtimestamp(line.began, UTC)
            self._runs.setdefault(line.run, RecordedRun(line.asked, began))
            self._salts[line.run] = line.salt
        run = self._runs.get(line.run)
        if run is None:
            return
        run.is_complete |= line.ended is not None
        if line.examined is not None:
            self._examined.setdefault(line.examined.key, []).append((line.run, line.examined))
        block = line.block
        if block is None:
            return
        self._examined.pop(block.key, None)
        run.chunks += block.chunks
        run.sampled += block.sampled
        run.damaged += block.damaged
        run.not_ok += sum(sum(each.values()) - each.get("ok", 0) for each in block.counts.values())
        known = self._places.get(block.key)
        if known is None or known.time <= block.time:
            place = _RecordedBlock(path, start, line.run, block.time, not block.findings)
            self._places[block.key] = place

    def runs_with(self, present: RecordedRun) -> list[RecordedRun]:
        """Return all runs that the files record, and the present one, from the first on."""
        runs = self._runs | {self.run: present} if self._paths else {}
        return sorted(runs.values(), key=lambda run: run.began)

    def recall(self, key: str) -> BlockResult | None:
        """Return the result of a block that need not be checked again."""
        place = self._places.get(key)
        if place is None or place.run not in self._same or not self._counts(place):
            return None
        with place.path.open("rb") as file:
            file.seek(place.start)
            return _decoder.decode(file.readline()).block

    @property
    def is_kept(self) -> bool:
        """Whether there is a file."""
        return bool(self._paths)

    def examined(self, key: str) -> list[Examined]:
        """Return which chunks of a block need not be read again, although it must be checked."""
        return [each for run, each in self._examined.get(key, ()) if run in self._open]

    def _counts(self, place: _RecordedBlock) -> bool:
        if place.run in self._open:
            return True
        return self._since is not None and place.is_ok and place.time >= self._since

    def is_to_be_repeated(self, key: str) -> bool:
        """Whether a block was not ok, and is to be checked again."""
        place = self._places.get(key)
        return place is not None and not place.is_ok and not self._counts(place)

    def repeats(self, prefix: str) -> bool:
        """Whether there is such a block whose key begins like this."""
        return any(key.startswith(prefix) and self.is_to_be_repeated(key) for key in self._places)

    # Writing --------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self.is_kept:
            self._file = self._paths[0].open("ab")
            if self._file.tell() and not _ends_a_line(self._paths[0]):
                self._file.write(b"\n")
            self._write(_Line(self.run, time.time(), self._asked, self.salt))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def record(self, found: BlockResult | Examined) -> None:
        """Add the result of a block, or which of its chunks have been read, in any thread.

        It is not lost if the process is killed.
        """
        if isinstance(found, BlockResult):
            self._write(_Line(self.run, block=found))
        elif found.runs:
            self._write(_Line(self.run, examined=found))

    def end(self) -> None:
        """Add that everything has been checked that was asked for."""
        for run in dict.fromkeys((self.run, *self._open)):
            self._write(_Line(run, ended=time.time()))

    def _write(self, line: _Line) -> None:
        if self._file is not None:
            self._file.write(_encoder.encode(line) + b"\n")
            self._file.flush()


_encoder = msgspec.json.Encoder(enc_hook=str)  # messages are a class of their own
_decoder = msgspec.json.Decoder(_Line)


def _lines(path: Path) -> Iterator[tuple[int, _Line]]:
    """Yield the lines of a file, each with where it begins.

    Raises
    ------
    ValueError
        It is not a state file.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        start = 0
        for number, text in enumerate(file, start=1):
            try:
                if text.strip():
                    yield start, _decoder.decode(text)
            except msgspec.DecodeError as error:
                if text.endswith(b"\n") and number == 1:
                    raise ValueError(f"{path} is not a state file of verify: {error}") from error
            start += len(text)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
