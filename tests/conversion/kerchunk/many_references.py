"""Reference sets of several arrays, as hypothesis draws them and as JSON may be written."""

from __future__ import annotations

import base64
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.conversion.kerchunk.kerchunk_sets import zarray

__all__ = ["JSONSet", "calls", "json_sets", "plain_json"]

URLS = (
    "s3://b/a.nc",
    "s3://b/ü x.nc",
    "s3://{{u}}/f.nc",
    "/data/x.nc",
    "https://example.com/a b?x=1",
    's3://b/],"x.nc',
    "s3://b/v.nc?versionId=1",
)
TEXTS = ("text", 'a],"b', '],\n "x": [1,2],', 'ü"q\\', "1\n2")
PATHS = ("a", "b", "g/c", "g/d", "a/0", "deep/x/y", "z.zip", "zarr.jsonx", "")

_VALUES = st.one_of(
    st.tuples(st.sampled_from(URLS), st.integers(0, 2**50), st.integers(1, 2**50)).map(list),
    st.tuples(st.sampled_from(URLS)).map(list),
    st.binary(min_size=1, max_size=9).map(lambda b: "base64:" + base64.b64encode(b).decode()),
    st.sampled_from(TEXTS),
    st.just({"parsed": 'inline [1], "text"'}),
)
# What no manifest expresses, or not with a similar value elsewhere.
_RANGES: list[Any] = [(0,), (5,), (1.0, 2), (-1, 5), (0, 0), (2**53, 1), (2**70, 1), (True, 1)]
_MISTAKES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([["s3://b/f", *numbers] for numbers in (*_RANGES, (1, 2, 3))]),
    st.sampled_from([["ftp://h/f"], ["ftp://h/f", 1, 2], ["zip://x::s3://b/z", 1, 2]]),
    st.sampled_from([["s3://b/v.nc"], [], [None], [None, 1, 2], [["x"], "y"]]),
    st.sampled_from([None, 5, "", "base64:!!", "\ud800"]),
)
_KEYS_OF_NO_CHUNK = ("00", "999999", "x", "0.0.0.0.0", "0/0/0/0/0", ".zarrayx", "1\n2")


@dataclass(frozen=True)
class JSONSet:
    """A reference set.

    Parameters
    ----------
    items : list of (str, object)
        Keys and values; of a repeated key, the last one counts.
    others : dict
        Members beside ``refs``; without any, the set is of version 0.
    escapes : bool
        Whether to write slashes as ``\\/``, as ujson does.
    separators : (str, str)
        What to write between members, and after their names.
    """

    items: list[tuple[str, Any]]
    others: dict[str, Any]
    escapes: bool
    separators: tuple[str, str]

    def parsed(self) -> dict[str, Any]:
        refs = dict(self.items)
        return {**self.others, "refs": refs} if self.others else refs

    def text(self) -> bytes:
        between, after = self.separators
        members = [self._dumps(key) + after + self._dumps(value) for key, value in self.items]
        refs = "{" + between.join(members) + "}"
        if self.others:
            refs = f"{json.dumps(self.others)[:-1]}, {self._dumps('refs')}: {refs}}}"
        return refs.encode()

    def _dumps(self, value: Any) -> str:
        text = json.dumps(value, separators=(self.separators[0].strip(), self.separators[1]))
        return text.replace("/", "\\/") if self.escapes else text


@st.composite
def json_sets(draw: st.DrawFn, *, with_mistakes: bool = False) -> JSONSet:
    values = _VALUES | _MISTAKES if with_mistakes else _VALUES
    members = [
        draw(_array(path, values, with_mistakes=with_mistakes))
        for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True))
    ]
    if with_mistakes:
        strays = st.lists(st.tuples(st.sampled_from(["no/0", "no/1", "no"]), values), max_size=3)
        members.append(draw(strays))
    others = draw(
        st.sampled_from(
            [
                {},
                {"version": 1},
                {"version": 1, "templates": {"u": "bucket"}},
                {"version": 1, "templates": {"u": "bucket"}, "gen": [_gen("a/{{i}}")]},
                {"version": 1, "gen": [_gen("deep/x/y/{{i}}"), _gen("no/{{i}}")]},
            ]
        )
    )
    items = draw(_in_some_order(members))
    for place in (
        draw(st.lists(st.integers(0, max(0, len(items) - 1)), max_size=2)) if items else ()
    ):
        key, value = items[place]
        items.append((key, value if key.endswith((".zarray", ".zattrs")) else draw(values)))
    separators = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,\n ", " : ")]))
    return JSONSet(items, others, draw(st.booleans()), separators)


def _gen(key: str) -> dict[str, Any]:
    numbers = {"offset": "{{i * 10}}", "length": "7", "dimensions": {"i": {"stop": 5}}}
    return {"key": key, "url": "s3://g/{{i}}", **numbers}


@st.composite
def _array(
    draw: st.DrawFn, path: str, values: st.SearchStrategy[Any], *, with_mistakes: bool
) -> list[tuple[str, Any]]:
    below = f"{path}/" if path else ""
    grid = draw(st.lists(st.integers(1, 4), max_size=3))
    separator = draw(st.sampled_from("./"))
    document = zarray(shape=grid, chunks=[1] * len(grid), dimension_separator=separator)
    indices = list(itertools.product(*map(range, grid)))
    found = (
        draw(st.lists(st.sampled_from(indices), unique=True)) if draw(st.booleans()) else indices
    )
    items = [(below + (separator.join(map(str, index)) or "0"), draw(values)) for index in found]
    if with_mistakes:
        wrong = st.tuples(st.sampled_from(_KEYS_OF_NO_CHUNK).map(below.__add__), values)
        items += draw(st.lists(wrong, max_size=2))
    attributes = (f"{below}.zattrs", draw(st.sampled_from([{"k": [1, 2]}, '{"k": [1], "l": "x"}'])))
    own = (f"{below}.zarray", json.dumps(document) if draw(st.booleans()) else document)
    return [own, attributes, *items]


@st.composite
def _in_some_order(draw: st.DrawFn, members: list[list[tuple[str, Any]]]) -> list[tuple[str, Any]]:
    """Put the arrays one after the other, or mix them, each in its own order."""
    if draw(st.booleans()):
        return list(itertools.chain(*members))
    rounds = itertools.zip_longest(*members)
    return [item for items in rounds for item in items if item is not None]


def plain_json(count: int, *, arrays: int = 1) -> bytes:
    """A set of plain references to a few files, as kerchunk writes it."""
    refs: dict[str, Any] = {".zgroup": '{"zarr_format":2}'}
    for array in range(arrays):
        document = zarray(shape=[count], chunks=[1])
        refs[f"a{array}/.zarray"] = json.dumps(document, indent=4)
    for number in range(count):
        for array in range(arrays):
            refs[f"a{array}/{number}"] = [f"s3://b/{number // 1000}.nc", number * 100, 100]
    return json.dumps({"version": 1, "refs": refs}).encode()


def calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, in Python or C, that the interpreter makes."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
