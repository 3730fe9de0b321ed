"""The specification as data, all five documents: marked JSON blocks, tables, headings, anchors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "CORE",
    "DIRECTORY",
    "DOCUMENTS",
    "Block",
    "anchors",
    "blocks",
    "headings",
    "marked",
    "section",
    "tables",
]

DIRECTORY = Path(__file__).resolve().parents[1] / "chunk-manifest-json"
CORE = "README.md"
#: The text of each document, by its name; the core comes first.
DOCUMENTS = {
    name: (DIRECTORY / name).read_text(encoding="utf-8")
    for name in (CORE, "features.md", "reading-safely.md", "transports.md", "errors.md")
}

# Blocks within list items are indented.
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
_COMMENT = re.compile(r"<!-- (?P<mark>.*) -->\n\s*\Z")
_HEADING = re.compile(r"^(#+) (.+)$", re.M)
_ROW = re.compile(r"^ *\|(.*)\|$")


class Block(NamedTuple):
    """A fenced JSON block, and the HTML comment before it, which says what must hold."""

    document: str
    line: int
    mark: str
    body: str

    @property
    def kind(self) -> str:
        return self.mark.partition(":")[0]

    @property
    def argument(self) -> str:
        return self.mark.partition(":")[2].strip()


def blocks(text: str, document: str = "") -> list[Block]:
    """Every JSON block of a text; the mark of one that has none is empty."""
    found: list[Block] = []
    for fence in _FENCE.finditer(text):
        if fence["language"] == "json":
            comment = _COMMENT.search(text, 0, fence.start())
            line = text.count("\n", 0, fence.start()) + 1
            mark = comment["mark"].strip() if comment else ""
            found.append(Block(document, line, mark, fence["body"]))
    return found


def marked(kind: str) -> list[Block]:
    """The blocks of the specification with a mark of this kind, of which there is one at least."""
    everywhere = (block for name, text in DOCUMENTS.items() for block in blocks(text, name))
    found = [block for block in everywhere if block.kind == kind]
    assert found, f"the specification has no block {kind!r}"
    return found


def section(heading: str) -> str:
    """The text below a heading of any document, up to the next one of its level or above."""
    (text,) = (text for text in DOCUMENTS.values() if heading in headings(text))
    found = list(_HEADING.finditer(text))
    (start,) = (h for h in found if h[2] == heading)
    later = (h.start() for h in found if h.start() > start.start() and len(h[1]) <= len(start[1]))
    return text[start.end() : next(later, len(text))]


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


def headings(text: str) -> list[str]:
    """The headings of a document, in order."""
    return [match[2] for match in _HEADING.finditer(_FENCE.sub("", text))]


def anchors(text: str) -> list[str]:
    """Anchors that GitHub gives the headings of a document, one each, in order."""
    names = (re.sub(r"[^\w\- ]", "", name.lower()) for name in headings(text))
    return [name.replace(" ", "-") for name in names]
