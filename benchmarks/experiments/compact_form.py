"""Would a table of sources in the document pay? Entries as they are, against two compact forms.

The specification names the source and its conditions in every entry. A document could instead name
each source once, and give entries its number. Every form is decoded here by the shortest code that
makes columns of it, so that the forms are compared, and not how much work went into a reader;
the package's own reader stands beside them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard

from benchmarks.effort import Effort
from benchmarks.layout import Table, number
from benchmarks.measuring import repeat
from zarr_manifest import Limits
from zarr_manifest.format import strict
from zarr_manifest.manifest import Grid, interpret_manifest

ENTRIES_PER_SOURCE = 1000
ENTRIES_PER_ROW = 100


class PlainEntry(msgspec.Struct, gc=False):
    """An entry with the members that a writer of references needs."""

    path: str
    offset: int
    length: int
    last_modified: str | None = None


class NumberedEntry(msgspec.Struct, gc=False):
    """An entry that names its source by number."""

    source: int
    offset: int
    length: int


class Form(NamedTuple):
    """One way to write a document: a text for each entry, and code that makes columns of all."""

    entry: Callable[[str, int, int, int], str]
    load: Callable[[bytes], object]


PLAIN = msgspec.json.Decoder(dict[str, PlainEntry])
NUMBERED = msgspec.json.Decoder(dict[str, NumberedEntry])
LISTED = msgspec.json.Decoder(dict[str, tuple[int, int, int]])


def run(effort: Effort) -> Iterator[Table]:
    count = effort.pick(1_000_000, 100_000)
    forms = {
        "path and last_modified": Form(
            lambda path, _, offset, length: (
                f'{{"path":"{path}","offset":{offset},"length":{length},'
                f'"last_modified":"2024-03-01T12:00:00Z"}}'
            ),
            load_plain,
        ),
        "path": Form(
            lambda path, _, offset, length: (
                f'{{"path":"{path}","offset":{offset},"length":{length}}}'
            ),
            load_plain,
        ),
        "number of a source": Form(
            lambda _, source, offset, length: (
                f'{{"source":{source},"offset":{offset},"length":{length}}}'
            ),
            load_numbered,
        ),
        "list of three numbers": Form(
            lambda _, source, offset, length: f"[{source},{offset},{length}]", load_listed
        ),
    }
    documents = {name: document(form, count) for name, form in forms.items()}
    loads: dict[str, Callable[[], object]] = {
        name: partial(form.load, documents[name]) for name, form in forms.items()
    }
    for name in ("path and last_modified", "path"):
        loads[f"{name}, by the package"] = partial(load_here, documents[name], count)
    table = Table(
        ("entries", "CPU us/ref.", "B/ref.", "gzip", "zstd"),
        title=f"Forms of entries, {count:,} of them ({ENTRIES_PER_SOURCE} a source)",
    )
    for name, load in loads.items():
        seconds = repeat(load, effort.rounds())["cpu"]
        content = documents[name.removesuffix(", by the package")]
        table.add(
            name,
            number(seconds / count * 1e6),
            number(len(content) / count),
            number(len(gzip.compress(content, 6)) / count),
            number(len(zstandard.compress(content, 3)) / count),
        )
    yield table


def document(form: Form, count: int) -> bytes:
    """Return a document; the sources of a compact form are too few to matter, and left out."""
    lines = (
        f'"{number // ENTRIES_PER_ROW}.{number % ENTRIES_PER_ROW}":'
        + form.entry(
            f"../archive/2024/sst-{number // ENTRIES_PER_SOURCE:05}.nc",
            number // ENTRIES_PER_SOURCE,
            8192 + number % ENTRIES_PER_SOURCE * 40_123,
            40_000 + number * 7919 % 1000,
        )
        for number in range(count)
    )
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def load_plain(content: bytes) -> object:
    found = PLAIN.decode(content)
    entries = found.values()
    numbers: dict[str, int] = {}
    return (
        indices(found),
        column([numbers.setdefault(entry.path, len(numbers)) for entry in entries]),
        column([entry.offset for entry in entries]),
        column([entry.length for entry in entries]),
        {entry.last_modified for entry in entries},
    )


def load_numbered(content: bytes) -> object:
    found = NUMBERED.decode(content)
    entries = found.values()
    return (
        indices(found),
        column([entry.source for entry in entries]),
        column([entry.offset for entry in entries]),
        column([entry.length for entry in entries]),
    )


def load_listed(content: bytes) -> object:
    found = LISTED.decode(content)
    numbers = chain.from_iterable(found.values())
    return indices(found), np.fromiter(numbers, np.int64, 3 * len(found))


def load_here(content: bytes, count: int) -> object:
    grid = Grid(2, (-(-count // ENTRIES_PER_ROW), ENTRIES_PER_ROW))
    return strict(interpret_manifest(content, grid, Limits()))


def indices(keys: Collection[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(".".join(keys).split("."), np.int64)


def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)
