"""Mutants that misread what stands in documents and metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.adapters.mutants.broken_documents import _change_declarations, _change_documents
from conformance.adapters.mutants.registry import broken_in, register, replace
from zarr_manifest.errors import InvalidManifestError, ManifestError
from zarr_manifest.format import conditions, document_codecs, manifest_document
from zarr_manifest.hierarchy import declared_array, node_table, walking
from zarr_manifest.inspection import validation
from zarr_manifest.locations import resolving

# ------------------------------------------------------------------ JSON


@broken_in("manifest-syntax/number-beyond-every-float")
def entries_with_infinite_numbers_lost() -> None:
    """Drop an entry with a number that no float holds."""

    def change(document: bytes) -> bytes:
        try:
            entries = json.loads(document)
        except ValueError:
            return document
        if not isinstance(entries, dict):
            return document
        kept = {k: v for k, v in entries.items() if "Infinity" not in json.dumps(v)}
        return document if kept == entries else json.dumps(kept).encode()

    _change_documents(change)


@broken_in("manifest-syntax/member-twice-in-another-spelling")
def names_compared_as_written() -> None:
    """Look for members of the same name without undoing escapes."""

    def make(duplicates: Any) -> Any:
        def changed(self: manifest_document.Members) -> Any:
            as_written = self._document.replace(b"\\u", b"\\\\u")
            return duplicates(manifest_document.Members(as_written))

        return changed

    replace(manifest_document.Members, "duplicates", make)


# ------------------------------------------------------------------ keys and paths


@broken_in("array-metadata/slash-in-v2-without-a-configuration")
def separator_of_v2_is_a_slash() -> None:
    """Take / for the separator of v2, as of default, where none is stated."""

    def make(parts: Any) -> Any:
        def changed(declared: dict[str, Any]) -> Any:
            return parts({"configuration": {"separator": "/"}, **declared})

        return changed

    replace(declared_array, "_parts", make)


@broken_in("chunk-keys/zero-dimensional-empty-key", "chunk-keys/zero-dimensional-empty-key-of-v2")
def no_numbers_are_a_key() -> None:
    """Take the empty string for the key of a zero-dimensional array's chunk."""
    _change_documents(lambda document: re.sub(rb'"":', b'"0":', document))


@broken_in("paths/empty-query", "paths/empty-query-of-a-bucket", "paths/base-with-an-empty-query")
def empty_queries_are_none() -> None:
    """Take a question mark at the end of a reference for nothing."""

    def make(query_of: Any) -> Any:
        return lambda reference, scheme, query: query_of(reference, scheme, query or None)

    replace(resolving, "_query", make)


@broken_in("paths/empty-fragment")
def empty_fragments_are_none() -> None:
    """Take a hash at the end of a reference for nothing."""

    def make(resolve: Any) -> Any:
        return lambda reference, base: resolve(reference.removesuffix("#"), base)

    replace(resolving, "resolve_reference", make)


@broken_in("paths/encoded-question-mark")
def question_marks_decoded_before_queries() -> None:
    """Undo %3F before a reference is split, so that a query begins there."""

    def make(resolve: Any) -> Any:
        def changed(reference: str, base: Any) -> Any:
            return resolve(reference.replace("%3F", "?").partition("?")[0], base)

        return changed

    replace(resolving, "resolve_reference", make)


# ------------------------------------------------------------------ codecs


def _change_decoding(name: str, change: Any) -> None:
    """Let a function change what a codec of documents decodes."""
    codecs = document_codecs._REGISTRY

    def decode(body: memoryview, *rest: Any) -> bytes:
        return bytes(change(codecs[name].decode, bytes(body), *rest))

    changed = msgspec.structs.replace(codecs[name], decode=decode)
    replace(document_codecs, "_REGISTRY", lambda _: {**codecs, name: changed})


@broken_in(
    "encoded-manifests/zstd-wrong-checksum",
    "encoded-manifests/zstd-wrong-checksum-without-content-size",
)
def checksums_of_zstd_ignored() -> None:
    """Pass over the checksum at the end of a zstd frame."""
    has_checksum = 4

    def change(decode: Any, body: bytes, *rest: Any) -> Any:
        if body[4:5] and body[4] & has_checksum:
            body = body[:4] + bytes([body[4] & ~has_checksum]) + body[5:-4]
        return decode(memoryview(body), *rest)

    _change_decoding("zstd", change)


@broken_in("encoded-manifests/gzip-trailing-zeros")
def zeros_after_gzip_ignored() -> None:
    """Pass over zero bytes after a gzip member, as Python's gzip module does."""

    def change(decode: Any, body: bytes, *rest: Any) -> Any:
        try:
            return decode(memoryview(body), *rest)
        except InvalidManifestError:
            if not body.endswith(b"\0"):
                raise
            return change(decode, body[:-1], *rest)

    _change_decoding("gzip", change)


# ------------------------------------------------------------------ conditions


def _unlimited(member: str) -> Any:
    """Return what lets a member of an entry be of any length."""

    def make(too_long: Any) -> Any:
        def changed(entries: Any, limits: Any) -> Iterator[ManifestError]:
            shortened = {
                key: msgspec.structs.replace(entry, **{member: msgspec.UNSET})
                for key, entry in entries.items()
            }
            yield from too_long(shortened, limits)

        return changed

    return lambda: replace(manifest_document, "_too_long", make)


for _member in ("etag", "version"):
    register(
        f"{_member}-of-any-length",
        f"Limit the length of a path, and not that of {_member}.",
        f"limits/length-of-{_member}",
    )(_unlimited(_member))


@broken_in(
    "source-conditions/etag-with-a-small-w", "source-conditions/etag-with-a-small-w-at-the-server"
)
def weak_tags_without_case() -> None:
    """Take w/ for W/."""

    def make(opaque: Any) -> Any:
        def changed(etag: str | None) -> Any:
            return opaque(None if etag is None else re.sub(r"^w/", "W/", etag))

        return changed

    replace(conditions, "_opaque", make)


# ------------------------------------------------------------------ metadata


@broken_in(
    "declaration/must-understand-of-another-transformer-is-a-string",
    "declaration/must-understand-of-another-transformer-is-null",
)
def any_must_understand_of_others() -> None:
    """Ignore another transformer unless it says that it must be understood."""

    def change(declared: dict[str, Any]) -> Iterator[dict[str, Any]]:
        is_ours = declared.get("name") == "chunk-manifest-json"
        if is_ours or declared.get("must_understand", True) in (True, False):
            yield declared

    _change_declarations(change)


@broken_in("declaration/declaration-invalid-in-the-copy-only")
def copies_unread() -> None:
    """Take what consolidated metadata say of arrays for a repetition."""
    replace(
        node_table,
        "arrays_in",
        lambda arrays_in: lambda node: (array for array in arrays_in(node) if not array.path),
    )


@broken_in("declaration/metadata-invalid-in-the-copy-only")
def copies_left_to_the_library() -> None:
    """Leave to zarr what is not valid in consolidated metadata."""
    replace(node_table, "_opens", lambda _: lambda _undeclared: True)


@broken_in(
    "declaration/declaration-invalid-in-the-copy-only-validate",
    "declaration/metadata-invalid-in-the-copy-only-validate",
)
def copies_unvalidated() -> None:
    """Validate the arrays' own metadata alone, and those in the copy if there are no others."""
    replace(validation, "arrays_in", lambda _: lambda _node: iter(()))


@broken_in("array-metadata/zarr-format-of-another-version-validate")
def any_zarr_format() -> None:
    """Take metadata of any version of Zarr for those of version 3."""

    def make(interpret: Any) -> Any:
        def changed(metadata: dict[str, Any], *names: Any) -> Any:
            return interpret({**metadata, "zarr_format": 3}, *names)

        return changed

    replace(declared_array, "interpret_members", make)


@broken_in("array-metadata/node-type-in-capitals-validate")
def unknown_nodes_are_groups() -> None:
    """Take a node of an unknown type for a group."""

    def make(interpreted: Any) -> Any:
        def changed(path: str, name: str, metadata: Any, body: Any) -> Any:
            if isinstance(metadata, dict) and metadata.get("node_type") != "array":
                metadata = {**metadata, "node_type": "group"}
            return interpreted(path, name, metadata, body)

        return changed

    replace(walking, "_interpreted", make)
