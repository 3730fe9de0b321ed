"""Mutants that misread which bytes a declaration says that documents have."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from conformance.adapters.mutants.broken_rules import change_configurations
from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import ChecksumMismatchError
from zarr_manifest.format import Limits, declared_documents, strict
from zarr_manifest.hierarchy import manifest_documents, stored_documents
from zarr_manifest.hierarchy.manifest_documents import ManifestDocuments, interpret_document_of
from zarr_manifest.inspection import documents

_PLACE = "document-digests"
_FORMS = "digest-forms"
_GZIP = b"\x1f\x8b"


# ------------------------------------------------------------------ documents


@broken_in(f"{_PLACE}/stale*", f"{_PLACE}/truncated", f"{_PLACE}/empty-file")
def stale_documents_read() -> None:
    """Read a document whatever bytes it has."""
    replace(
        manifest_documents, "with_checksum", lambda _: lambda body, _, interpret: interpret(body)
    )


@broken_in(f"{_PLACE}/stale-block", f"{_PLACE}/document-of-another-block")
def stale_blocks_read() -> None:
    """Compare the checksum of a single document, and of no block's."""

    def make(interpret: Any) -> Any:
        def changed(self: ManifestDocuments, partition: Any, body: Any) -> Any:
            if partition is None:
                return interpret(self, partition, body)
            return strict(interpret_document_of(self.array, partition, body, Limits()))

        return changed

    replace(ManifestDocuments, "_interpret", make)


@broken_in(f"{_PLACE}/other-digest-of-the-same-name")
def names_compared() -> None:
    """Compare what stands in the name of a document, and not all of its digest."""

    def make(require: Any) -> Any:
        return lambda found, declared: require(found[:23], declared[:23])

    replace(declared_documents, "_require", make)


@broken_in(f"{_PLACE}/encoded", f"{_PLACE}/encoded-blocks", f"{_PLACE}/checksum-of-what-is-decoded")
def decoded_documents_compared() -> None:
    """Compare what a document decodes to."""

    def make(with_checksum: Any) -> Any:
        def changed(body: Any, expected: str | None, interpret: Any) -> Any:
            plain = bytes(body)
            decoded = gzip.decompress(plain) if plain.startswith(_GZIP) else plain
            return with_checksum(decoded, expected, lambda _: interpret(body))

        return changed

    replace(manifest_documents, "with_checksum", make)


@broken_in(f"{_PLACE}/no-json", f"{_PLACE}/empty-file", f"{_PLACE}/encoded-with-other-bytes")
def documents_parsed_before_they_are_compared() -> None:
    """Say that a stale document is not valid, and only then that it is stale."""

    def make(with_checksum: Any) -> Any:
        def changed(body: Any, expected: str | None, interpret: Any) -> Any:
            found = interpret(body)
            return with_checksum(body, expected, lambda _: found)

        return changed

    replace(manifest_documents, "with_checksum", make)


@broken_in(f"{_PLACE}/named-by-its-digest", f"{_PLACE}/blocks", f"{_FORMS}/digest-alone")
def all_digits_in_names() -> None:
    """Look for documents under names with all digits."""
    replace(declared_documents, "_DIGITS", lambda _: 64)


@broken_in(f"{_PLACE}/stale-validate", f"{_PLACE}/stale-block-validate")
def stale_documents_validated() -> None:
    """Let a validator look into a document whatever bytes it has."""

    def make(fetch: Any) -> Any:
        async def changed(*rest: Any) -> Any:
            stored = await fetch(*rest)
            return stored and type(stored)(stored.body)

        return changed

    replace(documents, "fetch_document", make)


# ------------------------------------------------------------------ caches


def _pass_caches(*, always: bool) -> None:
    def make(source_range: Any) -> Any:
        return lambda *rest: source_range(*rest[:-1], always)

    replace(stored_documents, "SourceRange", make)


@broken_in(
    f"{_PLACE}/stale-in-a-cache",
    f"{_PLACE}/stale-in-a-cache-behind-a-redirect",
    f"{_PLACE}/stale-in-a-cache-in-front-of-the-hierarchy",
    f"{_PLACE}/stale-blocks-in-a-cache",
)
def caches_answer_again() -> None:
    """Ask for a stale document once more, and let a cache answer again."""
    _pass_caches(always=False)


@broken_in(f"{_PLACE}/right-in-a-cache")
def caches_never_answer() -> None:
    """Ask for every document past caches."""
    _pass_caches(always=True)


@broken_in(f"{_PLACE}/stale-at-the-server")
def stale_documents_asked_for_twice_as_often() -> None:
    """Ask for a stale document twice, each time past caches or not."""

    def make(fetched: Any) -> Any:
        async def changed(*rest: Any, **options: Any) -> Any:
            with suppress(ChecksumMismatchError):
                return await fetched(*rest, **options)
            return await fetched(*rest, **options)

        return changed

    replace(ManifestDocuments, "_fetched", make)


# ------------------------------------------------------------------ declarations


def _without(stated: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {member: value for member, value in stated.items() if member != name}


@broken_in(f"{_FORMS}/checksum-null*")
def no_checksum_is_null() -> None:
    """Take a checksum of null for the absence of one."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        return stated if stated.get("checksum") is not None else _without(stated, "checksum")

    change_configurations(change)


@broken_in(f"{_FORMS}/algorithm-*")
def other_algorithms_ignored() -> None:
    """Ignore a checksum of another algorithm."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        checksum = stated.get("checksum")
        known = not isinstance(checksum, str) or checksum.startswith("sha256") or not checksum
        return stated if known else _without(stated, "checksum")

    change_configurations(change)


@broken_in(f"{_FORMS}/checksum-in-capitals*")
def capitals_in_checksums() -> None:
    """Take checksums in capitals for others."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        checksum = stated.get("checksum")
        return {**stated, "checksum": checksum.lower()} if isinstance(checksum, str) else stated

    change_configurations(change)


@broken_in(f"{_FORMS}/checksum-beside-partition-shape*")
def checksum_beside_blocks_ignored() -> None:
    """Ignore a checksum beside ``partition_shape``."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        return _without(stated, "checksum") if "partition_shape" in stated else stated

    change_configurations(change)


@broken_in(f"{_FORMS}/checksum-beside-an-inline-manifest*")
def checksum_of_an_inline_manifest_ignored() -> None:
    """Ignore a checksum beside an inline manifest."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        is_inline = isinstance(stated.get("manifest"), dict)
        return _without(stated, "checksum") if is_inline else stated

    change_configurations(change)


@broken_in(f"{_FORMS}/digest-without-a-checksum*", f"{_FORMS}/digest-beside-names*")
def digest_is_a_name() -> None:
    """Take ``{digest}`` without checksums for a part of a name."""

    def change(stated: dict[str, Any]) -> Mapping[str, Any]:
        manifest, has_any = stated.get("manifest"), "checksum" in stated
        if has_any or isinstance(stated.get("partitions"), dict) or not isinstance(manifest, str):
            return stated
        return {**stated, "manifest": manifest.replace("{digest}", "%7Bdigest%7D")}

    change_configurations(change)
