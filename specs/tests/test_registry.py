"""The submission to the registry of Zarr extensions, and what its checks find."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from specs.registry import check, write
from specs.tests.text import DIRECTORY, DOCUMENTS

ROOT = DIRECTORY.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REPOSITORY: str = PROJECT["project"]["urls"]["Repository"]
NAMED: list[str] = [
    *PROJECT["tool"]["registry"]["maintainers"],
    *PROJECT["tool"]["registry"]["implementations"],
]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="`make registry` needs node")


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    return write(tmp_path)


@needs_node
def test_nothing_is_wrong(submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check(submitted)) == []
    monkeypatch.chdir(submitted.parent)
    assert list(check(submitted.relative_to(submitted.parent))) == []


def test_it_says_what_pyproject_says(submitted: Path) -> None:
    text = (submitted / "README.md").read_text(encoding="utf-8")
    assert [name for name in [REPOSITORY, *NAMED] if name not in text] == []
    kept = {p.relative_to(submitted): p.read_bytes() for p in submitted.rglob("*") if p.is_file()}
    own = {p.relative_to(DIRECTORY): p.read_bytes() for p in DIRECTORY.rglob("*") if p.is_file()}
    changed = {str(name) for name in own if own[name] != kept[name]}
    assert (kept.keys(), changed) == (own.keys(), {"README.md"})


def test_nothing_else_names_the_repository() -> None:
    command = ["git", "grep", "--untracked", "-l", "-F", REPOSITORY]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode > 1:
        pytest.skip("not in a git repository")
    assert found.stdout.split() == ["pyproject.toml"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_text_names_nobody(document: str) -> None:
    assert [name for name in NAMED if name in DOCUMENTS[document]] == []
    assert "zarr-manifest" not in DOCUMENTS[document]


@needs_node
@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("README.md", "(features.md)", "(../features.md)", "leads out of the submission"),
        ("README.md", "(features.md)", "(feature.md)", "leads nowhere"),
        ("features.md", "#path-resolution", "#paths", "names no heading"),
        ("README.md", "## Change log", "## Changes", "has no section 'Change log'"),
        ("README.md", "* The zarr-manifest", "The zarr-manifest", "names no maintainer"),
        ("schema.json", '"type": "object",', '"type":  "object",', "prettier"),
        ("schema.json", '"const": "chunk-manifest-json"', '"const": "x"', "another name"),
        ("schema.json", '"type": "object",', '"type": "objects",', "objects"),
        ("examples/range/zarr.json", '"manifest":', '"manifests":', "examples/range/zarr.json"),
    ],
)
def test_each_problem_is_found(
    submitted: Path, name: str, old: str, new: str, problem: str
) -> None:
    path = submitted / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert any(problem in one for one in check(submitted))


@needs_node
def test_foreign_files_and_lost_ones_are_found(submitted: Path) -> None:
    (submitted / "notes.txt").write_text("x")
    (submitted / "LICENSE").unlink()
    assert list(check(submitted)) == [
        "README.md: LICENSE leads nowhere",
        "there is no LICENSE",
        "notes.txt is no file of a specification",
    ]
