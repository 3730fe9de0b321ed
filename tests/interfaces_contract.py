"""A contract of import-linter: a package is imported through its interface, its ``__init__``.

Modules outside a package do not import the modules inside it, and modules inside it do not
import its interface. ``make layers`` checks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["InterfacesContract", "forbidden_imports"]


def forbidden_imports(graph: ImportGraph, root: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of modules of which the first may not import the second."""
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            above = imported.split(".")
            if above[0] != root or importer == imported:
                continue
            packages = [".".join(above[:depth]) for depth in range(2, len(above))]
            # The package itself lies inside: its __init__ gathers what the others import.
            reaches_past = any(not f"{importer}.".startswith(f"{p}.") for p in packages)
            own_interface = imported != root and importer.startswith(f"{imported}.")
            # ``python -m package`` runs what the package offers.
            own_interface = own_interface and not importer.endswith(".__main__")
            if reaches_past or own_interface:
                yield importer, imported


class InterfacesContract(Contract):
    """Packages below a root are imported through their interfaces only."""

    type_name = "interfaces"
    root = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect the imports that reach past an interface."""
        found = list(forbidden_imports(graph, str(self.root)))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: Any) -> None:
        """Print each import that reaches past an interface."""
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} imports {imported}, not the interface of its package")
