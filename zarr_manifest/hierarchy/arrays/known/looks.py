"""Looks: what was seen so recently that it need not be read again before it is replaced.

zarr replaces the metadata of a node without reading them again, and a manifest that another
process has declared meanwhile must not be lost. To read them again is a request, which zarr alone
does not make: so a moment is bridged by what this store has seen itself.
"""

from __future__ import annotations

import time

import msgspec

__all__ = ["Looks", "Shape", "look_again"]

type Shape = tuple[int, ...]

# In seconds: longer than an operation of zarr, which begins by opening the node, takes.
_A_MOMENT = 5.0

# A look takes about 200 bytes; once this number is exceeded, all are taken anew.
_MOST_LOOKS = 100_000

_NEVER = float("-inf"), None


class _Shaped(msgspec.Struct):
    shape: Shape | None = None


# When this process wrote metadata past all stores that are open for reading.
_written_past = [float("-inf")]


def look_again() -> None:
    """Let no store rely on what it has seen: metadata were written otherwise than through it."""
    _written_past[0] = time.monotonic()


class Looks:
    """When nodes were seen to declare no manifest: groups, native arrays, and where there is none.

    Parameters
    ----------
    are_cheap : bool
        Whether the metadata are in files or in memory: then they are always read again.

    Examples
    --------
    >>> looks = Looks(are_cheap=False)
    >>> looks.note("a")
    >>> looks.is_recent("a"), looks.is_recent("b")
    (True, False)
    >>> look_again()
    >>> looks.is_recent("a")
    False
    """

    def __init__(self, *, are_cheap: bool) -> None:
        self._are_cheap = are_cheap
        self._seen: dict[str, tuple[float, Shape | None]] = {}

    def note(self, path: str, body: bytes | None = None) -> None:
        """Record that a node has just been seen, and the shape that its ``zarr.json`` states."""
        if not self._are_cheap:
            if len(self._seen) > _MOST_LOOKS:
                self._seen.clear()
            shape = None if body is None else msgspec.json.decode(body, type=_Shaped).shape
            self._seen[path] = time.monotonic(), shape

    def forget(self, path: str) -> None:
        """Let a node be looked at again."""
        self._seen.pop(path, None)

    def forget_below(self, prefix: str) -> None:
        """Let all nodes be looked at again whose paths begin with a prefix."""
        for path in [path for path in list(self._seen) if path.startswith(prefix)]:
            self._seen.pop(path, None)

    def is_recent(self, path: str) -> bool:
        """Whether a node was seen to declare no manifest, a moment ago."""
        seen, _ = self._seen.get(path, _NEVER)
        return max(time.monotonic() - _A_MOMENT, _written_past[0]) < seen

    def recent_shape(self, path: str) -> Shape | None:
        """Return the shape of an array as it was a moment ago; None if that is unknown."""
        return self._seen[path][1] if self.is_recent(path) else None
