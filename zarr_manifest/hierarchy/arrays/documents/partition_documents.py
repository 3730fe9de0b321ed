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
    "PartitionsToRead",
    "around_partition",
    "partitions_to_read",
    "require_few_partitions",
]

type Partition = tuple[int, ...] | None

# So few documents are asked for without listing them.
_FEW = 64

# Any text that a key cannot contain by chance.
_MARKER = "the-place-of-the-partition"


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
    around = around_partition(array)
    is_many = array.partitions.total > min(_FEW, limits.partitions)
    if is_many and around is not None and can_list(store):
        try:
            found = await _listed(array, store, *around)
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


async def _listed(
    array: DeclaredArray, store: Store, before: str, after: str
) -> list[tuple[int, ...]]:
    """Return the partitions that have a document in the store."""
    directory, slash, _ = before.rpartition("/")
    listing = await list_inside(store, directory + slash)
    # A link that leads out of the hierarchy is a document, too, which is refused when it is read.
    keys = [
        key[len(before) : len(key) - len(after)]
        for key in (*listing.keys, *listing.links)
        if key.startswith(before) and key.endswith(after)
    ]
    found = (parse_canonical(key, array.ndim) for key in keys)
    return sorted(index for index in found if index is not None and array.has_partition(index))


def around_partition(array: DeclaredArray) -> tuple[str, str] | None:
    """Return the keys of a partitioned manifest's documents before and after the partition.

    None if the documents are not in the hierarchy's own store.
    """
    template = array.configuration.manifest
    assert isinstance(template, str)  # an inline manifest has no partitions
    reference = template.replace(PLACEHOLDER, _MARKER)
    location = Base.parse("./", directory=array.path).resolve(reference)
    if not isinstance(location, StoreLocation):
        return None
    before, _, after = location.key.partition(_MARKER)
    return before, after
