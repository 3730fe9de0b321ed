"""Which files this process opens, as its audit events say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["opened_files"]

_noted: list[list[str]] = []


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Yield the names of files, in the order in which they are opened from now on."""
    _watch()
    names: list[str] = []
    _noted.append(names)
    try:
        yield names
    finally:
        _noted.remove(names)


@cache  # a hook cannot be taken away again
def _watch() -> None:
    def hook(event: str, arguments: Any) -> None:
        if event == "open" and _noted:
            for names in _noted:
                names.append(Path(str(arguments[0])).name)

    sys.addaudithook(hook)
