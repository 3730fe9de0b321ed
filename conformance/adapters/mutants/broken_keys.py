"""Mutants that misread which chunk is meant: chunk keys, partitions, encoded documents."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from msgspec import structs

from conformance.adapters.mutants.registry import broken_in, read_chunk_by_chunk, replace
from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidManifestError,
    ManifestError,
    ManifestNotFoundError,
)
from zarr_manifest.format.chunk_grid import Partitions
from zarr_manifest.format.declared_documents import names_outside
from zarr_manifest.hierarchy import declared_array, manifest_documents
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.manifest import References, decoding, keys

# ------------------------------------------------------------------ chunk keys


def _change_keys(change: Callable[[Any, Any], tuple[Any, bool]]) -> None:
    """Let a function change the grid of a document, and whether keys outside it are reported."""

    def make(interpret: Any) -> Any:
        def changed(keys: Any, grid: Any, *, report_outside: bool = False) -> Any:
            grid, report_outside = change(grid, report_outside)
            return interpret(keys, grid, report_outside=report_outside)

        return changed

    replace(decoding, "interpret_keys", make)


def _overlook(words: str) -> None:
    """Overlook what is wrong with keys in these words."""

    def make(interpret: Any) -> Any:
        def changed(*arguments: Any, **options: Any) -> Generator[ManifestError, None, Any]:
            findings = interpret(*arguments, **options)
            while True:
                try:
                    problem = next(findings)
                except StopIteration as stop:
                    return stop.value
                if words not in problem.problem:
                    yield problem

        return changed

    replace(decoding, "interpret_keys", make)


@broken_in("chunk-keys/canonical-default-dot")
def keys_transposed() -> None:
    """Read the numbers of a chunk key from the last dimension to the first."""
    read_chunk_by_chunk()
    replace(References, "get", lambda get: lambda self, index: get(self, tuple(index)[::-1]))


@broken_in("chunk-keys/two-spellings")
def two_spellings_accepted() -> None:
    """Let a chunk be named twice, in two spellings."""
    _overlook("name the same chunk")


@broken_in("chunk-keys/outside-the-grid")
def keys_outside_the_grid_refused() -> None:
    """Refuse a key outside of the chunk grid."""
    _change_keys(lambda grid, _: (grid, True))


@broken_in("chunk-keys/mixed-spellings")
def own_spelling_refused() -> None:
    """Know only canonical keys, and not the array's own."""
    _change_keys(
        lambda grid, report_outside: (structs.replace(grid, parse_key=None), report_outside)
    )


@broken_in("chunk-keys/arabic-digits")
def leading_zeros_accepted() -> None:
    """Take ``"00.1"`` for ``"0.1"``."""

    def without_zeros(key: str) -> str:
        return ".".join(str(int(n)) if n.isdecimal() else n for n in key.split("."))

    replace(
        keys, "parse_canonical", lambda parse: lambda key, ndim: parse(without_zeros(key), ndim)
    )


# ------------------------------------------------------------------ partitions


@broken_in("partitions/block-without-a-document")
def partition_neighbour() -> None:
    """Look for a chunk in the block after its own, unless it is the first of a block."""

    def owner(self: Partitions, index: Any) -> tuple[int, ...]:
        blocks = (-(-i // n) for i, n in zip(index, self.shape, strict=True))
        return tuple(min(b, n - 1) for b, n in zip(blocks, self.counts, strict=True))

    read_chunk_by_chunk()
    replace(Partitions, "owner", lambda _: owner)


@broken_in("partitions/block-without-a-document")
def missing_partition_refused() -> None:
    """Refuse a block whose document does not exist."""

    def make(fetch: Any) -> Any:
        async def changed(*arguments: Any) -> Any:
            body = await fetch(*arguments)
            if body is None:
                raise ManifestNotFoundError("the document of a partition does not exist")
            return body

        return changed

    replace(manifest_documents, "open_document", make)


@broken_in("partition-names/a-lost-document-is-no-missing-chunk")
def lost_partitions_empty() -> None:
    """Take a document that is said to exist, and does not, for one without entries."""
    replace(
        DeclaredArray,
        "has_document",
        lambda has: lambda array, block: has(array, block) if block is None else None,
    )


@broken_in("partition-names/a-lost-document-is-no-missing-chunk")
def unnamed_partitions_read() -> None:
    """Read a document that is there although the declaration does not name its block."""
    replace(
        DeclaredArray, "has_document", lambda has: lambda array, block: has(array, block) or None
    )


@broken_in("partition-names")
def names_outside_the_grid_refused() -> None:
    """Refuse an array whose declaration names a block outside the grid."""

    def make(interpret: Any) -> Any:
        def changed(configuration: Any, grid: Any, ndim: int) -> Any:
            partitions, named = yield from interpret(configuration, grid, ndim)
            if partitions is not None and names_outside(partitions, named or ()):
                raise InvalidConfigurationError("a name is outside the grid of blocks")
            return partitions, named

        return changed

    replace(declared_array, "_interpret_partitions", make)


@broken_in("partitions/entry-of-another-block")
def keys_of_other_partitions_dropped() -> None:
    """Ignore entries for chunks of another block."""
    _overlook("belongs to another partition")


# ------------------------------------------------------------------ encoded documents


@broken_in("encoded-manifests/bomb-within-gzip")
def codecs_in_order_of_writing() -> None:
    """Undo the codecs of a document in the order in which they were applied."""
    replace(
        manifest_documents,
        "decode_body",
        lambda decode: lambda codecs, body, limit: decode(codecs[::-1], body, limit),
    )


@broken_in("encoded-manifests/crc32c-mismatch")
def damaged_documents_empty() -> None:
    """Take a document that does not decode for one without entries."""

    def make(decode: Any) -> Any:
        def changed(codecs: Any, body: Any, limit: int) -> Any:
            try:
                return decode(codecs, body, limit)
            except InvalidManifestError:
                return b"{}"

        return changed

    replace(manifest_documents, "decode_body", make)
