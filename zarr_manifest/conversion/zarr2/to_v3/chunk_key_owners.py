"""Which array a key of Zarr v2 belongs to, and what to say of keys that no array reads.

A key that is left out is always named, or counted: it may be data that somebody misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.values import shown
from zarr_manifest.conversion.zarr2.to_v3.planning import Plan
from zarr_manifest.errors import LimitExceededError, ManifestError, NotConvertibleError
from zarr_manifest.format import owner_candidates

__all__ = ["count_keys", "find_owner", "refused_strays", "unread_keys"]

# Keys that are named in a note or a refusal; the others are counted.
_NAMED = 3


def find_owner[T](directory: str, arrays: Mapping[str, T]) -> tuple[int, T] | None:
    """Return what belongs to the array at or above a directory, and where its keys begin.

    Examples
    --------
    >>> find_owner("g/a/0", {"g/a": "the array"})
    (4, 'the array')
    """
    path = directory
    while path not in arrays:
        if not path:
            return None
        path = path.rpartition("/")[0]
    return len(path) + 1 if path else 0, arrays[path]


def count_keys(keys: Sequence[str], what: str) -> str:
    """Return the beginning of a sentence about keys.

    Examples
    --------
    >>> count_keys(["a/x"], "reference"), count_keys(["x", "y", "z", "0"], "object")
    ("the reference 'a/x' is", "4 objects ('x', 'y', 'z', …) are")
    """
    names = ", ".join(shown(key) for key in keys[:_NAMED])
    if len(keys) == 1:
        return f"the {what} {names} is"
    return f"{len(keys)} {what}s ({names}{', …' if len(keys) > _NAMED else ''}) are"


def unread_keys(problems: Iterable[ManifestError]) -> list[str]:
    """Return the keys that were found not to be those of chunks.

    Raises
    ------
    LimitExceededError
        It is among the problems: the grid is too large for any key.
    """
    keys: list[str] = []
    for problem in problems:
        if isinstance(problem, LimitExceededError):
            raise problem
        keys.append(str(problem.chunk))
    return keys


def refused_strays(keys: Iterable[str], plans: Iterable[Plan], what: str) -> Iterator[RefusedNode]:
    """Yield a refusal for every place with keys that belong to no array, by likely array.

    Nothing is said of keys below a node that is refused itself.
    """
    refused_paths = {plan.path for plan in plans if isinstance(plan, RefusedNode)}
    strays: dict[str, list[str]] = {}
    for key in keys:
        strays.setdefault(_likely_owner(key), []).append(key)
    for path, found in strays.items():
        if not any(above in refused_paths for above in (path, *owner_candidates(path))):
            reason = f"{count_keys(found, what)} no chunk of any array"
            yield RefusedNode(path, NotConvertibleError.code, reason)


def _likely_owner(key: str) -> str:
    """Return the directory of a key, less what looks like the beginning of a chunk key."""
    path = key.rpartition("/")[0]
    while path.rpartition("/")[2].isdecimal():
        path = path.rpartition("/")[0]
    return path
