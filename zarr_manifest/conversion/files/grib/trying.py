"""Finds the messages that gribberish cannot read, without being ended by them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from zarr_manifest.conversion.files.grib.messages import GribMessage
from zarr_manifest.errors import NotConvertibleError

__all__ = ["try_messages"]

_TRIAL = Path(__file__).with_name("trial.py")

# A message takes milliseconds; a damaged one may take forever.
_SECONDS = 60
_SECONDS_PER_MESSAGE = 0.1


def try_messages(found: Sequence[GribMessage], data: bytes) -> dict[int, str]:
    """Return, by offset, why gribberish cannot read messages.

    Parameters
    ----------
    found : sequence of GribMessage
        The messages to read.
    data : bytes
        The file, in which no other messages can be recognised.

    Raises
    ------
    NotConvertibleError
        gribberish reads them one by one, but not together.
    """
    problems: dict[int, str] = {}
    left = list(found)
    while left:
        answers, end = _answers(left, data)
        for message, answer in zip(left, answers, strict=False):
            if answer is not None:
                problems[message.start] = f"gribberish cannot read it: {answer}"
        if len(answers) > len(left):
            if answers[-1] is None or len(problems) == len(found):
                return problems
            end = answers[-1]
        if len(answers) >= len(left):
            raise NotConvertibleError(f"gribberish cannot read the file: {end}")
        problems[left[len(answers)].start] = f"it is damaged: gribberish {end}"
        data = _without(data, problems)
        left = [message for message in left if message.start not in problems]
    return problems


def _without(data: bytes, starts: dict[int, str]) -> bytes:
    blanked = bytearray(data)
    for start in starts:
        blanked[start : start + 4] = bytes(4)
    return bytes(blanked)


def _answers(left: Sequence[GribMessage], data: bytes) -> tuple[list[str | None], str]:
    """Return the answers of a trial, and how it ended if some are missing."""
    named = json.dumps([(each.start, each.length, each.packing) for each in left])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    seconds = _SECONDS + _SECONDS_PER_MESSAGE * len(left)
    with subprocess.Popen(
        [sys.executable, "-P", str(_TRIAL)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Where Rust prints a stack.
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        try:
            output, _ = process.communicate(named.encode() + b"\n" + data, timeout=seconds)
            end = f"ended with the status {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            end = f"did not come to an end within {seconds:.0f} seconds"
    return [json.loads(line) for line in output.splitlines()], end
