"""Errors: they travel between processes, take on context, and keep what their remedies name."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest import errors
from zarr_manifest.errors import Advice, ManifestError, Setting

settings = st.builds(
    Setting,
    st.sampled_from(["overwrite", "base", "allow"]),
    st.sampled_from([..., True, ["s3://b/"], "text"]),
    st.none() | st.just("Limits(entries=...)"),
)
advices = st.recursive(
    st.lists(st.text(max_size=5) | settings, max_size=4).map(lambda parts: Advice(*parts)),
    lambda inner: st.lists(inner | st.text(max_size=3), max_size=3).map(lambda ps: Advice(*ps)),
    max_leaves=4,
)
classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]


@given(advices)
def test_advice_is_its_text(advice: Advice) -> None:
    assert advice.spelled(str) == advice == "".join(map(str, advice.parts))
    assert json.loads(json.dumps(advice)) == advice
    assert all(not isinstance(part, Advice) for part in advice.parts)


@given(advices)
def test_advice_travels(advice: Advice) -> None:
    for same in (pickle.loads(pickle.dumps(advice)), copy.deepcopy(advice), Advice(advice)):
        assert same == advice
        assert type(same) is Advice
        assert same.parts == advice.parts


@pytest.mark.parametrize("kind", classes, ids=lambda kind: kind.code)
def test_errors_travel(kind: type[ManifestError]) -> None:
    remedy = Advice("Pass ", Setting("overwrite", True), ".")
    error = kind("it is so", chunk="0.3", remedy=remedy)
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), error.in_context(array="a")):
        assert type(same) is kind
        assert same.remedy == remedy
        assert same.remedy.parts == remedy.parts
    placed = error.in_context(array="a", chunk="9", remedy="another")
    assert str(placed) == f"{kind.code}: it is so (array 'a', chunk '0.3'). Pass overwrite=True."
    assert str(error) == f"{kind.code}: {error.message}"


@given(st.text(min_size=1), st.text(min_size=1) | advices.filter(bool))
def test_messages_keep_settings(problem: str, remedy: str) -> None:
    message = ManifestError(problem, location="s3://b/", remedy=remedy).message
    assert isinstance(message, Advice)
    assert message == f"{problem} (location 's3://b/'). {remedy}"
    kept = [part for part in message.parts if isinstance(part, Setting)]
    assert kept == [p for p in getattr(remedy, "parts", ()) if isinstance(p, Setting)]


def test_codes_are_their_own() -> None:
    codes = [kind.code for kind in classes]
    assert len(set(codes)) == len(codes)
