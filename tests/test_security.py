"""A manifest is untrusted: what it may make a reader read, and what nobody gets to see."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
import zarr
from zarr.core import codec_pipeline

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.servers.http_files import FileServer, ignore_range, redirect, reset, status
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

RAW = bytes(range(100, 124))
VALUES = list(RAW[4:12])
NO_RETRIES: Any = {
    "max_retries": 0,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {
        "init_backoff": timedelta(milliseconds=1),
        "max_backoff": timedelta(milliseconds=5),
        "base": 2,
    },
}

_PIPELINES = ["BatchedCodecPipeline"]
if hasattr(codec_pipeline, "FusedCodecPipeline"):
    _PIPELINES.append("FusedCodecPipeline")


@pytest.fixture(autouse=True, params=_PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test reads through both of zarr's pipelines; the second calls ``get_sync``."""
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{request.param}"}):
        yield request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


def _declare(root: Path, *paths: str, name: str = "a", **options: Any) -> None:
    """Declare an array of one chunk of 8 bytes per path."""
    manifest = {str(i): {"path": p, "offset": 4, "length": 8} for i, p in enumerate(paths)}
    write_manifest_array(root, name, np.zeros(8 * len(paths), "u1"), 8, manifest, **options)


def _read(root: Any, **options: Any) -> list[int]:
    array = zarr.open(zm.ManifestStore(root, **options), mode="r")["a"]
    values: list[int] = array[...].tolist()  # type: ignore[union-attr,index]
    return values


def _refused(
    root: Any, expected: type[zm.ManifestError] = zm.LocationNotAllowedError, **options: Any
) -> zm.ManifestError:
    with pytest.raises(zm.ManifestError) as raised:
        _read(root, **options)
    assert type(raised.value) is expected, raised.value
    assert raised.value.array == "a"
    assert "secret" not in str(raised.value).lower()
    return raised.value


def _suggested(error: zm.ManifestError) -> list[str]:
    """What the remedy says to paste."""
    assert error.remedy is not None
    found = re.search(r"allow=(\[.*\])", error.remedy)
    assert found is not None
    prefixes: list[str] = eval(found[1], {})
    return prefixes


# ---------------------------------------------------------------- the allow-list


def test_nothing_is_read_that_nobody_authorised(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    _declare(root, f"{http_server.url}/d/f.bin")
    error = _refused(root)
    assert http_server.requests == []
    assert _suggested(error) == [f"{http_server.url}/d/"]
    assert _read(root, allow=_suggested(error)) == VALUES


def test_the_manifest_itself_needs_authorisation(root: Path, http_server: FileServer) -> None:
    document = b'{"0": {"data": "AAAAAAAAAAA="}}'
    http_server.put("m/manifest.json", document)
    write_manifest_array(root, "a", np.zeros(8, "u1"), 8, f"{http_server.url}/m/manifest.json")
    error = _refused(root)
    assert http_server.requests == []
    assert _read(root, allow=_suggested(error)) == [0] * 8


def test_one_error_lists_all_that_is_missing(
    root: Path, tmp_path: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    outside = tmp_path / "out side"
    outside.mkdir()
    (outside / "f.bin").write_bytes(RAW)
    for server in (http_server, second_http_server):
        server.put("d/x/f.bin", RAW)
        server.put("d/y/g.bin", RAW)
    paths = [
        f"{server.url}/d/{name}"
        for server in (http_server, second_http_server)
        for name in ("x/f.bin", "y/g.bin")
    ]
    _declare(root, *paths, (outside / "f.bin").as_uri())
    error = _refused(root)
    assert http_server.requests == second_http_server.requests == []
    suggested = _suggested(error)
    assert sorted(suggested) == sorted(
        [f"{http_server.url}/d/", f"{second_http_server.url}/d/", f"{outside.as_uri()}/"]
    )
    # One prefix less is not enough, even for the chunks that lie below the others.
    for missing in suggested:
        again = _refused(root, allow=[p for p in suggested if p != missing])
        assert _suggested(again) == [missing]
    assert _read(root, allow=suggested) == VALUES * 5


def test_the_error_is_the_same_for_one_chunk(root: Path, http_server: FileServer) -> None:
    _declare(root, f"{http_server.url}/d/f.bin", f"{http_server.url}/e/f.bin")
    array = zarr.open_array(zm.ManifestStore(root), path="a", mode="r")
    with pytest.raises(zm.LocationNotAllowedError) as raised:
        array[:8]
    assert _suggested(raised.value) == [f"{http_server.url}/"]


@pytest.mark.parametrize("path", ["my-data2/f.bin", "my-data.bin", "my-dat/f.bin", "f.bin"])
def test_prefix_look_alikes(root: Path, http_server: FileServer, path: str) -> None:
    http_server.put(path, RAW)
    _declare(root, f"{http_server.url}/{path}")
    for prefix in ("my-data", "my-data/"):
        _refused(root, allow=[f"{http_server.url}/{prefix}"])
    assert http_server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "s3://b2/my-data/f",
        "s3://b/my-data/../f",
        "s3://b.evil/my-data/f",
        "gs://b/my-data/f",
        "https://b/my-data/f",
        "file:///b/my-data/f",
    ],
)
def test_other_buckets_and_schemes(root: Path, url: str) -> None:
    _declare(root, url)
    _refused(root, allow=["s3://b/my-data"])


def test_other_port_and_scheme_of_the_host(root: Path, http_server: FileServer) -> None:
    _declare(root, f"{http_server.url}/f.bin")
    for prefix in ("http://127.0.0.1/", http_server.url.replace("http:", "https:")):
        _refused(root, allow=[prefix])
    assert http_server.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "../../f.bin",
        "x/../../../f.bin",
        "..%2f..%2ff.bin",
        "%2e%2e/%2e%2e/f.bin",
        "..\\..\\f.bin",
        "//127.0.0.1/f.bin",
        "http://user:secret@127.0.0.1/f.bin",
        "file://host/f.bin",
        "ftp://host/f.bin",
        "x/%00/f.bin",
        "http:///f.bin",
        "?sig=secret",
        "",
    ],
)
def test_paths_that_are_refused_whatever_is_allowed(root: Path, path: str) -> None:
    (root.parent / "f.bin").write_bytes(RAW)
    _declare(root, path)
    _refused(root, zm.InvalidPathError, allow=["file:///", "http://127.0.0.1/", "http://host/"])


@pytest.mark.parametrize("member", ["base", "manifest"])
@pytest.mark.parametrize("value", ["../../", "//host/x", "..%2f", "ftp://host/"])
def test_base_and_manifest_are_paths_too(root: Path, member: str, value: str) -> None:
    _declare(root, "f.bin")
    file = root / "a" / "zarr.json"
    metadata = json.loads(file.read_text())
    metadata["storage_transformers"][0]["configuration"][member] = value
    file.write_text(json.dumps(metadata))
    _refused(root, zm.InvalidPathError)


def test_an_encoded_slash_does_not_leave_the_prefix(root: Path, http_server: FileServer) -> None:
    _declare(root, f"{http_server.url}/d/..%2fe/f.bin")
    _refused(root, zm.InvalidPathError, allow=[f"{http_server.url}/d/"])
    assert http_server.requests == []


# ---------------------------------------------------------------- symbolic links


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that nobody authorised, with a file."""
    directory = tmp_path / "private"
    directory.mkdir()
    (directory / "f.bin").write_bytes(RAW)
    return directory


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_links_out_of_an_allowed_directory(
    root: Path, tmp_path: Path, outside: Path, kind: str
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    if kind == "file":
        (allowed / "f.bin").symlink_to(outside / "f.bin")
        path = allowed / "f.bin"
    else:
        (allowed / "d").symlink_to(outside)
        path = allowed / "d" / "f.bin"
    _declare(root, path.as_uri())
    error = _refused(root, allow=[allowed.as_uri()])
    assert error.remedy
    assert error.location == path.as_uri()
    # A prefix that holds both the link and what it leads to is enough.
    assert _read(root, allow=[tmp_path.as_uri()]) == VALUES


def test_links_within_an_allowed_directory(root: Path, outside: Path) -> None:
    (outside / "g.bin").symlink_to(outside / "f.bin")
    _declare(root, (outside / "g.bin").as_uri())
    assert _read(root, allow=[outside.as_uri()]) == VALUES


def test_an_allowed_directory_may_be_a_link(root: Path, tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    _declare(root, (tmp_path / "link" / "f.bin").as_uri())
    assert _read(root, allow=[(tmp_path / "link").as_uri()]) == VALUES


def test_a_file_may_be_allowed_by_itself(root: Path, outside: Path) -> None:
    _declare(root, (outside / "f.bin").as_uri())
    assert _read(root, allow=[(outside / "f.bin").as_uri()]) == VALUES


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_links_out_of_the_hierarchy(root: Path, outside: Path, kind: str) -> None:
    if kind == "file":
        (root / "a.bin").symlink_to(outside / "f.bin")
        path = "../a.bin"
    else:
        (root / "d").symlink_to(outside)
        path = "../d/f.bin"
    _declare(root, path)
    error = _refused(root)
    assert error.remedy
    # Where it leads is not the business of whoever sees the error.
    assert str(outside) not in str(error)


def test_links_out_of_the_hierarchy_to_the_manifest(root: Path, outside: Path) -> None:
    _declare(root, "f.bin")
    (root / "a" / "manifest.json").unlink()
    (root / "a" / "manifest.json").symlink_to(outside / "f.bin")
    _refused(root)


def test_the_hierarchy_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (root / "f.bin").write_bytes(RAW)
    _declare(root, "../f.bin")
    (tmp_path / "link.zarr").symlink_to(root)
    assert _read(tmp_path / "link.zarr") == VALUES


# ---------------------------------------------------------------- redirects


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_to_another_origin(
    root: Path, http_server: FileServer, second_http_server: FileServer, code: int
) -> None:
    second_http_server.put("e/f.bin", RAW)
    target = f"{second_http_server.url}/e/f.bin?signature=SECRET"
    http_server.script("d/f.bin", redirect(target, code), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    error = _refused(root, allow=[f"{http_server.url}/d/"])
    assert second_http_server.requests == []
    assert _suggested(error) == [f"{second_http_server.url}/e/"]
    allow = [f"{http_server.url}/d/", *_suggested(error)]
    assert _read(root, allow=allow) == VALUES
    assert {r.target for r in second_http_server.requests} == {"/e/f.bin?signature=SECRET"}


def test_redirect_within_the_prefix(root: Path, http_server: FileServer) -> None:
    http_server.put("d/g.bin", RAW)
    http_server.script("d/f.bin", redirect("g.bin"), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    assert _read(root, allow=[f"{http_server.url}/d/"]) == VALUES


def test_redirect_out_of_the_prefix_on_the_same_host(root: Path, http_server: FileServer) -> None:
    http_server.put("e/f.bin", RAW)
    http_server.script("d/f.bin", redirect("/e/f.bin"), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/"])
    assert all(r.target == "/d/f.bin" for r in http_server.requests)


def test_redirect_of_a_redirect(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    http_server.script("d/f.bin", redirect("/d/g.bin"), sticky=True)
    http_server.script("d/g.bin", redirect(f"{second_http_server.url}/f.bin"), sticky=True)
    second_http_server.put("f.bin", RAW)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/"])
    assert second_http_server.requests == []


def test_redirect_loop(root: Path, http_server: FileServer) -> None:
    http_server.script("d/f.bin", redirect("/d/f.bin"), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, zm.SourceError, allow=[f"{http_server.url}/d/"])
    assert len(http_server.requests) < 20


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://host/f.bin", "//user:secret@host/f.bin", "/d/%2e%2e/e"]
)
def test_redirect_to_what_is_no_place_to_read(
    root: Path, http_server: FileServer, target: str
) -> None:
    http_server.script("d/f.bin", redirect(target), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/"])


def test_redirect_to_a_file_is_refused_even_when_files_are_authorised(
    root: Path, http_server: FileServer, outside: Path
) -> None:
    """A web server must not choose among the reader's own files."""
    http_server.script("d/f.bin", redirect((outside / "f.bin").as_uri()), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/", outside.as_uri()])


def test_redirect_without_a_target(root: Path, http_server: FileServer) -> None:
    http_server.script("d/f.bin", redirect(None), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, zm.SourceError, allow=[f"{http_server.url}/d/"])


def test_headers_do_not_follow_a_redirect(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("e/f.bin", RAW)
    target = f"{second_http_server.url}/e/f.bin"
    http_server.script("d/f.bin", redirect(target), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    headers = {"authorization": "Bearer secret", "x-api-key": "secret"}
    allow = {
        f"{http_server.url}/d/": {"client_options": {"default_headers": headers}},
        f"{second_http_server.url}/e/": None,
    }
    assert _read(root, allow=allow) == VALUES
    for sent in http_server.requests:
        assert headers.items() <= sent.headers.items()
    assert second_http_server.requests
    for sent in second_http_server.requests:
        assert not headers.keys() & sent.headers.keys()


@pytest.mark.parametrize("failure", ["unavailable", "reset"])
def test_redirect_after_a_transient_failure(
    root: Path, http_server: FileServer, second_http_server: FileServer, failure: str
) -> None:
    """The first question fails; what is retried afterwards redirects."""
    first = status(503) if failure == "unavailable" else reset()
    second_http_server.put("f.bin", RAW)
    elsewhere = redirect(f"{second_http_server.url}/f.bin")
    http_server.script("d/f.bin", first, elsewhere, sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/"])
    assert second_http_server.requests == []


@pytest.mark.xfail(reason="obstore cannot be told not to follow redirects", strict=True)
def test_redirect_of_the_read_itself(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    """An authorised server that answers our question, and then redirects the read."""
    second_http_server.put("f.bin", RAW)
    http_server.put("d/f.bin", RAW)
    elsewhere = redirect(f"{second_http_server.url}/f.bin")
    http_server.script("d/f.bin", ignore_range(), elsewhere, sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    _refused(root, allow=[f"{http_server.url}/d/"])
    assert second_http_server.requests == []


def test_redirect_to_a_signed_url_is_not_shown(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    target = f"{second_http_server.url}/f.bin?X-Amz-Signature=SECRET"
    http_server.script("d/f.bin", redirect(target), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin")
    allow = [f"{http_server.url}/d/", f"{second_http_server.url}/"]
    error = _refused(root, zm.SourceNotFoundError, allow=allow)
    assert error.location == f"{http_server.url}/d/f.bin"


# ---------------------------------------------------------------- signed URLs


def _everything_said(error: BaseException) -> str:
    """All texts that a traceback or a log would show."""
    texts = []
    seen: BaseException | None = error
    while seen is not None:
        texts.append(f"{seen!s} {seen!r}")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n".join(texts)


def test_a_signed_url_is_fetched_with_its_query(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    _declare(root, f"{http_server.url}/d/f.bin?sig=SECRET%2Fx&se=1")
    assert _read(root, allow=[http_server.url]) == VALUES
    assert {r.target for r in http_server.requests} == {"/d/f.bin?sig=SECRET%2Fx&se=1"}


def test_two_signed_urls_keep_their_own_queries(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    http_server.put("d/g.bin", RAW)
    url = f"{http_server.url}/d"
    _declare(root, f"{url}/f.bin?sig=1", f"{url}/g.bin?sig=2", f"{url}/g.bin")
    assert _read(root, allow=[http_server.url]) == VALUES * 3
    targets = {r.target for r in http_server.requests}
    assert targets == {"/d/f.bin?sig=1", "/d/g.bin?sig=2", "/d/g.bin"}


@pytest.mark.parametrize("code", [400, 401, 403, 404, 416, 500])
def test_errors_do_not_show_signed_queries(root: Path, http_server: FileServer, code: int) -> None:
    http_server.script("d/f.bin", status(code), sticky=True)
    _declare(root, f"{http_server.url}/d/f.bin?sig=SECRET")
    allow = {http_server.url: zm.anonymous(retry_config=NO_RETRIES)}
    with pytest.raises(zm.ManifestError) as raised:
        _read(root, allow=allow)
    assert "SECRET" not in _everything_said(raised.value)
    assert raised.value.location == f"{http_server.url}/d/f.bin?…"


def test_an_unreachable_signed_url_is_not_shown(root: Path) -> None:
    with FileServer() as server:
        url = server.url
    _declare(root, f"{url}/f.bin?sig=SECRET")
    allow = {url: zm.anonymous(retry_config=NO_RETRIES)}
    with pytest.raises(zm.SourceError) as raised:
        _read(root, allow=allow)
    assert "SECRET" not in _everything_said(raised.value)


def test_refusals_do_not_show_signed_queries(root: Path) -> None:
    _declare(root, "https://host/f.bin?sig=SECRET")
    with pytest.raises(zm.LocationNotAllowedError) as raised:
        _read(root)
    assert "SECRET" not in _everything_said(raised.value)
    assert _suggested(raised.value) == ["https://host/"]


# ---------------------------------------------------------------- credentials


@pytest.fixture
def s3_file(root: Path, s3_server: S3Server, s3_bucket: str) -> str:
    """The prefix of a private object, which the array refers to."""
    s3_server.put(s3_bucket, "d/f.bin", RAW)
    s3_server.clear()
    _declare(root, f"s3://{s3_bucket}/d/f.bin")
    return f"s3://{s3_bucket}/d/"


@pytest.fixture
def credentials_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret-session-token")


@pytest.mark.usefixtures("credentials_in_environment")
@pytest.mark.parametrize("how", ["options", "anonymous"])
def test_environment_credentials_are_not_used_unasked(
    root: Path, s3_server: S3Server, s3_file: str, how: str
) -> None:
    options = s3_server.location_options
    access = options if how == "options" else zm.anonymous(**options)
    _refused(root, zm.SourceAccessDeniedError, allow={s3_file: access})
    assert s3_server.requests
    assert not any(r.signed for r in s3_server.requests)


@pytest.mark.usefixtures("credentials_in_environment")
def test_environment_credentials_are_used_when_asked_for(
    root: Path, s3_server: S3Server, s3_file: str
) -> None:
    allow = {s3_file: zm.environment(**s3_server.location_options)}
    assert _read(root, allow=allow) == VALUES
    assert all(r.signed for r in s3_server.requests)


@pytest.mark.usefixtures("credentials_in_environment")
def test_environment_credentials_do_not_spread_to_other_prefixes(
    root: Path, s3_server: S3Server, s3_bucket: str, public_s3_bucket: str
) -> None:
    s3_server.put(s3_bucket, "d/f.bin", RAW)
    s3_server.put(public_s3_bucket, "f.bin", RAW)
    s3_server.clear()
    _declare(root, f"s3://{s3_bucket}/d/f.bin", f"s3://{public_s3_bucket}/f.bin")
    allow = {
        f"s3://{s3_bucket}/d": zm.environment(**s3_server.location_options),
        f"s3://{public_s3_bucket}": zm.anonymous(**s3_server.location_options),
    }
    assert _read(root, allow=allow) == VALUES * 2
    assert s3_server.requests
    for request in s3_server.requests:
        assert request.signed == request.path.startswith(f"/{s3_bucket}/")


def test_stated_credentials(root: Path, s3_server: S3Server, s3_file: str) -> None:
    assert _read(root, allow={s3_file: s3_server.options}) == VALUES
    assert all(r.signed for r in s3_server.requests)


def test_stated_credentials_are_not_mixed_with_a_session_token(
    root: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain server, to see the headers."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret-session-token")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other-key")
    http_server.put("bucket/f.bin", RAW)
    _declare(root, "s3://bucket/f.bin")
    options = {
        "endpoint": http_server.url,
        "region": "us-east-1",
        "virtual_hosted_style_request": False,
        "client_options": {"allow_http": True},
        "access_key_id": "stated-key",
        "secret_access_key": "stated",
    }
    assert _read(root, allow={"s3://bucket": options}) == VALUES
    assert http_server.requests
    for request in http_server.requests:
        assert "x-amz-security-token" not in request.headers
        assert "Credential=stated-key/" in request.headers["authorization"]


@pytest.mark.usefixtures("credentials_in_environment")
def test_the_hierarchy_itself_is_opened_without_environment_credentials(
    s3_server: S3Server, s3_bucket: str
) -> None:
    url = f"s3://{s3_bucket}/data.zarr"
    store = zm.ManifestStore(url, allow={url: s3_server.location_options}, read_only=True)
    with pytest.raises(Exception, match=r"."):
        zarr.open(store, mode="r")
    assert s3_server.requests
    assert not any(r.signed for r in s3_server.requests)


def test_errors_and_representations_show_no_credentials(
    root: Path, s3_server: S3Server, s3_file: str
) -> None:
    options = {**s3_server.options, "secret_access_key": "SECRET", "token": "SECRET"}
    s3_server.delete(s3_file.split("/")[2], "d/f.bin")
    store = zm.ManifestStore(root, allow={s3_file: options})
    with pytest.raises(zm.SourceNotFoundError) as raised:
        zarr.open_array(store, path="a", mode="r")[...]
    assert "SECRET" not in _everything_said(raised.value)
    assert "SECRET" not in f"{store} {store!r}"


# ---------------------------------------------------------------- stores of the reader's own


def test_a_store_of_the_bucket(root: Path, s3_server: S3Server, s3_file: str) -> None:
    store = obstore.store.S3Store(s3_file.split("/")[2], **s3_server.options)
    assert _read(root, allow={s3_file: store}) == VALUES


@pytest.mark.parametrize("depth", [0, 1])
def test_a_store_with_a_prefix(root: Path, s3_server: S3Server, s3_file: str, depth: int) -> None:
    bucket = s3_file.split("/")[2]
    store = obstore.store.S3Store(bucket, prefix="d", **s3_server.options)
    assert _read(root, allow={[f"s3://{bucket}", s3_file][depth]: store}) == VALUES
    assert {r.path for r in s3_server.requests} == {f"/{bucket}/d/f.bin"}


@pytest.mark.parametrize("below", ["", "/d", "/d/"])
def test_an_http_store(root: Path, http_server: FileServer, below: str) -> None:
    http_server.put("d/f.bin", RAW)
    _declare(root, f"{http_server.url}/d/f.bin")
    store = obstore.store.HTTPStore(
        http_server.url + below.rstrip("/"), client_options={"allow_http": True}
    )
    assert _read(root, allow={http_server.url + below: store}) == VALUES
    assert {r.target for r in http_server.requests} == {"/d/f.bin"}


def test_redirects_are_checked_for_stores_of_the_readers_own(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("f.bin", RAW)
    http_server.script("f.bin", redirect(f"{second_http_server.url}/f.bin"), sticky=True)
    _declare(root, f"{http_server.url}/f.bin")
    store = obstore.store.HTTPStore(http_server.url, client_options={"allow_http": True})
    _refused(root, allow={http_server.url: store})
    assert second_http_server.requests == []


def test_a_memory_store(root: Path) -> None:
    store = obstore.store.MemoryStore()
    obs.put(store, "d/f.bin", RAW)
    _declare(root, "memory://anything/d/f.bin")
    assert _read(root, allow={"memory://anything/": store}) == VALUES
    with pytest.raises((ValueError, zm.ManifestError), match="memory://anything"):
        _read(root, allow=["memory://anything/"])


def test_a_local_store(root: Path, outside: Path) -> None:
    _declare(root, (outside / "f.bin").as_uri())
    for store in (obstore.store.LocalStore("/"), obstore.store.LocalStore(outside)):
        assert _read(root, allow={outside.as_uri(): store}) == VALUES


# ---------------------------------------------------------------- looking before trusting


def test_locations_read_nothing_and_need_nothing(root: Path, http_server: FileServer) -> None:
    (root / "f.bin").write_bytes(RAW)
    url = http_server.url
    _declare(root, f"{url}/d/f.bin", f"{url}/d/g.bin", "s3://b/x.bin", "../f.bin")
    _declare(root, f"{url}/d/f.bin?sig=SECRET", name="b")
    found = zm.ManifestStore(root, allow=[f"{url}/d/"]).locations()
    assert http_server.requests == []
    assert "SECRET" not in repr(found)
    by_prefix = {location.prefix: location for location in found}
    assert set(by_prefix) == {None, f"{url}/d/", "s3://b/"}
    assert [by_prefix[p].allowed for p in (None, f"{url}/d/", "s3://b/")] == [True, True, False]
    assert by_prefix[f"{url}/d/"].references == 3
    assert by_prefix["s3://b/"].nbytes == 8
    assert by_prefix[None].objects == 1


def test_what_locations_suggest_is_enough(root: Path, outside: Path) -> None:
    _declare(root, (outside / "f.bin").as_uri())
    prefixes = [found.prefix for found in zm.ManifestStore(root).locations()]
    assert _read(root, allow=[p for p in prefixes if p is not None]) == VALUES


def test_a_pickled_store_keeps_its_allow_list(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    _declare(root, f"{http_server.url}/d/f.bin")
    closed = pickle.loads(pickle.dumps(zm.ManifestStore(root)))
    _refused(closed)
    assert http_server.requests == []
    allowed = pickle.loads(pickle.dumps(zm.ManifestStore(root, allow=[http_server.url])))
    assert _read(allowed) == VALUES


@pytest.mark.parametrize("allow", ["s3://b/", ["data"], ["s3://"], ["http://h/?sig=1"], [""]])
def test_allow_is_checked_at_once(root: Path, allow: Any) -> None:
    with pytest.raises(ValueError, match=r"prefix"):
        zm.ManifestStore(root, allow=allow)


# ---------------------------------------------------------------- memory


def test_a_length_allocates_nothing(root: Path) -> None:
    """An entry may claim any length; only what is there is read."""
    (root / "f.bin").write_bytes(RAW)
    manifest = {"0": {"path": "../f.bin", "offset": 0, "length": 2**50}}
    write_manifest_array(root, "a", np.zeros(8, "u1"), 8, manifest)
    _refused(root, zm.RangeOutOfBoundsError)


def test_a_small_document_cannot_ask_for_much_inline(root: Path) -> None:
    manifest = {str(i): {"data": "A" * 4000} for i in range(4)}
    write_manifest_array(root, "a", np.zeros(32, "u1"), 8, manifest)
    _refused(root, zm.LimitExceededError, limits=zm.Limits(inline_bytes=11_999))
