"""Aligned text tables."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Table:
    """A title, column names, and rows of text; the first column is left-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in lines
        ]
        return "\n".join([self.title, *(f"  {line}".rstrip() for line in aligned)])


def ratio(value: float) -> str:
    return f"{value:.2f} x"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def mebibytes(n: float) -> str:
    return f"{n / 2**20:.1f} MiB"
