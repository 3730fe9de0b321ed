"""Mutants that validate less than they should."""

from __future__ import annotations

import re
from typing import Any

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.format import declaration, manifest_document
from zarr_manifest.inspection import documents, validation
from zarr_manifest.manifest import decoding


@broken_in(
    "manifest-syntax/member-of-an-entry-twice", "chunk-keys/outside-the-grid-validate", "validators"
)
def validator_as_lax_as_readers() -> None:
    """Report only what readers refuse: no duplicate members, no keys outside of the grid."""

    def make(interpret: Any) -> Any:
        return lambda *arguments, validating: interpret(*arguments, validating=False)

    replace(documents, "interpret_document_of", make)


@broken_in("mixed/validate-several-problems-of-one-manifest")
def first_problem_only() -> None:
    """Report the first problem of a hierarchy, and stop."""
    replace(validation, "sync", lambda run: lambda problems: run(problems)[:1])


@broken_in("validators/annotation-twice", "manifest-syntax/member-of-an-entry-twice")
def nested_duplicates_unreported() -> None:
    """Report duplicate members of the document only."""
    replace(manifest_document, "_repeated_within", lambda _: lambda _value: iter(()))


@broken_in("validators/byte-order-mark")
def byte_order_marks_unreported() -> None:
    """Ignore a byte order mark, even when validating."""

    def make(interpret: Any) -> Any:
        def changed(document: bytes, *rest: Any, **options: Any) -> Any:
            return interpret(bytes(document).removeprefix(b"\xef\xbb\xbf"), *rest, **options)

        return changed

    replace(decoding, "interpret_document", make)


@broken_in("validators/exponent-in-a-length")
def fractions_unreported() -> None:
    """Accept integers with a fraction or an exponent, even when validating."""

    def make(interpret: Any) -> Any:
        def changed(document: bytes, *rest: Any, **options: Any) -> Any:
            plain = re.sub(rb"\b([0-9]+)(?:\.0+|[eE]0)\b", rb"\1", bytes(document))
            return interpret(plain, *rest, **options)

        return changed

    replace(decoding, "interpret_document", make)


@broken_in("validators/fraction-in-partition-shape")
def fractions_in_shapes_unreported() -> None:
    """Accept ``partition_shape`` with a fraction, even when validating."""

    def make(interpret: Any) -> Any:
        def changed(declared: Any) -> Any:
            whole = [int(n) if isinstance(n, float) and n.is_integer() else n for n in declared]
            return interpret(whole)

        return changed

    replace(declaration, "_interpret_partition_shape", make)
