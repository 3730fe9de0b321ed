"""The picture of the packages in docs/architecture.md, drawn from the contract of import-linter.

``python -m tests.architecture_page`` writes it anew, after a change of the layers in
pyproject.toml or of what a package's ``__init__`` says of it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "zarr_manifest"
PAGE = ROOT / "docs" / "architecture.md"

_DRAWN = re.compile(r"(?<=<!-- drawn -->\n).*(?=<!-- end -->)", re.DOTALL)


def layers() -> list[list[str]]:
    """Return the packages, layer by layer, as the contract of import-linter lists them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == [PACKAGE.name]
    )
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def summary(package: str) -> str:
    """Return the first sentence of a package's docstring."""
    module = PACKAGE / package / "__init__.py"
    source = module if module.exists() else PACKAGE / f"{package}.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return (docstring or "").splitlines()[0]


def draw(rows: list[list[str]], *, width: int = 59) -> str:
    """Draw rows of boxes on top of each other.

    Examples
    --------
    >>> print(draw([["a"], ["b", "c"]], width=8))
    ┌───────┐
    │   a   │
    ├───┬───┤
    │ b │ c │
    └───┴───┘
    """
    walls = [[number * width // len(row) for number in range(len(row) + 1)] for row in rows]
    lines = [_rule([], walls[0], width)]
    for row, here, below in zip(rows, walls, [*walls[1:], []], strict=True):
        sizes = [end - start - 1 for start, end in pairwise(here)]
        cells = [name.center(size) for name, size in zip(row, sizes, strict=True)]
        lines += [f"│{'│'.join(cells)}│", _rule(here, below, width)]
    return "\n".join(lines)


def _rule(above: list[int], below: list[int], width: int) -> str:
    """Draw the line between two rows, of which one may not be there."""
    ends = {(True, True): "├┤", (True, False): "└┘", (False, True): "┌┐"}[bool(above), bool(below)]
    inner = {(True, True): "┼", (True, False): "┴", (False, True): "┬", (False, False): "─"}
    line = "".join(inner[place in above, place in below] for place in range(1, width))
    return f"{ends[0]}{line}{ends[1]}"


def drawn() -> str:
    """Return the picture, and the table of the packages below it."""
    rows = layers()
    table = [f"| `{package}` | {summary(package)} |" for row in rows for package in row]
    return "\n".join(
        [
            "",
            "```text",
            draw(rows),
            "```",
            "",
            "| package | what is in it |",
            "|---|---|",
            *table,
            "",
            "",
        ]
    )


def page() -> str:
    """Return the page with the picture as it has to be."""
    return _DRAWN.sub(lambda _: drawn(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
