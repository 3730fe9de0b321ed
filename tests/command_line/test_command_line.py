"""The commands on real input: what they print, what they make, and their exit statuses."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.storage import FsspecStore

import zarr_manifest as zm
from tests.command_line.commands import (
    BUCKET_ZARR2,
    application,
    commands,
    run,
    words,
    write_by_hand,
    write_data,
    zarray,
)
from tests.hierarchies import files_below
from tests.processes import CONTEXT

EXAMPLES = [
    pytest.param(f"zarr-manifest {call}", id=call)
    for task in (application, *commands().values())
    for call, _ in task.examples
]


def here(directory: Path) -> list[str]:
    return [directory.as_uri() + "/"]


# Help --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", commands())
def test_help_ends_with_examples(name: str) -> None:
    done = run(*name.split(), "--help")
    assert done.status == 0
    assert done.stdout.count(f"$ zarr-manifest {name}") >= 2
    for status in range(4):
        assert f"\n  {status}  " in done.stdout


def test_help_lists_the_commands() -> None:
    done = run("--help")
    for name in commands():
        assert f"\n  {name.split()[0]} " in done.stdout
    assert zm.__version__ in run("--version").stdout


@pytest.mark.slow
@pytest.mark.parametrize("call", EXAMPLES)
def test_the_examples_do_what_they_say(
    inputs: Path, call: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if " s3://" in call:
        serve_bucket(inputs, request.getfixturevalue("s3_server"), monkeypatch)
    for more in ([], ["--json"]):
        remove_target(words(call))
        if words(call)[0] == "relocate":
            shutil.rmtree("data.zarr")
            write_data(inputs / "data.zarr", inputs / "2023.nc")
        done = run(*words(call), *more)
        assert done.status == 0, done.stderr
    assert isinstance(done.document, dict)


def serve_bucket(inputs: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment say where the bucket of the examples is."""
    server.create_bucket("bucket")
    for name, body in BUCKET_ZARR2.items():
        server.put("bucket", f"old.zarr/{name}", body)
    server.put("bucket", "2023.nc", (inputs / "2023.nc").read_bytes())
    for key, body in files_below(inputs / "2023.zarr").items():
        server.put("bucket", f"2023.zarr/{key}", body)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def remove_target(arguments: list[str]) -> None:
    """Delete what a call makes, if it is there as an input of other calls."""
    if arguments[0] in ("create", "concat", "import", "export", "snapshot"):
        places = [word for word in arguments if word.endswith((".zarr", ".json", ".parq"))]
        target = Path(places[-1])
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


# JSON --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "members"),
    [
        (["create", "2023.nc", "new.zarr"], 0, {"arrays": 2, "refused": []}),
        (["concat", "2023.zarr", "2024.nc", "new.zarr", "--dim", "time"], 0, {"references": 9}),
        (["append", "2023.zarr", "2024.nc", "--dim", "time"], 0, {"arrays": 2, "references": 9}),
        (["append", "2023.zarr", "2023.nc", "--dim", "time"], 0, {"arrays": 0, "appended": []}),
        (["trim", "2023.zarr", "--dim", "time", "--keep", "1"], 0, {"kept": 1, "removed": 3}),
        (["import", "kerchunk", "odd.json", "new.zarr"], 1, {"arrays": 1, "references": 1}),
        (["import", "kerchunk", "odd.json", "new.zarr", "--allow-refused"], 0, {"arrays": 1}),
        (["import", "zarr2", "old.zarr", "new.zarr"], 0, {"references": 3}),
        (["export", "kerchunk", "data.zarr", "new.json"], 0, {"arrays": 3, "target": "new.json"}),
        (["export", "kerchunk", "data.zarr", "new.parq", "--parquet"], 0, {"arrays": 3}),
        (["upgrade", "theirs.zarr"], 0, {"valid": [], "written": ["sst/zarr.json"]}),
        (["upgrade", "data.zarr"], 0, {"valid": ["sst", "time"], "repaired": {}}),
        (["recover", "data.zarr"], 0, {"nodes": []}),
        (["accept", "data.zarr", "sst"], 0, {"documents": 0, "arrays": [], "problems": []}),
        (["clean", "data.zarr"], 0, {"unused": [], "nbytes": 0, "young": 2, "kept": []}),
        (["snapshot", "old.zarr", "new.zarr", "--copy"], 0, {"references": 3, "refused": []}),
        (["diff", "snap.zarr", "old.zarr"], 0, {"verdict": "equal", "nodes": []}),
        (["diff", "data.zarr", "2023.zarr"], 1, {"verdict": "different"}),
        (["info", "theirs.zarr"], 1, {"locations": []}),
        (["validate", "data.zarr"], 0, {"problems": []}),
        (["validate", "theirs.zarr"], 1, {}),
        (["locations", "data.zarr"], 0, {}),
        (["verify", "data.zarr"], 3, {"levels": ["documents", "objects"], "read": None}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_json(inputs: Path, arguments: Sequence[str], status: int, members: dict[str, Any]) -> None:
    done = run(*arguments, "--json")
    assert done.status == status, done.stderr
    found = done.document
    assert {name: found[name] for name in members} == members
    assert found["command"].split()[1:] == arguments[: len(found["command"].split()) - 1]


@pytest.mark.slow
def test_json_names_what_was_refused(inputs: Path) -> None:
    (refused,) = run("import", "kerchunk", "odd.json", "n.zarr", "--json").document["refused"]
    assert (refused["path"], refused["code"]) == ("odd", "not_convertible")
    assert "our-own" in refused["reason"]


def test_json_names_the_problems(inputs: Path) -> None:
    (problem,) = run("validate", "theirs.zarr", "--json").document["problems"]
    assert problem["code"] == "invalid_configuration"
    assert problem["phase"] == "declaration"
    assert (problem["array"], problem["chunk"]) == ("sst", None)


# create ------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_become_one_array(inputs: Path) -> None:
    done = run("create", "2023.nc", "2024.nc", "new.zarr", "--concat-dim", "time")
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("new.zarr: 1 group, 2 arrays, ")
    assert done.stderr == ""
    store = zm.ManifestStore("new.zarr", allow=here(inputs))
    with xr.open_dataset("2023.nc") as first, xr.open_dataset("2024.nc") as second:
        expected = xr.concat([first, second], "time").load()
    assert xr.open_zarr(store, consolidated=False).identical(expected)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "processes", "dask"])
def test_many_files_at_a_time(inputs: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    if how == "processes":
        monkeypatch.setattr(multiprocessing.get_context("spawn"), "Process", CONTEXT.Process)
    for name, options in {"a.zarr": [], "b.zarr": ["--parallel", how]}.items():
        call = ["create", "2023.nc", "2024.nc", name, "--concat-dim", "time"]
        assert run(*call, *options, "--inline-below", "0").status == 0
    assert files_below(inputs / "a.zarr") == files_below(inputs / "b.zarr")


@pytest.mark.slow
def test_on_a_dask_cluster(inputs: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=":0", threads_per_worker=1
    ) as cluster:
        address = cluster.scheduler_address
        call = ["create", "2023.nc", "2024.nc", "new.zarr", "--concat-dim", "time"]
        done = run(*call, "--parallel", address)
    assert done.status == 0, done.stderr


@pytest.mark.slow
def test_each_file_becomes_a_group(inputs: Path) -> None:
    done = run("create", "2023.nc", "2024.nc", "new.zarr", "--group-per-file")
    assert done.stdout.startswith("new.zarr: 3 groups, 4 arrays, ")
    root = zarr.open_group(zm.ManifestStore("new.zarr", allow=here(inputs)), mode="r")
    for year in ("2023", "2024"):
        with xr.open_dataset(f"{year}.nc") as dataset:
            np.testing.assert_array_equal(root[f"{year}/sst"][...], dataset["sst"].values)


def test_a_file_that_cannot_be_a_group_is_refused(inputs: Path) -> None:
    (inputs / "table.csv").write_text("a,b")
    done = run("create", "2023.nc", "table.csv", "2024.nc", "new.zarr", "--group-per-file")
    assert done.status == 1
    assert done.stdout.startswith("new.zarr: 3 groups, 4 arrays, ")
    assert "refused: /table: not_convertible: " in done.stderr
    assert "table.csv" in done.stderr
    missing = run("create", "2023.nc", "missing.nc", "other.zarr", "--group-per-file")
    assert (missing.status, missing.stdout) == (3, "")


@pytest.mark.slow
def test_how_it_is_laid_out(inputs: Path) -> None:
    options = ["--codec", "zstd", "--codec", "crc32c", "--partition-shape", "sst=2,1,1"]
    options += ["--checksum", "sha256", "--base", here(inputs)[0]]
    assert run("create", "2023.nc", "new.zarr", *options).status == 0
    document = json.loads((inputs / "new.zarr/sst/zarr.json").read_text())
    (transformer,) = document["storage_transformers"]
    configuration = transformer["configuration"]
    assert [codec["name"] for codec in configuration["codecs"]] == ["zstd", "crc32c"]
    assert configuration["partition_shape"] == [2, 1, 1]
    assert configuration["base"] == here(inputs)[0]
    assert run("create", "2023.nc", "inline.zarr", "--inline-below", "1000000").status == 0
    document = json.loads((inputs / "inline.zarr/sst/zarr.json").read_text())
    manifest = document["storage_transformers"][0]["configuration"]["manifest"]
    assert manifest["0.0.0"].keys() == {"path", "offset", "length", "last_modified", "size"}
    no_conditions = ["--no-conditions", "--inline-below", "1000000", "--overwrite"]
    assert run("create", "2023.nc", "inline.zarr", *no_conditions).status == 0
    document = json.loads((inputs / "inline.zarr/sst/zarr.json").read_text())
    manifest = document["storage_transformers"][0]["configuration"]["manifest"]
    assert manifest["0.0.0"].keys() == {"path", "offset", "length"}


def test_a_partition_shape_of_nothing_is_noted(inputs: Path) -> None:
    shapes = ["--partition-shape", "stt=2,1,1", "--partition-shape", "/time/=2"]
    done = run("create", "2023.nc", "new.zarr", *shapes)
    assert done.status == 0
    assert done.stderr == ("note: /stt: there is no such array: its partition shape was ignored\n")


# kerchunk ----------------------------------------------------------------------------


def test_references_are_rewritten(inputs: Path) -> None:
    rewrites = ["--rewrite", "/home/them/=s3://bucket/a=b/", "--rewrite", "/home/=s3://never/"]
    assert run("import", "kerchunk", "theirs.json", "new.zarr", *rewrites).status == 0
    assert run("locations", "new.zarr").stdout == "s3://bucket/a=b/\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")  # fsspec's choice
@pytest.mark.parametrize("options", [[], ["--parquet", "--record-size", "3"]])
def test_fsspec_reads_what_is_exported(inputs: Path, options: list[str]) -> None:
    assert run("export", "kerchunk", "data.zarr", "refs", *options).status == 0
    files = fsspec.filesystem(
        "reference",
        fo="refs",
        remote_protocol="file",
        asynchronous=True,
        skip_instance_cache=True,
        lazy=True,
    )
    theirs = zarr.open_group(FsspecStore(files, path="", read_only=True), mode="r", zarr_format=2)
    with xr.open_dataset("2023.nc") as dataset:
        np.testing.assert_array_equal(theirs["sst"][...], dataset["sst"].values)
    np.testing.assert_array_equal(theirs["ice"][...], np.arange(3))


def test_notes_that_repeat_are_grouped(tmp_path: Path) -> None:
    refs: dict[str, Any] = {}
    for name in ("a", "b", "c", "d", "e"):
        refs |= {f"{name}/.zarray": zarray(), f"{name}/0": ["b/f.nc", 0, 4], f"{name}/1": "text"}
    (tmp_path / "refs.json").write_text(json.dumps(refs | {"e/0": ["{{u}}", 0, 4]}))
    done = run("import", "kerchunk", tmp_path / "refs.json", tmp_path / "h.zarr")
    assert done.stderr.splitlines() == [
        "note: /a, /b, /c, /d: relative paths, such as 'b/f.nc', were resolved against the working "
        "directory, as fsspec does; if they begin with the name of a bucket: --rewrite =s3://",
        "note: /e: URLs contain '{{u}}', which the set does not define, and were taken for paths "
        "in the working directory; rewrite them: --rewrite '{{u}}=URL'",
    ]
    rewritten = ["--rewrite", "=s3://", "--rewrite", "{{u}}=s3://b/f.nc", "--json"]
    done = run("import", "kerchunk", tmp_path / "refs.json", tmp_path / "new.zarr", *rewritten)
    assert done.document["notes"] == []


# info, locations, validate -----------------------------------------------------------


def test_info(inputs: Path) -> None:
    done = run("info", "data.zarr")
    assert done.stdout.splitlines() == [
        "data.zarr",
        "├── ice   int64 (3)  native",
        "├── sst   float32 (4, 3, 4)  4 references to 192 B",
        "└── time  int64 (4)  1 inline",
        "",
        "The bytes live in",
        f"  {here(inputs)[0]}  4 references to 192 B in 1 object",
    ]


def test_info_tells_places_apart(inputs: Path) -> None:
    run("create", "2023.nc", "new.zarr")
    entries = {
        "0": {"path": "s3://b/f.nc", "length": 2},
        "1": {"path": "raw.bin"},
        "2": {},
        "3": {"data": b"ab"},
    }
    zm.create_array("new.zarr", "more", entries, shape=10, chunks=2, dtype="i2")
    lines = run("info", "new.zarr").stdout.splitlines()
    assert (
        "├── more  int16 (10)  2 references to at least 2 B, 1 inline, 1 empty, 1 chunk "
        in (lines[1])
    )
    assert lines[1].endswith("missing [1] [3]")
    assert lines[-3:] == [
        "  [1] the hierarchy itself  1 reference in 1 object",
        f"  [2] {here(inputs)[0]}  4 references to 192 B in 1 object",
        "  [3] s3://b/  1 reference to 2 B in 1 object",
    ]


def test_info_shows_what_cannot_be_read(inputs: Path) -> None:
    done = run("info", "theirs.zarr")
    assert done.status == 1
    assert "cannot be read: invalid_configuration: the array's metadata is not" in done.stdout


def test_locations_can_be_pasted(inputs: Path) -> None:
    done = run("locations", "data.zarr")
    assert done.stdout.splitlines() == here(inputs)
    store = zm.ManifestStore("data.zarr", allow=done.stdout.splitlines())
    assert zarr.open_array(store, path="sst", mode="r")[0, 0, 0] == 2023
    (place,) = run("locations", "data.zarr", "--json").document["locations"]
    assert place == {"prefix": here(inputs)[0], "objects": 1, "references": 4, "nbytes": 192}


def test_validating_reports_everything(inputs: Path) -> None:
    write_by_hand(inputs / "data.zarr", "sst", '{"0": {}, "0.0.0": {"length": 4}}')
    write_by_hand(inputs / "data.zarr", "time", "[")
    done = run("validate", "data.zarr")
    assert done.status == 1
    *lines, last = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "invalid_entry",
        "invalid_chunk_key",
        "invalid_json",
    ]
    assert last == "3 problems"
    assert len(run("validate", "data.zarr", "--array", "time").stdout.splitlines()) == 2
    assert run("validate", "data.zarr", "--array", "ice").status == 0
    assert run("validate", "data.zarr", "--array", "/ice/").status == 0
    done = run("validate", "data.zarr", "--array", "missing")
    assert "there is no array 'missing'" in done.stderr


def test_what_is_valid_but_worth_a_look_is_noted(inputs: Path) -> None:
    for name in ("sst", "time"):
        path = inputs / "data.zarr" / name / "zarr.json"
        node = json.loads(path.read_text())
        node.pop("chunk-manifest-json", None)
        path.write_text(json.dumps(node))
    done = run("validate", "data.zarr")
    assert (done.status, done.stdout) == (0, "data.zarr is valid\n")
    note = (
        "/sst, /time: the lock is missing, so that readers without this package may read fill "
        "values; add it: zarr-manifest lock data.zarr"
    )
    assert done.stderr == f"note: {note}\n"
    document = run("validate", "data.zarr", "--json").document
    assert document["problems"] == []
    assert [(each["code"], each["array"]) for each in document["notes"]] == [
        ("lock_missing", "sst"),
        ("lock_missing", "time"),
    ]
    done = run("validate", "data.zarr", "--strict")
    assert (done.status, done.stdout, done.stderr) == (1, f"{note}\n2 problems\n", "")


def test_references_are_not_a_hierarchy(inputs: Path) -> None:
    for name in ("info", "validate", "locations"):
        done = run(name, "references.parq")
        assert (done.status, done.stdout) == (3, "")
        assert "there is no Zarr hierarchy" in done.stderr


def test_a_bucket(
    inputs: Path, s3_server: Any, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way, with the credentials of the environment, and without them."""
    s3_server.put(s3_bucket, "f/2023.nc", (inputs / "2023.nc").read_bytes())
    url = f"s3://{s3_bucket}"
    endpoint = ["--option", f"endpoint={s3_server.endpoint}", "--option", "region=us-east-1"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")
    with_credentials = ["--environment", f"{url}/", *endpoint]
    made = run("create", f"{url}/f/2023.nc", f"{url}/h.zarr", *with_credentials)
    assert made.status == 0, made.stderr
    for name in ("info", "validate", "locations"):
        done = run(name, f"{url}/h.zarr", *with_credentials)
        assert done.status == 0, done.stderr
    assert done.stdout == f"{url}/f/\n"
    s3_server.put(s3_bucket, "a b/refs.json", (inputs / "references.json").read_bytes())
    references = f"{url}/a%20b/refs.json"
    done = run("import", "kerchunk", references, "new.zarr", *with_credentials)
    assert (done.status, done.stderr) == (0, "")
    missing = run("import", "kerchunk", f"{url}/missing.json", "other.zarr", *with_credentials)
    assert missing.status == 3
    assert missing.stderr.startswith("error: source_not_found: there is no such object\n")
    denied = run("create", f"{url}/f/2023.nc", "local.zarr", "--allow", f"{url}/", *endpoint)
    assert denied.status == 3
    assert "error: source_access_denied: " in denied.stderr


@pytest.mark.slow
def test_verify(inputs: Path) -> None:
    allow = ("--allow", inputs.as_uri() + "/")
    done = run("verify", "data.zarr", *allow)
    assert done.status == 0
    assert "not checked: the bytes of chunks: none was read" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "data.zarr: nothing found (documents, objects)"
    options = ("--read", "all", "--decode", "--state", "state.jsonl", "--parallel", "2")
    document = run("verify", "data.zarr", *allow, *options, "--json").document
    assert (document["levels"], document["findings"]) == (["documents", "objects", "bytes"], [])
    assert document["chunks_read"] == document["chunks"] - document["empty"] > 0
    added = run("verify", "data.zarr", *allow, "--add", "checksums,etags", "--json").document
    assert added["added"]["refused"] == []
    document = run("verify", "data.zarr", *allow, "--read", "all", "--json").document
    assert document["not_compared"] == 1  # of a native array
    done = run("verify", "data.zarr", "--add", "checksums")
    assert (done.status, done.stderr) == (3, "nothing was added\n")
    for source in inputs.glob("*.nc"):
        source.unlink()
    done = run("verify", "data.zarr", *allow)
    assert done.status == 1
    assert done.stdout.startswith("missing: /")
