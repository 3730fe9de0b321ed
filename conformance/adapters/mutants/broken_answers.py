"""Mutants that misread the answers of servers and of file systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.adapters.mutants.registry import broken_in, register, replace
from zarr_manifest.errors import (
    LocationNotAllowedError,
    ManifestError,
    SourceAccessDeniedError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.locations import Base
from zarr_manifest.sources import local_files, object_reader, sources
from zarr_manifest.sources.sources import Sources
from zarr_manifest.sources.web import answers, web_reader
from zarr_manifest.stores import web_store

# ------------------------------------------------------------------ statuses

_STATUSES: Mapping[int, tuple[str, type[ManifestError], str]] = {
    401: ("absent", SourceNotFoundError, "http/status-401"),
    403: ("absent", SourceNotFoundError, "statuses/*-403"),
    404: ("a failure", SourceError, "statuses/*-404"),
    412: ("changed", SourceChangedError, "statuses/source-*"),
    451: ("denied", SourceAccessDeniedError, "statuses/source-*"),
}


def _taken_for(status: int, error: type[ManifestError]) -> Any:
    def apply() -> None:
        def make(refusal: Any) -> Any:
            def changed(found: int, reason: str | None) -> Any:
                return error(f"HTTP status {found}") if found == status else refusal(found, reason)

            return changed

        replace(answers, "_refusal", make)

    return apply


for _status, (_meaning, _error, _cases) in _STATUSES.items():
    register(
        f"status-{_status}-is-{_meaning.replace(' ', '-')}",
        f"Take an object that is answered with status {_status} for one that is {_meaning}.",
        _cases,
    )(_taken_for(_status, _error))


# ------------------------------------------------------------------ redirects


def _follow_from_the_hierarchy(change: Any) -> None:
    """Let a function follow the redirects of a hierarchy on a web server."""

    def make(web_reader_of: Any) -> Any:
        return lambda server, follow: web_reader_of(server, change(follow))

    replace(web_store, "web_reader_of", make)


@broken_in("redirects/manifest-*")
def hierarchy_redirects_anywhere() -> None:
    """Follow redirects of a hierarchy to any server."""

    def change(follow: Any) -> Any:
        def changed(asked: str, target: str) -> Any:
            try:
                return follow(asked, target)
            except LocationNotAllowedError:
                anywhere = Sources({"/".join(target.split("/")[:3]): None}, None)
                return anywhere.follow(asked, target)

        return changed

    _follow_from_the_hierarchy(change)


@broken_in("redirects/manifest-elsewhere-authorised")
def hierarchy_redirects_nowhere() -> None:
    """Refuse all redirects of a hierarchy, authorised or not."""

    def change(_follow: Any) -> Any:
        def changed(_asked: str, target: str) -> Any:
            raise LocationNotAllowedError("the hierarchy redirects", location=target)

        return changed

    _follow_from_the_hierarchy(change)


@broken_in("redirects/*")
def redirects_below_the_hierarchy_refused() -> None:
    """Ask for authorisation even where a redirect stays below the hierarchy's own URL."""
    replace(Sources, "_own", lambda _: lambda _self, _location: None)


@broken_in("redirects/to-a-bucket")
def redirects_to_any_scheme() -> None:
    """Follow a redirect to whatever is authorised, files and buckets included."""

    def make(_: Any) -> Any:
        return lambda asked, target: Base.parse(asked).resolve(target)

    replace(sources, "_redirected", make)


@broken_in("redirects/six-in-a-row")
def endless_redirects() -> None:
    """Follow more than five redirects in a row."""
    replace(web_reader, "_MOST_REDIRECTS", lambda _: 50)


# ------------------------------------------------------------------ requests and answers


@broken_in("s3/version-*")
def absent_version_is_absent_object() -> None:
    """Take a version that does not exist for an object that does not exist."""
    for module in (object_reader, answers):
        replace(module, "missing_object", lambda missing: lambda *_, **__: missing())


# ------------------------------------------------------------------ files


@broken_in("statuses/*")
def files_as_parents_fail() -> None:
    """Take a path below a file for a failure, and not for an absent source."""

    def make(translate: Any) -> Any:
        def changed(error: OSError, *rest: Any) -> Any:
            if isinstance(error, NotADirectoryError):
                raise SourceError("a parent is not a directory")
            return translate(error, *rest)

        return changed

    replace(local_files, "_raise_translated", make)
