"""What a chunk may be found to be, and what was found. Pure.

A state follows from the error that a reader of the chunk gets, by its code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct, field

from zarr_manifest.errors import Advice, ManifestError

type ChunkState = Literal[
    "ok",
    "missing",
    "changed",
    "short",
    "corrupt",
    "undecodable",
    "denied",
    "unreachable",
    "unchecked",
]

STATES: tuple[ChunkState, ...] = ChunkState.__value__.__args__

DAMAGED = frozenset({"missing", "changed", "short", "corrupt", "undecodable"})

STATE_OF_CODE: dict[str, ChunkState] = {
    "source_not_found": "missing",
    "manifest_not_found": "missing",
    "source_changed": "changed",
    "range_out_of_bounds": "short",
    "short_read": "short",
    "checksum_mismatch": "corrupt",
    "invalid_json": "corrupt",
    "invalid_manifest": "corrupt",
    "invalid_chunk_key": "corrupt",
    "invalid_entry": "corrupt",
    "invalid_path": "corrupt",
    "invalid_configuration": "corrupt",
    "undecodable": "undecodable",
    "source_access_denied": "denied",
    "source_error": "unreachable",
}
"""The state by the code of an error; with any other, a chunk could not be checked."""

# Names of chunks in a finding; an object may have millions.
MOST_NAMES = 100

type Source = str
"""An authorised prefix, or ``"hierarchy"``, ``"inline"`` or ``"native"``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Chunks that are not ok, for one reason; or a declaration or document that is not.

    Parameters
    ----------
    array : str
        Path of the array in the hierarchy, without a leading slash.
    state : str
        One of ``"missing"``, ``"changed"``, ``"short"``, ``"corrupt"``, ``"undecodable"``,
        ``"denied"``, ``"unreachable"``, ``"unchecked"``.
    code : str
        The error code of reading, or ``"undecodable"``.
    message : str
        The code, what is wrong, and what to do. It is about the first chunk where each has a
        message of its own, such as its range in a truncated object.
    source : str
        The authorised prefix of the object, or ``"hierarchy"``, ``"inline"`` or ``"native"``;
        ``"documents"`` if no chunk is meant, but the declaration or a manifest document.
    location : str or None
        The object.
    chunks : tuple of str
        Keys of the first 100 chunks.
    count : int
        Number of chunks; 0 for a document.
    """

    array: str
    state: ChunkState
    code: str
    message: str
    source: Source
    location: str | None = None
    chunks: tuple[str, ...] = ()
    count: int = 0

    @property
    def is_damage(self) -> bool:
        """Whether something is damaged; otherwise it could not be checked."""
        return self.state in DAMAGED


class Fault(Struct, frozen=True):
    """What is wrong with one chunk."""

    code: str
    message: str
    location: str | None = None

    @classmethod
    def of(cls, error: ManifestError) -> Fault:
        """Return what an error of reading the chunk says."""
        bare = type(error)(error.problem, remedy=error.remedy)
        return cls(error.code, Advice(f"{error.code}: ", bare.message), error.location)

    @property
    def state(self) -> ChunkState:
        """The state of the chunk."""
        return STATE_OF_CODE.get(self.code, "unchecked")


class BlockResult(Struct):
    """What was found in one block of chunks.

    Attributes
    ----------
    key : str
        Which block, in which form, and how it was checked.
    array : str
        Path of the array.
    chunks, empty : int
        Number of entries, and of those without bytes.
    objects : int
        Number of objects that were asked for their state.
    sampled, damaged : int
        Number of chunks that were to be read, and of those that are damaged.
    read : int
        Number of chunks that were read.
    nbytes : int
        Number of bytes that were read.
    uncompared : int
        Number of chunks that were read, and have no checksum, and were not decoded.
    counts : dict
        Number of chunks in each state, by source.
    findings : list of Finding
        What is not ok.
    time : float
        When, in seconds since 1970.
    """

    key: str
    array: str
    chunks: int = 0
    empty: int = 0
    objects: int = 0
    sampled: int = 0
    damaged: int = 0
    read: int = 0
    nbytes: int = 0
    uncompared: int = 0
    counts: dict[Source, dict[ChunkState, int]] = field(
        default_factory=dict[str, dict[ChunkState, int]]
    )
    findings: list[Finding] = field(default_factory=list[Finding])
    time: float = 0.0


class Examined(Struct, omit_defaults=True):
    """Some chunks of a block that were read and checked.

    Attributes
    ----------
    key : str
        Which block.
    runs : list of (int, int)
        The first and the last position of chunks in it that follow each other.
    faults : dict of int to Fault
        What is wrong with those that are not ok.
    """

    key: str
    runs: list[tuple[int, int]]
    faults: dict[int, Fault] = field(default_factory=dict[int, Fault])

    @classmethod
    def of(cls, key: str, positions: Collection[int], faults: Mapping[int, Fault]) -> Examined:
        """Return what to record of some chunks of a block.

        Examples
        --------
        >>> Examined.of("a", [3, 1, 2, 7], {}).runs
        [(1, 3), (7, 7)]
        """
        runs: list[tuple[int, int]] = []
        for position in sorted(positions):
            follows = bool(runs) and runs[-1][1] + 1 == position
            runs[-1:] = [(runs[-1][0], position)] if follows else [*runs[-1:], (position, position)]
        return cls(key, runs, {n: faults[n] for n in positions if n in faults})
