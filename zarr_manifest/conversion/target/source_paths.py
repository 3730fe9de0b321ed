"""The paths of sources, as written into a hierarchy: relative if both move together.

Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from msgspec import Struct

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import format_canonical
from zarr_manifest.locations import (
    Base,
    UrlLocation,
    is_relative,
    quote_path,
    relative_reference,
    resolver,
)
from zarr_manifest.manifest import References


class OptionalBase(str):
    """A base that an array declares only if one of its paths is relative."""


class SourcePaths:
    """Rewrites the paths of manifests: relative below the base, in the hierarchy and beside it.

    Beside it means in the directory that holds the hierarchy. If links lead to the hierarchy, it
    has several of these, and only what lies in the hierarchy becomes relative.

    Parameters
    ----------
    roots : iterable of UrlLocation
        Locations of the root of the hierarchy's store; empty if it has no URL.
    base : str, optional
        URL reference, relative to the root of the hierarchy, against which relative
        paths resolve; the root itself by default. One that is not an `OptionalBase` is
        declared by all arrays.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest, references_of
    >>> paths = SourcePaths([UrlLocation("file", "", "data/h.zarr")])
    >>> manifest = Manifest.from_columns((1,), paths="file:///data/raw/f.nc")
    >>> paths.rewritten(references_of(manifest))[0].paths, paths.base_of("deep/array")
    (('../raw/f.nc',), '../../')
    """

    def __init__(self, roots: Iterable[UrlLocation], base: str | None = None) -> None:
        self._roots = tuple(roots)
        self._stated = base
        self._base = Base.parse(
            "./" if base is None else base, root=self._roots[0] if self._roots else None
        )
        self._resolve = resolver(self._base)
        self._directory = self._base.path.rpartition("/")[0]
        self._places = list(self._find_places())
        self._known: dict[str, tuple[str, bool]] = {}

    @property
    def _is_absolute(self) -> bool:
        return bool(self._base.scheme) and self._base.root is None

    def _find_places(self) -> Iterator[_Place]:
        if self._base.scheme:
            yield _Place(self._base.scheme, self._base.authority, self._directory, None)
        if self._is_absolute:
            return
        has_links = len({root.path for root in self._roots}) > 1
        for root in self._roots:
            base = self._directory if self._base.scheme else _join(root.path, self._directory)
            above = root.path.rpartition("/")[0]
            # All files lie below "/", and few of them move with the hierarchy.
            has_neighbours = not has_links and (above or root.scheme != "file")
            yield _Place(root.scheme, root.authority, base, above if has_neighbours else root.path)

    def base_of(self, array_path: str, *, any_relative: bool = True) -> str | None:
        """Return the ``base`` that an array must declare, or None."""
        if not any_relative and (self._stated is None or isinstance(self._stated, OptionalBase)):
            return None
        if self._is_absolute:
            return self._stated
        up = "../" * len([name for name in array_path.split("/") if name])
        root = self._roots[0].path if self._base.scheme else ""
        directory = posixpath.relpath(f"/{self._directory}", f"/{root}")
        down = "" if directory == "." else f"{quote_path(directory)}/"
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
                written, stays_relative = self._known.get(path) or self._learn(path)
            except InvalidPathError as error:
                index = next(manifest.indices_with_path(number))
                raise error.in_context(chunk=format_canonical(index)) from None
            paths.append(written)
            any_relative |= stays_relative
        same = tuple(paths) == manifest.paths
        return manifest if same else manifest.with_paths(paths), any_relative

    def _learn(self, path: str) -> tuple[str, bool]:
        location = self._resolve(path)
        relative = None
        if isinstance(location, UrlLocation) and not location.query:
            relative = next(filter(None, (each.relative(location) for each in self._places)), None)
        learnt = relative or path, relative is not None or is_relative(path)
        if len(self._known) < _MAX_KNOWN:
            self._known[path] = learnt
        return learnt


class _Place(Struct, frozen=True):
    """A base, and the directory that moves together with it; None if that is the base itself."""

    scheme: str
    authority: str
    base: str
    shared: str | None

    def relative(self, location: UrlLocation) -> str | None:
        """Return a location in the directory as a relative reference, or None."""
        if (location.scheme, location.authority) != (self.scheme, self.authority):
            return None
        directories = [self.base] if self.shared is None else [self.base, self.shared]
        if not any(_is_below(location.path, directory) for directory in directories):
            return None
        return relative_reference(location.path, self.base)


def _is_below(path: str, directory: str) -> bool:
    """Whether a path is below a directory, without empty names."""
    start = _join(directory, "")
    return path.startswith(start) and "" not in path.removeprefix(start).split("/")


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


# Paths that are remembered from manifest to manifest: in some formats every chunk has its own.
_MAX_KNOWN = 100_000
