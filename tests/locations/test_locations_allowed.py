"""What the reader authorised: an allow-list that look-alikes do not pass, and what to add to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.locations.location_strategies import (
    STORE,
    encoded,
    resolved,
    segments,
    url_locations,
    urls,
)
from zarr_manifest.locations import AllowList, UrlLocation, suggest_prefixes

# ---------------------------------------------------------------- properties


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


@pytest.mark.slow
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


# ---------------------------------------------------------------- authorisation


@pytest.mark.parametrize(
    ("prefix", "path", "allowed"),
    [
        ("s3://b/my-data", "s3://b/my-data2", False),
        ("s3://b", "s3://b.evil.com/x", False),
        ("HTTPS://H:443", "https://h/x?sig=1", True),
        ("https://example.com", "https://example.com./x", False),
        ("abfs://c@account", "abfs://c2@account/x", False),
        ("/data", "/data//x", True),
        ("/data", "/data/../etc/passwd", False),
        ("file:///", "/etc/passwd", True),
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


def test_matching_a_long_path_is_quick() -> None:
    """A manifest is untrusted: were the time quadratic, this would take minutes."""
    allowed = AllowList(["s3://b/a", "s3://c"])
    assert allowed.match(UrlLocation("s3", "b", "a/" * 300_000 + "f")) == "s3://b/a"
    assert allowed.match(UrlLocation("s3", "b2", "a/" * 300_000 + "f")) is None


def test_nothing_is_allowed_by_default() -> None:
    assert AllowList([]).match(UrlLocation("s3", "b", "x")) is None


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        ("", "relative"),
        ("./data", "file path"),
        ("../x", "climbs"),
        ("s3://", "no bucket"),
        ("file://", "no absolute path"),
        ("https://h/x?y", "query"),
        ("s3://b/a//", "empty segment"),
        ("//h/x", "Write the URL with its scheme"),
        ("https://u:p@h/", "credentials"),
        ("s3://b/%2e%2e/", "encoded dot"),
        ("s3://b/*\n", "control"),
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
    with pytest.raises(ValueError, match="not a prefix in this list"):
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
