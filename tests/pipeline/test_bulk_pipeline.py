"""Reads in bulk are the same as reads chunk by chunk: values, fill values, errors."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.conftest import PIPELINES
from tests.pipeline.bulk_cases import ARRAY, Case, cases
from tests.pipeline.bulk_outcomes import (
    assert_same,
    chunk_by_chunk,
    one_by_one,
    outcome_of,
)
from tests.properties import examples

pytestmark = pytest.mark.filterwarnings("ignore")


@contextlib.contextmanager
def written(case: Case, pipeline: str) -> Iterator[Callable[[], Any]]:
    """Write a case; yields what opens its array."""
    config = {
        "codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}",
        "array.rectilinear_chunks": True,
        **case.config,
    }
    with tempfile.TemporaryDirectory() as directory, zarr.config.set(config):
        reader = case.written(Path(directory))
        yield lambda: zarr.open_array(reader(), path=ARRAY, mode="r")


@pytest.mark.slow
@examples(2)
@given(case=cases(), pipeline=st.sampled_from(PIPELINES))
def test_values_are_the_same(case: Case, pipeline: str) -> None:
    with written(case, pipeline) as opened:
        expected = outcome_of(lambda: case.select(chunk_by_chunk(opened())))
        actual = outcome_of(lambda: case.select(opened()))
    assert expected.error is None or not issubclass(expected.error[0], zm.ManifestError)
    assert_same(actual, expected)


@pytest.mark.slow
@examples(2)
@given(case=cases(troubled=True), pipeline=st.sampled_from(PIPELINES))
def test_errors_are_the_same(case: Case, pipeline: str) -> None:
    """If several chunks have errors, it is that of any of them."""
    with written(case, pipeline) as opened:
        expected = outcome_of(lambda: case.select(chunk_by_chunk(opened())))
        actual = outcome_of(lambda: case.select(opened()))
        if expected.error is None or actual.error == expected.error:
            assert_same(actual, expected)
            return
        assert actual.error in one_by_one(opened(), case.select)
