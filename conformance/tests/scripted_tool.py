"""A tool that prints what `print.json` in the array says: `{"status", "output", "errors"}`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> int:
    (argument,) = sys.argv[1:]
    directory = Path(argument.removeprefix("--array_path="))
    said = json.loads((directory / "print.json").read_bytes())
    sys.stderr.write(said.get("errors", ""))
    sys.stdout.write(said.get("output", ""))
    sys.stdout.flush()
    time.sleep(said.get("seconds", 0))
    return int(said.get("status", 0))


if __name__ == "__main__":
    sys.exit(main())
