"""What the documents show, runs: every ```python block, in order, in one namespace per file.

A line `print(...)  # text` also promises its output.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


def blocks(document: Path) -> list[tuple[int, str]]:
    """Line number and text of every Python block of a document."""
    text = document.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for line, source in blocks(document):
        # Padded, so that a traceback points into the document.
        exec(compile("\n" * (line - 1) + source, str(document), "exec"), namespace)
        printed = capsys.readouterr().out.splitlines()
        assert printed == PROMISED.findall(source), f"{document.name}, line {line}"


def test_readme_shows_how_to_use_it() -> None:
    sources = "".join(source for _, source in blocks(ROOT / "README.md"))
    for name in ("ManifestStore", "enable", "anonymous", "environment", 'engine="zarr-manifest"'):
        assert name in sources
