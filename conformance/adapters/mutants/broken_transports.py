"""Mutants that misread transports: statuses, encodings, conditions, redirects, links."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import structs

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.format import Conditions
from zarr_manifest.hierarchy import inspected_hierarchy, store
from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import directories, local_files, object_reader, sources
from zarr_manifest.sources.byte_ranges import missing_object
from zarr_manifest.sources.directories import Directory
from zarr_manifest.sources.web import answers, web_reader

# ------------------------------------------------------------------ what servers answer


@broken_in(
    "statuses", "http/manifest-status-405", "partitions/document-that-cannot-be-got-over-http"
)
def not_allowed_is_absent() -> None:
    """Take 405 for an object that does not exist, as some clients do."""
    replace(
        answers,
        "_refusal",
        lambda refusal: (
            lambda status, reason: missing_object() if status == 405 else refusal(status, reason)
        ),
    )


@broken_in("statuses/block-status-410")
def gone_is_an_error() -> None:
    """Take 410 for a failure of the server."""
    replace(
        answers,
        "_refusal",
        lambda refusal: lambda status, reason: refusal(400 if status == 410 else status, reason),
    )


@broken_in("statuses/directory-as-a-block")
def directories_are_absent() -> None:
    """Take a directory in the place of a file for nothing."""

    def make(raise_translated: Any) -> Any:
        def changed(error: OSError, *rest: Any) -> None:
            is_directory = isinstance(error, IsADirectoryError)
            raise_translated(FileNotFoundError() if is_directory else error, *rest)

        return changed

    replace(local_files, "_raise_translated", make)


@broken_in("content-encodings")
def encoded_bytes_taken() -> None:
    """Take what a server has encoded for the bytes of the object."""
    for module in (answers, object_reader):
        replace(module, "reject_encoded", lambda _: lambda encoding: None)


@broken_in("content-encodings/identity-is-asked-for")
def identity_not_asked_for() -> None:
    """Leave it to the server how it encodes an object."""

    def make(_: Any) -> Any:
        def changed(options: Any) -> Any:
            headers = {**options.get("default_headers", {}), "accept-encoding": "*"}
            return {**options, "default_headers": headers}

        return changed

    replace(web_reader, "asking_for_identity", make)


@broken_in("s3")
def other_versions_taken() -> None:
    """Read any version that the server sends."""

    def make(violation: Any) -> Any:
        def changed(self: Conditions, state: Conditions) -> Any:
            return violation(self, structs.replace(state, version=self.version))

        return changed

    replace(Conditions, "violation", make)


@broken_in("source-conditions/etag-decides-before-the-time")
def time_compared_beside_an_etag() -> None:
    """Refuse an object that has the stated tag, and another time."""
    replace(Conditions, "are_exact", lambda _: property(lambda self: False))


@broken_in("source-conditions/weak-etag-beside-the-time")
def weak_tags_decide_alone() -> None:
    """Take a weak tag for one that names a single state."""
    replace(Conditions, "are_exact", lambda _: property(lambda self: self.etag is not None))


@broken_in("source-conditions/weak-etag-in-the-entry")
def weak_tags_sent() -> None:
    """Send weak entity tags in If-Match, which never matches them."""
    replace(Conditions, "if_match", lambda _: property(lambda self: self.etag))


@broken_in("source-conditions/etag-changed")
def refused_conditions_not_asked_again() -> None:
    """Take 412 for a change, though a server may have made its own tag weak."""
    replace(Conditions, "are_sent", lambda _: property(lambda self: False))


# ------------------------------------------------------------------ what servers are asked for


@broken_in("http/query-*")
def query_not_sent() -> None:
    """Request URLs without their query."""

    def make(open_storage: Any) -> Any:
        def changed(prefix: UrlLocation, access: Any, **options: Any) -> Any:
            return open_storage(prefix, access, **{**options, "query": ""})

        return changed

    replace(sources, "open_storage", make)


@broken_in("redirects/bucket-status-301")
def buckets_may_redirect() -> None:
    """Follow the redirects of buckets to wherever they lead."""
    replace(sources, "within_host", lambda _: lambda store: store)


@broken_in("base-override")
def override_is_no_directory() -> None:
    """Resolve against an override of base as it is written, without the slash that it lacks."""
    for module in (store, inspected_hierarchy):
        replace(module, "base_directory", lambda _: lambda base: base)


# ------------------------------------------------------------------ files


@broken_in("links")
def links_followed() -> None:
    """Follow a symbolic link to wherever it leads."""

    def make(_: Any) -> Any:
        def changed(self: Directory, key: str) -> tuple[str, str]:
            return self.path, key

        return changed

    def opening(_: Any) -> Any:
        def changed(directory: str, key: str, act: Any) -> Any:
            real = os.path.realpath(f"{directory}/{key}")
            return act(real, None)

        return changed

    replace(Directory, "_locate", make)
    replace(directories, "_reach_in", opening)


@broken_in("links")
def links_only_in_their_own_directory() -> None:
    """Refuse links into other authorised directories."""

    def make(locate: Any) -> Any:
        return lambda self, key: locate(Directory(self.path, (), self.name), key)

    replace(Directory, "_locate", make)


@broken_in("links/absolute-source-dangling-out-of-its-prefix")
def dangling_links_are_absent() -> None:
    """Take a link outwards whose target does not exist for a file that does not."""

    def make(require: Any) -> Any:
        def changed(self: Directory, key: str) -> Any:
            if not Path(os.path.realpath(f"{self.path}/{key}")).exists():
                raise FileNotFoundError(key)
            return require(self, key)

        return changed

    replace(Directory, "_require_located", make)
