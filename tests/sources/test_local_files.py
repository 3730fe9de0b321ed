"""Local files: nothing outside a directory is opened, and what is opened is what is read."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore as obs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore

from zarr_manifest import errors
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.sources import (
    Directory,
    FileReader,
    SourceRange,
    directories,
    in_own_loop,
    reader_of,
)

BODY = bytes(range(100))


@pytest.fixture(autouse=True)
def no_file_is_left_open() -> Iterator[None]:
    before = open_files()
    yield
    if not open_files() <= before:
        gc.collect()  # errors of asyncio's tasks refer to themselves, and to what was being read
    assert open_files() <= before


def open_files() -> set[str]:
    """The temporary files and directories that are open."""
    links = Path("/proc/self/fd").iterdir()
    found = [str(link.readlink()) for link in links if link.exists()]
    return {path for path in found if path.startswith(tempfile.gettempdir())}


WAYS = ["at once", "by segments", "by path"]


def open_files_in(way: str, patch: pytest.MonkeyPatch) -> None:
    """Open as Linux can, as other systems can, or, without `dir_fd`, as on Windows."""
    if way != "at once":
        patch.setattr(directories, "HAS_OPENAT2", False)
    if way == "by path":
        patch.setattr(directories, "OPENS_IN_DIRECTORIES", False)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    way: str = request.param
    open_files_in(way, monkeypatch)
    return way


def contents(directory: Directory, key: str) -> bytes:
    return bytes(
        in_own_loop(FileReader(directory).read(key, SourceRange(0, None, False), NO_CONDITIONS))
    )


def code_of(call: Any) -> Any:
    """What a call returns, or the code of its error."""
    try:
        return bytes(call())
    except errors.ManifestError as error:
        return error.code


# Links -----------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TARGETS = st.one_of(
    PATHS,
    PATHS.map(lambda path: f"../{path}"),
    PATHS.map(lambda path: f"../../{path}"),
    PATHS.map(lambda path: f"{{top}}/root/{path}"),
    PATHS.map(lambda path: f"{{top}}/outside/{path}"),
    st.sampled_from(["{top}/root", "{top}/outside", "..", ".", "/dev/null", "{top}/again/root/a"]),
)
THINGS = st.one_of(st.just(None), st.just("directory"), TARGETS)


def plant(top: Path, things: dict[str, str | None]) -> None:
    """Make files (None), directories and links, where they are possible."""
    (top / "root").mkdir()
    (top / "outside").mkdir()
    (top / "again").symlink_to(top)
    for path, thing in things.items():
        place = top / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if thing is None:
                place.write_text(path)
            elif thing == "directory":
                place.mkdir()
            else:
                place.symlink_to(thing.format(top=top))
        except OSError:
            continue


def expected(top: Path, key: str) -> str | bytes:
    """What reading gives, according to the real path."""
    real = Path(os.path.realpath(top / "root" / key))
    if real != top / "root" and top / "root" not in real.parents:
        return "location_not_allowed"
    if real.is_symlink():
        return "source_error"
    return real.read_bytes() if real.is_file() else "source_not_found"


@given(
    things=st.dictionaries(PATHS.map(lambda p: f"root/{p}"), THINGS, max_size=6),
    outside=st.dictionaries(PATHS.map(lambda p: f"outside/{p}"), THINGS, max_size=3),
    key=PATHS,
    way=st.sampled_from(WAYS),
)
def test_what_is_read_is_what_the_real_path_says(
    things: dict[str, str | None], outside: dict[str, str | None], key: str, way: str
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        top = Path(os.path.realpath(name))
        plant(top, {**things, **outside})
        open_files_in(way, patch)
        found = code_of(lambda: contents(Directory(str(top / "root")), key))
        wanted = expected(top, key)
        if wanted == "source_error" or found == "source_error":
            # Links that lead round in a circle: it does not matter where.
            assert isinstance(found, str)
        else:
            assert found == wanted


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory, a private file beside it, and links that lead there."""
    (tmp_path / "root" / "d").mkdir(parents=True)
    (tmp_path / "root" / "d" / "f").write_bytes(BODY)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "f").write_bytes(b"private")
    for name, target in {
        "file": "../private/f",
        "directory": "../private",
        "absolute": str(tmp_path / "private/f"),
        "chain": "file",
        "dangling": "../private/nothing",
        "dangling directory": "/no/such/directory",
    }.items():
        (tmp_path / "root" / name).symlink_to(target)
    return tmp_path


LEAVING = ["directory/f", "absolute", "chain", "dangling directory/f", "d/../../private/f"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("key", LEAVING)
def test_links_that_lead_out(top: Path, key: str) -> None:
    directory = Directory(str(top / "root"))
    for call in (directory.open, directory.status, directory.require):
        with pytest.raises(errors.LocationNotAllowedError) as raised:
            call(key)
        assert str(top) not in str(raised.value)
        assert "allow=" in str(raised.value.remedy)
    assert directory.real_path(key) is None


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("others", [["private/f"], ["elsewhere", "link"]])
def test_links_into_what_was_authorised(top: Path, others: list[str]) -> None:
    (top / "link").symlink_to("private")
    directory = Directory(str(top / "root"), tuple(str(top / other) for other in others))
    for key in ("file", "directory/f", "absolute", "chain"):
        assert contents(directory, key) == b"private"
        assert directory.status(key).st_size == 7
    with pytest.raises(errors.LocationNotAllowedError):
        directory.open("dangling directory/f")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("target", ["../root/d/f", "{top}/again/root/d/f"])
def test_links_that_stay_inside(top: Path, target: str) -> None:
    (top / "again").symlink_to(top)
    (top / "root/inside").symlink_to(target.format(top=top, root=top / "root"))
    (top / "named").symlink_to("root")
    for name in ("root", "named", "again/named"):
        assert contents(Directory(str(top / name)), "inside") == BODY
        for key in ("d/../d//./f", "directory/../root/d/f"):
            assert contents(Directory(str(top / name)), key) == BODY


@pytest.mark.usefixtures("way")
def test_a_file_by_itself(top: Path) -> None:
    assert contents(Directory(str(top / "root/d/f")), "") == BODY
    assert contents(Directory(str(top / "root/absolute")), "") == b"private"


@pytest.mark.usefixtures("way")
def test_links_in_a_circle(top: Path) -> None:
    (top / "root/one").symlink_to("two")
    (top / "root/two").symlink_to("one")
    assert code_of(lambda: contents(Directory(str(top / "root")), "one")) == "source_error"


# Kinds of files --------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_special_files_do_not_hang(top: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, key = Directory(str(top / "root")), "special"
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "fifo":
            os.mkfifo(top / "root/special")
        elif kind == "socket":
            monkeypatch.chdir(top)  # the path of a socket must be short
            server.bind("root/special")
        else:
            directory, key = Directory("/dev"), "tty" if Path("/dev/tty").exists() else "null"
        with pytest.raises(errors.SourceError, match="not a regular file") as raised:
            contents(directory, key)
        assert raised.value.remedy
        with pytest.raises(errors.SourceError, match="not a regular file"):
            in_own_loop(FileReader(directory).state(key))


@pytest.mark.usefixtures("way")
def test_what_is_not_there(top: Path) -> None:
    directory = Directory(str(top / "root"))
    for key in ("nothing", "no/thing", "d/f/g", "x" * 300, "x/" * 10_000 + "f"):
        with pytest.raises(errors.SourceNotFoundError):
            contents(directory, key)
    with pytest.raises(errors.SourceError, match="found a directory"):
        contents(directory, "d")
    with pytest.raises(errors.SourceNotFoundError):
        contents(Directory(str(top / "no root")), "f")
    with pytest.raises(errors.SourceChangedError, match="version v1"):
        in_own_loop(
            FileReader(directory).read("nothing", SourceRange(0, 1, True), Conditions(version="v1"))
        )


@pytest.mark.usefixtures("way")
def test_names_that_no_file_can_have(top: Path) -> None:
    for key in ("d/f\0", "d/f\0.bin", "\0"):
        with pytest.raises(errors.SourceNotFoundError):
            contents(Directory(str(top / "root")), key)


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser may read everything")
def test_permissions(top: Path) -> None:
    directory = Directory(str(top / "root"))
    (top / "root/d").chmod(0o100)  # to search, not to list
    assert contents(directory, "d/f") == BODY
    (top / "root/d").chmod(0o700)
    (top / "root/d/f").chmod(0)
    with pytest.raises(errors.SourceAccessDeniedError):
        contents(directory, "d/f")
    assert directory.status("d/f").st_size == len(BODY)


# Ranges and conditions -------------------------------------------------------------------

SPANS = st.one_of(
    st.tuples(st.integers(0, 120), st.integers(0, 120), st.booleans()).map(
        lambda s: SourceRange(min(s[:2]), max(s[:2]), s[2])
    ),
    st.integers(-120, 120).map(lambda start: SourceRange(start, None, False)),
)


@pytest.mark.slow
@given(span=SPANS.filter(lambda span: span.start != span.stop), size=st.sampled_from([0, 1, 100]))
def test_ranges_are_those_of_obstore(span: SourceRange, size: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "f").write_bytes(BODY[:size])
        ours = FileReader(Directory(name))
        theirs = reader_of(LocalStore(name))
        found = code_of(lambda: in_own_loop(ours.read("f", span, NO_CONDITIONS)))
        assert found == code_of(lambda: in_own_loop(theirs.read("f", span, NO_CONDITIONS)))
        assert found == code_of(lambda: asyncio.run(ours.read("f", span, NO_CONDITIONS)))
        assert in_own_loop(ours.state("f")).size == in_own_loop(theirs.state("f")).size == size


@pytest.mark.slow
@given(micros=st.integers(10**6, 4 * 10**15), nanos=st.integers(0, 999))
def test_what_obstore_says_of_a_file_still_matches(micros: int, nanos: int) -> None:
    """Manifests have its etags and times."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "f"
        file.write_bytes(BODY)
        os.utime(file, ns=(0, micros * 1000 + nanos))
        found = obs.head(LocalStore(name), "f")
        second = timedelta(seconds=1)
        matching = [
            Conditions(etag=found["e_tag"]),
            Conditions(last_modified=found["last_modified"]),
            Conditions(etag=found["e_tag"], last_modified=found["last_modified"] + second),
            Conditions(size=len(BODY), last_modified=found["last_modified"]),
        ]
        others = [
            Conditions(etag='"1-2-3"'),
            Conditions(last_modified=found["last_modified"] - second),
            Conditions(size=len(BODY) - 1, last_modified=found["last_modified"] + second),
            Conditions(version="v1"),
        ]
        ours, span = FileReader(Directory(name)), SourceRange(1, 3, True)
        for conditions in matching:
            assert bytes(in_own_loop(ours.read("f", span, conditions))) == BODY[1:3]
        for conditions in others:
            with pytest.raises(errors.SourceChangedError):
                in_own_loop(ours.read("f", span, conditions))


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(BODY)
    file = Directory(str(tmp_path)).open("f")
    try:
        os.truncate(tmp_path / "f", 10)
        with pytest.raises(errors.ShortReadError, match="100 bytes were requested, but 10 arrived"):
            file.read(0, 100)
    finally:
        file.close()
