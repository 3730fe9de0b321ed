"""All mutants: importing this module completes the table."""

# Imported for what they register.
import conformance.adapters.mutants.broken_documents
import conformance.adapters.mutants.broken_keys
import conformance.adapters.mutants.broken_places
import conformance.adapters.mutants.broken_reading
import conformance.adapters.mutants.broken_strictness
import conformance.adapters.mutants.broken_transports
import conformance.adapters.mutants.broken_validation
import conformance.adapters.mutants.broken_writing  # noqa: F401
from conformance.adapters.mutants.registry import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant"]
