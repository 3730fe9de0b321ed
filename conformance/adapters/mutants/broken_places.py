"""Mutants that misread places: paths, what the reader authorised, and with which access."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.locations import resolving
from zarr_manifest.locations.allow_list import AllowList
from zarr_manifest.locations.resolving import Base, UrlLocation
from zarr_manifest.sources import sources
from zarr_manifest.sources.access import Anonymous, Environment, open_storage
from zarr_manifest.sources.sources import Sources
from zarr_manifest.sources.web import web_reader_of

# ------------------------------------------------------------------ paths


@broken_in("climbing/base-above-the-file-system")
def dot_dot_clamped() -> None:
    """Let a path that climbs above the root stay in it."""

    def make(merge: Any) -> Any:
        def clamped(
            reference: str, directory: Sequence[str], segments: Sequence[str], *, has_url: bool
        ) -> Any:
            kept: list[str] = list(directory)
            for segment in segments[:-1]:
                if segment == "..":
                    kept = kept[:-1]
                elif segment != ".":
                    kept.append(segment)
            return merge(reference, kept, segments[-1:], has_url=has_url)

        return clamped

    replace(resolving, "_merge", make)


@broken_in("climbing/base")
def hierarchy_as_the_root() -> None:
    """Let nothing lead out of the hierarchy: resolve references as if it had no URL."""
    replace(Base, "parse", _without_root)


def _without_root(parse: Any) -> Any:
    return classmethod(
        lambda _, reference, *, directory="", schemes=frozenset(), root=None: parse(
            reference, directory=directory, schemes=schemes
        )
    )


@broken_in("climbing/path-that-is-not-authorised")
def neighbours_authorised() -> None:
    """Authorise what lies beside the hierarchy, because the reference is relative."""

    def make(check: Any) -> Any:
        def checked(self: Sources, locations: Sequence[Any]) -> None:
            beside = None if self.root is None else self.root.path.rpartition("/")[0]
            check(
                self, (x for x in locations if not getattr(x, "path", "").startswith(f"{beside}/"))
            )

        return checked

    replace(Sources, "check", make)


@broken_in("climbing/out-and-back")
def inside_forgotten() -> None:
    """Take a path that leads out of the hierarchy and back for one that stays outside."""

    def make(resolve: Any) -> Any:
        def resolved(reference: str, base: Base) -> Any:
            found = resolve(reference, base)
            if base.root is None or found.scheme or reference.count("../") <= base.path.count("/"):
                return found
            path = f"{base.root.path}/{found.path}"
            return UrlLocation(base.root.scheme, base.root.authority, path)

        return resolved

    replace(resolving, "resolve_reference", make)


@broken_in("paths/base-percent-encoded")
def percent_kept() -> None:
    """Leave paths percent-encoded."""
    replace(resolving, "_decode", lambda _: lambda _reference, segment: segment)


@broken_in("paths/encoded-slash")
def encoded_slashes_accepted() -> None:
    """Take an encoded slash for one that separates segments."""
    replace(
        Base, "resolve", lambda resolve: lambda self, path: resolve(self, path.replace("%2F", "/"))
    )


@broken_in("older-writers")
def bare_paths_relative() -> None:
    """Take a bare absolute file path for a relative one."""
    replace(
        resolving,
        "resolve_reference",
        lambda resolve: lambda path, base: resolve(path.lstrip("/"), base),
    )


# ------------------------------------------------------------------ authorisation


@broken_in("security")
def allow_everything() -> None:
    """Read every location, authorised or not."""

    def make(match: Any) -> Any:
        def changed(self: AllowList, location: UrlLocation) -> str:
            found: str | None = match(self, location)
            if found is None:
                found = f"{location.origin}/"
                self._normalized[found] = UrlLocation(location.scheme, location.authority, "")
            return found

        return changed

    def initialising(initialise: Any) -> Any:
        def changed(self: Sources, allow: Mapping[str, Any], *rest: Any, **options: Any) -> None:
            initialise(self, defaultdict(lambda: None, allow), *rest, **options)

        return changed

    replace(AllowList, "match", make)
    replace(Sources, "__init__", initialising)


@broken_in(
    "security/name-that-begins-like-the-prefix", "redirects/manifest-beside-what-is-authorised"
)
def allow_by_characters() -> None:
    """Let a prefix cover whatever begins with its characters."""

    def make(match: Any) -> Any:
        def changed(self: AllowList, location: UrlLocation) -> str | None:
            found: str | None = match(self, location)
            for prefix in self._normalized:
                if found is None and location.url.startswith(self.normalized(prefix).url):
                    found = prefix
            return found

        return changed

    replace(AllowList, "match", make)


@broken_in("security/redirect-of-a-manifest-document", "redirects")
def redirects_followed() -> None:
    """Follow a redirect to wherever it leads."""

    def make(_: Any) -> Any:
        def changed(self: Sources, asked: str, target: str) -> Any:
            location: Any = Base.parse(asked).resolve(target)
            origin = UrlLocation(location.scheme, location.authority, "")
            store: Any = open_storage(origin, None, query=location.query)
            return web_reader_of(store, lambda *urls: self.follow(*urls)), location.path

        return changed

    replace(Sources, "follow", make)


# ------------------------------------------------------------------ access


def _change_access(change: Callable[[Any], Any]) -> None:
    """Let a function change the access with which sources are opened."""

    def make(open_storage: Any) -> Any:
        def changed(prefix: UrlLocation, access: Any, **options: Any) -> Any:
            return open_storage(prefix, change(access), **options)

        return changed

    replace(sources, "open_storage", make)


@broken_in("s3/credentials")
def credentials_unused() -> None:
    """Read anonymously, whatever credentials a prefix has."""
    names = ("access_key_id", "secret_access_key")

    def change(access: Any) -> Any:
        if isinstance(access, Mapping):
            return Anonymous({k: v for k, v in access.items() if k not in names})
        return access

    _change_access(change)


@broken_in("s3")
def environment_used() -> None:
    """Read with the credentials of the environment where the reader stated none."""
    _change_access(
        lambda access: Environment(access.options) if isinstance(access, Anonymous) else access
    )
