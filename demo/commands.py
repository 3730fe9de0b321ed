"""Calls of ``zarr-manifest`` as users type them: printed, run, and their output printed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Finished", "run"]


@dataclass(frozen=True)
class Finished:
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    status: int


def run(
    directory: Path, *arguments: str, shown: Sequence[str] | None = None, quiet: bool = False
) -> Finished:
    """Run ``zarr-manifest`` in a directory, and print the call and its output.

    Parameters
    ----------
    directory : Path
        The working directory.
    *arguments : str
        The arguments of ``zarr-manifest``.
    shown : sequence of str, optional
        Printed in place of long arguments.
    quiet : bool
        Do not print the output.
    """
    print(f"  $ zarr-manifest {shlex.join(arguments) if shown is None else ' '.join(shown)}")
    command = [sys.executable, "-m", "zarr_manifest.command_line", *arguments]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, encoding="utf-8", errors="replace"
    )
    if not quiet:
        for line in (done.stdout + done.stderr).splitlines():
            print(f"    {line}")
    return Finished(done.stdout, done.stderr, done.returncode)
