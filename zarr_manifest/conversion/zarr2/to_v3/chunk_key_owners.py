"""The array that a Zarr v2 key belongs to, and reports on keys that no array reads.

A key that is left out is always named or counted: somebody may be missing that data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.zarr2.to_v3.planning import Plan
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import owner_candidates

__all__ = ["count_keys", "find_owner", "refused_strays", "unread_keys"]

# Number of keys to name in a note or a refusal; the others are counted.
_NAMED = 3


def find_owner[T](directory: str, arrays: Mapping[str, T]) -> tuple[int, T] | None:
    """Return the value for the array at or above a directory, and where relative keys begin.

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
    """Return the start of a sentence about keys.

    Examples
    --------
    >>> count_keys(["a/x"], "reference"), count_keys(["x", "y", "z", "0"], "object")
    ("the reference 'a/x' is", "4 objects ('x', 'y', 'z', …) are")
    """
    names = ", ".join(brief(key) for key in keys[:_NAMED])
    if len(keys) == 1:
        return f"the {what} {names} is"
    return f"{len(keys)} {what}s ({names}{', …' if len(keys) > _NAMED else ''}) are"


def unread_keys(problems: Iterable[ManifestError]) -> list[str]:
    """Return the keys that turned out not to be chunk keys."""
    return [str(problem.chunk) for problem in problems]


def refused_strays(keys: Iterable[str], plans: Iterable[Plan], what: str) -> Iterator[RefusedNode]:
    """Yield refusals for keys that belong to no array, grouped by likely array.

    Keys below a refused node are not reported.
    """
    refused_paths = {plan.path for plan in plans if isinstance(plan, RefusedNode)}
    strays: dict[str, list[str]] = {}
    for key in keys:
        strays.setdefault(_likely_owner(key), []).append(key)
    for path, found in strays.items():
        if not any(above in refused_paths for above in (path, *owner_candidates(path))):
            reason = f"{count_keys(found, what)} not part of any array"
            yield RefusedNode(path, NotConvertibleError.code, reason)


def _likely_owner(key: str) -> str:
    """Return the directory of a key, without what looks like the start of a chunk key."""
    path = key.rpartition("/")[0]
    while path.rpartition("/")[2].isdecimal():
        path = path.rpartition("/")[0]
    return path
