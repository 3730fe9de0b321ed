"""Places that the command line is given: paths, URLs, and what is there already."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.command_line.commands import run, write_by_hand
from tests.forked import COMMAND_LINE, Forked
from tests.servers.http_files import FileServer
from zarr_manifest import conversion
from zarr_manifest.sources import OwnFiles

# Servers that cannot list ------------------------------------------------------------


@pytest.mark.servers
@pytest.mark.parametrize(
    "how", [["--concat-dim", "time"], ["--group-per-file"]], ids=lambda h: h[0]
)
def test_what_is_made_opens_from_a_web_server(inputs: Path, how: list[str]) -> None:
    assert run("create", "2023.nc", "2024.nc", "new.zarr", *how).status == 0
    groups = ["2023", "2024"] if how[0] == "--group-per-file" else [None]
    with FileServer(inputs) as server:
        allow = [f"{server.url}/"]  # the files are beside the hierarchy there, too
        for group in groups:
            options: dict[str, Any] = {"engine": "zarr-manifest", "group": group, "allow": allow}
            # Without a warning that there are no consolidated metadata.
            with xr.open_dataset(f"{server.url}/new.zarr", **options) as found:
                names = [f"{group}.nc"] if group else ["2023.nc", "2024.nc"]
                with xr.open_mfdataset(names) as expected:
                    assert found.load().identical(expected.load())
        assert not [request for request in server.requests if request.method == "PROPFIND"]


# Many sources ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "listed"),
    [
        (["20*.nc"], None),
        (["--recursive", "years"], None),
        (["--from-file", "list"], "2023.nc\n\n2024.nc\n"),
        (["2023.nc", "--from-file", "-"], "2024.nc\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_many_sources(inputs: Path, sources: list[str], listed: str | None) -> None:
    shutil.copytree(inputs, "years", ignore=lambda _, names: [n for n in names if n[:2] != "20"])
    Path("list").write_text(listed or "")
    done = run("create", *sources, "new.zarr", "--concat-dim", "time", stdin=listed)
    assert done.status == 0, done.stderr
    assert "/sst   float32 (8, 3, 4)" in run("info", "new.zarr").stdout.replace("── sst", "/sst")


def test_no_sources(inputs: Path) -> None:
    before = set(inputs.rglob("*"))
    assert "name the files: SOURCES, or --from-file LIST" in run("create", "new.zarr").stderr
    done = run("create", "*.grib", "new.zarr")
    assert (done.status, done.stderr.splitlines()) == (
        3,
        ["error: source_not_found: no file matches", f"  location: {inputs}/*.grib"],
    )
    assert "--recursive." in run("create", str(inputs), "new.zarr").stderr
    assert run("create", "2023.nc", "new.zarr", "--from-file", "missing").status == 2
    assert set(inputs.rglob("*")) == before


@pytest.mark.slow
def test_files_that_cannot_be_read(inputs: Path) -> None:
    Path("a b.nc").write_bytes(b"")
    call = ["create", "2023.nc", "gone.nc", "a b.nc", "2024.nc", "new.zarr", "--concat-dim", "time"]
    done = run(*call)
    here = inputs.as_uri()
    assert done.status == 3
    assert done.stderr.splitlines() == [
        "error: source_error: 2 of 4 files cannot be converted",
        f"  {here}/gone.nc: source_not_found: there is no such file",
        f"  {here}/a%20b.nc: not_convertible: the file is empty",
        "  Repair or omit them; or leave them out: --keep-going.",
    ]
    assert len(run(*call, "--json").document["error"]["details"]) == 2
    assert not Path("new.zarr").exists()
    done = run(*call, "--keep-going")
    assert done.status == 1
    left_out = f"the file {here}/{{}} was left out: {{}}".format
    assert done.stderr.splitlines() == [
        "refused: /: source_not_found: " + left_out("gone.nc", "there is no such file"),
        "refused: /: not_convertible: " + left_out("a%20b.nc", "the file is empty"),
    ]
    assert "(8, 3, 4)" in run("info", "new.zarr").stdout
    assert run(*call, "--keep-going", "--overwrite", "--allow-refused").status == 0


def test_hints_can_be_pasted(inputs: Path, s3_server: Any, s3_bucket: str) -> None:
    url = f"s3://{s3_bucket}/my data.zarr"
    secrets = s3_server.options["access_key_id"], s3_server.options["secret_access_key"]
    access = ["--environment", f"s3://{s3_bucket}/", "--option", f"endpoint={s3_server.endpoint}"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", secrets[0])
        environment.setenv("AWS_SECRET_ACCESS_KEY", secrets[1])
        made = run("create", "2023.nc", url, *access, "--option", "region=us-east-1")
        assert made.status == 0, made.stderr
        hint = made.stdout.splitlines()[-1].partition("readers must allow: zarr-manifest ")[2]
        pasted = shlex.split(hint)
        assert pasted == ["locations", url, *access, "--option", "region=us-east-1"]
        assert run(*pasted).stdout == f"{inputs.as_uri()}/\n"
    given = [
        "--option",
        f"access_key_id={secrets[0]}",
        "--option",
        f"secret_access_key={secrets[1]}",
    ]
    made = run("create", "2023.nc", url, "--overwrite", *access, *given)
    assert made.status == 0, made.stderr
    assert made.stdout.count("--option") == 3
    assert secrets[1] not in made.stdout


# Paths -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "create 2023.nc data.zarr",
        "import kerchunk references.json data.zarr",
        "import zarr2 missing.zarr new.zarr",
        "import zarr2 old.zarr 2023.nc",
        "info missing.zarr",
        "validate old.json",
        "upgrade missing.zarr",
        "locations missing.zarr",
        "export kerchunk missing.zarr new.json",
    ],
)
def test_errors_have_absolute_places(inputs: Path, call: str) -> None:
    error = run(*call.split(), "--json").document["error"]
    said = f"{error['problem']} {error['location']}"
    assert f"{inputs.as_uri()}/" in said or f"{inputs}/" in said
    assert "file:///" in said or "file:" not in said


def test_names_that_a_shell_would_take_apart(inputs: Path) -> None:
    directory = inputs / "my data"
    directory.mkdir()
    shutil.copy("2023.nc", directory / "a b%20c#d?.nc")
    made = run("create", "my data/a b%20c#d?.nc", "my data/h h.zarr/")
    assert made.status == 0, made.stderr
    assert made.stdout.endswith(" zarr-manifest locations 'my data/h h.zarr/'\n")
    (prefix,) = run("locations", f"{inputs.as_uri()}/my%20data/h%20h.zarr").stdout.splitlines()
    store = zm.ManifestStore("my data/h h.zarr", allow=[prefix])
    assert zarr.open_array(store, path="sst", mode="r")[0, 0, 0] == 2023


@pytest.mark.parametrize(
    "call",
    [
        ["create", "missing.nc", "new.zarr"],
        ["create", "references.json", "new.zarr"],
        ["import", "kerchunk", "missing.json", "new.zarr"],
        ["import", "zarr2", "missing.zarr", "new.zarr"],
        ["import", "zarr2", "data.zarr", "new.zarr"],
        ["upgrade", "missing.zarr"],
        ["upgrade", "missing.zarr", "--to", "new.zarr"],
        ["upgrade", "theirs.zarr", "--to", "new.zarr", "--dry-run"],
        ["info", "missing.zarr"],
        ["locations", "missing.zarr"],
        ["validate", "missing.zarr"],
        ["export", "kerchunk", "missing.zarr", "new.json"],
    ],
    ids=" ".join,
)
def test_failed_commands_leave_no_directory(inputs: Path, call: list[str]) -> None:
    before = set(inputs.rglob("*"))
    run(*call)
    assert set(inputs.rglob("*")) == before


def test_a_directory_that_was_there_stays(inputs: Path) -> None:
    (inputs / "empty").mkdir()
    assert run("create", "missing.nc", "empty").status == 3
    assert (inputs / "empty").is_dir()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (["create", "", "new.zarr"], "'[SOURCES]...': it is empty"),
        (["create", "2023.nc", ""], "'HIERARCHY': it is empty"),
        (["info", ""], "'HIERARCHY': it is empty"),
        (["upgrade", "theirs.zarr", "--to", ""], "'--to': it is empty"),
        (["create", "2023.nc", "2024.nc"], "2024.nc is a file"),
        (["create", "-", "new.zarr"], "'[SOURCES]...': standard input and output are not used"),
        (["export", "kerchunk", "data.zarr", "-"], "'TARGET': standard input and output"),
        (["info", "s3://b/h.zarr", "--option", "region=x"], "that --allow PREFIX or"),
    ],
)
def test_places_that_are_none(inputs: Path, call: list[str], problem: str) -> None:
    before = set(inputs.rglob("*"))
    done = run(*call)
    assert (done.status, done.stdout) == (2, "")
    assert problem in " ".join(done.stderr.split())
    assert set(inputs.rglob("*")) == before


@pytest.mark.parametrize("name", ["2023.nc", "2023.nc/new.zarr"])
def test_a_hierarchy_cannot_be_written_to_a_file(inputs: Path, name: str) -> None:
    before = (inputs / "2023.nc").read_bytes()
    error = run("import", "zarr2", "old.zarr", name, "--json").document["error"]
    assert error["code"] == "write_conflict"
    assert "is a directory, but there is a file" in error["problem"]
    with pytest.raises(zm.errors.WriteConflictError):
        conversion.write_hierarchy(name, [])
    assert (inputs / "2023.nc").read_bytes() == before


def test_references_need_a_directory_on_this_machine(inputs: Path) -> None:
    for target in ("missing/new.json", "s3://bucket/new.json"):
        done = run("export", "kerchunk", "data.zarr", target)
        assert done.status == 3
        assert "error: source_not_found: there is no directory " in done.stderr
        assert ".export-" not in done.stderr


def test_locations_without_a_hierarchy(inputs: Path) -> None:
    (inputs / "empty").mkdir()
    for name in ("empty", "2023.nc"):
        done = run("locations", name)
        assert (done.status, done.stdout) == (3, "")
        assert "there is no Zarr hierarchy" in done.stderr
        assert f"{inputs.as_uri()}/{name}" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "info {}",
        "locations {}",
        "validate {}",
        "upgrade {}",
        "upgrade {} --to new.zarr",
        "export kerchunk {} new.json",
        "import zarr2 {} new.zarr",
    ],
)
@pytest.mark.parametrize("name", ["2023.nc", "references.json"])
def test_a_file_is_not_a_hierarchy(inputs: Path, call: str, name: str) -> None:
    before = set(inputs.rglob("*"))
    done = run(*call.format(name).split())
    assert (done.status, done.stdout) == (3, "")
    assert "error: source_not_found: there is no Zarr hierarchy: this is a file\n" in done.stderr
    assert f"  location: {inputs.as_uri()}/{name}\n" in done.stderr
    assert "zarr-manifest import kerchunk" in done.stderr
    assert set(inputs.rglob("*")) == before


def test_errors_name_the_command_to_use_instead(inputs: Path) -> None:
    """Of inputs that another command takes."""
    for call, remedy in {
        "create references.json new.zarr": "read with zarr-manifest import kerchunk",
        "create references.parq new.zarr": "import it as a kerchunk reference set",
        "import zarr2 references.parq new.zarr": "import it as a kerchunk reference set",
        "import zarr2 data.zarr new.zarr": "It is already a Zarr v3 hierarchy",
        "upgrade old.zarr": "It is Zarr v2, which can be imported",
    }.items():
        done = run(*call.split())
        assert done.status == 3
        assert remedy in done.stderr


def test_v3_beside_v2_is_shown_once(inputs: Path) -> None:
    assert run("import", "zarr2", "old.zarr", "old.zarr").status == 0
    done = run("info", "old.zarr")
    assert done.status == 0
    assert done.stdout.count("sst") == 1
    assert "int16 (6)  3 references" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_in_no_encoding(inputs: Path, forked: Forked) -> None:
    name = os.fsdecode(b"\xff.zarr")
    done = run("info", name, "--json")
    assert done.document["error"]["location"].endswith("/%FF.zarr")
    shown = forked.run(COMMAND_LINE, "info", name)
    assert (shown.returncode, shown.stdout) == (3, "")
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("name", ["\x1b[31mred\x1b[2J", "\x1b]0;title\x07", "l\n  x", "\u202etxt"])
def test_names_cannot_steer_the_terminal(inputs: Path, name: str) -> None:
    for path in ("data.zarr/ice", "old.zarr/sst"):
        (inputs / path).rename((inputs / path).with_name(name))
    write_by_hand(inputs / "data.zarr", "time", json.dumps({name: {"path": name}}))
    document = inputs / "data.zarr/sst/zarr.json"
    document.write_text(document.read_text().replace('"float32"', json.dumps(name)))
    for call in ("info data.zarr", "validate data.zarr", "import zarr2 old.zarr new.zarr"):
        done = run(*call.split())
        shown = done.stdout + done.stderr
        assert repr(name)[1:-1] in shown or call.startswith("import")
        assert not {*shown.replace("\n", "")}.intersection("\x1b\x07\u202e")
        assert "\n  x" not in shown


# Remedies ----------------------------------------------------------------------------


def test_remedies_name_options(inputs: Path) -> None:
    done = run("create", "2023.nc", "data.zarr")
    assert done.stderr.endswith("  Pass --overwrite to replace it, or choose another place.\n")
    with pytest.raises(zm.errors.WriteConflictError, match=r"Pass overwrite=True to replace it"):
        conversion.write_hierarchy("data.zarr", [])


@pytest.mark.usefixtures("impatient")
def test_the_remedy_of_a_conflict_is_its_own(inputs: Path) -> None:
    """A lock that another writer holds is not put right by overwriting."""
    with OwnFiles(str(inputs / "data.zarr")).locked("zarr.json"):
        done = run("import", "kerchunk", "references.json", "data.zarr", "--overwrite")
    assert done.status == 3
    assert "error: write_conflict: another writer has held the lock" in done.stderr
    assert "Try again when it has finished.\n" in done.stderr
    assert "--overwrite" not in done.stderr


def test_manifests_elsewhere_have_to_be_allowed(inputs: Path) -> None:
    write_by_hand(inputs / "data.zarr", "sst", "{}")
    (inputs / "data.zarr/sst/manifest.json").rename(inputs / "elsewhere.json")
    url = f"{inputs.as_uri()}/elsewhere.json"
    for document in (inputs / "data.zarr").rglob("zarr.json"):
        document.write_text(document.read_text().replace("./manifest.json", url))
    done = run("locations", "data.zarr")
    assert f"If you trust them, add: --allow {inputs.as_uri()}/." in done.stderr
    assert run("locations", "data.zarr", "--allow", f"{inputs.as_uri()}/").status == 0


@pytest.mark.parametrize("option", ["--allow", "--environment"])
@pytest.mark.parametrize(
    "call",
    [
        "create 2023.nc new.zarr",
        "create 2023.nc new.zarr --group-per-file",
        "import kerchunk references.json new.zarr",
        "import zarr2 old.zarr new.zarr",
        "upgrade theirs.zarr",
        "export kerchunk data.zarr new.json",
        "info data.zarr",
        "locations data.zarr",
        "validate data.zarr",
    ],
)
def test_a_prefix_that_is_none(inputs: Path, call: str, option: str) -> None:
    before = set(inputs.rglob("*"))
    done = run(*call.split(), option, "bucket/data")
    assert (done.status, done.stdout) == (2, "")
    assert "'bucket/data' cannot be a prefix: it is relative" in done.stderr
    assert set(inputs.rglob("*")) == before


@pytest.mark.parametrize("call", ["info {}", "create 2023.nc {}", "import zarr2 {} new.zarr"])
def test_a_url_that_is_none(inputs: Path, call: str) -> None:
    done = run(*call.format("http://[x").split())
    assert (done.status, done.stdout) == (3, "")
    assert done.stderr.startswith("error: invalid_path: ")


READING = ["info {}", "locations {}", "validate {}", "export kerchunk {} new.json"]


@pytest.mark.parametrize("call", READING)
def test_base(inputs: Path, call: str) -> None:
    manifest = {"0.0.0": {"path": "../../../f.nc", "offset": 0, "length": 48}}
    write_by_hand(inputs / "data.zarr", "sst", json.dumps(manifest))
    words = call.format("data.zarr").split()
    done = run(*words, "--base", "s3://bucket/here/")
    assert done.status != 0
    assert "invalid_path" in done.stdout + done.stderr
    (inputs / "new.json").unlink(missing_ok=True)
    assert run(*words, "--base", "deep/down/here/").status == 0


@pytest.mark.parametrize("call", READING)
def test_limits(inputs: Path, call: str) -> None:
    words = call.format("data.zarr").split()
    done = run(*words, "--limit", "entries=1")
    assert done.status != 0
    assert "limit_exceeded" in done.stdout + done.stderr
    for wrong in ("entries", "entries=many", "bytes=1"):
        assert run(*words, "--limit", wrong).status == 2


# Servers -----------------------------------------------------------------------------


def test_a_web_server_without_consolidated_metadata(inputs: Path, http_server: FileServer) -> None:
    root = json.loads(Path("data.zarr/zarr.json").read_text())
    del root["consolidated_metadata"]
    Path("data.zarr/zarr.json").write_text(json.dumps(root))
    for path in (inputs / "data.zarr").rglob("*"):
        if path.is_file():
            http_server.put(path.relative_to(inputs).as_posix(), path.read_bytes())
    url = f"{http_server.url}/data.zarr"
    for name in ("info", "locations", "verify", "id", "validate"):
        done = run(name, url)
        assert done.status == 3, done.stdout
        assert "error: source_error: the store cannot be listed" in done.stderr
        assert "can be listed: zarr-manifest snapshot writes" in done.stderr
    assert "--array" in done.stderr
    assert run("validate", url, "--array", "sst").status == 0


def test_a_bucket_that_is_not_there(
    inputs: Path, s3_server: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = s3_server.endpoint  # type: ignore[attr-defined]
    options = ["--option", f"endpoint={endpoint}", "--option", "region=us-east-1"]
    url = "s3://no-such-bucket/h.zarr"
    done = run("info", url, "--allow", "s3://no-such-bucket/", *options)
    assert done.status == 3
    assert done.stderr.startswith("error: source_")
    assert "Debug source" not in done.stderr
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")
    writing = run("create", "2023.nc", url, "--environment", "s3://no-such-bucket/", *options)
    assert writing.status == 3
    assert "there is no such bucket" in writing.stderr
    assert len(writing.stderr.splitlines()) <= 3
    unknown = run("info", url, "--allow", "s3://no-such-bucket/", "--option", "colour=blue")
    assert unknown.status == 3
    assert "colour" in unknown.stderr
