"""Paths of Windows, macOS and Linux, and their URLs; each is tried on every system."""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import (
    AllowList,
    Base,
    UrlLocation,
    local_location,
    local_reference,
    path_of_file_url,
)
from zarr_manifest.stores import base_directory, open_hierarchy

# Names that every system allows; macOS may store é as two characters, which stay two.
NAMES = st.lists(
    st.text("abC .%#é\u0301+~'&@", min_size=1).filter(lambda name: name.strip(". ") == name),
    min_size=1,
    max_size=4,
)
ROOTS = [(PurePosixPath, "/"), (PureWindowsPath, "C:\\"), (PureWindowsPath, "z:\\")]


@pytest.mark.parametrize(("kind", "root"), ROOTS)
@given(names=NAMES)
def test_a_path_has_one_url_and_the_url_one_path(kind: Any, root: str, names: list[str]) -> None:
    path = kind(root, *names)
    location = local_location(path)
    assert location is not None
    assert path_of_file_url(location.url, kind) == path
    assert location == Base.parse("./").resolve(local_reference(path))
    assert AllowList([local_reference(path.parent)]).match(location) is not None


@pytest.mark.parametrize("kind", [PurePosixPath, PureWindowsPath])
@given(names=NAMES)
def test_a_relative_path_is_a_relative_reference(kind: Any, names: list[str]) -> None:
    base = Base.parse(base_directory(kind(*names)) or "")
    assert base == Base("", "", "/".join(names) + "/")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PureWindowsPath(r"C:\my raw"), "file:///C:/my%20raw/"),
        (PurePosixPath("/my raw"), "file:///my%20raw/"),
        (PurePosixPath("a:b"), "a%3Ab/"),
        (PurePosixPath("/"), "file:///"),
        (PurePath(), "./"),
        ("C/raw", "C/raw/"),
        ("https://h/d?x=/y", "https://h/d/?x=/y"),
        ("..", "../"),
        ("./", "./"),
        ("", ""),
        ("//", "//"),
        (None, None),
    ],
)
def test_the_base_of_a_reader(path: Any, expected: str | None) -> None:
    assert base_directory(path) == expected


@pytest.mark.parametrize("path", [r"\\server\share\f.nc", r"C:raw", r"\raw"])
def test_what_has_no_url(path: str) -> None:
    with pytest.raises(InvalidPathError, match="has no URL"):
        local_reference(PureWindowsPath(path))


@pytest.mark.parametrize("path", [r"C:\data\f.nc", "C:/data/f.nc", "c:\\"])
def test_a_path_of_windows_is_no_reference_and_the_error_says_what_is(path: str) -> None:
    for read in (Base.parse, Base.parse("./").resolve):
        with pytest.raises(InvalidPathError, match=r"such as file:///C:/data/f\.nc"):
            read(path)
    with pytest.raises(ValueError, match=r"such as file:///C:/data/f\.nc"):
        AllowList([path])


def test_a_drive_is_a_directory_in_urls() -> None:
    allowed = AllowList(["file:///C:/data/"])
    assert allowed.match(UrlLocation("file", "", "C:/data/f.nc"))
    for path in ("D:/data/f.nc", "c:/data/f.nc", "C:/data2/f.nc"):
        assert allowed.match(UrlLocation("file", "", path)) is None


def test_other_paths_of_urls_have_no_drive() -> None:
    assert str(path_of_file_url("file:///C:/data", PurePosixPath)) == "/C:/data"
    assert path_of_file_url("file:///data/C:", PureWindowsPath) == PureWindowsPath(r"\data\C:")


@pytest.mark.parametrize("url", ["file://host/x", "file://host.example/x", "file://127.0.0.1/x"])
def test_files_on_other_hosts_are_refused(url: str) -> None:
    with pytest.raises(InvalidPathError, match="names another host"):
        open_hierarchy(url, {})


@pytest.mark.parametrize("host", ["", "localhost", "LOCALHOST"])
def test_this_host_may_be_named(host: str, tmp_path: Path) -> None:
    store: Any = open_hierarchy(tmp_path.as_uri().replace("file://", f"file://{host}"), {})
    assert store.root == tmp_path


@pytest.mark.parametrize(
    ("url", "problem"),
    [("file://[x/y", "not a URL"), ("file://", "no absolute path"), ("file:x", "no absolute path")],
)
def test_malformed_urls_are_refused(url: str, problem: str) -> None:
    with pytest.raises(InvalidPathError, match=problem):
        path_of_file_url(url)
