"""How to write a hierarchy, according to the options of the command line."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import allowed, pairs
from zarr_manifest.command_line.outcomes import hierarchy_outcome
from zarr_manifest.command_line.progress import Bars
from zarr_manifest.command_line.tasks import Outcome
from zarr_manifest.conversion import Node


def writing(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `writing_options` as arguments of :func:`conversion.write_hierarchy`.

    Those of `layout_options` are some of them.

    Raises
    ------
    UsageError
        A partition shape or an access option is invalid.
    """
    alike = ("base", "codecs", "inline_below", "overwrite", "sole_writer")
    found = {name: options[name] for name in alike if name in options} | {
        "partition_shape": partition_shape(options["partition_shapes"]),
        "lock": not options["no_lock"],
        "allow": allowed(options),
    }
    if "renames" in options:
        found["rename"] = pairs(options["renames"], "--rename")
    return found


def write(
    hierarchy: str,
    nodes: Iterable[Node],
    shown: Bars,
    how: Mapping[str, Any],
    *,
    allow_refused: bool = False,
) -> Outcome:
    """Write a hierarchy; `how` is the result of :func:`writing`."""
    stated: object = how.get("partition_shape")
    by_array = cast("dict[str, object]", stated) if isinstance(stated, dict) else {}
    unused = dict[str, None].fromkeys(by_array)
    with no_empty_directories(hierarchy):
        report = conversion.write_hierarchy(
            hierarchy, _marking_used(nodes, unused), progress=shown.wrote, **how
        )
    report.notes += [
        (path, "there is no such array: its partition shape was ignored") for path in unused
    ]
    return hierarchy_outcome(hierarchy, report, allow_refused=allow_refused)


def _marking_used(nodes: Iterable[Node], paths: dict[str, None]) -> Iterator[Node]:
    """Pass nodes on, removing their paths from `paths`."""
    for node in nodes:
        paths.pop(node.path.strip("/"), None)
        yield node


@contextmanager
def no_empty_directories(hierarchy: str) -> Generator[None]:
    """On failure, remove the directories that were made for a hierarchy, if they are empty."""
    made = "://" not in hierarchy and not Path(hierarchy).exists()
    try:
        yield
    except BaseException:
        for directory, _, _ in os.walk(hierarchy, topdown=False) if made else ():
            with suppress(OSError):  # it is not empty
                Path(directory).rmdir()
        raise


def partition_shape(
    texts: tuple[str, ...],
) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """Return the values of ``--partition-shape``, for all arrays or by array.

    Raises
    ------
    UsageError
        A value is invalid, or values conflict.

    Examples
    --------
    >>> partition_shape(("10,1,1",))
    (10, 1, 1)
    >>> partition_shape(("a/sst=10,1,1", "a/time=1000"))
    {'a/sst': (10, 1, 1), 'a/time': (1000,)}
    """
    if not texts:
        return None
    by_array = dict(_named(text) for text in texts)
    if "" not in by_array:
        return by_array
    if len(texts) > 1:
        raise click.UsageError("--partition-shape without an array must be given alone, and once")
    return by_array[""]


def _named(text: str) -> tuple[str, tuple[int, ...]]:
    array, _, numbers = text.rpartition("=")
    try:
        shape = tuple(int(number) for number in numbers.split(","))
    except ValueError:
        shape = (0,)
    if min(shape) < 1:
        raise click.UsageError(
            f"--partition-shape takes positive integers such as 10,1,1 or sst=10,1,1, not {text!r}"
        )
    return array.strip("/"), shape
