"""What a store shares with its read-only views, and takes along when it is pickled. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from zarr_manifest.hierarchy.pending_changes import PendingChanges


class Remembered(Struct):
    """What was seen of a hierarchy, beyond what can be read again.

    Parameters
    ----------
    declared : set of str
        Paths of the arrays that have been seen to declare a manifest.
    digests : dict of bytes, optional
        Only of a store that was pickled: by path, what an array was when it was opened.
    changes : PendingChanges
        The changes that were being written when the groups were last read; not pickled.
    """

    declared: set[str] = field(default_factory=set[str])
    digests: dict[str, bytes] | None = None
    changes: PendingChanges = field(default_factory=PendingChanges)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.declared, self.digests))

    def copied(self, digests: dict[str, bytes] | None = None) -> Remembered:
        """Return what is remembered now, without changes, and with other digests if given."""
        digests = self.digests if digests is None else digests
        return Remembered(set(self.declared), digests)
