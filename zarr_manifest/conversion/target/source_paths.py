"""The paths of sources, as written into a hierarchy: relative if both move together.

Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from urllib.parse import quote

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import format_canonical
from zarr_manifest.locations import Base, Location, StoreLocation, UrlLocation
from zarr_manifest.manifest import References

__all__ = ["SourcePaths"]

# As in canonical URLs: S3 reads "+" as a space.
_SAFE = "!$&'()*,;=:@/"


class SourcePaths:
    """Rewrites the paths of manifests: those below the base become relative to it.

    Parameters
    ----------
    roots : iterable of UrlLocation
        Locations of the root of the hierarchy's store; empty if it has no URL.
    base : str, optional
        URL reference, relative to the root of the hierarchy, against which relative
        paths resolve; the root itself by default.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> paths = SourcePaths([UrlLocation("file", "", "data/h.zarr")])
    >>> manifest = Manifest.from_columns((1,), paths="file:///data/h.zarr/raw/f.nc")
    >>> paths.rewritten(references_of(manifest))[0].paths, paths.base_of("deep/array")
    (('raw/f.nc',), '../../')
    """

    def __init__(self, roots: Iterable[UrlLocation], base: str | None = None) -> None:
        self._roots = tuple(roots)
        self._stated = base
        self._base = Base.parse("./" if base is None else base)
        self._known: dict[str, tuple[str, bool]] = {}

    def base_of(self, array_path: str, *, any_relative: bool = True) -> str | None:
        """Return the ``base`` that an array must declare, or None."""
        if self._base.scheme:
            return self._stated
        if self._stated is None and not any_relative:
            return None
        up = "../" * len([name for name in array_path.split("/") if name])
        directory = self._base.path.rpartition("/")[0]
        down = f"{quote(directory, safe=_SAFE)}/" if directory else ""
        return f"{up}{down}" if up else f"./{down}" if down else None

    def rewritten(self, manifest: References) -> tuple[References, bool]:
        """Return a manifest with its paths as written, and whether any is relative.

        Raises
        ------
        InvalidPathError
            A path is invalid.
        """
        paths: list[str] = []
        any_relative = False
        for number, path in enumerate(manifest.paths):
            try:
                written, is_relative = self._known.get(path) or self._learn(path)
            except InvalidPathError as error:
                index = next(manifest.indices_with_path(number))
                raise error.in_context(chunk=format_canonical(index)) from None
            paths.append(written)
            any_relative |= is_relative
        same = tuple(paths) == manifest.paths
        return manifest if same else manifest.with_paths(paths), any_relative

    def _learn(self, path: str) -> tuple[str, bool]:
        location = self._base.resolve(path)
        relative = self._relative(location)
        is_relative = isinstance(location, StoreLocation) or relative is not None
        learnt = (path if relative is None else relative), is_relative
        if len(self._known) < _MAX_KNOWN:
            self._known[path] = learnt
        return learnt

    def _relative(self, location: Location) -> str | None:
        """Return a location below the base as a relative reference, or None."""
        if isinstance(location, StoreLocation) or location.query:
            return None
        if self._base.scheme:
            directory = self._base.path.rpartition("/")[0]
            roots = [UrlLocation(self._base.scheme, self._base.authority, directory)]
            inside = ""
        else:
            roots, inside = list(self._roots), self._base.path.rpartition("/")[0]
        for root in roots:
            below = f"{root.path}/" if root.path else ""
            same = (location.scheme, location.authority) == (root.scheme, root.authority)
            key = location.path.removeprefix(below)
            if same and location.path.startswith(below) and "" not in key.split("/"):
                # The name is added last: an object may have the name of a directory of the base.
                parent, name = posixpath.split(f"/{key}")
                above = posixpath.relpath(parent, f"/{inside}")
                reference = quote(posixpath.normpath(f"{above}/{name}"), safe=_SAFE)
                return f"./{reference}" if ":" in reference.partition("/")[0] else reference
        return None


# Paths that are remembered from manifest to manifest: in some formats every chunk has its own.
_MAX_KNOWN = 100_000
