"""The command line where something is wrong: messages, exit statuses, and no tracebacks."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.command_line.commands import commands, run, write_by_hand
from tests.forked import COMMAND_LINE, Finished, Forked
from zarr_manifest import conversion
from zarr_manifest.command_line import main
from zarr_manifest.conversion import Node

# Failures ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("create missing.nc new.zarr", "source_not_found"),
        ("create references.json new.zarr", "not_convertible"),
        ("create 2023.nc data.zarr", "write_conflict"),
        ("import kerchunk missing.json new.zarr", "source_not_found"),
        ("import kerchunk data.zarr new.zarr", "not_convertible"),
        ("import zarr2 data.zarr new.zarr", "source_not_found"),
        ("import zarr2 missing.zarr new.zarr", "source_not_found"),
        ("export kerchunk missing.zarr new.json", "source_not_found"),
        ("export kerchunk references.json new.json", "source_not_found"),
        ("export kerchunk data.zarr missing/new.json", "source_not_found"),
        ("export kerchunk data.zarr references.json", "write_conflict"),
        ("export kerchunk data.zarr data.zarr --overwrite", "write_conflict"),
        ("upgrade missing.zarr", "source_not_found"),
        ("recover missing.zarr", "source_not_found"),
        ("accept missing.zarr sst", "source_not_found"),
        ("accept data.zarr ice", "invalid_configuration"),
        ("accept data.zarr missing", "source_not_found"),
        ("clean missing.zarr", "source_not_found"),
        ("clean theirs.zarr", "invalid_configuration"),
        ("info missing.zarr", "source_not_found"),
        ("validate missing.zarr", "source_not_found"),
        ("locations theirs.zarr", "invalid_configuration"),
    ],
)
def test_failures(inputs: Path, call: str, code: str) -> None:
    before = {path for path in inputs.rglob("*") if path.is_file()}
    done = run(*call.split())
    assert done.status == 3
    assert done.stdout == ""
    first, *_ = done.stderr.splitlines()
    assert first.startswith(f"error: {code}: ")
    as_json = run(*call.split(), "--json")
    assert as_json.document["error"]["code"] == code
    assert as_json.stderr == done.stderr
    assert {path for path in inputs.rglob("*") if path.is_file()} == before


def test_a_directory_of_files(inputs: Path) -> None:
    files = inputs / "the files"
    files.mkdir()
    for name in ("a.h5", "b.h5", "readme.txt"):
        (files / name).touch()
    done = run("create", files, "new.zarr")
    remedy = f"  Name the files in it: '{files}'/*.h5; or add --recursive."
    assert done.stderr.splitlines()[-1] == remedy


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("create", "Missing argument"),
        ("create 2023.nc", "2023.nc is a file"),
        ("create new.zarr", "name the files"),
        ("create 2023.nc new.zarr --format excel", "Invalid value for '--format'"),
        ("create 2023.nc new.zarr --partition-shape 0,1", "takes positive integers"),
        ("create 2023.nc new.zarr --partition-shape sst=x", "takes positive integers"),
        (
            "create 2023.nc new.zarr --partition-shape 1 --partition-shape a=1",
            "must be given alone, and once",
        ),
        ("create 2023.nc 2024.nc n.zarr --group-per-file --concat-dim x", "omit --concat-dim"),
        ("create 2023.nc 2023.nc new.zarr --group-per-file", "would both be the group '2023'"),
        ("create 2023.nc 2024.nc new.zarr --parallel magic", "--parallel takes"),
        ("create 2023.nc new.zarr --option region", "takes KEY=VALUE"),
        ("import kerchunk references.json new.zarr --rewrite a", "takes KEY=VALUE"),
        ("clean data.zarr --older-than 7w", "takes a time such as 7d"),
        ("clean data.zarr --older-than -1d", "takes a time such as 7d"),
        ("verify data.zarr --read 3", "what is read is 'all'"),
        ("verify data.zarr --decode", "say which: --read"),
        ("verify data.zarr --since 30d", "name their file with --state"),
        ("verify data.zarr --parallel lithops", "--parallel lithops is for files"),
        ("verify data.zarr --parallel 0", "--parallel takes"),
        ("verify data.zarr --add tags", "--add takes"),
        ("info data.zarr --allow nonsense", "nonsense"),
        ("validate data.zarr --allow nonsense", "nonsense"),
        ("upgrade theirs.zarr --to theirs.zarr/copy", "must not lie within"),
        ("export kerchunk data.zarr references.parq", "add --parquet"),
        ("frobnicate", "No such command"),
    ],
)
def test_wrong_calls(inputs: Path, call: str, problem: str) -> None:
    before = {path for path in inputs.rglob("*") if path.is_file()}
    done = run(*call.split())
    assert done.status == 2, done.stdout
    assert done.stdout == ""
    assert problem in " ".join(done.stderr.split())
    assert {path for path in inputs.rglob("*") if path.is_file()} == before
    as_json = run(*call.split(), "--json")
    assert problem in as_json.document["error"]["problem"]
    assert as_json.stderr == done.stderr


@pytest.mark.slow
def test_no_space(inputs: Path, forked: Forked) -> None:
    """As a file system that is full fails: without the name of a file."""
    program = """
import errno, os, sys
from zarr_manifest.command_line import main
def write(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
os.write = write
sys.argv[1:] = ["import", "kerchunk", "references.json", "new.zarr"]
main()
"""
    done = forked.run(program)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: No space left on device\n"
    assert not (inputs / "new.zarr").exists()


def test_long_names_are_shortened(inputs: Path) -> None:
    write_by_hand(inputs / "data.zarr", "sst", json.dumps({"k" * 100_000: {}}))
    done = run("locations", "data.zarr")
    assert done.status == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  chunk: ")]
    assert "(99,000 characters)" in line
    assert max(map(len, done.stderr.splitlines())) < 3000
    named = run("locations", "data.zarr", "--json").document["error"]["chunk"]
    assert named == "k" * 100_000


def test_a_bug_is_not_hidden(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "read_kerchunk", None)
    with pytest.raises(TypeError):
        run("import", "kerchunk", "references.json", "new.zarr")


@pytest.mark.slow
def test_a_bug_does_not_exit_like_a_problem_found(inputs: Path, forked: Forked) -> None:
    """Scripts take the status 1, which is Python's own, for problems that were found."""
    program = (
        "import sys, zarr_manifest.inspection as i; i.contents = None;"
        "sys.argv[1:] = ['info', 'data.zarr'];"
        "from zarr_manifest.command_line import main; main()"
    )
    done = forked.run(program)
    assert (done.returncode, done.stdout) == (3, "")
    assert "TypeError" in done.stderr


# What is not installed ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("click", "--help", "cli"),
        ("rich", "--help", "cli"),
        ("virtualizarr", "create 2023.nc new.zarr", "virtualizarr"),
        ("pyarrow", "export kerchunk data.zarr new.parq --parquet", "kerchunk"),
    ],
)
def test_missing_extras(inputs: Path, forked: Forked, module: str, call: str, extra: str) -> None:
    program = (
        f"import sys; loaded = [name for name in sys.modules if name.startswith({module!r})];"
        f"sys.modules |= dict.fromkeys([{module!r}, *loaded]);"
        "from zarr_manifest.command_line import main; main()"
    )
    done = forked.run(program, *call.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'zarr-manifest[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_commands_need_no_more_than_they_use(forked: Forked) -> None:
    program = (
        "import atexit, sys; from zarr_manifest.command_line import main;"
        "unused = {'virtualizarr', 'xarray', 'h5py', 'pyarrow', 'jinja2'};"
        "atexit.register(lambda: print(*unused & set(sys.modules))); main()"
    )
    done = forked.run(program, "--version")
    assert done.stdout.splitlines()[1:] == [""], done.stdout + done.stderr


# Terminals and pipes -----------------------------------------------------------------


@pytest.mark.slow
def test_a_broken_pipe_is_quiet(inputs: Path, forked: Forked) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = forked.run(COMMAND_LINE, "info", "data.zarr", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written(inputs: Path, forked: Forked, options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = forked.run(COMMAND_LINE, "locations", "data.zarr", *options, stdout=full)
    assert (done.returncode, done.stderr) == (3, "error: No space left on device\n")


@pytest.mark.slow
def test_no_output_at_all(inputs: Path, forked: Forked) -> None:
    done = forked.run(COMMAND_LINE, "locations", "data.zarr", stdout=None)
    assert (done.returncode, done.stderr) == (0, "")


def opened_for_writing(pipe: Path) -> int:
    """Wait until somebody reads a named pipe, and open it for writing."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_control_c_is_quiet(inputs: Path, forked: Forked, options: list[str]) -> None:
    # A pipe that nobody writes into: the command waits until it is interrupted.
    os.mkfifo(inputs / "waiting.json")
    call = ["import", "kerchunk", "waiting.json", "new.zarr", *options]
    program = forked.start(COMMAND_LINE, *call)
    writer = os.fdopen(opened_for_writing(inputs / "waiting.json"), "wb")
    # Python notices a signal that comes after it opened the pipe, and before it waits, only later.
    time.sleep(0.5)
    os.kill(program.pid, signal.SIGINT)
    ending = threading.Timer(30, writer.close)  # which ends the command in any case
    ending.start()
    done = program.wait()
    ending.cancel()
    writer.close()
    assert (done.returncode, done.stderr) == (130, "")
    if options:
        found = json.loads(done.stdout)
        assert (found["status"], found["error"]["problem"]) == (130, "interrupted")
    else:
        assert done.stdout == ""
    assert not (inputs / "new.zarr").exists()


def test_after_an_interrupt_there_is_no_hierarchy(
    inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[Node]:
        yield from read("references.json")
        raise KeyboardInterrupt

    read = conversion.read_kerchunk
    with monkeypatch.context() as patched:
        patched.setattr(conversion, "read_kerchunk", interrupted)
        assert run("import", "kerchunk", "references.json", "new.zarr").status == 130
    assert not [*Path("new.zarr").rglob("zarr.json")]
    assert run("import", "kerchunk", "references.json", "new.zarr").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "processes"])
def test_an_interrupt_does_not_wait_for_all_files(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    waiting: list[Future[None]] = []

    def interrupted(*_: Any, parallel: Executor, **__: Any) -> None:
        waiting.extend(parallel.submit(time.sleep, 0.2) for _ in range(100))
        raise KeyboardInterrupt

    monkeypatch.setattr(conversion, "read_files", interrupted)
    assert run("create", "2023.nc", "new.zarr", "--parallel", how).status == 130
    assert sum(future.cancelled() for future in waiting) > 50


def chunks_of(terminal: int) -> Iterator[bytes]:
    """Read what was written to a terminal whose other end is closed."""
    while True:
        try:
            yield os.read(terminal, 4096)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return  # which is how the end is told


def on_terminal(forked: Forked, *call: str) -> tuple[Finished, str]:
    """Run a command, and return how it ended and what its terminal showed."""
    ours, theirs = pty.openpty()
    watched = forked.start(COMMAND_LINE, *call, stderr=theirs, TERM="xterm", COLUMNS="100")
    os.close(theirs)
    shown = b"".join(chunks_of(ours)).decode()
    os.close(ours)
    return watched.wait(), shown


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_only(inputs: Path, forked: Forked) -> None:
    call = ["create", "2023.nc", "2024.nc", "new.zarr", "--concat-dim", "time"]
    quiet = run(*call)
    assert quiet.stderr == ""
    done, shown = on_terminal(forked, *call, "--overwrite")
    assert done.stdout == quiet.stdout
    assert "files" in shown
    assert "2/2" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["[bold]b", "a[/b]"])
def test_progress_takes_no_name_for_markup(inputs: Path, forked: Forked, name: str) -> None:
    """Or names of styles would be left out, and others would be errors."""
    references = (inputs / "references.json").read_text().replace("sst/", f"{name}/")
    (inputs / "references.json").write_text(references)
    done, shown = on_terminal(forked, "import", "kerchunk", "references.json", "new.zarr")
    assert done.returncode == 0
    assert f"/{name}" in shown.split()


def test_the_entry_point_is_installed() -> None:
    """What it starts, `make dist` runs from the wheel."""
    (found,) = entry_points(group="console_scripts", name="zarr-manifest")
    assert found.load() is main
    assert Path(sys.executable).with_name("zarr-manifest").exists()


def test_json_has_the_whole_error(inputs: Path) -> None:
    write_by_hand(inputs / "data.zarr", "sst", '{"0.0.0": {"length": 4}}')
    error = run("locations", "data.zarr", "--json").document["error"]
    assert error.keys() == {"code", "problem", "array", "chunk", "location", "remedy", "details"}
    assert (error["array"], error["chunk"]) == ("sst", "0.0.0")
    assert json.dumps(error)


@pytest.mark.slow
def test_every_command_has_json() -> None:
    for name in commands():
        assert "--json" in run(*name.split(), "--help").stdout
