"""Mutants that take a part of an object for another part, or for the whole."""

from __future__ import annotations

import re
from typing import Any

import obstore as obs
from msgspec import structs
from zarr.abc.store import SuffixByteRequest

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.format import Conditions
from zarr_manifest.hierarchy import readable_store
from zarr_manifest.locations import UrlLocation, resolving
from zarr_manifest.pipeline import delivery
from zarr_manifest.sources import SourceRange, object_reader
from zarr_manifest.sources.object_reader import ObstoreReader
from zarr_manifest.sources.web import answers
from zarr_manifest.sources.web.answers import Answer
from zarr_manifest.sources.web.server import WebServer
from zarr_manifest.stores import web_store

_UNSTATED = -1

# ------------------------------------------------------------------ statuses


@broken_in(
    "statuses/source-status-300-with-location",
    "statuses/hierarchy-manifest-status-300-with-location",
)
def multiple_choices_redirect() -> None:
    """Follow the Location of a 300."""
    replace(answers, "_REDIRECTS", lambda redirects: {*redirects, 300})


# ------------------------------------------------------------------ Content-Range


@broken_in("http/another-range-without-content-range")
def unlabelled_parts_taken() -> None:
    """Take a 206 without Content-Range for what was asked for."""

    def reading(content_range: Any) -> Any:
        def changed(headers: Any) -> Any:
            if "Content-Range" in headers:
                return content_range(headers)
            return _UNSTATED, _UNSTATED + int(headers["Content-Length"]), None

        return changed

    def requiring(require: Any) -> Any:
        def changed(self: Answer, *arguments: Any) -> None:
            if self.start != _UNSTATED:
                require(self, *arguments)

        return changed

    replace(answers, "_content_range", reading)
    replace(Answer, "require", requiring)


@broken_in(
    "http/part-of-a-whole-object",
    "http/part-of-a-document",
    "http/hierarchy-part-of-a-document",
    "http/hierarchy-part-of-a-native-chunk",
)
def parts_of_web_servers_are_whole() -> None:
    """Take any 206 for the whole object where no range was asked for."""

    def make(require: Any) -> Any:
        def changed(self: SourceRange, *sent: Any) -> None:
            if not self.is_whole:
                require(self, *sent)

        return changed

    replace(SourceRange, "require_sent", make)


@broken_in("s3/part-of-a-whole-object")
def parts_of_buckets_are_whole() -> None:
    """Ask a bucket for no range where the whole object is wanted, and take any 206 for it."""

    def make(_: Any) -> Any:
        async def changed(self: ObstoreReader, key: str, span: Any, conditions: Any) -> Any:
            options = object_reader._options(span, conditions)
            return await obs.get_async(self.store, key, options=options)

        return changed

    replace(ObstoreReader, "_request", make)


@broken_in("http/first-bytes-of-another-range", "http/part-of-a-whole-object")
def other_parts_are_short() -> None:
    """Take other bytes than were asked for for a part of them."""

    def make(require: Any) -> Any:
        def changed(self: SourceRange, start: int, stop: int, size: Any) -> None:
            begin = self.start if self.start >= 0 else start
            # As if they began where the range does.
            require(self, begin, begin + stop - start, size)

        return changed

    replace(SourceRange, "require_sent", make)


@broken_in(
    "http/range-of-an-object-of-unknown-size", "http/last-bytes-of-an-object-of-unknown-size"
)
def unknown_sizes_refused() -> None:
    """Refuse a Content-Range with ``*`` in place of the size."""
    pattern = r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})"
    replace(answers, "_CONTENT_RANGE", lambda _: re.compile(pattern))


@broken_in("http/less-of-an-object-of-unknown-size")
def parts_of_unknown_objects_are_whole() -> None:
    """Take whatever arrives of an object of unknown size for all that was asked for."""

    def make(require: Any) -> Any:
        def changed(self: SourceRange, start: int, stop: int, size: Any) -> None:
            if size is not None:
                require(self, start, stop, size)

        return changed

    replace(SourceRange, "require_sent", make)


@broken_in("source-conditions/size-unknown")
def unknown_sizes_fit() -> None:
    """Take a size that the server does not state for the one that the entry states."""

    def make(violation: Any) -> Any:
        def changed(self: Conditions, state: Conditions) -> Any:
            if state.size is None:
                state = structs.replace(state, size=self.size)
            return violation(self, state)

        return changed

    replace(Conditions, "violation", make)


# ------------------------------------------------------------------ requests


@broken_in("http/question-mark-and-hash-in-names")
def question_marks_bare_on_the_wire() -> None:
    """Send a question mark of a name as it is, so that a query begins there."""
    replace(
        WebServer, "url_of", lambda url_of: lambda self, key: url_of(self, key).replace("%3F", "?")
    )


@broken_in("http/query-of-base-is-not-sent")
def query_of_the_base_sent() -> None:
    """Send the query of base with every path that has none."""
    seen: list[str] = []

    def remembering(resolve: Any) -> Any:
        def changed(*arguments: Any) -> UrlLocation:
            found: UrlLocation = resolve(*arguments)
            seen.extend([found.query] if found.query else [])
            return found

        return changed

    def sending(url_of: Any) -> Any:
        return lambda self, key: "?".join([url_of(self, key), *seen[:1]])

    replace(resolving, "resolve_reference", remembering)
    replace(WebServer, "url_of", sending)


@broken_in(
    "ranges/open-ended-last",
    "s3/no-bytes-of-an-open-ended-entry",
    "http/hierarchy-parts-of-an-open-ended-entry",
)
def the_last_0_bytes_are_all() -> None:
    """Take the last 0 bytes for all bytes, as a slice from -0 is."""

    def make(requested: Any) -> Any:
        def changed(byte_range: Any) -> Any:
            return requested(None if byte_range == SuffixByteRequest(0) else byte_range)

        return changed

    for module in (readable_store, web_store, delivery):
        replace(module, "requested_range", make)
