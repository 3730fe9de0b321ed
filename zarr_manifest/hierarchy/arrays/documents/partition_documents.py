"""Which partitions of a manifest have a document, where all of them are needed.

A short declaration may have billions of partitions. If the store can be listed, it says
which documents exist; if not, they are asked for one by one, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zarr.abc.store import Store

from zarr_manifest.errors import Advice, LimitExceededError, ManifestError, Setting
from zarr_manifest.format import PLACEHOLDER, Limits, parse_canonical
from zarr_manifest.hierarchy.arrays.declared_array import DeclaredArray
from zarr_manifest.hierarchy.underneath import can_list, list_inside
from zarr_manifest.locations import Base, StoreLocation
from zarr_manifest.showing import counted

__all__ = [
    "Partition",
    "PartitionKeys",
    "PartitionsToRead",
    "partitions_to_read",
    "require_few_partitions",
]

type Partition = tuple[int, ...] | None

# So few documents are asked for without listing them.
_FEW = 64

# Any text that a key cannot contain by chance.
_MARKER = "the-place-of-the-partition"


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of a partitioned manifest's documents in the hierarchy's own store.

    Parameters
    ----------
    before, after : str
        What all of them begin and end with.
    ndim : int
        Number of dimensions of the array.

    Examples
    --------
    >>> keys = PartitionKeys("a/manifest/", ".json", 2)
    >>> keys.partition("a/manifest/0.3.json"), keys.partition("a/manifest/0.json")
    ((0, 3), None)
    """

    before: str
    after: str
    ndim: int

    @classmethod
    def of(cls, array: DeclaredArray) -> PartitionKeys | None:
        """Return the keys for an array; None if its documents are not in that store."""
        template = array.configuration.manifest
        assert isinstance(template, str)  # an inline manifest has no partitions
        reference = template.replace(PLACEHOLDER, _MARKER)
        location = Base.parse("./", directory=array.path).resolve(reference)
        if not isinstance(location, StoreLocation):
            return None
        before, _, after = location.key.partition(_MARKER)
        return cls(before, after, array.ndim)

    @property
    def directory(self) -> str:
        """The directory that contains all documents."""
        return self.before.rpartition("/")[0]

    def partition(self, key: str) -> tuple[int, ...] | None:
        """Return the partition whose document a key names; None if it names none."""
        if not (key.startswith(self.before) and key.endswith(self.after)):
            return None
        return parse_canonical(key[len(self.before) : len(key) - len(self.after)], self.ndim)


@dataclass(frozen=True, slots=True)
class PartitionsToRead:
    """The partitions that may have a document, in C order.

    Parameters
    ----------
    partitions : iterable of Partition
        Only None for a manifest that is not partitioned.
    without_document : bool
        Whether others are known to have none.
    """

    partitions: Iterable[Partition]
    without_document: bool = False


async def partitions_to_read(
    array: DeclaredArray, store: Store, limits: Limits
) -> PartitionsToRead:
    """Return the partitions of a manifest whose documents must be read to know all of it.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    store : Store
        The hierarchy's own store.
    limits : Limits
        How many documents may be asked for one by one.

    Raises
    ------
    LimitExceededError
        There are more partitions, and their documents cannot be listed.
    """
    if array.partitions is None:
        return PartitionsToRead((None,))
    keys = PartitionKeys.of(array)
    is_many = array.partitions.total > min(_FEW, limits.partitions)
    if is_many and keys is not None and can_list(store):
        try:
            found = await _listed(array, store, keys)
        except ManifestError:
            pass  # it may still be possible to read them
        else:
            return PartitionsToRead(found, len(found) < array.partitions.total)
    require_few_partitions(array, limits)
    return PartitionsToRead(array.partitions)


def require_few_partitions(array: DeclaredArray, limits: Limits) -> None:
    """Reject a manifest with too many partitions to ask for each.

    Raises
    ------
    LimitExceededError
        There are more than `limits.partitions`.
    """
    partitions = array.partitions
    if partitions is not None and partitions.total > limits.partitions:
        raise LimitExceededError(
            f"the manifest has {counted(partitions.total, 'partition')}, all of which are "
            f"needed; the limit is {limits.partitions:,}",
            array=array.path,
            remedy=Advice(
                "Raise ",
                Setting("limits", "partitions", "Limits(partitions=...)"),
                " if you can wait for all of them.",
            ),
        )


async def _listed(array: DeclaredArray, store: Store, keys: PartitionKeys) -> list[tuple[int, ...]]:
    """Return the partitions that have a document in the store."""
    listing = await list_inside(store, f"{keys.directory}/" if keys.directory else "")
    # A link that leads out of the hierarchy is a document, too, which is refused when it is read.
    found = map(keys.partition, (*listing.keys, *listing.links))
    return sorted(index for index in found if index is not None and array.has_partition(index))
