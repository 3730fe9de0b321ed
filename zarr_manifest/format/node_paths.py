"""Paths of nodes: which name can be none, what lies above a node, and what makes one.

Names come from strangers, and become directories. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["NODE_DOCUMENTS", "ancestors", "impossible_name"]

# Every node, of Zarr v3 or v2, has one of these.
NODE_DOCUMENTS = frozenset({"zarr.json", ".zarray", ".zgroup"})

# Reserved by Zarr v3 (core specification, "Node names"), or understood in different ways by
# stores and readers.
_IMPOSSIBLE = re.compile(r"\.*|__.*|zarr\.json|.*[\x00-\x1f\x7f-\x9f\ud800-\udfff\\].*", re.DOTALL)


def impossible_name(path: str) -> str | None:
    """Return the first name in the path of a node that no node can have; None if all are fine.

    Examples
    --------
    >>> impossible_name("ocean/sea surface temperature"), impossible_name("")
    (None, None)
    >>> impossible_name("a/../../etc"), impossible_name("a//b")
    ('..', '')
    """
    names = path.split("/") if path else []
    return next((name for name in names if _IMPOSSIBLE.fullmatch(name)), None)


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of the groups above a node, the nearest first and the root last.

    Examples
    --------
    >>> list(ancestors("a/b"))
    ['a', '']
    """
    while path:
        path = path.rpartition("/")[0]
        yield path
