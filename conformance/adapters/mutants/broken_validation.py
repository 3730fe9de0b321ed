"""Mutants that validate less than they should."""

from __future__ import annotations

from typing import Any

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.inspection import validation


@broken_in("manifest-syntax", "chunk-keys", "validators")
def validator_as_lax_as_readers() -> None:
    """Report only what readers refuse: no duplicate members, no keys outside of the grid."""

    def make(interpret: Any) -> Any:
        return lambda *arguments, validating: interpret(*arguments, validating=False)

    replace(validation, "interpret_document_of", make)


@broken_in("mixed")
def first_problem_only() -> None:
    """Report the first problem of a hierarchy, and stop."""
    replace(validation, "sync", lambda run: lambda problems: run(problems)[:1])
