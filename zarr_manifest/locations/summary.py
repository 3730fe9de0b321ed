"""What a hierarchy refers to: prefixes, and how much lies below each.

A summary to look at before trusting the hierarchy, and to paste into `allow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from zarr_manifest.locations.allow_list import AllowList
from zarr_manifest.locations.resolving import StoreLocation, UrlLocation


class ReferencedLocation(Struct, frozen=True):
    """A directory that a hierarchy's manifests refer to.

    Parameters
    ----------
    prefix : str or None
        URL prefix, suitable for `allow`; None for the hierarchy's own store,
        which needs no authorisation.
    allowed : bool
        Whether the store as opened may read it.
    objects : int
        Number of distinct objects.
    references : int
        Number of chunks.
    nbytes : int
        Total of the lengths given in the entries, in bytes.

    Examples
    --------
    >>> found = [
    ...     ReferencedLocation(None, True, objects=1, references=2, nbytes=200),
    ...     ReferencedLocation("s3://bucket/2024/", False, objects=9, references=90, nbytes=900),
    ... ]
    >>> [location.prefix for location in found if not location.allowed]
    ['s3://bucket/2024/']
    """

    prefix: str | None
    allowed: bool
    objects: int
    references: int
    nbytes: int


def summarize(
    found: Iterable[tuple[StoreLocation | UrlLocation, int, int]],
    prefixes: Sequence[str],
    allow: Iterable[str],
) -> list[ReferencedLocation]:
    """Sum up references by prefix.

    Parameters
    ----------
    found : iterable of (location, references, bytes)
        Every referenced object; an object may occur several times.
    prefixes : sequence of str
        Prefixes that together cover all URL locations.
    allow : iterable of str
        Authorised prefixes.

    Examples
    --------
    >>> location = UrlLocation("s3", "bucket", "2024/f.nc", "")
    >>> summarize([(location, 3, 300)], ["s3://bucket/2024/"], [])  # doctest: +NORMALIZE_WHITESPACE
    [ReferencedLocation(prefix='s3://bucket/2024/', allowed=False, objects=1, references=3,
                        nbytes=300)]
    """
    below = AllowList(prefixes)
    authorised = AllowList(allow)
    objects: dict[str | None, set[StoreLocation | UrlLocation]] = {}
    references: dict[str | None, int] = {}
    sizes: dict[str | None, int] = {}
    for location, count, nbytes in found:
        prefix = below.match(location) if isinstance(location, UrlLocation) else None
        objects.setdefault(prefix, set()).add(location)
        references[prefix] = references.get(prefix, 0) + count
        sizes[prefix] = sizes.get(prefix, 0) + nbytes
    return [
        ReferencedLocation(
            prefix,
            _all_allowed(objects[prefix], authorised),
            len(objects[prefix]),
            references[prefix],
            sizes[prefix],
        )
        for prefix in sorted(objects, key=lambda p: (p is not None, p or ""))
    ]


def _all_allowed(locations: Iterable[StoreLocation | UrlLocation], authorised: AllowList) -> bool:
    return all(
        isinstance(location, StoreLocation) or authorised.match(location) is not None
        for location in locations
    )
