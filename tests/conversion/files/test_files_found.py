"""Which files the sources name, and what is said of all of them before the first is parsed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import ArrayNode, Node, RefusedNode, read_files
from zarr_manifest.conversion.files import FileSources, files_named
from zarr_manifest.errors import (
    ManifestError,
    NotConvertibleError,
    SourceAccessDeniedError,
    SourceError,
    SourceNotFoundError,
)

NAMES = ["b.nc", "a.nc", "c.h5", "deep/er/d.nc", "deep/e [1].nc", "deep/f*.nc", ".hidden.nc"]


def body(number: int) -> bytes:
    """Return an HDF5 file."""
    with h5py.File(f"{number}", "w", driver="core", backing_store=False) as file:
        file["x"] = np.arange(number, number + 3)
        file["x"].make_scale("x")
        file.create_dataset("v", data=np.arange(3), chunks=(3,)).dims[0].attach_scale(file["x"])
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files, as the working directory."""
    for number, name in enumerate(NAMES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(body(10 * number))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(*names: str | Path, recursive: bool = False) -> list[str]:
    found = files_named(names, FileSources(), recursive=recursive)
    here = f"{Path.cwd().as_uri()}/"
    assert all(url.startswith(here) for url in found)
    return [url.removeprefix(here) for url in found]


def test_local_patterns(here: Path) -> None:
    assert named("*.nc") == ["a.nc", "b.nc"]
    assert named("?.nc", "*.h5") == ["a.nc", "b.nc", "c.h5"]
    assert named(f"{here}/[bc].*") == ["b.nc", "c.h5"]
    assert named("**/*.nc") == ["a.nc", "b.nc", "deep/e%20%5B1%5D.nc", "deep/er/d.nc", "deep/f*.nc"]
    # A file of that very name.
    assert named("deep/e [1].nc", "deep/f*.nc") == ["deep/e%20%5B1%5D.nc", "deep/f*.nc"]
    assert named(Path("deep/*.nc")) == ["deep/*.nc"]
    assert named(f"file:{here}/a.nc", f"FILE://{here}/b.nc") == ["a.nc", "b.nc"]
    with pytest.raises(SourceNotFoundError, match=r"no file matches.*/\*\.grib"):
        named("a.nc", "*.grib")


def test_directories(here: Path) -> None:
    zarr.create_array(here / "deep/made.zarr", name="a/b", data=np.arange(3))
    zarr.create_array(here / "deep/old.zarr", name="a", data=np.arange(3), zarr_format=2)
    assert named("deep", "a.nc", recursive=True) == [
        "deep/e%20%5B1%5D.nc", "deep/er/d.nc", "deep/f*.nc", "a.nc",
    ]  # fmt: skip
    assert named(f"{here.as_uri()}/deep/er", recursive=True) == ["deep/er/d.nc"]
    (here / "empty").mkdir()
    with pytest.raises(SourceNotFoundError, match="no file matches"):
        named("empty", recursive=True)
    with pytest.raises(SourceNotFoundError, match=r"it is a directory.*deep/\*\.nc.*recursive"):
        list(read_files("deep"))


def test_patterns_and_prefixes_in_a_bucket(
    here: Path, s3_server: S3Server, public_s3_bucket: str
) -> None:
    root = f"s3://{public_s3_bucket}"
    for name in NAMES:
        s3_server.put(public_s3_bucket, f"p/{name}", (here / name).read_bytes())
    s3_server.put(public_s3_bucket, "p/deep/", b"")
    allow = {root: s3_server.anonymous_options}
    sources = FileSources(allow)

    def found(*names: str, recursive: bool = False) -> list[str]:
        urls = files_named([f"{root}{name}" for name in names], sources, recursive=recursive)
        return [url.removeprefix(f"{root}/p/") for url in urls]

    assert found("/p/*.nc") == [".hidden.nc", "a.nc", "b.nc"]
    assert found("/p/[ab].nc", "/p/c.h5") == ["a.nc", "b.nc", "c.h5"]
    assert found("/*/c.*") == ["c.h5"]
    assert found("/p/**/d.nc") == ["deep/er/d.nc"]
    # Percent-encoded characters belong to names.
    assert found("/p/deep/f%2A.n*") == ["deep/f*.nc"]
    assert found("/p/deep/e%20%5B1%5D.*") == ["deep/e%20%5B1%5D.nc"]
    below = ["deep/e%20%5B1%5D.nc", "deep/er/d.nc", "deep/f*.nc"]
    for prefix in ("/p/deep", "/p/deep/"):
        assert found(prefix, recursive=True) == below
    assert found("", recursive=True) == ["a.nc", "b.nc", "c.h5", *below]
    assert found("/p/a.nc", recursive=True) == ["a.nc"]
    for missing in ("/p/*.grib", "/q/*.nc"):
        with pytest.raises(SourceNotFoundError, match="no file matches"):
            found(missing)
    with pytest.raises(SourceNotFoundError, match="no file matches"):
        found("/q", recursive=True)
    nodes = list(read_files(f"{root}/p/[ab].nc", allow=allow, concat_dim="x"))
    (array,) = [node for node in nodes if isinstance(node, ArrayNode) and node.path == "v"]
    assert array.metadata["shape"] == [6]
    assert [Path(path).name for path in array.manifest.paths] == ["a.nc", "b.nc"]  # type: ignore[union-attr]


def test_a_bucket_that_may_not_be_listed(s3_server: S3Server, s3_bucket: str) -> None:
    allow = {f"s3://{s3_bucket}": s3_server.anonymous_options}
    with pytest.raises(SourceAccessDeniedError, match=s3_bucket):
        read_files(f"s3://{s3_bucket}/*.nc", allow=allow)


def test_a_web_server_cannot_be_asked(http_server: FileServer) -> None:
    for name, recursive in (("*.nc", False), ("archive/", True)):
        with pytest.raises(SourceError, match=r"which files it has .*List the URLs"):
            read_files(f"{http_server.url}/{name}", recursive=recursive)
    assert http_server.requests == []


# All files are checked first ----------------------------------------------------------


@pytest.fixture
def damaged(here: Path) -> list[str]:
    """Files of which four cannot be read, each for another reason."""
    (here / "empty.nc").write_bytes(b"")
    (here / "page.nc").write_bytes(b"<html>not found</html>")
    (here / "short.nc").write_bytes(body(0)[:-100])
    return ["a.nc", "missing.nc", "empty.nc", "b.nc", "page.nc", "short.nc"]


REASONS = {
    "missing.nc": "source_not_found: there is no such file",
    "empty.nc": "not_convertible: the file is empty",
    "page.nc": "not_convertible: the file's first bytes match no known format",
    "short.nc": "source_error: the file is truncated: it has ",
}


def said(error: ManifestError) -> dict[str, str]:
    """Return what the notes of an error say, by the name of the file."""
    notes = [note.rpartition(".nc: ") for note in error.__notes__]
    return {f"{url.rpartition('/')[2]}.nc": reason for url, _, reason in notes}


@pytest.mark.parametrize("apart", [False, True])
def test_the_error_names_all_that_fail(damaged: list[str], apart: bool) -> None:
    done: list[str] = []
    with pytest.raises(SourceError, match=r"of 6 files cannot be converted.*keep_going") as caught:
        list(read_files(damaged, group_per_file=apart, progress=lambda url, *_: done.append(url)))
    found = said(caught.value)
    assert done == []
    # With a group for each, a file in another format is only refused.
    expected = {n: r for n, r in REASONS.items() if not (apart and r.startswith("not_"))}
    assert found.keys() == expected.keys()
    assert all(found[name].startswith(expected[name]) for name in found)


def test_one_that_fails_is_its_own_error(here: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"there is no such file .*missing\.nc"):
        list(read_files(["a.nc", "missing.nc", "b.nc"]))
    (here / "x.nc").write_bytes(b"")
    with pytest.raises(NotConvertibleError) as caught:
        list(read_files(["x.nc", "x.nc"]))
    assert len(caught.value.__notes__) == 2


def arrays(nodes: list[Node]) -> dict[str, Any]:
    return {node.path: node.metadata for node in nodes if isinstance(node, ArrayNode)}


@pytest.mark.slow
@pytest.mark.parametrize("parse_fails", [False, True])
def test_the_others_are_converted(here: Path, damaged: list[str], parse_fails: bool) -> None:
    if parse_fails:
        whole = bytearray(body(0))
        whole[whole.index(b"TREE") :] = bytes(len(whole) - whole.index(b"TREE"))
        (here / "short.nc").write_bytes(whole)
    nodes = list(read_files(damaged, keep_going=True, concat_dim="x"))
    refused = [node for node in nodes if isinstance(node, RefusedNode)]
    assert arrays(nodes)["v"]["shape"] == [6]
    for node, name in zip(refused, REASONS, strict=True):
        assert node.path == ""
        assert f"/{name} was left out: " in node.reason
        assert name == "short.nc" or REASONS[name].partition(": ")[0] == node.code
    nodes = list(read_files(damaged, keep_going=True, group_per_file=True))
    assert arrays(nodes).keys() == {"a/x", "a/v", "b/x", "b/v"}
    assert {node.path for node in nodes if isinstance(node, RefusedNode)} == {
        name.removesuffix(".nc") for name in REASONS
    }


@pytest.mark.parametrize("apart", [False, True])
def test_no_hierarchy_is_made_of_nothing(damaged: list[str], apart: bool) -> None:
    with pytest.raises(ManifestError) as caught:
        list(read_files(damaged[1:3], keep_going=True, group_per_file=apart))
    assert isinstance(caught.value, SourceError | SourceNotFoundError)


def test_options_that_exclude_each_other(here: Path) -> None:
    with pytest.raises(ValueError, match="files that become a group each are not combined"):
        read_files(["a.nc", "b.nc"], group_per_file=True, concat_dim="x")
    with pytest.raises(ValueError, match="both be the group 'a'"):
        read_files(["a.nc", "deep/a.nc"], group_per_file=True)


# Requests -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_each_file_is_asked_about_once(http_server: FileServer, count: int) -> None:
    size = 9 * 2**20 if count == 1 else 0
    for number in range(count):
        http_server.put(f"{number}.nc", body(10 * number) + os.urandom(size))
    urls = [f"{http_server.url}/{number}.nc" for number in range(count)]
    assert arrays(list(read_files(urls, concat_dim=None if count == 1 else "x")))
    asked = Counter((each.method, each.target) for each in http_server.requests)
    assert not [key for key in asked if key[0] == "HEAD"]
    # The first bytes and the state; a block; and the values of the coordinate.
    assert max(asked.values()) <= 3
