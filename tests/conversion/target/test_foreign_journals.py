"""Journals that came with somebody else's hierarchy: recovery changes nothing but nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zarr

import zarr_manifest as zm
from zarr_manifest.conversion import recover
from zarr_manifest.errors import InvalidConfigurationError


def journal(**members: Any) -> str:
    whole = {"writer": "x", "nodes": {}, "groups": [], "old_documents": [], "new_documents": []}
    return json.dumps(whole | members)


@pytest.mark.parametrize(
    "members",
    [
        {"reached": "new", "unused": ["../kept"]},
        {"reached": "new", "unused": ["/kept"]},
        {"reached": "new", "unused": ["zarr.json"]},
        {"old_documents": ["a/../../kept"]},
        {"nodes": {"../outside": {"old": None, "new": "{}"}}},
        {"nodes": {"a": {"old": None, "new": "{}"}}, "groups": [""]},
        {"nodes": {"": {"old": None, "new": "{}"}}, "groups": ["", ".."]},
    ],
)
def test_paths_that_lead_out_of_the_hierarchy(members: Any, tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    (tmp_path / "kept").write_text("data")
    (tmp_path / "outside").mkdir()
    (root / "zarr.json.unfinished").write_text(journal(**members))
    before = {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")}
    with pytest.raises(InvalidConfigurationError, match="is not the journal"):
        recover(root, "finish")
    assert {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")} == before


def test_documents_that_are_none(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    zm.create_array(tmp_path, "a", {}, shape=4, chunks=4, dtype="u1", inline=False)
    own = "a/manifest-0123456789ab.json"
    for name in ("data.nc", "a/data.nc", "a/data.json", own):
        (tmp_path / name).write_text("[]")
    metadata = (tmp_path / "a" / "zarr.json").read_text()
    text = journal(
        nodes={"a": {"old": None, "new": metadata}},
        reached="new",
        unused=["data.nc", "a/data.nc", "a/data.json", "a/manifest.json", own],
    )
    (tmp_path / "zarr.json.unfinished").write_text(text)
    recover(tmp_path, "finish")
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"zarr.json", "a/zarr.json", "data.nc", "a/data.nc", "a/data.json"}
