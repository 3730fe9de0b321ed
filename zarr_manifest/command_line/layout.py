"""How to write a hierarchy, according to the options of the command line."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import allowed, pairs
from zarr_manifest.command_line.progress import Bars
from zarr_manifest.conversion import ConversionReport, Node
from zarr_manifest.sources import Access

__all__ = ["Layout", "partition_shape"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The values of ``options.writing_options``, and of ``access_options``."""

    base: str | None
    codecs: tuple[str, ...]
    partition_shape: tuple[int, ...] | dict[str, tuple[int, ...]] | None
    inline_below: int | None
    overwrite: bool
    lock: bool
    sole_writer: bool
    rename: Mapping[str, str]
    allow: Mapping[str, Access] = field(repr=False)  # options may be keys

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Interpret the values of the options, and of ``options.access_options``, by name.

        Raises
        ------
        UsageError
            A partition shape or an access option is invalid.
        """
        return cls(
            options["base"],
            options["codecs"],
            partition_shape(options["partition_shapes"]),
            options["inline_below"],
            options["overwrite"],
            not options["no_lock"],
            options["sole_writer"],
            pairs(options["renames"], "--rename"),
            allowed(options["anonymously"], options["with_credentials"], options["settings"]),
        )

    def write(self, hierarchy: str, nodes: Iterable[Node], shown: Bars) -> ConversionReport:
        """Write a hierarchy."""
        stated = self.partition_shape if isinstance(self.partition_shape, dict) else {}
        unused = dict.fromkeys(stated)
        with _no_empty_directories(hierarchy):
            report = conversion.write_hierarchy(
                hierarchy,
                _marking_used(nodes, unused),
                base=self.base,
                codecs=self.codecs,
                partition_shape=self.partition_shape,
                inline_below=self.inline_below,
                overwrite=self.overwrite,
                progress=shown.wrote,
                lock=self.lock,
                sole_writer=self.sole_writer,
                rename=self.rename,
                allow=self.allow,
            )
        report.notes += [
            (path, "there is no such array: its partition shape was ignored") for path in unused
        ]
        return report


def _marking_used(nodes: Iterable[Node], paths: dict[str, None]) -> Iterator[Node]:
    """Pass nodes on, removing their paths from `paths`."""
    for node in nodes:
        paths.pop(node.path.strip("/"), None)
        yield node


@contextmanager
def _no_empty_directories(hierarchy: str) -> Generator[None]:
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
