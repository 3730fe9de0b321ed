"""Random hierarchies of random arrays, and what is asked about them."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.fuzzer import odd_values
from conformance.fuzzer.odd_arrays import SOURCE_BYTES, Draft, draft, to_json
from conformance.fuzzer.odd_values import Places

__all__ = ["Question", "questions", "write_sources"]

ARRAYS = 24

# 2024-01-01T00:00:00Z, as the servers of the suite say.
_MODIFIED = 1704067200

_NAMES = ("data.bin", "a b.bin", "é.bin", "a+b.bin", "x:y.bin", "sub/data.bin", "1:y.bin")
_LIMITS: tuple[dict[str, int], ...] = (
    *[{}] * 10, {"entries": 3}, {"path_length": 20}, {"inline_bytes": 8}, {"manifest_bytes": 300},
)  # fmt: skip
_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}


@dataclass(frozen=True)
class Question:
    """A request for both implementations.

    Attributes
    ----------
    request : mapping
        As the protocol says.
    leeway : frozenset of str
        Why the text lets readers differ; nothing if it does not.
    """

    request: Mapping[str, Any]
    leeway: frozenset[str]


def write_sources(directory: Path) -> None:
    """Write the objects that valid references lead to."""
    for number, name in enumerate(_NAMES):
        for path in (directory / name, directory / "d" / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes((number + i) % 251 for i in range(SOURCE_BYTES)))
            os.utime(path, (_MODIFIED, _MODIFIED))
    (directory / "empty.bin").write_bytes(b"")


def questions(seed: int, directory: Path, places: Places) -> list[Question]:
    """Write a hierarchy into an empty directory, and return what to ask about it."""
    chance = random.Random(seed)
    hierarchy = directory / "hierarchy"
    shutil.rmtree(hierarchy, ignore_errors=True)
    write_sources(hierarchy / "src")
    (hierarchy / "zarr.json").write_bytes(to_json(_GROUP))
    drafts = {f"a{number:02}": draft(chance, places) for number in range(ARRAYS)}
    for name, made in drafts.items():
        for path, body in made.files().items():
            target = hierarchy / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(body)
    common = {
        "hierarchy": str(hierarchy),
        "allow": odd_values.prefixes(chance, places),
        "base": chance.choice([None] * 9 + [odd_values.base(chance, places)]),
        "verify": chance.choice(["auto", "auto", "always", "never"]),
        "missing": "fill",
        "limits": chance.choice(
            [{}, {}, {}, {"entries": 3}, {"path_length": 20}, {"inline_bytes": 8}]
        ),
        "via": "file",
        "reuse": True,
    }
    found = [Question({**common, "op": "validate", "reuse": False}, frozenset())]
    for name, made in drafts.items():
        asked = [_read(made), _listing(made), _chunk(chance, made), _chunk(chance, made)]
        found += [Question({**common, "array": name, **one.request}, one.leeway) for one in asked]
    return found


def _read(made: Draft) -> Question:
    return Question({"op": "read", "selection": None}, frozenset(made.leeway))


def _listing(made: Draft) -> Question:
    return Question({"op": "list"}, frozenset(made.leeway))


def _chunk(chance: random.Random, made: Draft) -> Question:
    sizes = zip(made.array.shape, made.array.chunks, strict=True)
    index = [chance.randrange(math.ceil(size / length)) for size, length in sizes]
    part = chance.choice(
        [None, {"start": chance.randint(0, 9)}, {"last": chance.randint(0, 9)}, _bounds(chance)]
    )
    leeway = set(made.leeway)
    if part is not None and (part.get("last") == 0 or part.get("start", 0) > 0):
        leeway.add("requests for no bytes")
    return Question({"op": "get_chunk", "chunk": index, "range": part}, frozenset(leeway))


def _bounds(chance: random.Random) -> dict[str, int]:
    start = chance.randint(0, 9)
    return {"start": start, "stop": start + chance.randint(0, 9)}
