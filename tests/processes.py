"""Processes that start at once: forks of one that has imported what the tests' functions need.

There is one server of forks in a process, and the last list of what it imports counts.
"""

from __future__ import annotations

import pickle
from multiprocessing import get_context
from typing import Any

from zarr_manifest.hierarchy import store

__all__ = ["CONTEXT", "in_worker"]

CONTEXT = get_context("forkserver")
# Each process imports the module of its function: these import what the others do, too.
CONTEXT.set_forkserver_preload(
    [
        "dask.array",
        "virtualizarr",
        "tests.conversion.concatenation.test_many_appenders",
        "tests.integrations.test_opened_before",
        "tests.pipeline.test_bulk_arrays",
        "tests.writing.test_writing_interrupted",
    ]
)


def in_worker(pickled: bytes) -> Any:
    """Unpickle as a process does that has not met the store."""
    store._unpickled.clear()
    return pickle.loads(pickled)
