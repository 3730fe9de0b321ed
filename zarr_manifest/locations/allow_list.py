"""The locations that the reader authorised, and those that a hierarchy refers to: by URL prefix.

Prefixes are matched by whole path segments, and in canonical form only. Pure.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations.kinds import kind_of
from zarr_manifest.locations.redaction import redact
from zarr_manifest.locations.resolving import Base, StoreLocation, UrlLocation, resolve_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class AllowList:
    """The URL prefixes that the reader authorised.

    A prefix covers everything below it, by whole path segments, and the object of
    that exact name. Scheme and authority must be equal.

    Parameters
    ----------
    prefixes : iterable of str
        URLs without a query, or bare absolute file paths; with or without a
        trailing slash. ``s3://b`` covers a bucket and ``file:///`` the whole
        file system; no other prefix may lack a bucket or host.

    Raises
    ------
    ValueError
        If a prefix is relative, has a query, is too broad, or is not a usable URL.

    Examples
    --------
    >>> allowed = AllowList(["s3://b/my-data", "/data/"])
    >>> allowed.match(UrlLocation("s3", "b", "my-data/f.nc"))
    's3://b/my-data'
    >>> allowed.match(UrlLocation("s3", "b", "my-data2/f.nc")) is None
    True
    >>> allowed.normalized("/data/")
    UrlLocation(scheme='file', authority='', path='data', query='')
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        # A lone "/data" would otherwise authorise "/", its first character.
        if isinstance(prefixes, str):
            raise TypeError("prefixes must be an iterable of strings, not one string")
        self._normalized = {prefix: _parse_prefix(prefix) for prefix in prefixes}
        # Reversed, so that the first of several equivalent prefixes wins.
        self._originals = {at: prefix for prefix, at in reversed(self._normalized.items())}
        # Only these depths are looked up: a hostile path may have any number of segments.
        depths = {at.path.count("/") + 1 if at.path else 0 for at in self._originals}
        self._depths = sorted(depths, reverse=True)
        #: Schemes of prefixes that the specification does not know.
        self.other_schemes = frozenset(s for s in self.schemes if kind_of(s) is None)

    @property
    def schemes(self) -> frozenset[str]:
        """Schemes of prefixes."""
        return frozenset(at.scheme for at in self._originals)

    def match(self, location: UrlLocation) -> str | None:
        """Return the longest prefix that covers the location, as it was given, or None.

        Of several equivalent prefixes, the first is returned.
        """
        segments = location.path.split("/")
        # `Base.resolve` never returns these; a location made by hand might have them.
        if "." in segments or ".." in segments:
            return None
        for depth in self._depths:
            above = UrlLocation(location.scheme, location.authority, "/".join(segments[:depth]))
            if (prefix := self._originals.get(above)) is not None:
                return prefix
        return None

    def normalized(self, prefix: str) -> UrlLocation:
        """Return the canonical form of a prefix: its path has no trailing slash, or is ``""``.

        Raises
        ------
        ValueError
            If the prefix is not one of those given.
        """
        # Not KeyError: zarr turns that into fill values.
        if prefix not in self._normalized:
            raise ValueError(f"{redact(prefix)!r} is not a prefix in this list")
        return self._normalized[prefix]


def suggest_prefixes(locations: Iterable[UrlLocation]) -> list[str]:
    """Return a few prefixes that cover the locations, ready to paste.

    For each scheme and authority, the longest common directory. Files that have
    only ``/`` in common are grouped by their two topmost directories, and a file
    directly in ``/`` is listed by itself: the whole file system is never suggested.

    Examples
    --------
    >>> base = Base.parse("./")
    >>> paths = ["s3://b/x/1.nc", "s3://b/x/y/2.nc", "/data/a/3.nc", "/home/me/4.nc"]
    >>> suggest_prefixes([base.resolve(path) for path in paths])
    ['file:///data/a/', 'file:///home/me/', 's3://b/x/']
    """
    by_origin: defaultdict[tuple[str, str], list[UrlLocation]] = defaultdict(list)
    for location in locations:
        by_origin[location.scheme, location.authority].append(location)
    suggestions: set[str] = set()
    for (scheme, authority), group in by_origin.items():
        common = _common(_directory(location) for location in group)
        if scheme == "file" and not common:
            suggestions |= _suggest_files(group)
        else:
            suggestions.add(_prefix_url(scheme, authority, common))
    return sorted(suggestions)


@functools.lru_cache(maxsize=256)  # a store has several lists of the same prefixes
def _parse_prefix(prefix: str) -> UrlLocation:
    shown = redact(prefix)
    if "?" in prefix:
        raise ValueError(f"{shown!r} cannot be a prefix: it has a query")
    try:
        # Of any scheme: whether there is a reader for it does not concern prefixes.
        scheme = prefix.partition(":")[0].lower()
        target = resolve_reference(prefix, Base("", "", "", frozenset({scheme})))
    except InvalidPathError as error:
        hint = "" if error.remedy is None else f". {error.remedy}"
        raise ValueError(f"{shown!r} cannot be a prefix: {error.problem}{hint}") from None
    if not target.scheme:
        raise ValueError(
            f"{shown!r} cannot be a prefix: it is relative. "
            "Write a URL such as 's3://bucket/data/', or an absolute file path"
        )
    path = target.path.removesuffix("/")
    if path and "" in path.split("/"):
        raise ValueError(f"{shown!r} cannot be a prefix: it has an empty segment")
    return UrlLocation(target.scheme, target.authority, path)


def _directory(location: UrlLocation) -> tuple[str, ...]:
    # Up to the first empty segment: prefixes have no empty segments.
    return tuple(takewhile(bool, location.path.split("/")[:-1]))


def _common(directories: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*directories, strict=False))
    return tuple(level[0] for level in levels)


def _prefix_url(scheme: str, authority: str, directory: tuple[str, ...]) -> str:
    return UrlLocation(scheme, authority, "".join(f"{name}/" for name in directory)).url


def _suggest_files(locations: Sequence[UrlLocation]) -> set[str]:
    """Cover files that have no directory in common but "/"."""
    shallow = {d for d in map(_directory, locations) if len(d) == 1}
    groups: defaultdict[tuple[str, ...], list[UrlLocation]] = defaultdict(list)
    for location in locations:
        directory = _directory(location)
        groups[directory[:1] if directory[:1] in shallow else directory[:2]].append(location)
    in_root = {location.url for location in groups.pop((), [])}
    return in_root | {_prefix_url("file", "", _common(map(_directory, g))) for g in groups.values()}


# What a hierarchy refers to ----------------------------------------------------


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
