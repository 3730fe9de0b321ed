"""Processes that start at once: forks of one that has imported what the tests' functions need.

There is one server of forks in a process, and the last list of what it imports counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, get_context
from typing import Any

from zarr_manifest.hierarchy import store

__all__ = ["CONTEXT", "cluster", "in_worker", "start_server"]

CONTEXT = get_context("forkserver")
# Each process imports the module of its function: these import what the others do, too.
_IMPORTED = [
    "dask.array",
    "virtualizarr",
    "tests.conversion.concatenation.test_many_appenders",
    "tests.integrations.test_opened_before",
    "tests.pipeline.test_bulk_arrays",
    "tests.writing.test_writing_interrupted",
    "benchmarks.rows",
    "tests.frozen",
]
CONTEXT.set_forkserver_preload(_IMPORTED)


def start_server() -> None:
    """Start the server of forks, before others say what it imports."""
    forkserver.ensure_running()


@contextmanager
def cluster(workers: int = 1, **options: Any) -> Iterator[Any]:
    """A client of a cluster of dask, whose workers are such processes."""
    import dask
    import distributed
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # which says, the first time, what is imported
        CONTEXT.set_forkserver_preload(_IMPORTED)
        usual: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
        with (
            distributed.LocalCluster(n_workers=workers, **usual | options) as made,
            distributed.Client(made) as client,
        ):
            yield client


def in_worker(pickled: bytes) -> Any:
    """Unpickle as a process does that has not met the store."""
    store._unpickled.clear()
    return pickle.loads(pickled)
