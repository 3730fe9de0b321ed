"""Mutants that misread documents: declarations, manifests, their keys and entries."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import InvalidConfigurationError, InvalidEntryError
from zarr_manifest.format import Limits, manifest_document
from zarr_manifest.format.node_metadata import arrays_in
from zarr_manifest.hierarchy import manifest_documents, node_table, transformer
from zarr_manifest.manifest import References, Row, decoding

_MEMBERS = ("manifest", "base", "codecs", "partition_shape", "partitions")

# ------------------------------------------------------------------ declarations


def _change_declarations(change: Any) -> None:
    """Let a function change, or leave out, the declared transformers that are objects."""

    def changes(declared: list[Any]) -> Iterator[Any]:
        for one in declared:
            if isinstance(one, dict):
                yield from change(dict(one))
            else:
                yield one

    def changed(metadata: dict[str, Any]) -> dict[str, Any]:
        declared = metadata.get("storage_transformers")
        if not isinstance(declared, list):
            return metadata
        return {**metadata, "storage_transformers": list(changes(declared))}

    _change_metadata(changed)


def _change_metadata(change: Any) -> None:
    """Let a function change the metadata of arrays before the declaration is looked for."""
    replace(node_table, "parse_declaration", lambda parse: lambda metadata: parse(change(metadata)))


def _without_lock(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "chunk-manifest-json"}


@broken_in("declaration/lock-that-need-not-be-understood")
def any_lock_accepted() -> None:
    """Take any value of the lock for a lock."""

    def change(metadata: dict[str, Any]) -> dict[str, Any]:
        return _without_lock(metadata) if metadata.get("storage_transformers") else metadata

    _change_metadata(change)


@broken_in("declaration/lock-without-a-declaration")
def lost_declaration_ignored() -> None:
    """Take an array whose declaration was lost for a native one."""
    _change_metadata(
        lambda metadata: (
            metadata if metadata.get("storage_transformers") else _without_lock(metadata)
        )
    )


@broken_in("declaration/locked")
def locked_arrays_refused() -> None:
    """Refuse an array with a lock, as readers do that do not know the transformer."""

    def make(parse: Any) -> Any:
        def refuse(metadata: dict[str, Any]) -> Any:
            if "chunk-manifest-json" in metadata:
                raise InvalidConfigurationError("unknown member 'chunk-manifest-json'")
            return parse(metadata)

        return refuse

    replace(node_table, "parse_declaration", make)


@broken_in("declaration/must-understand-false")
def must_understand_ignored() -> None:
    """Accept a declaration that says that it need not be understood."""

    def change(declared: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if declared.get("must_understand") is False:
            del declared["must_understand"]
        yield declared

    _change_declarations(change)


@broken_in("declaration/consolidated-refused")
def unknown_configuration_ignored() -> None:
    """Ignore unknown members of the configuration."""

    def change(declared: dict[str, Any]) -> Iterator[dict[str, Any]]:
        stated = declared.get("configuration")
        if isinstance(stated, dict):
            declared["configuration"] = {k: v for k, v in stated.items() if k in _MEMBERS}
        yield declared

    _change_declarations(change)


@broken_in("declaration/first-problem-decides")
def unknown_transformer_ignored() -> None:
    """Pass over a transformer that is not known."""
    names = ("chunk-manifest-json", None)
    _change_declarations(lambda declared: [declared] if declared.get("name") in names else [])


@broken_in("codecs")
def array_codecs_dropped() -> None:
    """Take chunks for uncompressed."""

    def make(without_declarations: Any) -> Any:
        def changed(node: dict[str, Any]) -> bytes:
            for array in arrays_in(node):
                if array.declaration:
                    codecs = array.metadata["codecs"]
                    kept = [c for c in codecs if c["name"] in ("bytes", "sharding_indexed")]
                    array.metadata["codecs"] = kept
            return bytes(without_declarations(node))

        return changed

    replace(node_table, "without_declarations", make)


# ------------------------------------------------------------------ documents


def _change_documents(change: Any) -> None:
    """Let a function change every manifest document before it is decoded."""

    def make(interpret: Any) -> Any:
        def changed(document: bytes | memoryview, *rest: Any, **options: Any) -> Any:
            return interpret(change(bytes(document)), *rest, **options)

        return changed

    replace(manifest_documents, "interpret_manifest", make)


def _change_entries(change: Any) -> None:
    """Let a function change every entry of every manifest document that is one."""

    def changed(document: bytes) -> bytes:
        try:
            entries = json.loads(document)
        except ValueError:
            return document
        if not isinstance(entries, dict):
            return document
        return json.dumps(
            {k: change(dict(v)) if isinstance(v, dict) else v for k, v in entries.items()}
        ).encode()

    _change_documents(changed)


@broken_in("manifest-syntax/not-json")
def trailing_bytes_accepted() -> None:
    """Ignore whatever follows the manifest in its document."""

    def first_value(document: bytes) -> bytes:
        try:
            _, end = json.JSONDecoder().raw_decode(document.decode().lstrip())
        except ValueError:
            return document
        return document.decode().lstrip()[:end].encode()

    _change_documents(first_value)


@broken_in("manifest-syntax/list")
def other_roots_empty() -> None:
    """Take a document that is no object for an empty manifest."""

    def object_or_nothing(document: bytes) -> bytes:
        try:
            return document if isinstance(json.loads(document), dict) else b"{}"
        except ValueError:
            return document

    _change_documents(object_or_nothing)


@broken_in("manifest-syntax/not-utf-8")
def any_encoding_accepted() -> None:
    """Take a document that is not UTF-8 for Latin-1."""

    def recoded(document: bytes) -> bytes:
        try:
            document.decode()
        except UnicodeDecodeError:
            return document.decode("latin-1").encode()
        return document

    _change_documents(recoded)


# ------------------------------------------------------------------ entries


@broken_in("entries")
def path_and_data_accepted() -> None:
    """Accept members of an entry that contradict each other."""
    replace(manifest_document, "_contradiction", lambda _: lambda _entry: None)


@broken_in("entries")
def unknown_members_refused() -> None:
    """Refuse an entry with a member that is not known."""
    known = set(manifest_document.Entry.__struct_fields__)

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        if set(entry) - known:
            raise InvalidEntryError("the entry has a member that is not known")
        return entry

    _change_entries(change)


@broken_in("entries/length-is-null")
def nulls_absent() -> None:
    """Take a member that is null for one that is absent."""
    _change_entries(lambda entry: {k: v for k, v in entry.items() if v is not None})


@broken_in("ranges/entry-is-open-ended-at-the-end")
def offset_alone_ignored() -> None:
    """Read an entry without a length from the beginning of its object."""

    def make(get: Any) -> Any:
        def changed(self: References, index: Any) -> Row | None:
            found: Row | None = get(self, index)
            if found is None or found.length is not None:
                return found
            return msgspec.structs.replace(found, offset=0)

        return changed

    replace(References, "get", make)


@broken_in("inline")
def base64_lax() -> None:
    """Accept inline data without padding, or with characters that are not base64."""

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        data = entry.get("data")
        if isinstance(data, str):
            stripped = data.rstrip("=").replace("-", "+").replace("_", "/")
            decoded = base64.b64decode(stripped + "=" * (-len(stripped) % 4))
            entry["data"] = base64.b64encode(decoded).decode()
        return entry

    _change_entries(change)


@broken_in("inline/parts-of-data")
def inline_ranges_ignored() -> None:
    """Answer every range of inline data with all of it."""
    replace(transformer, "slice_bounds", lambda _: lambda n, _request: (0, n))


@broken_in("checksums")
def checksums_ignored() -> None:
    """Compare no checksums."""
    replace(transformer, "verify_checksum", lambda _: lambda *_: None)


@broken_in("checksums/unknown-algorithm-validate")
def unknown_checksums_ignored() -> None:
    """Accept whatever stands in ``checksum`` until it is compared."""
    replace(decoding, "parse_checksum", lambda _: lambda _stated: None)


@broken_in("checksums/verify-always")
def verify_policy_ignored() -> None:
    """Verify checksums on whole-chunk reads, whatever the reader says."""
    _change_transformers(lambda _stated, options: {**options, "verify": "auto"})


def _without_conditions(*names: str) -> None:
    """Let entries have no such conditions."""

    def make(parse: Any) -> Any:
        def changed(etag: Any, last_modified: Any, version: Any, size: Any = None) -> Any:
            stated = {"etag": etag, "last_modified": last_modified, "version": version}
            return parse(**{**stated, "size": size, **dict.fromkeys(names)})

        return changed

    replace(decoding, "parse_conditions", make)


@broken_in("source-conditions/etag-changed")
def etag_ignored() -> None:
    """Read an object that has another entity tag than its entry states."""
    _without_conditions("etag")


@broken_in("source-conditions/file-newer")
def last_modified_ignored() -> None:
    """Read an object that is newer than its entry states."""
    _without_conditions("last_modified")


@broken_in("source-conditions/size-differs")
def size_ignored() -> None:
    """Read an object that has another size than its entry states."""
    _without_conditions("size")


@broken_in("s3")
def version_ignored() -> None:
    """Read the current version of an object, whichever its entry states."""
    _without_conditions("version")


# ------------------------------------------------------------------ how a hierarchy is opened


def _change_transformers(change: Any) -> None:
    """Let a function change the options with which arrays are opened."""

    def make(build: Any) -> Any:
        def changed(
            path: str, metadata: Any, declared: Any, stated: Any, *rest: Any, **o: Any
        ) -> Any:
            return build(path, metadata, declared, stated, *rest, **change(stated, o))

        return changed

    replace(transformer, "ChunkManifestTransformer", make)


@broken_in("older-writers/relative-to-the-root")
def base_override_ignored() -> None:
    """Ignore the reader's own base."""
    _change_transformers(lambda _stated, options: {**options, "base": None})


@broken_in("paths")
def base_from_the_root() -> None:
    """Resolve a declared base against the root, and not against the array."""

    def change(stated: Any, options: dict[str, Any]) -> dict[str, Any]:
        return options if stated.base == "./" else {**options, "base": stated.base}

    _change_transformers(change)


@broken_in("security/limit-of-entries")
def limits_ignored() -> None:
    """Load manifests of any size."""
    _change_transformers(lambda _stated, options: {**options, "limits": Limits()})
