"""The member ``partitions`` of a declaration: which partitions have a manifest document.

A document that is declared but does not exist has been lost. Without the member, nobody can
tell a lost document from one that was never written. With checksums, a document with other
bytes is noticed, too. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Literal, cast

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format.chunk_grid import Partitions
from zarr_manifest.format.chunk_keys import canonical_indices, format_canonical, parse_canonical
from zarr_manifest.format.documents_by_digest import (
    are_document_checksums,
    interpret_document_checksum,
)
from zarr_manifest.format.findings import Findings

# Names, or names and the checksums of their documents.
type DeclaredPartitions = Literal["all"] | tuple[str, ...] | Mapping[str, str]

# Every reader of the hierarchy reads the names. A longer list is never made of "all".
MOST_NAMES = 1_000_000


def interpret_partitions(declared: object) -> Findings[DeclaredPartitions | None]:
    """Yield the problem of a value of ``partitions``, and return the value.

    Which names there may be depends on the array: see :func:`interpret_partition_names`.
    """
    if declared == "all":
        return "all"
    if isinstance(declared, dict):
        return (yield from _interpret_checksums(cast("dict[str, object]", declared)))
    items = cast("list[object]", declared) if isinstance(declared, list) else [None]
    names = tuple(item for item in items if isinstance(item, str))
    if len(names) < len(items):
        yield InvalidConfigurationError(
            "'partitions' is neither 'all', nor a list of names, nor an object with checksums"
        )
        return None
    return names


def _interpret_checksums(declared: dict[str, object]) -> Findings[dict[str, str] | None]:
    if not are_document_checksums(declared.values()):
        for name, value in declared.items():
            where = f"the member {name!r:.40} of 'partitions'"
            if (yield from interpret_document_checksum(value, where)) is None:
                return None
    return cast("dict[str, str]", declared)


def interpret_partition_names(names: tuple[str, ...], ndim: int) -> Findings[frozenset[str] | None]:
    """Yield the problems of the names in ``partitions``, and return them.

    Parameters
    ----------
    names : tuple of str
        The names as declared.
    ndim : int
        Number of dimensions of the array.
    """
    unique = frozenset(names)
    if len(unique) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        yield InvalidConfigurationError(f"'partitions' names {twice!r:.40} twice")
        return None
    if canonical_indices(names, ndim) is None:
        for name in names:
            if parse_canonical(name, ndim) is None:
                example = ".".join("0" * ndim) or "0"
                yield InvalidConfigurationError(
                    f"'partitions' has {name!r:.40}, which is not the name of a partition, such "
                    f"as {example!r}"
                )
                return None
    return unique


def names_outside(partitions: Partitions, names: Collection[str]) -> list[str]:
    """Return the valid names that are not those of partitions, sorted as texts.

    Examples
    --------
    >>> names_outside(Partitions((4,), (2,)), ["0", "2", "1"])
    ['2']
    """
    ndim = len(partitions.shape)
    return sorted(
        name
        for name in names
        if (index := parse_canonical(name, ndim)) is None or not partitions.contains(index)
    )


def state_partitions(
    partitions: Partitions, documents: Collection[tuple[int, ...]]
) -> Literal["all"] | list[str]:
    """Return the value of ``partitions`` for the partitions that have a document.

    Examples
    --------
    >>> state_partitions(Partitions((4, 1), (2, 1)), [(1, 0), (7, 0)])
    ['1.0']
    >>> state_partitions(Partitions((4, 1), (2, 1)), [(1, 0), (0, 0)])
    'all'

    See Also
    --------
    state_checksums : The value where the checksums of all documents are known.
    """
    inside = sorted(index for index in documents if partitions.contains(index))
    if len(inside) == partitions.total:
        return "all"
    return [format_canonical(index) for index in inside]


def state_checksums(
    partitions: Partitions, checksums: Mapping[tuple[int, ...], str]
) -> dict[str, str]:
    """Return the value of ``partitions`` for the documents with these checksums, in C order.

    Examples
    --------
    >>> state_checksums(Partitions((4,), (2,)), {(1,): "sha256:ab", (0,): "sha256:cd"})
    {'0': 'sha256:cd', '1': 'sha256:ab'}
    """
    inside = sorted(index for index in checksums if partitions.contains(index))
    return {format_canonical(index): checksums[index] for index in inside}
