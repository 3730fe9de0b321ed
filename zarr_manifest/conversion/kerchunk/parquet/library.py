"""pyarrow, which reads and writes Parquet; imported on demand, because it is optional."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrow", "parquet"]


def arrow() -> Any:
    """Return the module ``pyarrow``.

    Raises
    ------
    ImportError
        It is not installed.
    """
    return _module("pyarrow")


def parquet() -> Any:
    """Return the module ``pyarrow.parquet``.

    Raises
    ------
    ImportError
        It is not installed.
    """
    return _module("pyarrow.parquet")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            "kerchunk's Parquet layout needs pyarrow: pip install 'zarr-manifest[kerchunk]'"
        ) from error
