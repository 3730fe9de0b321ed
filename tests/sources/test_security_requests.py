"""A manifest is untrusted: redirects, signed URLs, and whose credentials go where."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, redirect, status, truncate
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused, suggested
from zarr_manifest.locations import Base, Location
from zarr_manifest.sources import SourceRange, Sources, in_own_loop, reader_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


# ---------------------------------------------------------------- redirects


def test_redirect_to_another_origin(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("e/f.bin", RAW)
    target = f"{second_http_server.url}/e/f.bin?signature=SECRET"
    http_server.script("d/f.bin", redirect(target), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    error = refused(root, allow=[f"{http_server.url}/d/"])
    assert second_http_server.requests == []
    assert suggested(error) == [f"{second_http_server.url}/e/"]
    allow = [f"{http_server.url}/d/", *suggested(error)]
    assert read(root, allow=allow) == VALUES
    assert {r.target for r in second_http_server.requests} == {"/e/f.bin?signature=SECRET"}


def test_redirect_to_a_file_is_refused_even_when_files_are_authorised(
    root: Path, http_server: FileServer, tmp_path: Path
) -> None:
    """A web server must not choose among the reader's own files."""
    (tmp_path / "f.bin").write_bytes(RAW)
    http_server.script("d/f.bin", redirect((tmp_path / "f.bin").as_uri()), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    refused(root, allow=[f"{http_server.url}/d/", tmp_path.as_uri()])


def test_headers_do_not_follow_a_redirect(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("e/f.bin", RAW)
    target = f"{second_http_server.url}/e/f.bin"
    http_server.script("d/f.bin", redirect(target), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    headers = {"authorization": "Bearer secret", "x-api-key": "secret"}
    allow = {
        f"{http_server.url}/d/": {"client_options": {"default_headers": headers}},
        f"{second_http_server.url}/e/": None,
    }
    assert read(root, allow=allow) == VALUES
    for sent in http_server.requests:
        assert headers.items() <= sent.headers.items()
    assert second_http_server.requests
    for sent in second_http_server.requests:
        assert not headers.keys() & sent.headers.keys()


@pytest.mark.parametrize("below", ["/copy", "/copy?token=SECRET"])
def test_where_a_store_of_the_readers_own_leads_is_asked(
    root: Path, http_server: FileServer, second_http_server: FileServer, below: str
) -> None:
    """It may stand in for another host, which may not be there; what is asked is what is read."""
    second_http_server.put("copy/f [1]+.bin", RAW)
    # What was asked for does not arrive, and is read through obstore.
    second_http_server.script("copy/f [1]+.bin", truncate(1))
    declare(root, "https://no.such.host.invalid/d/f%20[1]+.bin")
    store = obstore.store.HTTPStore(
        second_http_server.url + below, client_options={"allow_http": True}
    )
    assert read(root, allow={"https://no.such.host.invalid/d/": store}) == VALUES
    asked, *others = second_http_server.requests
    assert asked.target.partition("?")[2] == below.partition("?")[2]
    assert {(r.method, unquote(r.target)) for r in others} == {("GET", unquote(asked.target))}
    second_http_server.script("copy/f [1]+.bin", redirect(f"{http_server.url}/f"), sticky=True)
    refused(root, allow={"https://no.such.host.invalid/d/": store})
    assert http_server.requests == []


# ---------------------------------------------------------------- signed URLs


def readers_of(sources: Sources, locations: Iterable[Location]) -> int:
    """Return how many readers like those of the locations there are once all have been read."""

    async def read() -> type:
        for location in locations:
            body = await sources.fetch(location, SourceRange(4, 12, True))
            assert bytes(body) == RAW[4:12]
            reader, _ = await sources.reader_of(location)
        return type(reader)

    kind = in_own_loop(read())
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_few_signed_urls_are_remembered(http_server: FileServer) -> None:
    """Each has a client of its own, which takes 100 KiB."""
    http_server.put("f.bin", RAW)
    urls = [f"{http_server.url}/f.bin?signature={number}" for number in range(300)]
    sources = Sources({http_server.url: None}, reader_of(obstore.store.MemoryStore()))
    before = readers_of(sources, map(Base.parse("./").resolve, urls[:1]))
    assert readers_of(sources, map(Base.parse("./").resolve, urls[1:])) - before < 256


def test_signed_urls_of_redirects_are_not_remembered(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("f.bin", RAW)
    allow = {http_server.url: None, second_http_server.url: None}
    sources = Sources(allow, reader_of(obstore.store.MemoryStore()))
    location = Base.parse("./").resolve(f"{http_server.url}/f.bin")
    remembered: list[int] = []
    for number in range(5):
        target = f"{second_http_server.url}/f.bin?signature={number}"
        http_server.script("f.bin", redirect(target), sticky=True)
        remembered.append(readers_of(sources, [location]))
    # A thread may still hold the last one or two; those of other tests may go meanwhile.
    assert max(remembered) - remembered[0] < 3


def _everything_said(error: BaseException) -> str:
    """All texts that a traceback or a log would show."""
    texts = []
    seen: BaseException | None = error
    while seen is not None:
        texts.append(f"{seen!s} {seen!r}")
        seen = seen.__cause__ or seen.__context__  # some tools show suppressed ones, too
    return "\n".join(texts)


def test_two_signed_urls_keep_their_own_queries(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    http_server.put("d/g.bin", RAW)
    url = f"{http_server.url}/d"
    declare(root, f"{url}/f.bin?sig=1", f"{url}/g.bin?sig=2", f"{url}/g.bin")
    assert read(root, allow=[http_server.url]) == VALUES * 3
    targets = {r.target for r in http_server.requests}
    assert targets == {"/d/f.bin?sig=1", "/d/g.bin?sig=2", "/d/g.bin"}


@pytest.mark.parametrize("code", [403, 404, 416, 500])
def test_errors_do_not_show_signed_queries(root: Path, http_server: FileServer, code: int) -> None:
    http_server.script("d/f.bin", status(code), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin?sig=SECRET")
    allow = {http_server.url: zm.anonymous(retry_config=NO_RETRIES)}
    with pytest.raises(zm.ManifestError) as raised:
        read(root, allow=allow)
    assert "SECRET" not in _everything_said(raised.value)
    assert raised.value.location == f"{http_server.url}/d/f.bin?…"


def test_an_unreachable_signed_url_is_not_shown(root: Path) -> None:
    with FileServer() as server:
        url = server.url
    declare(root, f"{url}/f.bin?sig=SECRET")
    allow = {url: zm.anonymous(retry_config=NO_RETRIES)}
    with pytest.raises(zm.errors.SourceError) as raised:
        read(root, allow=allow)
    assert "SECRET" not in _everything_said(raised.value)


def test_logs_do_not_show_signed_queries(
    root: Path, http_server: FileServer, caplog: pytest.LogCaptureFixture
) -> None:
    http_server.put("d/f.bin", RAW)
    caplog.set_level("DEBUG")
    declare(root, f"{http_server.url}/d/f.bin?sig=SECRET&se=1")
    assert read(root, allow=[http_server.url]) == VALUES
    assert "/d/f.bin" in caplog.text
    assert "SECRET" not in caplog.text


# ---------------------------------------------------------------- credentials


@pytest.fixture
def s3_file(root: Path, s3_server: S3Server, s3_bucket: str) -> str:
    """The prefix of a private object, which the array refers to."""
    s3_server.put(s3_bucket, "d/f.bin", RAW)
    s3_server.clear()
    declare(root, f"s3://{s3_bucket}/d/f.bin")
    return f"s3://{s3_bucket}/d/"


@pytest.fixture
def credentials_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret-session-token")


@pytest.mark.usefixtures("credentials_in_environment")
def test_environment_credentials_are_not_used_unasked(
    root: Path, s3_server: S3Server, s3_file: str
) -> None:
    allow = {s3_file: s3_server.location_options}
    refused(root, zm.errors.SourceAccessDeniedError, allow=allow)
    assert s3_server.requests
    assert not any(r.signed for r in s3_server.requests)


@pytest.mark.usefixtures("credentials_in_environment")
def test_environment_credentials_do_not_spread_to_other_prefixes(
    root: Path, s3_server: S3Server, s3_bucket: str, public_s3_bucket: str
) -> None:
    s3_server.put(s3_bucket, "d/f.bin", RAW)
    s3_server.put(public_s3_bucket, "f.bin", RAW)
    s3_server.clear()
    declare(root, f"s3://{s3_bucket}/d/f.bin", f"s3://{public_s3_bucket}/f.bin")
    allow = {
        f"s3://{s3_bucket}/d": zm.environment(**s3_server.location_options),
        f"s3://{public_s3_bucket}": zm.anonymous(**s3_server.location_options),
    }
    assert read(root, allow=allow) == VALUES * 2
    assert s3_server.requests
    for request in s3_server.requests:
        assert request.signed == request.path.startswith(f"/{s3_bucket}/")


def test_stated_credentials_are_not_mixed_with_a_session_token(
    root: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain server, to see the headers."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret-session-token")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other-key")
    http_server.put("bucket/f.bin", RAW)
    declare(root, "s3://bucket/f.bin")
    options = {
        "endpoint": http_server.url,
        "region": "us-east-1",
        "virtual_hosted_style_request": False,
        "client_options": {"allow_http": True},
        "access_key_id": "stated-key",
        "secret_access_key": "stated",
    }
    assert read(root, allow={"s3://bucket": options}) == VALUES
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
    with pytest.raises(zm.errors.SourceNotFoundError) as raised:
        zarr.open_array(store, path="a", mode="r")[...]
    assert "SECRET" not in _everything_said(raised.value)
    assert "SECRET" not in f"{store} {store!r}"


def test_a_store_of_the_bucket(root: Path, s3_server: S3Server, s3_file: str) -> None:
    store = obstore.store.S3Store(s3_file.split("/")[2], **s3_server.options)
    assert read(root, allow={s3_file: store}) == VALUES


@pytest.mark.parametrize("depth", [0, 1])
def test_a_store_with_a_prefix(root: Path, s3_server: S3Server, s3_file: str, depth: int) -> None:
    bucket = s3_file.split("/")[2]
    store = obstore.store.S3Store(bucket, prefix="d", **s3_server.options)
    assert read(root, allow={[f"s3://{bucket}", s3_file][depth]: store}) == VALUES
    assert {r.path for r in s3_server.requests} == {f"/{bucket}/d/f.bin"}
