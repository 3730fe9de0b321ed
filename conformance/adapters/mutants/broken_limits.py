"""Mutants that count something else than the limits say."""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.format import declaration
from zarr_manifest.hierarchy import manifest_documents, transformer


@broken_in("security/within-*")
def documents_at_a_limit_refused() -> None:
    """Refuse a document that is as large as the limit."""

    def make(build: Any) -> Any:
        def changed(*arguments: Any, limits: Any, **options: Any) -> Any:
            lower = {name: most - 1 for name, most in structs.asdict(limits).items()}
            return build(*arguments, limits=type(limits)(**lower), **options)

        return changed

    replace(transformer, "ChunkManifestTransformer", make)


@broken_in("combinations/limit-*")
def decoded_size_unlimited() -> None:
    """Limit the size of a document as it is stored, and not as it is decoded."""

    def make(decode: Any) -> Any:
        return lambda codecs, body, _limit: decode(codecs, body, 2**30)

    replace(manifest_documents, "decode_body", make)


@broken_in("limits/within-manifest-bytes-of-an-inline-manifest")
def white_space_counts() -> None:
    """Count white space in an inline manifest."""
    _write_inline(lambda inline: json.dumps(inline, indent=2, ensure_ascii=False))


@broken_in("limits/within-manifest-bytes-of-an-inline-manifest")
def escapes_count() -> None:
    """Count the escapes of letters beyond ASCII in an inline manifest."""
    _write_inline(lambda inline: json.dumps(inline, separators=(",", ":")))


def _write_inline(write: Any) -> None:
    """Let a function write inline manifests, whose size is then limited."""

    def make(interpret: Any) -> Any:
        def changed(manifest: Any) -> Any:
            found = yield from interpret(manifest)
            return found if isinstance(found, str) else write(manifest).encode()

        return changed

    replace(declaration, "_interpret_manifest", make)
