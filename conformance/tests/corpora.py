"""Tiny conformance corpora, written for one test; and the command of a scripted adapter."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from conformance.runner.cases import Corpus, load_corpus

_IN_THE_INDEX = ("id", "level", "class", "section", "features", "lacks")

__all__ = ["CorpusWriter", "adapter_command", "sha256", "tool_command"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def adapter_command(**hello: Any) -> list[str]:
    """The scripted adapter, with members of its hello replaced."""
    script = Path(__file__).with_name("scripted_adapter.py")
    return [sys.executable, str(script), json.dumps(hello)]


def tool_command() -> list[str]:
    """The scripted one-shot tool."""
    return [sys.executable, str(Path(__file__).with_name("scripted_tool.py"))]


class CorpusWriter:
    """Cases of a corpus. `do` is what the scripted adapter does, step by step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.entries: list[dict[str, Any]] = []

    def case(
        self,
        id: str,
        steps: list[dict[str, Any]],
        do: list[dict[str, Any]] | None = None,
        *,
        files: dict[str, bytes] | None = None,
        **members: Any,
    ) -> None:
        content = {
            "id": id,
            "description": "A test.",
            "level": "must",
            "class": "core",
            "section": "reading",
            "features": ["read"],
            "steps": steps,
            **members,
        }
        written = {
            "case.json": json.dumps(content).encode(),
            "hierarchy/do.json": json.dumps(do or []).encode(),
            **(files or {}),
        }
        for name, data in written.items():
            path = self.directory / "cases" / id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.entries.append(
            {name: content[name] for name in _IN_THE_INDEX if name in content}
            | {"files": {name: sha256(data) for name, data in written.items()}}
        )

    def write_index(self) -> None:
        (self.directory / "index.json").write_text(json.dumps({"cases": self.entries}))

    def load(self) -> Corpus:
        self.write_index()
        return load_corpus(self.directory)
