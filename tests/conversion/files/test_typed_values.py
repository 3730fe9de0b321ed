"""Whatever attributes and coordinates hold comes back from JSON as it was."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zarr_manifest.conversion.files.typed_values import can_hold, from_json, to_json
from zarr_manifest.errors import Advice, Setting

DTYPES = (
    hnp.scalar_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.unicode_string_dtypes()
    | st.just(np.dtypes.StringDType())
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    if isinstance(dtype, np.dtypes.StringDType):
        return draw(hnp.arrays(object, shape, elements=TEXTS)).astype(dtype)
    found = draw(hnp.arrays(dtype, shape))
    return found[()] if found.shape == () else found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary() | arrays(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.slow
@given(VALUES)
def test_every_value_comes_back(value: Any) -> None:
    text = msgspec.json.encode(to_json(value))
    assert alike(from_json(msgspec.json.decode(text)), value)
    json.loads(text, parse_constant=pytest.fail)  # it is JSON: no NaN


def alike(found: Any, expected: Any) -> bool:
    """Whether two values are equal, of the same type, and NaN where the other is."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, np.ndarray | np.generic):
        same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
        return same and np.asarray(found).tolist().__repr__() == expected.tolist().__repr__()
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(
            alike(found[name], value) for name, value in expected.items()
        )
    return repr(found) == repr(expected)


def test_numbers_of_enumerations_are_numbers() -> None:
    assert to_json([HTTPStatus.OK]) == [200]


def test_advice_keeps_its_settings() -> None:
    advice = Advice("Raise ", Setting("inline_limit", 3), " or ", Setting("base"))
    found = from_json(msgspec.json.decode(msgspec.json.encode(to_json(advice))))
    assert found.parts == advice.parts


def test_what_cannot_be_held_is_refused() -> None:
    compound = np.zeros(2, [("a", "i4")])
    assert not can_hold(compound)
    for value in (compound, object(), {1: "a"}, np.array([object()], object)):
        with pytest.raises(TypeError, match="a scan cannot hold"):
            to_json(value)


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"unknown": 1},
        {"array": "<f4", "shape": [2], "data": "AAAA"},
        {"array": "<f4", "shape": [-1], "data": ""},
        {"array": "O", "shape": [1], "data": "AAAAAAAAAAA="},
        {"array": "<f4"},
        {"scalar": 1, "data": "AAAA"},
        {"scalar": "nonsense", "data": "AAAA"},
        {"texts": ["a", "b"], "shape": [3]},
        {"bytes": "not base64"},
        {"float": "x"},
        {"advice": [{}]},
    ],
)
def test_other_json_is_refused(stated: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_json(stated)
