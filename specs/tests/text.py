"""The specification as data: its marked JSON blocks, its tables, its headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["DIRECTORY", "TEXT", "Block", "anchors", "blocks", "marked", "section", "tables"]

DIRECTORY = Path(__file__).resolve().parents[1] / "chunk-manifest-json"
TEXT = (DIRECTORY / "README.md").read_text(encoding="utf-8")

# Blocks within list items are indented.
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
_COMMENT = re.compile(r"<!-- (?P<mark>.*) -->\n\s*\Z")
_HEADING = re.compile(r"^(#+) (.+)$", re.M)
_ROW = re.compile(r"^ *\|(.*)\|$")


class Block(NamedTuple):
    """A fenced JSON block, and the HTML comment before it, which says what must hold."""

    line: int
    mark: str
    body: str

    @property
    def kind(self) -> str:
        return self.mark.partition(":")[0]

    @property
    def argument(self) -> str:
        return self.mark.partition(":")[2].strip()


def blocks(text: str) -> list[Block]:
    """Every JSON block of a document; the mark of one that has none is empty."""
    found: list[Block] = []
    for fence in _FENCE.finditer(text):
        if fence["language"] == "json":
            comment = _COMMENT.search(text, 0, fence.start())
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(line, comment["mark"].strip() if comment else "", fence["body"]))
    return found


def marked(kind: str) -> list[Block]:
    """The blocks of the specification with a mark of this kind, of which there is one at least."""
    found = [block for block in blocks(TEXT) if block.kind == kind]
    assert found, f"the specification has no block {kind!r}"
    return found


def section(heading: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    headings = list(_HEADING.finditer(TEXT))
    (start,) = (h for h in headings if h[2] == heading)
    later = (
        h.start() for h in headings if h.start() > start.start() and len(h[1]) <= len(start[1])
    )
    return TEXT[start.end() : next(later, len(TEXT))]


def tables(text: str) -> list[list[list[str]]]:
    """The rows of every table, below its header: one string per cell, without backticks."""
    found: list[list[list[str]]] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        match = _ROW.match(line)
        if match is not None:
            rows.append([cell.strip().replace("`", "") for cell in match[1].split("|")])
        elif rows:
            found.append(rows[2:])
            rows = []
    return found


def anchors(text: str) -> set[str]:
    """Anchors that GitHub gives the headings of a document."""
    names = (match[2] for match in _HEADING.finditer(_FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}
