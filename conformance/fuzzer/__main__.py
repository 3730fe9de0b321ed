"""Ask two adapters random questions, and print where they differ."""

from __future__ import annotations

import argparse
import shlex
import sys

from conformance.fuzzer.asking import Tally, ask


def main() -> int:
    """Return 1 if they differ anywhere."""
    parser = argparse.ArgumentParser(prog="python -m conformance.fuzzer", description=__doc__)
    parser.add_argument("--questions", type=int, default=1000, help="how many, at least")
    parser.add_argument("--seed", type=int, default=0, help="of the first hierarchy")
    parser.add_argument("--show", type=int, default=10, help="how many differences to print")
    parser.add_argument("first", help="command of an adapter")
    parser.add_argument("second", help="command of another")
    said = parser.parse_args()
    tally: Tally = ask(
        [shlex.split(said.first), shlex.split(said.second)], said.questions, first_seed=said.seed
    )
    for difference in tally.differences[: said.show]:
        sys.stdout.write(f"{difference}\n\n")
    sys.stdout.write(f"{tally}\n")
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
