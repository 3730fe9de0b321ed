"""Chunk keys: every index has one spelling, and every other text is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zarr_manifest.format import (
    encode_relative,
    format_canonical,
    owner_candidates,
    parse_canonical,
    parse_relative,
)

COORDINATES = st.integers(0, 2**53 - 1) | st.integers(0, 12)
INDICES = st.lists(COORDINATES, max_size=5).map(tuple)
ENCODINGS = st.tuples(st.sampled_from(["default", "v2"]), st.sampled_from([".", "/"]))
# Text that is nearly a key: signs, spaces, other scripts' digits, superscripts, newlines.
NEARLY_KEYS = st.text("0123456789c./-+_ \n\u0661\u00b2\uff11a", max_size=12)
SEGMENTS = st.sampled_from(["a", "b2", "c", "cc", "0", "17", "2020", "0.3", "\u0661", "zarr.json"])
STORE_KEYS = st.lists(SEGMENTS, max_size=7).map("/".join)


@given(INDICES)
def test_canonical_round_trip(index: tuple[int, ...]) -> None:
    assert parse_canonical(format_canonical(index), len(index)) == index


@given(INDICES, ENCODINGS)
def test_relative_round_trip(index: tuple[int, ...], encoding: tuple[str, str]) -> None:
    assert parse_relative(encode_relative(index, *encoding), len(index), *encoding) == index


@given(NEARLY_KEYS, st.integers(0, 3))
@example("0.0", 1)
@example("1\n", 1)
@example("\u00b2", 1)
@example("", 0)
@example("", 1)
def test_canonical_key_has_one_spelling(key: str, ndim: int) -> None:
    index = parse_canonical(key, ndim)
    number = "(?:0|[1-9][0-9]*)"
    pattern = r"\.".join([number] * ndim) or "0"
    if re.fullmatch(pattern, key):
        assert index is not None
        assert format_canonical(index) == key
        assert len(index) == ndim
    else:
        assert index is None


@given(NEARLY_KEYS, st.integers(0, 3), ENCODINGS)
@example("c", 0, ("default", "/"))
@example("c/", 0, ("default", "/"))
@example("c/\uff11", 1, ("default", "/"))
@example("c", 1, ("default", "/"))
def test_relative_key_has_one_spelling(key: str, ndim: int, encoding: tuple[str, str]) -> None:
    name, separator = encoding
    index = parse_relative(key, ndim, name, separator)
    parts = ["c"] * (name == "default") + ["(?:0|[1-9][0-9]*)"] * ndim
    pattern = re.escape(separator).join(parts) or "0"
    if re.fullmatch(pattern, key):
        assert index is not None
        assert encode_relative(index, name, separator) == key
        assert len(index) == ndim
    else:
        assert index is None


def test_largest_coordinate() -> None:
    assert parse_canonical("9007199254740991.0", 2) == (2**53 - 1, 0)


@given(STORE_KEYS)
def test_candidates_are_all_ancestors_once(key: str) -> None:
    candidates = list(owner_candidates(key))
    segments = key.split("/") if key else []
    ancestors = ["/".join(segments[:n]) for n in reversed(range(len(segments)))]
    assert sorted(candidates) == sorted(ancestors)
    assert candidates[1:] == [path for path in ancestors if path not in candidates[:1]]


@given(STORE_KEYS.filter(bool))
def test_first_candidate_is_what_chunk_segments_leave(key: str) -> None:
    segments = key.split("/")
    while segments and re.fullmatch("[0-9]+", segments[-1]):
        segments.pop()
    if segments and segments[-1] == "c":
        segments.pop()
    likely = "/".join(segments)
    expected = likely if likely != key else key.rpartition("/")[0]
    assert next(owner_candidates(key)) == expected


@given(st.lists(st.sampled_from(["a", "b2", "cc", "c"]), max_size=3), INDICES, ENCODINGS)
def test_owner_is_among_the_candidates(
    path: list[str], index: tuple[int, ...], encoding: tuple[str, str]
) -> None:
    key = "/".join([*path, encode_relative(index, *encoding)])
    candidates = owner_candidates(key)
    if path[-1:] != ["c"]:
        assert next(candidates) == "/".join(path)
    else:
        assert "/".join(path) in candidates


@pytest.mark.parametrize(
    ("key", "candidates"),
    [
        ("a/b/c/0/3", ["a/b", "a/b/c/0", "a/b/c", "a", ""]),
        ("c/0", ["", "c"]),
        ("c", [""]),
        ("0", [""]),
        ("zarr.json", [""]),
        ("a/2020/c/0", ["a/2020", "a/2020/c", "a", ""]),
        ("a/2020/0", ["a", "a/2020", ""]),
        ("a2/3", ["a2", ""]),
        ("c/c", ["c", ""]),
        ("", []),
    ],
)
def test_candidates(key: str, candidates: list[str]) -> None:
    assert list(owner_candidates(key)) == candidates


@given(st.text("a0c/", max_size=10).filter(bool))
def test_key_itself_is_never_a_candidate(key: str) -> None:
    candidates = list(owner_candidates(key))
    assert key not in candidates
    assert "" in candidates
    assert len(set(candidates)) == len(candidates)
