"""Keys of a hierarchy: of nodes and their metadata, and of chunks. Pure.

A chunk key is accepted only in the one spelling that its encoder would produce, so that two
different keys never name the same chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zarr_manifest.format.limits import LARGEST_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Nodes -------------------------------------------------------------------------

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


def member_of(group: str, path: str) -> str:
    """Return a path relative to a group above it; ``""`` if the group is not above it.

    Examples
    --------
    >>> member_of("", "a/b"), member_of("a", "a/b"), member_of("a", "ab"), member_of("a", "a")
    ('a/b', 'b', '', '')
    """
    if not group:
        return path
    return path[len(group) + 1 :] if path.startswith(f"{group}/") else ""


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


# Chunks ------------------------------------------------------------------------

_MAX_DIGITS = len(str(LARGEST_INTEGER))
_DIGITS_AND_SLASH = "0123456789/"


def format_canonical(index: Sequence[int]) -> str:
    """Return the canonical chunk key of a grid index.

    Parameters
    ----------
    index : sequence of int
        Grid index of the chunk, one non-negative number per dimension; not
        checked.

    Returns
    -------
    str
        The numbers joined with ``.``; ``"0"`` for a zero-dimensional array.

    Examples
    --------
    >>> format_canonical((0, 3, 7))
    '0.3.7'
    >>> format_canonical(())
    '0'
    """
    return ".".join(map(str, index)) or "0"


def parse_canonical(key: str, ndim: int) -> tuple[int, ...] | None:
    """Return the grid index of a canonical chunk key.

    Parameters
    ----------
    key : str
        Any text.
    ndim : int
        Number of dimensions of the array.

    Returns
    -------
    tuple of int or None
        One number per dimension, each at most ``2**53 - 1``; None unless `key`
        is exactly what `format_canonical` returns for such an index.

    Examples
    --------
    >>> parse_canonical("0.3.7", 3)
    (0, 3, 7)
    >>> parse_canonical("0", 0)
    ()
    >>> parse_canonical("0.03.7", 3) is None
    True
    """
    return _parse_joined(key, ndim, ".")


def canonical_indices(keys: Sequence[str], ndim: int) -> npt.NDArray[np.int64] | None:
    """Return the grid indices of keys (keys, dimensions), or None if one is not canonical.

    Without a call for each of a million keys.
    """
    # 15 digits are always below the largest integer; 16 digits are left to the slow path.
    number = "(?:0|[1-9][0-9]{0,14})"
    canonical = r"\.".join([number] * ndim) if ndim else "0"
    joined = ",".join(keys)
    if keys and ndim and re.fullmatch(f"(?:{canonical},)*+{canonical}", joined):
        flat = np.fromstring(joined.replace(".", ","), np.int64, sep=",")
        if len(flat) == len(keys) * ndim:  # and no key has a comma
            return flat.reshape(len(keys), ndim)
    return None


def encode_relative(index: Sequence[int], name: str, separator: str) -> str:
    """Return a chunk's key relative to its array, as zarr encodes it.

    Parameters
    ----------
    index : sequence of int
        Grid index of the chunk, one non-negative number per dimension; not
        checked.
    name : str
        Chunk key encoding of the array: ``"default"`` or ``"v2"``.
    separator : str
        ``"/"`` or ``"."``.

    Returns
    -------
    str
        The key, without a leading slash.

    Examples
    --------
    >>> encode_relative((0, 3), "default", "/")
    'c/0/3'
    >>> encode_relative((0, 3), "v2", ".")
    '0.3'
    >>> encode_relative((), "default", "/")
    'c'
    """
    if name == "default":
        return separator.join(("c", *map(str, index)))
    return separator.join(map(str, index)) or "0"


def parse_relative(key: str, ndim: int, name: str, separator: str) -> tuple[int, ...] | None:
    """Return the grid index of a chunk key relative to its array.

    Parameters
    ----------
    key : str
        Any text.
    ndim : int
        Number of dimensions of the array.
    name : str
        Chunk key encoding of the array: ``"default"`` or ``"v2"``.
    separator : str
        ``"/"`` or ``"."``.

    Returns
    -------
    tuple of int or None
        One number per dimension, each at most ``2**53 - 1``; None unless `key`
        is exactly what `encode_relative` returns for such an index.

    Examples
    --------
    >>> parse_relative("c/0/3", 2, "default", "/")
    (0, 3)
    >>> parse_relative("0/3", 2, "v2", "/")
    (0, 3)
    >>> parse_relative("0.3", 2, "v2", "/") is None
    True
    """
    if name == "v2":
        return _parse_joined(key, ndim, separator)
    if ndim == 0:
        return () if key == "c" else None
    if key[:1] != "c" or key[1:2] != separator:
        return None
    return _parse_joined(key[2:], ndim, separator)


def owner_candidates(key: str) -> Iterator[str]:
    """Yield the paths of the arrays to which a store key could belong, as a chunk.

    The first path is right unless the array's own path looks like the beginning
    of a chunk key; the others ensure that no array is missed.

    Parameters
    ----------
    key : str
        A normalised store key: no empty segments, no slash at either end.

    Yields
    ------
    str
        Every proper ancestor of `key`, each once. First `key` without its
        trailing all-digit segments and a ``c`` segment before them, if any;
        then the others, from the longest to the shortest, ``""``, the root.

    Examples
    --------
    >>> list(owner_candidates("a/b/c/0/3"))
    ['a/b', 'a/b/c/0', 'a/b/c', 'a', '']
    >>> list(owner_candidates("a/b/0.3"))
    ['a/b', 'a', '']
    >>> list(owner_candidates("0/3"))
    ['', '0']
    """
    if not key:
        return
    likely = likely_owner(key)
    yield likely
    path = key
    while path:
        path = path.rpartition("/")[0]
        if path != likely:
            yield path


def likely_owner(key: str) -> str:
    """Return the first of the paths of :func:`owner_candidates`, of a key that is not empty.

    Examples
    --------
    >>> likely_owner("a/b/c/0/3")
    'a/b'
    """
    # Stripping characters and stepping forward to the next slash costs the same
    # for any number of dimensions; splitting the key would not.
    head = key.rstrip(_DIGITS_AND_SLASH)
    if head:
        end = key.find("/", len(head))
        head = key if end < 0 else key[:end]
    if head == "c" or head.endswith("/c"):
        return head[:-1].rstrip("/")
    return key.rpartition("/")[0] if head == key else head


def _parse_joined(text: str, ndim: int, separator: str) -> tuple[int, ...] | None:
    if ndim == 0:
        return () if text == "0" else None
    # isdecimal() alone accepts the digits of every script, and so does int().
    if not text.isascii():
        return None
    parts = text.split(separator)
    if len(parts) != ndim:
        return None
    for part in parts:
        # The length is checked before int(), which is slow on, or rejects, thousands of digits.
        if not part.isdecimal() or len(part) > _MAX_DIGITS or (part[0] == "0" and part != "0"):
            return None
    index = tuple(map(int, parts))
    return index if max(index) <= LARGEST_INTEGER else None
