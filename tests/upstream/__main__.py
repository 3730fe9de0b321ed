"""``python -m tests.upstream [NAME …]`` runs reproductions, before and after their patches."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.upstream.reproductions import reproductions


def main(names: list[str]) -> None:
    """Print what reproductions print; all of them if none is named."""
    for each in reproductions():
        if names and each.name not in names:
            continue
        print(f"--- {each.name}: {each.package} {each.installed}\n{each.run()}", end="")
        if each.diff.exists():
            with tempfile.TemporaryDirectory() as directory:
                print(f"--- {each.name}: patched\n{each.run(path=each.patch(Path(directory)))}")


if __name__ == "__main__":
    main(sys.argv[1:])
