"""Paths that are resolved together are what each is by itself."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.locations.location_strategies import STORE, hostile, plausible, urls
from tests.properties import examples
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import Base, Location, resolver

BASES = st.sampled_from(
    [
        STORE,
        Base.parse("s3://b/data/"),
        Base.parse("s3://b/data/file.nc"),
        Base.parse("http://h/a/?q=1"),
        Base.parse("/data/"),
        Base("", "", ""),
    ]
)
# The same directories again and again.
NAMES = st.builds(
    "{}{}".format,
    st.sampled_from(["", "a/", "../", "../../../", "s3://b/", "s3://", "http://h/a?b/", "//", "/"])
    | hostile
    | plausible,
    st.sampled_from(["x", "y.nc", "..", "a b", "Z-1_2", ""]),
)


def outcome(path: str, base: Base) -> Location | tuple[str, ...]:
    try:
        return base.resolve(path)
    except InvalidPathError as error:
        return str(error), error.code


@pytest.mark.slow
@given(BASES, st.lists(NAMES | urls(), max_size=8))
@examples(4)
@example(Base("", "", ""), ["s3://x", "s3://bucket", "s3://b/", "C:/x", "C:/x"])
@example(STORE, ["file:///x", "file:///y", "/x", "//x", "http://h?a/x", "http://h/?a/x"])
def test_together_as_each_by_itself(base: Base, paths: list[str]) -> None:
    resolve = resolver(base)
    for path in paths:
        expected = outcome(path, base)
        if isinstance(expected, tuple):
            with pytest.raises(InvalidPathError) as raised:
                resolve(path)
            assert (str(raised.value), raised.value.code) == expected
        else:
            assert resolve(path) == expected
