"""Keeps the garbage collector away from what deadlocks with it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_garbage_collected"]


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    """Let no reference cycles be collected meanwhile.

    kerchunk's ``SingleHdf5ToZarr`` waits for zarr's thread while it holds the lock of h5py
    (it writes from within ``visititems``). A collection that happens to run in zarr's thread, and
    finds an h5py object of whatever ran before, waits for that lock: for ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
