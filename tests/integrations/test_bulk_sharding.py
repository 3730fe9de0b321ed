"""Shards read in bulk: what comes of it is the same as one by one, with fewer requests."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.core.codec_pipeline
from hypothesis import given
from hypothesis import strategies as st

from tests.integrations.sharded_arrays import (
    DAMAGES,
    both_ways,
    encode_shards,
    outcome_of,
    selections,
    sharded_arrays,
    write_sharded,
)
from tests.properties import examples

PIPELINES = [
    name
    for name in ("BatchedCodecPipeline", "FusedCodecPipeline")
    if hasattr(zarr.core.codec_pipeline, name)
]
FORMS = ["entry", "entry", "checked", "open", "data", "empty", "absent"]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("verify", ["auto", "always", "never"])
@given(data=st.data())
@examples(2)
def test_values_and_errors_are_those_of_single_reads(
    verify: Any, pipeline: str, data: st.DataObject
) -> None:
    array = data.draw(sharded_arrays())
    keys = sorted(encode_shards(array))
    forms = {key: data.draw(st.sampled_from(FORMS)) for key in keys}
    damage = None
    if keys and data.draw(st.booleans()):
        # One thing is wrong at a time: which of several errors is raised is left open.
        key = data.draw(st.sampled_from(keys))
        forms[key] = data.draw(st.sampled_from(["entry", "open", "data", "wrong", "beyond"]))
        if forms[key] not in ("wrong", "beyond"):
            damage = key, DAMAGES[data.draw(st.sampled_from(list(DAMAGES)))]
    select = data.draw(selections(array.values.shape))
    filling = data.draw(st.booleans())
    with (
        tempfile.TemporaryDirectory() as directory,
        zarr.config.set(
            {
                "array.read_missing_chunks": filling,
                "codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}",
            }
        ),
    ):
        root = Path(directory)
        write_sharded(root, array, lambda key: forms[key], damage=damage)
        single, bulk = both_ways(root, verify=verify)
        expected = outcome_of(lambda: select(single))
        assert outcome_of(lambda: select(bulk)) == expected
        if (
            damage is None
            and not {"empty", "absent", "wrong", "beyond"} & set(forms.values())
            and filling
        ):
            np.testing.assert_array_equal(np.asanyarray(select(bulk)), select(array.values))
