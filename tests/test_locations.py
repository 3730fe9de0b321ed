"""Locations: one canonical form per object, and an allow-list that look-alikes do not pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from zarr_manifest._locations import (
    AllowList,
    Base,
    Location,
    StoreLocation,
    UrlLocation,
    redact,
    suggest_prefixes,
)
from zarr_manifest.errors import InvalidPathError

STORE = Base.parse("./", directory="a/sst")
BUCKET = Base.parse("s3://b/data/")
WEB = Base.parse("https://example.com/data/")

# ---------------------------------------------------------------- strategies

characters = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\")
segments = st.text(characters, min_size=1, max_size=8).filter(lambda s: s not in {".", ".."})
# Fragments out of which parsers' disagreements are made: legal by themselves, or not.
tricky = ["/", "//", ".", "..", "%2e", "%25", "@", ":", " ", "é", "a", "b.nc", "s3:", "file:"]
illegal = ["%2F", "%5c", "%00", "%", "\\", "?", "#", "\t", "\n", "\ud800", "http:", "localhost"]
hostile = st.lists(st.sampled_from(tricky + illegal), max_size=10).map("".join)
plausible = st.lists(st.sampled_from(tricky), max_size=6).map(lambda x: f"./{''.join(x)}z")


def encoded(segment: str) -> str:
    """Percent-encode as another writer may: everything that is not alphanumeric, but dots."""
    return "".join(
        c if c == "." or (c.isascii() and c.isalnum()) else "".join(f"%{b:02x}" for b in c.encode())
        for c in segment
    )


def resolved(path: str, base: Base = STORE) -> Location:
    """Resolve, or let hypothesis try another one."""
    try:
        return base.resolve(path)
    except InvalidPathError:
        assume(False)
        raise


@st.composite
def urls(draw: st.DrawFn) -> str:
    path = "/".join(encoded(s) for s in draw(st.lists(segments, min_size=1, max_size=4)))
    scheme = draw(st.sampled_from(["s3", "gs", "abfs", "http", "https", "file", "memory"]))
    authority = {
        "http": draw(st.sampled_from(["example.com", "example.com:8080", "[::1]:80"])),
        "https": draw(st.sampled_from(["example.com", "EXAMPLE.com:443"])),
        "abfs": "c@account.dfs.core.windows.net",
        "file": draw(st.sampled_from(["", "localhost"])),
    }.get(scheme, draw(st.sampled_from(["b", "b2", "My.Bucket"])))
    query = draw(st.sampled_from(["", "?sig=%2Fa+b&x=é", "?a@b"])) if "http" in scheme else ""
    return f"{scheme}://{authority}/{path}{query}"


url_locations = urls().map(lambda url: resolved(url)).filter(lambda x: isinstance(x, UrlLocation))


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


@given(urls(), segments)
def test_siblings_that_look_alike_do_not_match(url: str, suffix: str) -> None:
    url = url.partition("?")[0]
    allowed = AllowList([url])
    for trailing in "", "/x", "/x/y":
        sibling = resolved(url + encoded(suffix) + trailing)
        assert isinstance(sibling, UrlLocation)
        assert allowed.match(sibling) is None
        below = resolved(f"{url}/{encoded(suffix)}{trailing}")
        assert isinstance(below, UrlLocation)
        assert allowed.match(below) == url


@given(url_locations, url_locations)
def test_a_prefix_matches_by_segments(prefix: UrlLocation, location: UrlLocation) -> None:
    url = prefix.url.partition("?")[0]
    above = prefix.path.split("/")
    expected = prefix.origin == location.origin and location.path.split("/")[: len(above)] == above
    assert (AllowList([url]).match(location) == url) is expected
    assert (AllowList([url + "/"]).match(location) == url + "/") is expected


@given(st.lists(url_locations))
def test_suggestions_cover(locations: list[UrlLocation]) -> None:
    suggestions = suggest_prefixes(locations)
    allowed = AllowList(suggestions)
    assert suggestions == sorted(set(suggestions))
    assert "file:///" not in suggestions
    assert {allowed.match(location) for location in locations} <= set(suggestions)
    for suggestion in suggestions:
        assert suggestion.isascii()
        assert "?" not in suggestion


@given(st.text(max_size=20) | hostile | urls())
def test_redaction_is_idempotent(text: str) -> None:
    assert redact(redact(text)) == redact(text)


secrets = st.text("abcXYZ0189-._~%!$&*+,;=", min_size=1).map(lambda s: f"<{s}>")


@given(secrets, st.sampled_from(["https", "s3", "abfs", "file", "x", " https", "ht\ttps", "C"]))
def test_redaction_hides_passwords_and_signatures(secret: str, scheme: str) -> None:
    for text in (
        f"{scheme}://user:{secret}@host/x",
        f"{scheme}://user:{secret}@host:80?x#y",
        f"{scheme}://host/x?sig={secret}",
        f"{scheme}://host/x#token={secret}",
    ):
        assert secret not in redact(text)
        with pytest.raises(InvalidPathError) as caught:
            STORE.resolve(text.replace("?", "#"))
        assert secret not in str(caught.value)
        with pytest.raises(ValueError, match="cannot be a prefix") as refused:
            AllowList([text])
        assert secret not in str(refused.value)


# ---------------------------------------------------------------- resolution


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("./", "f.nc", "a/sst/f.nc"),
        (".", "f.nc", "a/sst/f.nc"),
        ("x", "f.nc", "a/sst/f.nc"),
        ("x/", "f.nc", "a/sst/x/f.nc"),
        ("..", "f.nc", "a/f.nc"),
        ("../../", "f.nc", "f.nc"),
        ("./", "../../f.nc", "f.nc"),
        ("./", "x//../f.nc", "a/sst/x/f.nc"),
        ("./", "x/./f%20g.nc", "a/sst/x/f g.nc"),
        ("./", "f g é.nc", "a/sst/f g é.nc"),
        ("./", "%C3%A9", "a/sst/é"),
        ("./", "a%252fb", "a/sst/a%2fb"),
        ("./", "./a:b", "a/sst/a:b"),
        ("./", "2020-01-01T00:00.nc", "a/sst/2020-01-01T00:00.nc"),
        ("./", "%3F%23%25%40", "a/sst/?#%@"),
        ("./", "...", "a/sst/..."),
        ("./", "..a/b..", "a/sst/..a/b.."),
        ("./", "f%2enc", "a/sst/f.nc"),
        ("./", "x@y/z", "a/sst/x@y/z"),
    ],
)
def test_relative_to_the_store(base: str, path: str, expected: str) -> None:
    location = Base.parse(base, directory="a/sst").resolve(path)
    assert location == StoreLocation(expected)
    assert str(location) == expected


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("s3://b/data/", "f.nc", "s3://b/data/f.nc"),
        ("s3://b/data", "f.nc", "s3://b/f.nc"),
        ("s3://b", "f.nc", "s3://b/f.nc"),
        ("s3://b/data/x/..", "f.nc", "s3://b/data/f.nc"),
        ("s3://b/data/", "../f.nc", "s3://b/f.nc"),
        ("s3://b/data/", "/f.nc", "file:///f.nc"),
        ("s3://b/data/", "gs://c/f.nc", "gs://c/f.nc"),
        ("s3://b/my-data/", "x//y", "s3://b/my-data/x//y"),
        ("/data/", "f.nc", "file:///data/f.nc"),
        ("/data", "f.nc", "file:///f.nc"),
        ("file:/data/", "../f.nc", "file:///f.nc"),
        ("https://h/d/?token=x", "f.nc", "https://h/d/f.nc"),
        ("https://h/d/", 'f.nc?a=%2F+ b"', "https://h/d/f.nc?a=%2F+%20b%22"),
        ("https://h/d/f.nc?a", "?b", "https://h/d/f.nc?b"),
        ("./", "S3://My.Bucket/K", "s3://My.Bucket/K"),
        ("./", "s3://b/my-data/../other", "s3://b/other"),
        ("./", "s3://b/a+b%2Bc", "s3://b/a%2Bb%2Bc"),
        ("./", "HTTP://EXAMPLE.com:80/A", "http://example.com/A"),
        ("./", "http://example.com:443/A", "http://example.com:443/A"),
        ("./", "https://example.com:00443/A", "https://example.com/A"),
        ("./", "https://example.com:/A", "https://example.com/A"),
        ("./", "https://[2001:DB8::1]:8443/A", "https://[2001:db8::1]:8443/A"),
        ("./", "https://h/f?", "https://h/f"),
        ("./", "FILE://LocalHost/f", "file:///f"),
        ("./", "file:///data//f", "file:///data//f"),
        ("./", "/C:/f", "file:///C:/f"),
        ("./", "abfss://c@acc.dfs.core.windows.net/f", "abfss://c@acc.dfs.core.windows.net/f"),
        ("./", "az://$web/f", "az://$web/f"),
        ("./", "memory://m/f", "memory://m/f"),
    ],
)
def test_urls(base: str, path: str, expected: str) -> None:
    location = Base.parse(base, directory="a/sst").resolve(path)
    assert isinstance(location, UrlLocation)
    assert location.url == expected


def test_forms_of_a_url() -> None:
    location = STORE.resolve("https://h:8443/a b?sig=secret")
    assert isinstance(location, UrlLocation)
    assert location == UrlLocation("https", "h:8443", "a b", "sig=secret")
    assert location.origin == "https://h:8443"
    assert str(location) == location.redacted == "https://h:8443/a%20b?…"
    assert hash(location) == hash(STORE.resolve("HTTPS://H:8443/a%20b?sig=secret"))


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "empty"),
        (".", "directory"),
        ("..", "directory"),
        ("dir/", "directory"),
        ("dir/.", "directory"),
        ("s3://b", "directory"),
        ("s3://b/", "directory"),
        ("s3://b/dir/", "directory"),
        ("https://h?x", "directory"),
        ("/", "directory"),
        ("file:///", "directory"),
        ("../../../f", "climbs"),
        ("x/../../../../f", "climbs"),
        ("s3://b/../f", "climbs"),
        ("s3://b/..", "climbs"),
        ("/../etc/passwd", "climbs"),
        ("file:///data/../../etc/passwd", "climbs"),
        ("x%2fy", "encoded slash"),
        ("..%2Ff", "encoded slash"),
        ("s3://b/x%5Cy", "encoded slash or backslash"),
        ("%2e%2e/f", "encoded dot"),
        ("%2E", "encoded dot"),
        (".%2e/f", "encoded dot"),
        ("s3://b/%2e./f", "encoded dot"),
        ("//host/x", "'//'"),
        ("//host", "'//'"),
        ("///x", "'//'"),
        ("a//b", "empty segment"),
        ("s3://b//f", "empty segment"),
        ("s3://b/x/..//f", "empty segment"),
        ("file:////etc/passwd", "empty segment"),
        ("/.//host/f", "empty segment"),
        ("x\\y", "backslash"),
        ("\\\\host\\x", "backslash"),
        ("https:\\\\h/f", "backslash"),
        ("x\x00", "control"),
        ("x\ny", "control"),
        ("s3://b\t/f", "control"),
        ("ht\ttp://h/f", "control"),
        ("x\x7f", "control"),
        ("x\x85", "control"),
        ("x\ud800", "surrogate"),
        ("x%00", "control"),
        ("x%0d%0a", "control"),
        ("%7F", "control"),
        ("%C2%85", "control"),
        ("https://h/f?x=%0a", "control"),
        ("https://h/f?x=\ud800", "surrogate"),
        ("https://h/f?x=%zz", "bare '%'"),
        ("%zz", "bare '%'"),
        ("x%", "bare '%'"),
        ("x%4", "bare '%'"),
        ("%ff", "UTF-8"),
        ("%c0%ae%c0%ae/f", "UTF-8"),
        ("%ed%a0%80", "UTF-8"),
        ("x#y", "fragment"),
        ("https://h/f#y", "fragment"),
        ("x?y", "query"),
        ("?", "query"),
        ("s3://b/f?versionId=1", "query"),
        ("s3://b/f?", "query"),
        ("/data/f?x", "query"),
        ("C:/x", "scheme 'c'"),
        ("a:b", "scheme 'a'"),
        ("javascript:x", "scheme 'javascript'"),
        ("s3a://b/f", "scheme 's3a'"),
        ("s3:///f", "no bucket"),
        ("s3:f", "no bucket"),
        ("s3:/b/f", "no bucket"),
        ("https:///h/f", "no bucket or host"),
        ("memory:///f", "no bucket"),
        ("s3://../f", "no valid bucket"),
        ("s3://%62/f", "no valid bucket"),
        ("s3://b:9000/f", "no valid bucket"),
        ("s3://bücket/f", "no valid bucket"),
        ("abfs://u:p@account/f", "no valid bucket"),
        ("abfs://a@b@c/f", "no valid bucket"),
        ("abfs://@account/f", "no valid bucket"),
        ("az://c@account/f", "credentials"),
        ("s3://key:secret@b/f", "credentials"),
        ("https://user@h/f", "credentials"),
        ("https://user:secret@h/f", "credentials"),
        ("https://example.com@evil.com/f", "credentials"),
        ("https://example。com/f", "no valid host"),
        ("https://example%2ecom/f", "no valid host"),
        ("https://h:x/f", "no valid host"),
        ("https://h:65536/f", "no valid host"),
        ("https://h:0x50/f", "no valid host"),
        ("https://[::1/f", "no valid host"),
        ("https:// h/f", "no valid host"),
        ("file://host/f", "another host"),
        ("file://127.0.0.1/f", "another host"),
        ("file://C:/f", "another host"),
        ("file:f", "no absolute path"),
        ("file://localhost", "no absolute path"),
    ],
)
def test_refused_paths(path: str, problem: str) -> None:
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


@pytest.mark.parametrize("base", ["s3://b/data/", "https://h/data/", "/data/"])
def test_a_url_base_has_a_root(base: str) -> None:
    with pytest.raises(InvalidPathError, match="climbs"):
        Base.parse(base).resolve("../../f")


@pytest.mark.parametrize("reference", ["../../../", "..//../../..", "//h/", "a//", "x?y", "%2e/"])
def test_refused_bases(reference: str) -> None:
    with pytest.raises(InvalidPathError):
        Base.parse(reference, directory="a/sst")


@pytest.mark.parametrize("directory", ["..", "a/../b", "a//b", "a/./b"])
def test_refused_directories(directory: str) -> None:
    with pytest.raises(ValueError, match="not the path of an array"):
        Base.parse("./", directory=directory)


def test_the_directory_is_not_decoded() -> None:
    assert Base.parse("./", directory="/50%/a#b/").resolve("f") == StoreLocation("50%/a#b/f")
    assert Base.parse("./").resolve("f") == StoreLocation("f")


# ---------------------------------------------------------------- authorisation


@pytest.mark.parametrize(
    ("prefix", "path", "allowed"),
    [
        ("s3://b/my-data", "s3://b/my-data", True),
        ("s3://b/my-data/", "s3://b/my-data", True),
        ("s3://b/my-data/", "s3://b/my-data/x/y", True),
        ("s3://b/my-data", "s3://b/my-data2", False),
        ("s3://b/my-data/", "s3://b/my-data2/x", False),
        ("s3://b/my-data", "s3://b/my-data/../other", False),
        ("s3://b/my-data", "s3://b/MY-DATA/x", False),
        ("s3://b/my-data", "s3://b/my", False),
        ("s3://b/my-data", "s3://b/x/my-data/x", False),
        ("s3://b/a%20b", "s3://b/a b/x", True),
        ("s3://b/x/../my-data", "s3://b/my-data/x", True),
        ("s3://b", "s3://b/x", True),
        ("s3://b/", "s3://b/x", True),
        ("s3://b", "s3://b2/x", False),
        ("s3://b", "s3://B/x", False),
        ("s3://b", "s3://b.evil.com/x", False),
        ("s3://b", "gs://b/x", False),
        ("gs://b", "gcs://b/x", False),
        ("http://h/", "https://h/x", False),
        ("https://h/", "http://h/x", False),
        ("https://h/", "https://h:8443/x", False),
        ("https://h:8443/", "https://h/x", False),
        ("HTTPS://H:443", "https://h/x?sig=1", True),
        ("https://example.com", "https://example.com.evil.com/x", False),
        ("https://example.com", "https://example.com./x", False),
        ("abfs://c@account", "abfs://c2@account/x", False),
        ("/data/", "/data/x", True),
        ("/data", "file://localhost/data/x", True),
        ("/data", "/data//x", True),
        ("/data", "/data2/x", False),
        ("/data", "/data/../etc/passwd", False),
        ("file:///", "/etc/passwd", True),
        ("file:///", "s3://b/x", False),
    ],
)
def test_matching(prefix: str, path: str, allowed: bool) -> None:
    location = STORE.resolve(path)
    assert isinstance(location, UrlLocation)
    assert AllowList([prefix]).match(location) == (prefix if allowed else None)


def test_the_longest_prefix_wins_and_the_first_of_equals() -> None:
    allowed = AllowList(["s3://b", "s3://b/x/y/", "S3://b/x/y", "s3://b/x"])
    location = UrlLocation("s3", "b", "x/y/z")
    assert allowed.match(location) == "s3://b/x/y/"
    assert allowed.match(UrlLocation("s3", "b", "x/z")) == "s3://b/x"
    assert allowed.match(UrlLocation("s3", "b", "z")) == "s3://b"
    assert allowed.normalized("S3://b/x/y") == UrlLocation("s3", "b", "x/y")


@pytest.mark.parametrize("path", ["x/../../etc", "x/.", ".."])
def test_a_location_made_by_hand_cannot_climb(path: str) -> None:
    assert AllowList(["s3://b"]).match(UrlLocation("s3", "b", path)) is None


def test_nothing_is_allowed_by_default() -> None:
    assert AllowList([]).match(UrlLocation("s3", "b", "x")) is None


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        ("", "relative"),
        ("data/", "relative"),
        ("./data", "file path"),
        ("b", "relative"),
        ("../x", "climbs"),
        ("s3://", "no bucket"),
        ("https://", "no bucket or host"),
        ("file://", "no absolute path"),
        ("https://h/x?y", "query"),
        ("https://h/x?", "query"),
        ("s3://b/a//b", "empty segment"),
        ("s3://b/a//", "empty segment"),
        ("//h/x", "Write the URL with its scheme"),
        ("https://u:p@h/", "credentials"),
        ("s3://b/%2e%2e/", "encoded dot"),
        ("s3://b/*\n", "control"),
        ("*", "relative"),
    ],
)
def test_refused_prefixes(prefix: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        AllowList(["s3://b", prefix])
    assert "u:p" not in str(caught.value)


def test_one_string_is_not_a_list_of_prefixes() -> None:
    with pytest.raises(TypeError, match="not one string"):
        AllowList("/data")


def test_an_unknown_prefix_is_not_a_key_error() -> None:
    with pytest.raises(ValueError, match="not one of the prefixes"):
        AllowList(["s3://b"]).normalized("s3://b/")


# ---------------------------------------------------------------- suggestions


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["s3://b/f"], ["s3://b/"]),
        (["s3://b/x/f", "s3://b/xy/f"], ["s3://b/"]),
        (["s3://b/x/y/f", "s3://b/x/z"], ["s3://b/x/"]),
        (["s3://b/x y/f"], ["s3://b/x%20y/"]),
        (["s3://b/x//y/f"], ["s3://b/x/"]),
        (["s3://b/x/f", "s3://c/f", "https://h:8/f?sig"], ["https://h:8/", "s3://b/x/", "s3://c/"]),
        (["/f"], ["file:///f"]),
        (["/data/f", "/data/x/f"], ["file:///data/"]),
        (["/f g", "/data/x/f"], ["file:///data/x/", "file:///f%20g"]),
        (["/d/x/f", "/d/y/z/f", "/e/f"], ["file:///d/x/", "file:///d/y/z/", "file:///e/"]),
        (["/d/f", "/d/y/z/f", "/e/f"], ["file:///d/", "file:///e/"]),
        (["/home/me/a/1", "/home/me/a/b/2", "/d/e/f"], ["file:///d/e/", "file:///home/me/a/"]),
    ],
)
def test_suggestions(paths: list[str], expected: list[str]) -> None:
    locations = [STORE.resolve(path) for path in paths]
    assert suggest_prefixes(x for x in locations if isinstance(x, UrlLocation)) == expected


# ---------------------------------------------------------------- redaction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("data/a@b.nc", "data/a@b.nc"),
        ("data/f.nc?sig=x", "data/f.nc?…"),
        ("s3://b/a@b:c.nc", "s3://b/a@b:c.nc"),
        ("s3://key:secret@b/f", "s3://b/f"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
        ("https://u:p@h/f?x=a@b#c", "https://h/f?…"),
        ("https://u:p%40h/f", "https://h/f"),
        ("https://u:pa/ss@h/f", "https://h/f"),
        ("https://u:pa?ss@h/f", "https://h/f"),
        ("https:///u:p@h/f", "https:///h/f"),
        ("https:\\\\u:p@h/f", "https:\\\\h/f"),
        ("//u:p@h/f", "//h/f"),
        ("u:p@h/f", "u:h/f"),
        ("file:///a@b/f", "file:///a@b/f"),
        ("file://u:p@h/f", "file://h/f"),
        ("abfs://c@account/f", "abfs://c@account/f"),
        ("ABFSS://u:p@account/f", "ABFSS://account/f"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    assert redact(text) == expected
