"""How a hierarchy is to be written, as the command line states it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import allowed
from zarr_manifest.command_line.progress import Bars
from zarr_manifest.command_line.tasks import stating_usage
from zarr_manifest.conversion import ConversionReport, Node
from zarr_manifest.hierarchy import open_hierarchy
from zarr_manifest.sources import Access

__all__ = ["Layout", "partition_shape"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What ``options.writing_options`` say."""

    base: str | None
    codecs: tuple[str, ...]
    partition_shape: tuple[int, ...] | dict[str, tuple[int, ...]] | None
    inline_below: int
    overwrite: bool
    sole_writer: bool
    allow: Mapping[str, Access]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Interpret the values of the options, and of ``options.access_options``, by name.

        Raises
        ------
        UsageError
            A partition shape is none.
        """
        return cls(
            options["base"],
            options["codecs"],
            partition_shape(options["partition_shapes"]),
            options["inline_below"],
            options["overwrite"],
            options["sole_writer"],
            allowed(options["anonymously"], options["with_credentials"], options["settings"]),
        )

    def write(self, hierarchy: str, nodes: Iterable[Node], shown: Bars) -> ConversionReport:
        """Write a hierarchy."""
        with stating_usage(ValueError):
            store = open_hierarchy(hierarchy, self.allow)
        stated = self.partition_shape if isinstance(self.partition_shape, dict) else {}
        unused = dict.fromkeys(stated)
        with _no_empty_directories(hierarchy):
            report = conversion.write_hierarchy(
                store,
                _striking_out(nodes, unused),
                base=self.base,
                codecs=self.codecs,
                partition_shape=self.partition_shape,
                inline_below=self.inline_below,
                overwrite=self.overwrite,
                progress=shown.wrote,
                sole_writer=self.sole_writer,
            )
        report.notes += [
            (path, "there is no such array, so that its partition shape is of no use")
            for path in unused
        ]
        return report


def _striking_out(nodes: Iterable[Node], paths: dict[str, None]) -> Iterator[Node]:
    """Pass nodes on, and strike their paths out of others."""
    for node in nodes:
        paths.pop(node.path.strip("/"), None)
        yield node


@contextmanager
def _no_empty_directories(hierarchy: str) -> Generator[None]:
    """Remove the directories again that were made for a hierarchy, if nothing came into them."""
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
    """Return what ``--partition-shape`` says, for all arrays or by array.

    Raises
    ------
    UsageError
        A text is none, or they do not go together.

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
        raise click.UsageError("--partition-shape without an array can be given once, and alone")
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
