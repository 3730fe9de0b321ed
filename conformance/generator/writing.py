"""Writes the corpus, or compares it with the existing one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.generator.case import Case, to_json
from conformance.generator.vectors import vectors

__all__ = ["differences", "render", "withdrawals", "write", "wrong_withdrawals"]

# In cases/, but not written by the generator.
_BY_HAND = {"cases/LICENSE", "cases/.gitattributes"}


def render(cases: Iterable[Case]) -> dict[str, bytes]:
    """All files of the corpus, by their path below ``conformance/``."""
    files: dict[str, bytes] = {}
    index: list[dict[str, Any]] = []
    for case in sorted(cases, key=lambda case: case.id):
        if index and index[-1]["id"] == case.id:
            raise ValueError(f"two cases are named {case.id}")
        own = dict(sorted(case.files().items()))
        files |= {f"cases/{case.id}/{path}": content for path, content in own.items()}
        index.append(
            {
                **case.place,
                "files": {
                    path: hashlib.sha256(content).hexdigest() for path, content in own.items()
                },
            }
        )
    files["index.json"] = to_json({"version": 1, "cases": index})
    files["vectors.json"] = to_json(vectors(files))
    return files


def withdrawals(root: Path) -> dict[str, Any]:
    """Load the withdrawn ids, each with its successor, or null, and the reason."""
    loaded: dict[str, Any] = json.loads((root / "withdrawn.json").read_bytes())
    return loaded


def wrong_withdrawals(withdrawn: Mapping[str, Any], ids: Collection[str]) -> list[str]:
    """Return how the withdrawn ids contradict those of the corpus."""
    said: list[str] = []
    for name, why in withdrawn.items():
        if name in ids:
            said.append(f"{name}: withdrawn, but in the corpus")
        if not isinstance(why, dict) or why.keys() != {"successor", "reason"} or not why["reason"]:
            said.append(f"{name}: does not say its successor (an id or null) and the reason")
        elif why["successor"] is not None and why["successor"] not in {*ids, *withdrawn}:
            said.append(f"{name}: its successor {why['successor']} does not exist")
    return said


def _on_disk(root: Path) -> dict[str, Path]:
    found = {path.relative_to(root).as_posix(): path for path in root.glob("cases/**/*")}
    files = {name: path for name, path in found.items() if path.is_file() and name not in _BY_HAND}
    beside = {name: root / name for name in ("index.json", "vectors.json")}
    return files | {name: path for name, path in beside.items() if path.exists()}


def differences(root: Path, files: dict[str, bytes]) -> list[str]:
    """Return how the corpus below a directory differs from the generated one."""
    found = _on_disk(root)
    said = [f"missing: {name}" for name in files if name not in found]
    said += [f"stale: {name}" for name in found if name not in files]
    said += [
        f"differs: {name}"
        for name, content in files.items()
        if name in found and found[name].read_bytes() != content
    ]
    return sorted(said)


def write(root: Path, files: dict[str, bytes]) -> None:
    """Write the corpus below a directory, and remove files that no longer belong to it."""
    for name, path in _on_disk(root).items():
        if name not in files:
            path.unlink()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for directory in sorted(root.glob("cases/**/"), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()
