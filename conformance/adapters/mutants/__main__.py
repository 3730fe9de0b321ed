"""``python -m conformance.adapters.mutants NAME``: answer the suite with a broken reader."""

import sys

from conformance.adapters.json_lines import serve
from conformance.adapters.mutants.table import MUTANTS
from conformance.adapters.python.implementation import IMPLEMENTATION


def main(arguments: list[str]) -> None:
    """Break the package, and serve; without a name, list the mutants."""
    if not arguments:
        for mutant in MUTANTS.values():
            print(f"{mutant.name:32} {', '.join(mutant.noticed_in):32} {mutant.what}")  # noqa: T201
        return
    (name,) = arguments
    MUTANTS[name].apply()
    serve(IMPLEMENTATION)


main(sys.argv[1:])
