"""What was verified, and what was found: a table, and what it supports. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from zarr_manifest.inspection.damage import (
    DAMAGED,
    STATES,
    BlockResult,
    ChunkState,
    Finding,
    Source,
)
from zarr_manifest.inspection.verify_state import RecordedRun
from zarr_manifest.showing import MOST_LINES, counted, html_table, size

# Findings beyond this many are only counted; a state file has all of them.
MOST_FINDINGS = 10_000

# Runs that are shown, the last ones.
_MOST_RUNS = 5

_COUNTED = ("chunks", "empty", "objects", "sampled", "damaged", "read", "nbytes", "uncompared")


@dataclass(slots=True, repr=False)
class Report:
    """What :func:`verify` checked, and found.

    Iterate over it for the findings; :meth:`rows` are the numbers of chunks by array, source and
    state, for a table such as ``pandas.DataFrame(report.rows())``.

    Parameters
    ----------
    hierarchy : str
        What was verified.
    levels : tuple of str
        What was checked: ``"documents"``, ``"objects"``, and ``"bytes"`` if chunks were read.
    asked : str
        Which chunks were to be read: empty for none, ``"all"``, or a sample such as ``"3/30"``.
    decoded : bool
        Whether chunks that were read were decoded.
    began, ended : datetime
        When it was verified.
    arrays, documents : int
        Number of arrays, and of valid manifest documents.
    chunks, empty : int
        Number of chunks that were checked, and how many of them have no bytes.
    objects : int
        Number of objects that were asked for their state.
    sampled, damaged : int
        Number of chunks that were to be read, and of those that are damaged.
    read : int
        Number of chunks that were read.
    nbytes : int
        Number of bytes of objects that were read.
    uncompared : int
        Number of chunks that were read, but have no checksum, and were not decoded.
    counts : dict
        Number of chunks in each state, by array and source.
    findings : list of Finding
        What is damaged, or could not be checked; the first 10,000.
    further : int
        Number of further findings.
    is_complete : bool
        Whether everything was checked that was asked for.
    not_checked : list of str
        What was not checked, as sentences.
    runs : list of RecordedRun
        What the state file records of this run and earlier ones.

    Examples
    --------
    >>> from datetime import UTC
    >>> now = datetime.now(UTC)
    >>> report = Report("data.zarr", ("documents", "objects"), "", False, now, now)
    >>> counts = {"s3://b/": {"ok": 2, "missing": 1}}
    >>> report.add(BlockResult("", "sst", chunks=3, objects=2, counts=counts))
    >>> report.rows()[1]
    {'array': 'sst', 'source': 's3://b/', 'state': 'missing', 'chunks': 1}
    >>> report.by_state()
    {'ok': 2, 'missing': 1}
    """

    hierarchy: str
    levels: tuple[str, ...]
    asked: str
    decoded: bool
    began: datetime
    ended: datetime
    arrays: int = 0
    documents: int = 0
    chunks: int = 0
    empty: int = 0
    objects: int = 0
    sampled: int = 0
    damaged: int = 0
    read: int = 0
    nbytes: int = 0
    uncompared: int = 0
    counts: dict[tuple[str, Source], Counter[ChunkState]] = field(
        default_factory=dict[tuple[str, Source], Counter[ChunkState]]
    )
    findings: list[Finding] = field(default_factory=list[Finding])
    further: int = 0
    is_complete: bool = True
    not_checked: list[str] = field(default_factory=list[str])
    runs: list[RecordedRun] = field(default_factory=list[RecordedRun])
    _states: Counter[ChunkState] = field(default_factory=Counter[ChunkState], init=False)

    def add(self, result: BlockResult) -> None:
        """Add what was found in a block."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(result, name))
        for source, states in result.counts.items():
            self.counts.setdefault((result.array, source), Counter()).update(states)
        for finding in result.findings:
            self.find(finding)

    def find(self, finding: Finding) -> None:
        """Add a finding."""
        self._states[finding.state] += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
        else:
            self.further += 1

    # The table ------------------------------------------------------------------

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings) + self.further

    def rows(self) -> list[dict[str, Any]]:
        """Return the numbers of chunks by array, source and state."""
        return [
            {"array": array, "source": source, "state": state, "chunks": states[state]}
            for (array, source), states in sorted(self.counts.items())
            for state in STATES
            if states[state]
        ]

    def by_array(self) -> dict[str, dict[ChunkState, int]]:
        """Return the number of chunks in each state, by array."""
        return self._totals((array, states) for (array, _), states in self.counts.items())

    def by_source(self) -> dict[Source, dict[ChunkState, int]]:
        """Return the number of chunks in each state, by source."""
        return self._totals((source, states) for (_, source), states in self.counts.items())

    def by_state(self) -> dict[ChunkState, int]:
        """Return the number of chunks in each state."""
        return self._totals(("", states) for states in self.counts.values()).get("", {})

    def _totals(
        self, counts: Iterable[tuple[str, Counter[ChunkState]]]
    ) -> dict[str, dict[ChunkState, int]]:
        found: dict[str, Counter[ChunkState]] = {}
        for name, states in counts:
            found.setdefault(name, Counter()).update(states)
        return {
            name: {state: states[state] for state in STATES if states[state]}
            for name, states in sorted(found.items())
        }

    # What it means --------------------------------------------------------------

    @property
    def is_damaged(self) -> bool:
        """Whether something is damaged."""
        return any(state in DAMAGED for state in self._states)

    @property
    def status(self) -> int:
        """0 if nothing was found; 1 if something is damaged; 3 if something was not checked."""
        if self.is_damaged:
            return 1
        return 0 if self.is_complete and not self._states else 3

    @property
    def statement(self) -> str:
        """What the chunks that were read say of all of them; empty if none or all were read.

        Of no damage in n chunks follows, with 95 % confidence, that fewer than about 3 in n are
        damaged (the rule of three).
        """
        if self.asked in ("", "all") or not self.sampled:
            return ""
        found = f"{self.damaged:,} of {self.sampled:,} chunks in the sample damaged"
        if self.damaged:
            return f"{found}: about {_percent(self.damaged / self.sampled)} % of all"
        most = _percent(1 - 0.05 ** (1 / self.sampled))
        return f"{found}: fewer than {most} % of all with 95 % confidence"

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "hierarchy": self.hierarchy,
            "levels": list(self.levels),
            "read": self.asked or None,
            "decoded": self.decoded,
            "began": self.began.isoformat(timespec="seconds"),
            "ended": self.ended.isoformat(timespec="seconds"),
            "complete": self.is_complete,
            "not_checked": self.not_checked,
            "statement": self.statement or None,
            "arrays": self.arrays,
            "documents": self.documents,
            "chunks": self.chunks,
            "empty": self.empty,
            "objects": self.objects,
            "chunks_read": self.read,
            "bytes_read": self.nbytes,
            "not_compared": self.uncompared,
            "states": self.rows(),
            "findings": [asdict(each) for each in self.findings],
            "further_findings": self.further,
            "runs": [
                asdict(run) | {"began": run.began.isoformat(timespec="seconds")}
                for run in self.runs
            ],
        }

    def __repr__(self) -> str:
        return f"<Report: {self._summary()}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, findings: bool = True) -> Iterator[str]:
        """Yield the report as text, with the findings or without."""
        if findings:
            yield from map(finding_line, self.findings)
        if self.further:
            yield f"… and {counted(self.further, 'further finding')}"
        for array, fact in self._facts():
            yield f"{array}: {fact}"
        yield f"checked: {self._checked()}"
        if self.statement:
            yield self.statement
        for text in self.not_checked:
            yield f"not checked: {text}"
        yield self._summary()

    def _facts(self) -> Iterator[tuple[str, str]]:
        rows = [(f"/{array}", states) for array, states in self.by_array().items()]
        by_source = self.by_source()
        if len(by_source) > 1 and self._states:
            rows += by_source.items()
        for name, states in rows:
            yield name, ", ".join(f"{n:,} {state}" for state, n in states.items())
        for run in self.runs[-_MOST_RUNS:] if len(self.runs) > 1 else ():
            checked = f"{counted(run.chunks, 'chunk')} checked, {run.not_ok:,} not ok"
            ended = "" if run.is_complete else "; interrupted"
            yield f"{run.began:%Y-%m-%d %H:%M}", f"{checked}{ended}"

    def _checked(self) -> str:
        parts = [
            f"{counted(self.documents, 'manifest document')}",
            f"{counted(self.chunks, 'chunk')} in {counted(self.objects, 'object')}",
        ]
        if "bytes" in self.levels:
            how = " and decoded" if self.decoded else ""
            parts.append(f"{counted(self.read, 'chunk')} read{how}, {size(self.nbytes)}")
        return "; ".join(parts)

    def _summary(self) -> str:
        levels = ", ".join(self.levels)
        if not self._states:
            return f"{self.hierarchy}: nothing found ({levels})"
        totals = self.by_state()
        documents = sum(not each.count for each in self.findings)
        fact = [f"{number:,} {state}" for state, number in totals.items() if state != "ok"]
        if documents:
            fact.append(f"{counted(documents, 'problem')} of documents")
        return f"{self.hierarchy}: {', '.join(fact)} ({levels})"

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, most: int = MOST_LINES) -> str:
        """Return the report as a part of a page, with so many findings at most."""
        rows: list[tuple[str, str | list[str]]] = [
            ("checked", self._checked()),
            ("not checked", self.not_checked),
            ("sample", self.statement or []),
        ]
        rows += self._facts()
        rows.append(("found", [finding_line(each) for each in self.findings]))
        return html_table(self._summary(), rows, most)


def finding_line(finding: Finding, spell: Callable[[str], str] = str) -> str:
    """Return a finding as one line; `spell` returns the text for its message."""
    where = f"/{finding.array}"
    if finding.chunks:
        more = f" and {finding.count - 1:,} more" if finding.count > 1 else ""
        where += f" {finding.chunks[0]}{more}"
    elif finding.count:
        where += f" {counted(finding.count, 'chunk')}"
    location = f" ({finding.location})" if finding.location else ""
    return f"{finding.state}: {where}: {spell(finding.message)}{location}"


def _percent(share: float) -> str:
    """Return a share in percent, with two digits that count, rounded up.

    Examples
    --------
    >>> _percent(1 / 30_000), _percent(0.15)
    ('0.0034', '15')
    """
    percent = 100 * share
    digits = 1 - math.floor(math.log10(percent))
    rounded = math.ceil(round(percent * 10.0**digits, 6)) / 10.0**digits
    return (
        f"{rounded:.{max(digits, 0)}f}".rstrip("0").rstrip(".") if digits > 0 else f"{rounded:.0f}"
    )
