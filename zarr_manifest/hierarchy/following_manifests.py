"""Loads the manifests of a group's next arrays, for reading one array after the other.

``Dataset.load()`` reads variable after variable, and would wait for each manifest. So once the
manifests of two arrays in a row were needed, the next one is loaded together with those after it.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from msgspec import Struct, field

from zarr_manifest.locations import StoreLocation

if TYPE_CHECKING:
    from zarr_manifest.hierarchy.manifest_documents import ManifestDocuments

# Number of chunks of the arrays whose manifests are loaded in vain at most: about 1 MB.
MOST_CHUNKS = 10_000

# Seconds that a reader waits for other manifests once its own is there, besides the time that
# that took.
_PATIENCE = 0.01


class _Group(Struct, weakref=True):
    """The arrays of a group, in order, and what was loaded of their manifests.

    Apart from the table of nodes, whose arrays of all groups would be searched for the next ones,
    and which knows no arrays that stay open as they were.

    Parameters
    ----------
    arrays : mapping of str to ManifestDocuments
        The arrays whose manifest is one document, by path.
    last : str or None
        The last array whose manifest was loaded.
    in_a_row : int
        Number of manifests that were loaded of it and of arrays directly before it.
    under_way : int
        Number of manifests that are being loaded: readers of several wait for all together.
    """

    arrays: WeakValueDictionary[str, ManifestDocuments] = field(
        default_factory=WeakValueDictionary[str, "ManifestDocuments"]
    )
    last: str | None = None
    in_a_row: int = 0
    under_way: int = 0

    def following(self, documents: ManifestDocuments) -> list[ManifestDocuments] | None:
        """Return the arrays whose manifests to load with one, at most as many as in a row before.

        None if it does not continue the row: an array before it has not been loaded.
        """
        # Not values(), which fails if another thread opens an array meanwhile.
        arrays = [each for ref in self.arrays.valuerefs() if (each := ref()) is not None]
        paths = [each.array.path for each in arrays]
        if self.last not in paths or documents.array.path not in paths:
            return None
        last, here = paths.index(self.last), paths.index(documents.array.path)
        if here < last or any(each.loaded is None for each in arrays[last + 1 : here]):
            return None
        found: list[ManifestDocuments] = []
        chunks = 0
        for each in arrays[here + 1 :]:
            if each.loaded is not None or not isinstance(each.array.document(None), StoreLocation):
                continue
            chunks += math.prod(each.array.chunk_grid.counts)
            if chunks > MOST_CHUNKS or len(found) == self.in_a_row:
                break
            found.append(each)
        return found


class FollowingManifests:
    """The manifests of a hierarchy, by group."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, documents: ManifestDocuments) -> None:
        """Note an array whose manifest is one document."""
        self._group(documents).arrays[documents.array.path] = documents

    def _group(self, documents: ManifestDocuments) -> _Group:
        return self._groups.setdefault(documents.array.path.rpartition("/")[0], _Group())

    async def load(self, documents: ManifestDocuments) -> None:
        """Load the manifest of an array, and those of arrays that follow.

        An error concerns only those who read the array whose manifest it is.

        Raises
        ------
        ManifestError
            The manifest cannot be read, or is invalid.
        """
        group = self._group(documents)
        following = None if group.under_way else group.following(documents)
        group.under_way += 1
        try:
            await _load_together(documents, following or [])
        finally:
            group.under_way -= 1
        group.in_a_row = 1 if following is None else group.in_a_row + 1 + len(following)
        group.last = (following[-1] if following else documents).array.path


async def _load_together(documents: ManifestDocuments, others: list[ManifestDocuments]) -> None:
    """Load a manifest, and others as far as that does not take much longer."""
    if not others:
        await documents.load()
        return
    begun = time.monotonic()
    tasks = {asyncio.ensure_future(each.load()) for each in others}
    try:
        await documents.load()
        await asyncio.wait(tasks, timeout=time.monotonic() - begun + _PATIENCE)
    finally:
        for task in tasks:
            task.cancel()
        # Failed manifests are loaded again when they are needed.
        await asyncio.gather(*tasks, return_exceptions=True)
