"""All mutants: importing this module completes the table."""

from importlib import import_module
from pkgutil import iter_modules

from conformance.adapters import mutants
from conformance.adapters.mutants.registry import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant"]

# Imported for what they register.
for _module in sorted(module.name for module in iter_modules(mutants.__path__)):
    if _module.startswith("broken_"):
        import_module(f"{mutants.__name__}.{_module}")
