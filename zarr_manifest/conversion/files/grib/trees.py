"""GRIB2 files through gribberish, VirtualiZarr's parser: every message.

gribberish reads either a whole file or nothing, and some messages make it abort the process.
So it only gets the messages that it reads correctly, which another process finds out; all others
are refused, by offset.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from zarr_manifest.conversion.files.grib.messages import (
    ONE_BY_ONE,
    TO_EDITION_2,
    GribMessage,
    messages,
    without_negative_times,
)
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree
from zarr_manifest.conversion.nodes import ArrayNode, whole
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.virtualizarr_internals import grib_group
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import join
from zarr_manifest.locations import redact


def read_grib(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a GRIB file. Messages that no array refers to are refused, by offset.

    Raises
    ------
    NotConvertibleError
        Nothing of the file can be expressed.
    """
    # A missing library is no reason to read the file.
    library("gribberish.virtualizarr.parser", "reading GRIB")
    gribberish: Any = library("gribberish")
    size, _ = registry.state(url)
    data = bytes(registry.read(url, 0, size))
    found = list(messages(data))
    data, changed = without_negative_times(data, found)
    if all(message.edition != 2 for message in found):
        raise NotConvertibleError(
            "the file has no message of GRIB edition 2, and no other is read",
            remedy=TO_EDITION_2,
        )
    tree = FileTree()
    problems = _problems(found, data)
    if len(problems) == len(found):
        (at, problem), *others = problems.items()
        among = f" (nor can {len(others)} others)" if others else ""
        raise NotConvertibleError(f"the message at byte {at} cannot be read{among}: {problem}")
    for start, problem in problems.items():
        tree.refuse(_name(start, url), problem)
    readable = _without(data, problems)
    parse = partial(gribberish.parse_grib_dataset, encode_coords=True, collapse_groups=False)
    dataset = _result_of(partial(parse, readable))
    _restore_reference(dataset, {m.start: m for m in found if m.start in changed})
    explained = _refuse_incomplete(dataset, "", tree)
    tree.add_manifest_group(_result_of(partial(grib_group, url, dataset)))
    explained |= _referenced(tree) | problems.keys()
    for message in found:
        if message.start not in explained:
            problem = "gribberish left it out: it is unknown, or the same field as another one"
            tree.refuse(_name(message.start, url), problem)
        for number in range(2, message.fields + 1):
            tree.refuse(
                f"{_name(message.start, url)}, field {number}",
                f"only the first field is read. {ONE_BY_ONE}",
            )
    return tree


def _name(start: int, url: str) -> str:
    """Return a name for a message that is unique among several files."""
    return f"message at byte {start} of {unquote(redact(url).rpartition('/')[2].partition('?')[0])}"


def _without(data: bytes, starts: Collection[int]) -> bytes:
    """Return the data of a file with the messages at these offsets made unrecognisable."""
    if not starts:
        return data
    readable = bytearray(data)
    for start in starts:
        readable[start : start + 4] = bytes(4)
    return bytes(readable)


def _problems(found: Sequence[GribMessage], data: bytes) -> dict[int, str]:
    """Return, by offset, why messages are refused."""
    problems = {each.start: each.problem for each in found if each.problem is not None}
    readable = [message for message in found if message.start not in problems]
    problems |= try_messages(readable, _without(data, problems))
    # gribberish gives all variables of a group the coordinates of one of them.
    grid: bytes | None = None
    for message in readable:
        if message.start not in problems:
            grid = grid or message.grid
            if message.grid != grid:
                problems[message.start] = "its grid differs from that of the messages before it"
    return dict(sorted(problems.items()))


def _result_of[R](question: Callable[[], R]) -> R:
    """Return the result of a call to gribberish.

    Raises
    ------
    NotConvertibleError
        The call failed.
    """
    try:
        return question()
    except FOREIGN_ERRORS as error:
        raise NotConvertibleError(f"gribberish cannot read it: {error}") from error
    except BaseException as error:
        # A panic in Rust is not an Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise NotConvertibleError(f"gribberish cannot read it: {error}") from error


def _restore_reference(node: dict[str, Any], changed: Mapping[int, GribMessage]) -> None:
    """State the reference times of messages that were given another one."""
    for variable in node.get("data_vars", {}).values():
        offsets = [int(offset) for offset, _ in variable["values"]["offsets"]]
        if changed.keys() & set(offsets):
            first = changed.get(offsets[0], changed[min(changed.keys() & set(offsets))])
            variable["attrs"]["reference_date"] = first.reference_time.isoformat()
    for below in node.get("groups", {}).values():
        _restore_reference(below, changed)


def _refuse_incomplete(node: dict[str, Any], path: str, tree: FileTree) -> set[int]:
    """Remove variables that lack messages, which would make the parser give up on the file.

    Returns
    -------
    set of int
        The offsets of the messages that they do have.
    """
    found: set[int] = set()
    for name, variable in list(node.get("data_vars", {}).items()):
        *counts, _, _ = variable["values"]["shape"]
        offsets = [offset for offset, _ in variable["values"]["offsets"]]
        if len(offsets) != math.prod(counts):
            del node["data_vars"][name]
            needed = " x ".join(
                f"{count} {dim}" for count, dim in zip(counts, variable["dims"], strict=False)
            )
            tree.refuse(join(path, name), f"it has {len(offsets)} messages, not {needed}")
            found.update(offsets)
    for name, below in node.get("groups", {}).items():
        found |= _refuse_incomplete(below, join(path, name), tree)
    return found


def _referenced(tree: FileTree) -> set[int]:
    """Return the offsets of all messages that arrays refer to."""
    found: set[int] = set()
    for node in tree.made.values():
        if isinstance(node, ArrayNode):
            columns = whole(node).columns()
            found.update(columns.offsets[columns.path_numbers >= 0].tolist())
    return found


# What gribberish can read ----------------------------------------------------------------


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
