"""Paths of nodes: which may be written, and what lies above them.

Names come from strangers, and become directories. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zarr_manifest.errors import NotConvertibleError

__all__ = ["ancestors", "require_node_path"]

# Segments that are no names: reserved by Zarr v3 (core specification, "Node names"), or that
# stores and readers understand in different ways.
_RESERVED = re.compile(r"\.*|__.*|zarr\.json|.*[\x00-\x1f\x7f-\x9f\ud800-\udfff\\].*", re.DOTALL)


def require_node_path(path: str) -> None:
    """Refuse what cannot be the path of a node.

    Raises
    ------
    NotConvertibleError

    Examples
    --------
    >>> require_node_path("ocean/sea surface temperature")
    >>> require_node_path("../../etc")
    Traceback (most recent call last):
    zarr_manifest.errors.NotConvertibleError: not_convertible: Zarr v3 has no node named '..'
    """
    for name in path.split("/") if path else ():
        if _RESERVED.fullmatch(name):
            raise NotConvertibleError(f"Zarr v3 has no node named {name!r}")


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of the nodes above a node, the root last.

    Examples
    --------
    >>> list(ancestors("a/b"))
    ['a', '']
    """
    while path:
        path = path.rpartition("/")[0]
        yield path
