"""``python -m conformance.generator [--check]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.generator.areas import all_cases
from conformance.generator.writing import (
    differences,
    render,
    withdrawals,
    write,
    wrong_withdrawals,
)

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Write the corpus, or check it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; list the differences")
    arguments = parser.parse_args()
    cases = list(all_cases())
    said = wrong_withdrawals(withdrawals(ROOT), {case.id for case in cases})
    if not said:
        files = render(cases)
        if not arguments.check:
            write(ROOT, files)
            return 0
        said = differences(ROOT, files)
    sys.stdout.writelines(f"{line}\n" for line in said)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
