"""Commands that change a hierarchy: what they replace, repair, remove and lock."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.command_line.commands import (
    run,
)
from tests.interrupted_stores import Interrupted, InterruptedDirectory


@pytest.mark.slow
def test_existing_files_are_not_replaced(inputs: Path) -> None:
    (inputs / "mine").mkdir()
    (inputs / "mine" / "f.txt").write_text("mine")
    shutil.copytree(inputs / "references.parq", inputs / "set")
    for call in (
        ["export", "kerchunk", "data.zarr", "2023.nc", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "mine/f.txt", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "data.zarr/zarr.json", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "old.zarr/.zgroup", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "references.json"],
        ["export", "kerchunk", "data.zarr", "references.parq", "--parquet"],
        ["export", "kerchunk", "data.zarr", "set", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "mine", "--parquet", "--overwrite"],
        ["create", "2023.nc", "data.zarr"],
    ):
        before = {p: p.read_bytes() for p in inputs.rglob("*") if p.is_file()}
        done = run(*call)
        assert done.status == 3, call
        assert "overwrite" in done.stderr or "not a reference set" in done.stderr
        assert {p: p.read_bytes() for p in inputs.rglob("*") if p.is_file()} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        ["export", "kerchunk", "data.zarr", "references.json", "--overwrite"],
        ["export", "kerchunk", "data.zarr", "references.parq", "--parquet", "--overwrite"],
        ["create", "2024.nc", "data.zarr", "--overwrite"],
    ],
)
def test_overwriting(inputs: Path, call: list[str]) -> None:
    assert run(*call).status == 0
    assert run(*call).status == 0
    assert not list(inputs.glob(".export-*"))


# upgrade -----------------------------------------------------------------------------


@pytest.mark.slow
def test_upgrading(inputs: Path) -> None:
    before = (inputs / "theirs.zarr/sst/zarr.json").read_bytes()
    dry = run("upgrade", "theirs.zarr", "--dry-run")
    assert dry.stdout.endswith("theirs.zarr: 1 of 1 manifest array would be repaired\n")
    assert run("upgrade", "theirs.zarr", "--to", "valid.zarr").status == 0
    assert (inputs / "theirs.zarr/sst/zarr.json").read_bytes() == before
    assert run("validate", "valid.zarr").status == 0
    assert run("upgrade", "valid.zarr").stdout == "valid.zarr: 0 of 1 manifest array repaired\n"
    assert run("upgrade", "theirs.zarr", "--to", "theirs.zarr/inside").status == 2


def test_upgrading_what_could_not_be_read_afterwards(inputs: Path) -> None:
    manifest = inputs / "theirs.zarr/sst/manifest.json"
    manifest.write_text(manifest.read_text().replace("/data/f.nc", "nowhere/f.nc"))
    done = run("upgrade", "theirs.zarr")
    assert done.status == 1
    assert done.stdout == "theirs.zarr: 0 of 1 manifest array repaired\n"
    assert "which is unknown. State it: --working-directory URL." in done.stderr


# clean -------------------------------------------------------------------------------


def test_cleaning(inputs: Path) -> None:
    unused = "sst/manifest-44136fa355b3678a.json"
    foreign = "sst/manifest-0123456789abcdef.json"
    for key in (unused, foreign):
        (inputs / "data.zarr" / key).write_text("{}")
    done = run("clean", "data.zarr")
    assert done.stdout == "data.zarr: removed nothing; 4 younger objects left alone\n"
    listed = f"{unused}  2 B\ndata.zarr: {{}} 1 manifest document, 2 B\n"
    note = f"note: {foreign} stays: its bytes have another digest than its name states\n"
    done = run("clean", "data.zarr", "--older-than", "0s", "--dry-run")
    assert (done.stdout, done.stderr, done.status) == (listed.format("would remove"), note, 0)
    assert (inputs / "data.zarr" / unused).exists()
    done = run("clean", "data.zarr", "--older-than", "0s")
    assert (done.stdout, done.stderr, done.status) == (listed.format("removed"), note, 0)
    assert not (inputs / "data.zarr" / unused).exists()
    assert (inputs / "data.zarr" / foreign).exists()


@pytest.mark.parametrize("age", ["7d", "168h", "10080m", "604800s"])
def test_ages(inputs: Path, age: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unused = inputs / "data.zarr/sst/manifest-44136fa355b3678a.json"
    unused.write_text("{}")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7 * 86400 - 60)
    run("clean", "data.zarr", "--older-than", age)
    assert unused.exists()
    monkeypatch.setattr(time, "time", lambda: now + 7 * 86400 + 60)
    run("clean", "data.zarr", "--older-than", age)
    assert not unused.exists()


# accept ------------------------------------------------------------------------------


def test_accepting(inputs: Path) -> None:
    (document,) = (inputs / "data.zarr/sst").glob("manifest-*.json")
    text = document.read_text()
    document.write_text(text + "\n")
    assert run("validate", "data.zarr").status == 1
    done = run("accept", "data.zarr", "sst")
    said = "data.zarr: 1 document accepted, 1 array written\n"
    assert (done.stdout, done.stderr, done.status) == (said, "", 0)
    assert run("validate", "data.zarr").status == 0
    assert run("accept", "data.zarr").status == 2


def test_accepting_invalid_documents(inputs: Path) -> None:
    (document,) = (inputs / "data.zarr/sst").glob("manifest-*.json")
    document.write_text('{"9.9.9": {}, "0.0.0": {"length": 1}}')
    done = run("accept", "data.zarr", "sst")
    assert done.status == 1
    assert done.stdout.splitlines()[0].startswith("invalid_")
    assert done.stdout.splitlines()[-1] == "2 problems"
    found = run("accept", "data.zarr", "sst", "--json").document
    assert [each["code"] for each in found["problems"]] == ["invalid_entry", "invalid_chunk_key"]
    assert found["arrays"] == []


# recover -----------------------------------------------------------------------------


@pytest.mark.slow
def test_recovering(inputs: Path) -> None:
    store = InterruptedDirectory(inputs / "data.zarr")
    for left in itertools.count():
        store.left = left
        try:
            with pytest.raises(Interrupted):
                run("import", "kerchunk", "references.json", "data.zarr", "--overwrite")
        finally:
            store.left = 10**9
        if "pending" in (inputs / "data.zarr/zarr.json").read_text():
            break
    committed = run("info", "data.zarr").stdout
    done = run("recover", "data.zarr")
    assert re.fullmatch(
        r"data\.zarr: the metadata of \d nodes? were behind, and are written\n", done.stdout
    )
    assert run("validate", "data.zarr").status == 0
    assert run("info", "data.zarr").stdout == committed
    assert run("recover", "data.zarr").stdout == "data.zarr: there is nothing to recover\n"


@pytest.mark.slow
def test_keeping_one_of_two_that_contradict(inputs: Path) -> None:
    run("import", "kerchunk", "references.json", "data.zarr")
    own = inputs / "data.zarr/sst/zarr.json"
    own.write_text(json.dumps({**json.loads(own.read_text()), "fill_value": 5}))
    refused = run("recover", "data.zarr")
    assert "contradict each other: they differ in 'fill_value'" in refused.stderr
    assert "zarr-manifest recover data.zarr --trust consolidated, or --trust own" in refused.stderr
    assert "metadata_differ" in str(run("validate", "data.zarr", "--json").document["notes"])
    done = run("recover", "data.zarr", "--trust", "consolidated")
    said = "the metadata of 1 node were behind or contradictory, and are written"
    assert done.stdout == f"data.zarr: {said}\n"
    assert run("recover", "data.zarr").stdout == "data.zarr: there is nothing to recover\n"


# Locks ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_locking(inputs: Path) -> None:
    for name, options in (("with.zarr", ()), ("without.zarr", ("--no-lock",))):
        run("import", "kerchunk", "references.json", name, *options)
        notes = run("validate", name, "--json").document["notes"]
        unlocked = [note["array"] for note in notes if note["code"] == "lock_missing"]
        assert unlocked == (["sst"] if options else [])
    assert run("lock", "with.zarr").stdout == "with.zarr: 0 arrays locked\n"
    done = run("lock", "without.zarr", "sst")
    assert (done.status, done.stdout) == (0, "/sst: locked\nwithout.zarr: 1 array locked\n")
    assert run("lock", "without.zarr", "--json").document["locked"] == []
    done = run("lock", "without.zarr", "nope")
    assert (done.status, "there is no array 'nope'" in done.stderr) == (3, True)
    assert run("upgrade", "theirs.zarr", "--no-lock", "--to", "valid.zarr").status == 0
    notes = run("validate", "valid.zarr", "--json").document["notes"]
    assert "lock_missing" in [note["code"] for note in notes]


# snapshot, id, diff ------------------------------------------------------------------


@pytest.mark.slow
def test_versions(inputs: Path) -> None:
    done = run("snapshot", "old.zarr", "new.zarr")
    assert (done.status, "Pass --checksum sha256 to record" in done.stderr) == (3, True)
    assert not (inputs / "new.zarr").exists()
    done = run("id", "old.zarr")
    assert (done.status, "zarr-manifest snapshot old.zarr TARGET." in done.stderr) == (3, True)
    run("snapshot", "old.zarr", "new.zarr", "--copy")
    assert len(run("id", "new.zarr").stdout) == len("sha256:") + 64 + 1
    # Their checksums are of different algorithms.
    assert run("diff", "snap.zarr", "new.zarr").status == 0
    os.utime("old.zarr/sst/1", (0, 2e9))
    done = run("diff", "snap.zarr", "old.zarr")
    assert (done.status, done.stdout.splitlines()) == (
        3,
        [
            "~ sst  array",
            "    1 chunk perhaps with other bytes: 1",
            "whether they differ is unknown: references do not say which bytes they mean",
        ],
    )
    assert run("snapshot", "old.zarr", "x.zarr", "--chunks-in", "chunks").status == 2
    assert run("clean", "chunks", "--no-others").status == 2
