"""What a conversion did: the counts, what was decided, and what could not be converted."""

from __future__ import annotations

from dataclasses import dataclass, field

from zarr_manifest.conversion.nodes import RefusedNode

__all__ = ["ConversionReport"]


@dataclass(slots=True)
class ConversionReport:
    """What was written, and what was not.

    Parameters
    ----------
    groups, arrays : int
        Number of nodes that were written.
    references : int
        Number of chunks that their manifests name.
    stated_bytes : int
        Sum of the lengths that entries state, and of inline data, in bytes. Entries
        that run to the end of their object state none.
    refused : list of RefusedNode
        Nodes that could not be expressed, each with the reason.
    notes : list of (str, str)
        Path of a node, and what was decided there.

    Examples
    --------
    >>> report = ConversionReport(groups=1, arrays=2, references=30, stated_bytes=4096)
    >>> report.refused.append(RefusedNode("t", "not_convertible", "a filter mask"))
    >>> print(report)
    1 group, 2 arrays, 30 references to 4096 bytes
    refused 1 node:
      t: a filter mask (not_convertible)
    """

    groups: int = 0
    arrays: int = 0
    references: int = 0
    stated_bytes: int = 0
    refused: list[RefusedNode] = field(default_factory=list[RefusedNode])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __str__(self) -> str:
        lines = [
            f"{_count(self.groups, 'group')}, {_count(self.arrays, 'array')}, "
            f"{_count(self.references, 'reference')} to {_count(self.stated_bytes, 'byte')}"
        ]
        if self.refused:
            lines.append(f"refused {_count(len(self.refused), 'node')}:")
            lines += [f"  {n.path or '/'}: {n.reason} ({n.code})" for n in self.refused]
        if self.notes:
            lines.append(f"{_count(len(self.notes), 'note')}:")
            lines += [f"  {path or '/'}: {note}" for path, note in self.notes]
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
