"""Keys of a hierarchy: names of metadata documents, and names and paths of nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Every Zarr v3 or v2 node has one of these.
NODE_METADATA = frozenset({"zarr.json", ".zarray", ".zgroup"})

METADATA_NAMES = NODE_METADATA | {".zattrs", ".zmetadata"}


NODE_NAMES = (
    "A name must not be empty, only dots, or 'zarr.json'; it must not begin with '__', or contain "
    "a backslash or a control character."
)


def join(directory: str, name: str) -> str:
    """Join two parts of a key, either of which may be empty."""
    return f"{directory}/{name}" if directory and name else directory or name


def node_of_metadata(key: str) -> str | None:
    """Return the path of the node whose ``zarr.json`` this key names, or None."""
    if key == "zarr.json":
        return ""
    return key.removesuffix("/zarr.json") if key.endswith("/zarr.json") else None


def impossible_name(path: str) -> str | None:
    """Return the first name in a node's path that is not a valid node name, or None.

    Examples
    --------
    >>> impossible_name("ocean/sea surface temperature"), impossible_name("")
    (None, None)
    >>> impossible_name("a/../../etc"), impossible_name("a//b")
    ('..', '')
    """
    names = path.split("/") if path else []
    return next((name for name in names if not _is_possible_name(name)), None)


def _is_possible_name(name: str) -> bool:
    # Others are reserved by Zarr v3 (core specification, "Node names"), or interpreted
    # differently by different stores and readers.
    is_reserved = name == "zarr.json" or name.startswith("__") or not name.strip(".")
    return not (is_reserved or "\\" in name or has_forbidden_character(name))


def has_forbidden_character(text: str) -> bool:
    r"""Whether a name, path or version has a control character or a lone surrogate.

    Examples
    --------
    >>> has_forbidden_character("sea\u2028ice"), has_forbidden_character("sea\x85ice")
    (False, True)
    """
    # No such character is printable. The pattern takes half a millisecond to compile.
    return not text.isprintable() and bool(re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text))


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of the groups above a node, from the nearest to the root.

    Examples
    --------
    >>> list(ancestors("a/b"))
    ['a', '']
    """
    while path:
        path = path.rpartition("/")[0]
        yield path


def is_possible_path(name: str) -> bool:
    """Whether stores and zarr agree that a name is that of a node below a group."""
    return "\\" not in name and {"", ".", "..", "zarr.json"}.isdisjoint(name.split("/"))
