"""Mutants that misread bytes: ranges, missing and empty chunks, sources that fail."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from conformance.adapters.mutants.registry import broken_in, read_chunk_by_chunk, replace
from zarr_manifest.errors import (
    ManifestError,
    SourceAccessDeniedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.hierarchy import transformer
from zarr_manifest.hierarchy.known_nodes import KnownNodes
from zarr_manifest.hierarchy.store import ManifestStore
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.manifest import References, Row
from zarr_manifest.sources import (
    SourceRange,
    local_files,
    object_reader,
)

# ------------------------------------------------------------------ ranges


def _change_ranges(change: Any) -> None:
    """Let a function answer requests with its own range; None leaves it to the package."""

    def make(source_range: Any) -> Any:
        def changed(offset: int, length: int | None, request: Any, **options: Any) -> Any:
            span = None if length is None else change(offset, length, request)
            return source_range(offset, length, request, **options) if span is None else span

        return changed

    read_chunk_by_chunk()
    replace(transformer, "source_range", make)


@broken_in("ranges/get-bounded")
def range_off_by_one() -> None:
    """Take the stop of a range for its last byte."""

    def change(offset: int, length: int, request: Any) -> SourceRange | None:
        if request.start < 0 or request.stop is None:
            return None
        stop = min(request.stop + 1, length)
        return SourceRange(offset + min(request.start, stop), offset + stop, True)

    _change_ranges(change)


@broken_in("ranges/get-beyond-the-entry")
def stop_unclamped() -> None:
    """Let a range leave the entry, and return bytes of its neighbour."""

    def change(offset: int, _length: int, request: Any) -> SourceRange | None:
        if request.start < 0 or request.stop is None:
            return None
        return SourceRange(offset + request.start, offset + request.stop, False)

    _change_ranges(change)


@broken_in("ranges/get-more-than-there-is-from-the-end")
def suffix_unclamped() -> None:
    """Let the last bytes of an entry begin before it."""

    def change(offset: int, length: int, request: Any) -> SourceRange | None:
        if request.start >= 0:
            return None
        return SourceRange(max(0, offset + length + request.start), offset + length, True)

    _change_ranges(change)


@broken_in("sharding/explicitly-empty-shard", "ranges/get-last")
def suffix_of_the_object() -> None:
    """Take the last bytes of the object for those of an entry."""

    def change(_offset: int, _length: int, request: Any) -> SourceRange | None:
        return SourceRange(request.start, None, False) if request.start < 0 else None

    _change_ranges(change)


# ------------------------------------------------------------------ empty and missing chunks


@broken_in("empty-and-missing/empty-is-not-missing")
def empty_is_missing() -> None:
    """Take an explicitly empty chunk for a missing one."""

    async def nothing(_self: Any, *_request: Any) -> None:
        return None

    replace(ChunkManifestTransformer, "_read_empty", lambda _: nothing)


@broken_in("empty-and-missing/missing-as-error")
def missing_is_empty() -> None:
    """Take a missing chunk for an explicitly empty one."""
    read_chunk_by_chunk()
    replace(
        References,
        "get",
        lambda get: lambda self, index: get(self, index) or Row(-2),
    )


@broken_in("mixed/native-chunks-of-absent-chunks")
def native_chunks_behind() -> None:
    """Look under its own key for a chunk that the manifest lacks."""

    def asynchronous(get: Any) -> Any:
        async def changed(self: Any, key: str, prototype: Any, byte_range: Any = None) -> Any:
            found = await get(self, key, prototype, byte_range)
            return found or await self._store.get(key, prototype, byte_range)

        return changed

    def synchronous(get_sync: Any) -> Any:
        def changed(self: Any, key: str, **options: Any) -> Any:
            return get_sync(self, key, **options) or self._store.get_sync(key, **options)

        return changed

    read_chunk_by_chunk()
    replace(ManifestStore, "get", asynchronous)
    replace(ManifestStore, "get_sync", synchronous)


@broken_in("mixed/broken-arrays-beside-good-ones")
def native_arrays_unread() -> None:
    """Read fill values from arrays without a manifest."""

    async def nothing(*_: Any) -> None:
        return None

    def asynchronous(get: Any) -> Any:
        def changed(self: Any, key: str, *rest: Any, **options: Any) -> Any:
            return nothing() if self._nodes.is_native(key) else get(self, key, *rest, **options)

        return changed

    def synchronous(get_sync: Any) -> Any:
        def changed(self: Any, key: str, **options: Any) -> Any:
            return None if self._nodes.is_native(key) else get_sync(self, key, **options)

        return changed

    assert hasattr(KnownNodes, "is_native")
    replace(ManifestStore, "get", asynchronous)
    replace(ManifestStore, "get_sync", synchronous)


# ------------------------------------------------------------------ sources that fail


def _fill_instead_of(error: type[ManifestError]) -> None:
    """Read fill values where a source raises this error."""

    def asynchronous(get: Any) -> Any:
        async def changed(self: Any, *request: Any) -> Any:
            try:
                return await get(self, *request)
            except error:
                return None

        return changed

    read_chunk_by_chunk()
    replace(ChunkManifestTransformer, "get", asynchronous)


@broken_in("http/hierarchy-source-does-not-exist")
def not_found_is_missing() -> None:
    """Read fill values from a source that does not exist (404)."""
    _fill_instead_of(SourceNotFoundError)


@broken_in("s3/credentials-of-another-bucket")
def denied_is_missing() -> None:
    """Read fill values from a source that may not be read (403)."""
    _fill_instead_of(SourceAccessDeniedError)


@broken_in("http/hierarchy-source-fails")
def failed_is_missing() -> None:
    """Read fill values from a source whose server fails (500)."""
    _fill_instead_of(SourceError)


@broken_in("ranges/entry-ends-past-the-end")
def short_reads_accepted() -> None:
    """Return whatever arrives, though more was asked for."""

    def make(check: Any) -> Any:
        def changed(answer: Any, span: SourceRange, *rest: Any) -> None:
            check(answer, structs.replace(span, exact=False), *rest)

        return changed

    def make_bounds(bounds: Any) -> Any:
        return lambda span, size: bounds(structs.replace(span, exact=False), size)

    replace(object_reader, "_check_answer", make)
    replace(local_files, "bounds_in", make_bounds)
