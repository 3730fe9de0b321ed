"""Locations: one canonical form per object, and no path that parsers may read differently."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.locations.location_strategies import (
    STORE,
    encoded,
    hostile,
    plausible,
    resolved,
    segments,
    urls,
)
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import Base, StoreLocation, UrlLocation, redact

BUCKET = Base.parse("s3://b/data/")
WEB = Base.parse("https://example.com/data/")

# ---------------------------------------------------------------- properties


@given(urls() | plausible, st.sampled_from([STORE, BUCKET, WEB, Base.parse("/data/")]))
def test_resolving_again_changes_nothing(path: str, base: Base) -> None:
    location = resolved(path, base)
    if isinstance(location, UrlLocation):
        assert location.url.isascii()
        assert STORE.resolve(location.url) == location
    else:
        again = Base.parse("./").resolve("./" + "/".join(map(encoded, location.key.split("/"))))
        assert again == location


@given(plausible, st.sampled_from([STORE, BUCKET, WEB]))
@example("..//x", BUCKET)
@example("../..//x", STORE)
def test_locations_are_canonical(path: str, base: Base) -> None:
    location = resolved(path, base)
    key = location.key if isinstance(location, StoreLocation) else location.path
    assert not key.startswith("/")
    assert not key.endswith("/")
    assert not {".", ".."} & set(key.split("/"))
    assert not re.search(r"[\x00-\x1f\x7f\\]", key)
    assert isinstance(location, UrlLocation) or "" not in key.split("/")


@pytest.mark.slow
@given(st.lists(segments.map(encoded) | st.sampled_from([".", "..", ""]), min_size=1))
def test_a_relative_path_stays_in_its_store(parts: list[str]) -> None:
    path = "./" + "/".join(parts)
    assert isinstance(resolved(path, STORE), StoreLocation)
    location = resolved(path, BUCKET)
    assert isinstance(location, UrlLocation)
    assert location.origin == "s3://b"


@given(hostile)
def test_arbitrary_text_raises_nothing_else(text: str) -> None:
    for base in STORE, BUCKET, WEB:
        try:
            base.resolve(text)
            Base.parse(text)
        except InvalidPathError as error:
            assert error.location == redact(text)  # noqa: PT017


@given(st.lists(segments, min_size=1), st.sampled_from(["./", "s3://b/", "http://h/"]))
def test_percent_encoding_round_trips(names: list[str], base: str) -> None:
    location = Base.parse(base).resolve("./" + "/".join(map(encoded, names)))
    key = location.key if isinstance(location, StoreLocation) else location.path
    assert key == "/".join(names)


# ---------------------------------------------------------------- resolution


# What most paths resolve to is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("s3://b/data/", "gs://c/f.nc", "gs://c/f.nc"),
        ("s3://b/my-data/", "x//y", "s3://b/my-data/x//y"),
        ("https://h/d/", 'f.nc?a=%2F+ b"', "https://h/d/f.nc?a=%2F+%20b%22"),
        ("https://h/d/f.nc?a", "?b", "https://h/d/f.nc?b"),
        ("./", "S3://My.Bucket/K", "s3://My.Bucket/K"),
        ("./", "s3://b/a+b%2Bc", "s3://b/a%2Bb%2Bc"),
        ("./", "http://example.com:443/A", "http://example.com:443/A"),
        ("./", "/C:/f", "file:///C:/f"),
        ("./", "az://$web/f", "az://$web/f"),
        ("./", "https://0x7f.example/A", "https://0x7f.example/A"),
    ],
)
def test_urls(base: str, path: str, expected: str) -> None:
    location = Base.parse(base, directory="a/sst").resolve(path)
    assert isinstance(location, UrlLocation)
    assert location.url == expected


@given(st.ip_addresses(v=6), st.booleans())
def test_addresses_are_compared_as_numbers(address: IPv6Address, upper: bool) -> None:
    spelled = address.exploded.upper() if upper else address.exploded
    long, short = (STORE.resolve(f"http://[{text}]/f") for text in (spelled, address.compressed))
    assert long == short


@given(st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_numbers_are_a_host_only_as_an_address(numbers: list[int]) -> None:
    host = ".".join(map(str, numbers))
    if len(numbers) == 4 and max(numbers) < 256:
        assert str(STORE.resolve(f"http://{host}/f")) == f"http://{host}/f"
    else:
        with pytest.raises(InvalidPathError):
            STORE.resolve(f"http://{host}/f")


def test_forms_of_a_url() -> None:
    location = STORE.resolve("https://h:8443/a b?sig=secret")
    assert isinstance(location, UrlLocation)
    assert location == UrlLocation("https", "h:8443", "a b", "sig=secret")
    assert location.origin == "https://h:8443"
    assert str(location) == location.redacted == "https://h:8443/a%20b?…"
    assert hash(location) == hash(STORE.resolve("HTTPS://H:8443/a%20b?sig=secret"))


# ---------------------------------------------------------------- refused


# One of each problem; which paths have them is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "empty"),
        ("https://h?x", "directory"),
        ("s3://b/..", "climbs"),
        ("..%2Ff", "encoded slash"),
        ("s3://b/%2e./f", "encoded dot"),
        ("///x", "'//'"),
        ("s3://b/x/..//f", "empty segment"),
        ("/.//host/f", "empty segment"),
        ("https:\\\\h/f", "backslash"),
        ("s3://b\t/f", "control"),
        ("https://h/f?x=%0a", "control"),
        ("https://h/f?x=\ud800", "surrogate"),
        ("https://h/f?x=%zz", "bare '%'"),
        ("x%4", "bare '%'"),
        ("%ed%a0%80", "UTF-8"),
        ("https://h/f#y", "fragment"),
        ("?", "query"),
        ("s3://b/f?", "query"),
        ("C:/x", "scheme 'c'"),
        ("s3:/b/f", "no bucket"),
        ("https:///h/f", "no bucket or host"),
        ("s3://../f", "no valid bucket"),
        ("s3://%62/f", "no valid bucket"),
        ("s3://b:9000/f", "no valid bucket"),
        ("s3://bücket/f", "no valid bucket"),
        ("abfs://a@b@c/f", "no valid bucket"),
        ("abfs://@account/f", "no valid bucket"),
        ("s3://key:secret@b/f", "credentials"),
        ("https://user:secret@h/f", "credentials"),
        ("https://example.com@evil.com/f", "credentials"),
        ("https://example%2ecom/f", "no valid host"),
        ("https://h:0x50/f", "no valid host"),
        ("https:// h/f", "no valid host"),
        ("https://[::1.2.3]/f", "no valid IP address"),
        ("https://0X7F000001/f", "no valid IP address"),
        ("file://C:/f", "another host"),
        ("file://localhost", "no absolute path"),
    ],
)
def test_errors_say_what_is_wrong_with_a_path(path: str, problem: str) -> None:
    with pytest.raises(InvalidPathError, match=re.escape(problem)) as caught:
        STORE.resolve(path)
    assert caught.value.location == redact(path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "remedy"), [("x#y", "%23"), ("x?y", "%3F"), ("100%", "%25"), ("a:b", "s3, gs, gcs")]
)
def test_remedies(path: str, remedy: str) -> None:
    with pytest.raises(InvalidPathError) as caught:
        STORE.resolve(path)
    assert caught.value.remedy is not None
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("directory", ["..", "a/../b", "a//b", "a/./b"])
def test_refused_directories(directory: str) -> None:
    with pytest.raises(ValueError, match="not the path of an array"):
        Base.parse("./", directory=directory)


def test_the_directory_is_not_decoded() -> None:
    assert Base.parse("./", directory="/50%/a#b/").resolve("f") == StoreLocation("50%/a#b/f")
    assert Base.parse("./").resolve("f") == StoreLocation("f")
