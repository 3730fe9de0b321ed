"""The number of files and lines of code in each package.

``python -m tests.package_sizes`` prints both; docstrings, comments and blank lines do not count.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "zarr_manifest"

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """Count the lines that are not blank, a comment, or part of a docstring.

    Examples
    --------
    >>> lines_of_code('def f():\\n    "A docstring."\\n\\n    return 1  # one\\n')
    2
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring in _docstrings(ast.parse(source)):
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def sizes() -> dict[str, tuple[int, int]]:
    """Return the number of files and lines of code by package, or top-level module."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        files, lines = found.get(name, (0, 0))
        found[name] = files + 1, lines + lines_of_code(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


if __name__ == "__main__":
    rows = sizes()
    for name, (files, lines) in rows.items():
        print(f"{name:15}{files:5}{lines:8}")
    all_files, all_lines = (sum(column) for column in zip(*rows.values(), strict=True))
    print(f"{'all':15}{all_files:5}{all_lines:8}")
