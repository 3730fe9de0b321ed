"""Try the distributions of the conformance suite in an empty environment, outside the checkout.

Usage: python .ci/try_suite.py dist

The wheel is installed with its own adapter, the core reader, which it asks. The npm package is
unpacked, and asks the same adapter, with Node.js if there is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from try_dist import Environment

_NAME = "chunk-manifest-json-conformance"
_ADAPTER = ("-m", "conformance.adapters.core_reader")


def passed(printed: str) -> str:
    """Return how many cases passed; fail unless all that ran did."""
    (total,) = (line.split() for line in printed.splitlines() if line.startswith("total "))
    if int(total[1]) < 30 or total[2:5] != ["0", "0", "0"]:
        raise SystemExit(f"the suite does not pass:\n{printed}")
    return total[1]


def try_wheel(environment: Environment) -> None:
    """Install the wheel, and run its command."""
    environment.install("[core-reader]")
    adapter = str(environment.program("python"))
    # Their files have names that archives could spoil.
    printed = environment.output(_NAME, "--area", "paths", "--", adapter, *_ADAPTER)
    print(f"{environment.name}: {passed(printed)} cases pass with the core reader")


def try_npm_package(tarball: Path, environment: Environment) -> None:
    """Unpack the npm package, and run it as npm does, which starts what Python alone can start."""
    with tarfile.open(tarball) as packed:
        packed.extractall(environment.directory, filter="data")
    program = environment.program("python")
    python, node = str(program), shutil.which("node")
    command = (python, "package") if node is None else (node, "package/run.js")
    # It looks for a Python that is new enough: the system's may not be.
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "--area", "ranges", "--", python, *_ADAPTER],
        cwd=environment.directory,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print(f"{tarball.name}: {passed(done.stdout)} cases pass, by {Path(command[1]).name}")


def main(built: Path) -> None:
    """Try both."""
    (wheel,) = built.glob("chunk_manifest_json_conformance-*.whl")
    (tarball,) = built.glob(f"{_NAME}-*.tgz")
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        environment = Environment(sys.executable, Path(place).resolve(), _NAME, wheel)
        try_wheel(environment)
        try_npm_package(tarball, environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(strict=True))
