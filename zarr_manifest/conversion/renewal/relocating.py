"""Records the new place of objects that were moved, as one change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zarr_manifest.conversion.renewal.renewing import Renewal, RenewalReport
from zarr_manifest.errors import Advice, InvalidPathError, Setting
from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import DeclaredArray
from zarr_manifest.locations import AllowList, Location, UrlLocation, redact
from zarr_manifest.sources import Allow, ObjectVersion, access_by_prefix, anonymous
from zarr_manifest.stores import StoreLike, object_url, store_urls


def relocate(
    location: StoreLike,
    moves: Mapping[str, str],
    arrays: Iterable[str] | None = None,
    *,
    read: bool = False,
    allow: Allow = None,
    limits: Limits | None = None,
    sole_writer: bool = False,
) -> RenewalReport:
    """Let a hierarchy refer to sources at their new place, after they were moved.

    Each object at its new place is checked like those of :func:`refresh`: it is the same if it
    has the recorded strong entity tag, or, where no tag differs, the recorded size; with `read`,
    if it has the recorded size, and all of its chunks have their checksums or, without one, can
    be decoded. What is at the old place is not read. If a single object is not the same,
    nothing is written. The new paths and conditions of all arrays are one change: readers see
    all of it or nothing. Versions of objects are those of the old place, and are left out.

    A declared base that was moved becomes the new one, so that relative paths stay as they are.
    Annotations of entries are not kept.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    moves : mapping of str to str
        The old and the new place: URL prefixes, of whole path segments, or absolute paths of
        directories or files. The longest old prefix counts.
    arrays : iterable of str, optional
        Paths of arrays; all by default.
    read : bool
        Whether to read all chunks of moved objects.
    allow, limits
        As for :class:`ManifestStore`. New places need no authorisation, and are read without
        credentials unless `allow` says otherwise.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    RenewalReport

    Raises
    ------
    InvalidPathError
        No reference lies below an old place.
    WriteConflictError
        Another writer has changed the hierarchy in the meantime; nothing was written.
    ManifestError
        There is no hierarchy or array, or a manifest is not valid; nothing was written.
    ValueError
        An old or new place is no URL prefix.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "new").mkdir()
    >>> _ = (root / "new" / "raw.bin").write_bytes(bytes(8))
    >>> entry = {"path": f"file://{root}/old/raw.bin", "size": 8}
    >>> zm.create_array(root / "h", "a", {"0": entry}, shape=8, chunks=8, dtype="u1")
    >>> print(relocate(root / "h", {f"{root}/old/": f"{root}/new/"}))
    1 object checked, 1 array written
    """
    access = dict(access_by_prefix(allow))
    known, new = AllowList(access), AllowList(moves.values())
    for prefix in moves.values():
        if known.match(new.normalized(prefix)) is None:
            access[prefix] = anonymous()
    renewal = Renewal.open(location, arrays, allow=access, limits=limits, sole_writer=sole_writer)
    moved = _Moves(AllowList(moves), new, dict(moves), store_urls(renewal.hierarchy.store), set())
    renewal.check_all(moved.place, read=read, only_moved=True)
    unused = sorted(moves.keys() - moved.met)
    if unused:
        raise InvalidPathError(
            "no reference of the hierarchy lies below this place, and nothing was written",
            location=redact(unused[0]),
            remedy=Advice("To see where its bytes are: ", Setting("locations"), "."),
        )
    return renewal.report if renewal.report.refused else renewal.write(moved.base)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Where objects were and are."""

    old: AllowList
    new: AllowList
    pairs: dict[str, str]
    roots: list[UrlLocation]
    met: set[str]

    def place(self, found: ObjectVersion) -> Location:
        """Return the new place of an object; its own if it was not moved."""
        at = found.location
        if not isinstance(at, UrlLocation):
            if not self.roots:
                return at
            at = object_url(self.roots, at.key)
        prefix = self.old.match(at)
        if prefix is None:
            return found.location
        self.met.add(prefix)
        return self._below_new(prefix, at)

    def _below_new(self, prefix: str, at: UrlLocation) -> UrlLocation:
        old, new = self.old.normalized(prefix), self.new.normalized(self.pairs[prefix])
        rest = at.path[len(old.path) :].strip("/")
        path = "/".join(part for part in (new.path, rest) if part)
        return UrlLocation(new.scheme, new.authority, path)

    def base(self, array: DeclaredArray) -> str:
        """Return the base that an array declares from now on."""
        stated = array.configuration.base
        if not array.base.scheme:
            return stated
        directory = array.base.path.rpartition("/")[0]
        at = UrlLocation(array.base.scheme, array.base.authority, directory)
        prefix = self.old.match(at)
        return stated if prefix is None else f"{self._below_new(prefix, at).url.rstrip('/')}/"
