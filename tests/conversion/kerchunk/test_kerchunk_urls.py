"""kerchunk's URLs as the paths of manifests: what they become, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from tests.conversion.kerchunk.kerchunk_sets import (
    URL,
    ZGROUP,
    array_node,
    assert_equal,
    entries,
    one,
    read_as_manifests,
    read_by_fsspec,
    refusal,
    zarray,
)
from zarr_manifest import Manifest


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("simplecache::s3://b/f.nc", "chain of file systems ('simplecache::')"),
        ("zip://x.nc::s3://b/f.zip", "chain of file systems"),
        ("ftp://h/f.nc", "the scheme 'ftp'"),
        ("reference://x", "the scheme 'reference'"),
        ("", "has no URL"),
        (None, "has no URL"),
        ("s3://b/a/../f.nc", "a segment '.' or '..'"),
        ("s3://b", "directory"),
        ("s3://b//f.nc", "empty segment"),
        ("s3:///f.nc", "no bucket or host"),
        ("C:\\data\\f.nc", "backslash"),
        ("s3://b/a\nb", "control character"),
        ("https://user:secret@h/f", "credentials"),
        ("https://h/f#g", "fragment"),
        ("https://h/a%2Fb", "encoded slash"),
        ("s3://b/\ud800", "unpaired surrogate"),
        ("https://h/?q=\udfff", "unpaired surrogate"),
    ],
)
def test_urls_that_a_manifest_cannot_name(url: Any, problem: str) -> None:
    found = refusal({**one([url, 0, 5]), "a/0.1": URL})
    assert problem in found.reason
    assert "secret" not in found.reason
    assert "0.0" in found.reason


def test_rewriting() -> None:
    references = {
        "a/.zarray": zarray(),
        "a/0.0": ["/home/me/data/f.nc", 0, 5],
        "a/0.1": ["/home/me/x.nc", 0, 5],
        "a/1.0": ["simplecache::s3://b/y.nc", 0, 5],
        "a/1.1": ["plain.nc", 0, 5],
    }
    rewrite = {
        "/home/me": "s3://short",
        "/home/me/data": "s3://long",
        "simplecache::": "",
        "plain": "s3://b/plain",
    }
    paths = {index: entry[0] for index, entry in entries(references, rewrite=rewrite).items()}
    assert paths == {
        (0, 0): "s3://long/f.nc",
        (0, 1): "s3://short/x.nc",
        (1, 0): "s3://b/y.nc",
        (1, 1): "s3://b/plain.nc",
    }
    # A reference without a URL means the target, which is named so.
    assert entries(one([None, 0, 5]), rewrite={"": "s3://b/target"}) == {
        (0, 0): ("s3://b/target", 0, 5)
    }


def test_a_rewrite_that_matches_no_url_is_refused() -> None:
    references = {**one(["/home/them/f.nc", 0, 5]), "a/0.1": ["/home/them/g.nc"], "a/1.1": "text"}
    rewrite = {"/home/them": "s3://b", "/home/": "s3://c/", "/home/thme/": "s3://d/"}
    assert refusal(references, "", rewrite=rewrite).reason == (
        "no URL begins with '/home/thme/', which was to be rewritten; they look like "
        "'/home/them/f.nc'"
    )
    assert entries(references, rewrite=rewrite)[0, 1] == ("s3://b/g.nc", 0, None)
    without = {"a/.zarray": zarray(), "a/1.1": "text"}
    assert refusal(without, "", rewrite={"": "s3://b/"}).reason == (
        "no URL begins with '', which was to be rewritten"
    )


def test_relative_paths_start_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a b.bin").write_bytes(np.arange(24, dtype="<i2").tobytes())
    monkeypatch.chdir(tmp_path)
    references = {".zgroup": ZGROUP, **one(["data/a b.bin", 12, 12])}
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert_equal(ours, read_by_fsspec(references))
    assert report.notes == [
        (
            "a",
            "relative paths, such as 'data/a b.bin', were resolved against the working "
            "directory, as fsspec does; if they begin with the name of a bucket: "
            "rewrite={'': 's3://'}",
        )
    ]


def test_paths_that_begin_with_the_name_of_a_bucket() -> None:
    """An empty prefix is that of relative paths alone."""
    urls = {
        "era5-pds/2020/f.nc": "s3://era5-pds/2020/f.nc",
        "/data/f.nc": "file:///data/f.nc",
        "s3://b/f.nc": "s3://b/f.nc",
        "~/f.nc": Path("~/f.nc").expanduser().as_uri(),
    }
    references = one([next(iter(urls))]) | {
        f"a/{key}": [url] for key, url in zip(("0.0", "0.1", "1.0", "1.1"), urls, strict=True)
    }
    found = entries(references, rewrite={"": "s3://"})
    assert [path for path, *_ in found.values()] == list(urls.values())


@pytest.mark.parametrize("templates", [None, {}])
def test_templates_that_no_set_defines(templates: object) -> None:
    references = one(["{{ u }}/f.nc", 0, 5]) | {"a/0.1": ["{{u}}/g.nc", 0, 5]}
    document = {"version": 1, "refs": references, "templates": templates}
    (note,) = array_node(document).notes
    assert note == (
        "URLs contain '{{ u }}', which the set does not define, and were taken for "
        "paths in the working directory; rewrite them: rewrite={'{{ u }}': 'URL'}"
    )
    rewrite = {"{{ u }}": "s3://b", "{{u}}": "s3://b"}
    assert array_node(document, rewrite=rewrite).notes == ()


def test_home_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    references = {**one(["~/f", 0, 5]), "a/0.1": ["~nobody-has-this-name/f", 0, 5]}
    local = fsspec.filesystem("file")
    for index, name in (((0, 0), "~/f"), ((0, 1), "~nobody-has-this-name/f")):
        path = local._strip_protocol(name)
        assert entries(references)[index] == (
            Path(path).absolute().as_uri().replace("%7E", "~"),
            0,
            5,
        )


def test_a_version_of_an_object_is_a_condition() -> None:
    references = one(["s3://b/f.nc?versionId=v1", 0, 5])
    manifest = array_node(references).manifest
    assert isinstance(manifest, Manifest)
    assert manifest[0, 0].path == "s3://b/f.nc"
    assert manifest[0, 0].conditions.version == "v1"
    references["a/0.1"] = ["s3://b/f.nc?versionId=v2", 0, 5]
    references["a/1.0"] = ["s3://b/f.nc", 0, 5]
    manifest = array_node(references).manifest
    assert isinstance(manifest, Manifest)
    assert manifest.paths == ("s3://b/f.nc",)
    found = [manifest[index].conditions.version for index in ((0, 0), (0, 1), (1, 0))]
    assert found == ["v1", "v2", None]
