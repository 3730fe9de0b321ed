"""Where the schemas and the package may disagree, and why.

Each difference has a reason, a predicate that says which documents it is about, and an example;
a test shows that the two really disagree about the example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import AddressValueError, IPv6Address
from typing import Any, NamedTuple

__all__ = ["BEYOND_THE_READER", "BEYOND_THE_SCHEMAS", "Case", "Difference"]

_LARGEST = 2**53 - 1
_CODECS = {"gzip", "zstd", "crc32c"}
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class Case:
    """A value that both judge.

    Parameters
    ----------
    kind : {"declaration", "manifest", "storage_transformers", ...}
        As for `verdicts.in_schema`.
    value : JSON value
    """

    kind: str
    value: Any

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration, empty if there is none."""
        stated = self.value.get("configuration") if isinstance(self.value, dict) else None
        return stated if self.kind == "declaration" and isinstance(stated, dict) else {}

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of a manifest document or an inline manifest."""
        stated = self.value if self.kind == "manifest" else self.configuration.get("manifest")
        return stated if isinstance(stated, dict) else {}

    def members(self, name: str) -> list[Any]:
        """All values of a member of entries."""
        objects = [entry for entry in self.entries.values() if isinstance(entry, dict)]
        return [entry[name] for entry in objects if name in entry]

    @property
    def references(self) -> list[str]:
        """The URL references that resolve against the array's own location."""
        stated = [self.configuration.get(name) for name in ("base", "manifest")]
        stated += [self.value] if self.kind in ("from_array", "manifest_reference") else []
        return [text for text in stated if isinstance(text, str)]

    @property
    def paths(self) -> list[str]:
        """The URL references that resolve against the base."""
        return [self.value] if self.kind == "path" else self.members("path")

    @property
    def indices(self) -> list[list[int]]:
        """The numbers in each chunk key."""
        return [[int(digits) for digits in re.findall(r"[0-9]+", key)] for key in self.entries]


class Difference(NamedTuple):
    """One reason to disagree."""

    reason: str
    applies: Callable[[Case], bool]
    example: Case
    metadata: dict[str, Any] = {}  # noqa: RUF012


def _manifest(entry: Any, key: str = "0.0") -> Case:
    return Case("manifest", {key: entry})


def _declaration(**configuration: Any) -> Case:
    configuration = {"manifest": "./manifest.json"} | configuration
    return Case("declaration", {"name": "chunk-manifest-json", "configuration": configuration})


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)


def _overflows(entry: Any) -> bool:
    offset, length = entry.get("offset", 0), entry.get("length", 0)
    return max(offset, length) <= _LARGEST < offset + length


def _path(reference: str) -> str:
    """What stands before a query, without scheme and authority."""
    return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/?]*)?", "", reference.partition("?")[0])


def _lowest(reference: str, depth: int) -> tuple[int, int]:
    """How deep a reference leads at its highest point, and the directory that it ends in."""
    if _ABSOLUTE.match(reference):
        depth = 0
    lowest = depth
    *directories, last = _path(reference).removeprefix("/").split("/")
    for segment in [*directories, last if last == ".." else "."]:
        depth += {"..": -1, ".": 0}.get(segment, 1)
        lowest = min(lowest, depth)
    return lowest, depth


def _climbs(case: Case) -> bool:
    # The array lies two levels below the root.
    lowest_of_base, base = _lowest(case.configuration.get("base", "./"), 2)
    others = [_lowest(path, 2)[0] for path in case.references]
    return min([lowest_of_base, *others, *(_lowest(path, base)[0] for path in case.paths)]) < 0


def _empty_segment(case: Case) -> bool:
    """Whether there is one that dot segments may remove, or that another base allows."""
    of_any_base = [path for path in case.paths if not _ABSOLUTE.match(path)]
    dotted = [x for x in [*case.references, *case.paths] if {".", ".."} & {*_path(x).split("/")}]
    return any("//" in _path(text) for text in [*of_any_base, *dotted])


def _no_time(text: str) -> bool:
    if not re.fullmatch(r"[0-9-]{10}[Tt][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9:]{5})", text):
        return False
    try:
        datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return True
    return False


def _numbers(case: Case) -> list[Any]:
    shape = case.configuration.get("partition_shape")
    numbers = [n for name in ("offset", "length", "size") for n in case.members(name)]
    return numbers + (shape if isinstance(shape, list) else [])


def _unknown_codec(case: Case) -> bool:
    codecs = case.configuration.get("codecs")
    listed = codecs if isinstance(codecs, list) else []
    names = [codec.get("name") if isinstance(codec, dict) else codec for codec in listed]
    return any(isinstance(name, str) and name not in _CODECS for name in names)


def _own_keys_elsewhere(key: str) -> bool:
    return key.startswith("c.") or ("/" in key and not key.startswith("c/"))


def _partitions(case: Case) -> list[Any]:
    stated = case.configuration.get("partitions")
    return list(stated) if isinstance(stated, list | dict) else []


def _no_block(name: Any) -> bool:
    numbers = name.split(".") if isinstance(name, str) else []
    return len(numbers) != 2 or any(int(number) > _LARGEST for number in numbers)


def _no_address(reference: str) -> bool:
    found = re.match(r"https?://\[([0-9a-f:.]*)\]", reference, re.IGNORECASE)
    try:
        return found is not None and not IPv6Address(found[1])
    except AddressValueError:
        return True


# The schemas accept, and the package refuses.
BEYOND_THE_SCHEMAS: dict[str, Difference] = {
    "offset + length": Difference(
        "JSON Schema does not add",
        lambda case: any(map(_overflows, case.entries.values())),
        _manifest({"path": "f", "offset": _LARGEST, "length": 1}),
    ),
    "numbers with a fraction": Difference(
        "to JSON Schema, 1.0 is an integer; a reader may refuse it (Manifest document, 4)",
        lambda case: any(isinstance(number, float) for number in _numbers(case)),
        _manifest({"path": "f", "offset": 1.0}),
    ),
    "above the root": Difference(
        "'..' has to be counted, from a root that only the reader knows",
        _climbs,
        _manifest({"path": "../../../f"}),
    ),
    "empty segments": Difference(
        "whether one remains depends on dot segments; whether it matters, on the base",
        _empty_segment,
        _manifest({"path": "d//f"}),
    ),
    "query of a relative path": Difference(
        "only an http base makes it valid",
        lambda case: any("?" in x and not _ABSOLUTE.match(x) for x in case.paths),
        _manifest({"path": "f?x=1"}),
    ),
    "lone surrogates": Difference(
        "regular expressions differ about them, and JSON decoders too",
        lambda case: any(re.search(r"[\ud800-\udfff]", x) for x in _strings(case.value)),
        _manifest({"path": "\ud800"}),
    ),
    "calendar": Difference(
        "days of a month and the ends of time, which depend on the offset, are not regular",
        lambda case: any(map(_no_time, case.members("last_modified"))),
        _manifest({"path": "f", "last_modified": "2024-02-30T12:00:00Z"}),
    ),
    "number of dimensions": Difference(
        "the array's shape stands in its metadata",
        lambda case: any(len(index) != 2 for index in case.indices),
        _manifest({}, "0.0.0"),
    ),
    "another encoding's keys": Difference(
        "the array's chunk_key_encoding stands in its metadata",
        lambda case: any(map(_own_keys_elsewhere, case.entries)),
        _manifest({}, "0/0"),
    ),
    "numbers of keys above 2^53-1": Difference(
        "the pattern counts digits",
        lambda case: any(number > _LARGEST for index in case.indices for number in index),
        _manifest({}, f"{_LARGEST + 1}.0"),
    ),
    "two spellings of a chunk": Difference(
        "JSON Schema does not compare keys",
        lambda case: len(set(map(tuple, case.indices))) < len(case.indices),
        Case("manifest", {"0.0": {}, "c/0/0": {}}),
    ),
    "length of partition_shape": Difference(
        "the array's shape stands in its metadata",
        lambda case: len(case.configuration.get("partition_shape", [1, 1])) != 2,
        _declaration(manifest="{partition}", partition_shape=[1]),
    ),
    "unknown codecs": Difference(
        "readers may implement more than the specification asks for",
        _unknown_codec,
        _declaration(codecs=["blosc"]),
    ),
    "names in partitions": Difference(
        "how many numbers a name has depends on partition_shape; the pattern counts digits",
        lambda case: any(_no_block(name) for name in _partitions(case)),
        _declaration(manifest="{partition}", partition_shape=[1, 1], partitions=["0"]),
    ),
    "IPv6 addresses": Difference(
        "the pattern only sees that there are colons in the brackets",
        lambda case: any(map(_no_address, [*case.references, *case.paths])),
        _manifest({"path": "https://[1::2::3]/f"}),
    ),
    "template with a scheme": Difference(
        "what is before the colon is no scheme, and may become one; the package takes it for one",
        lambda case: any(
            re.match(r"[^:/?]*\{(partition|digest)\}[^:/?]*:", x) for x in case.references
        ),
        _declaration(manifest="x{partition}:y", partition_shape=[1, 1]),
    ),
    "unknown transformers": Difference(
        "readers may implement others",
        lambda case: case.kind == "storage_transformers" and any(map(_unknown, case.value)),
        Case("storage_transformers", ["other"]),
    ),
}


def _unknown(transformer: Any) -> bool:
    declared = {"name": transformer} if isinstance(transformer, str) else transformer
    return declared["name"] != "chunk-manifest-json" and declared.get("must_understand", True)


def _foreign_name(case: Case) -> bool:
    value = case.value
    name = value.get("name") if case.kind == "declaration" and isinstance(value, dict) else None
    return isinstance(name, str) and name != "chunk-manifest-json"


# The schemas refuse, and the package accepts.
BEYOND_THE_READER: dict[str, Difference] = {
    "outside the chunk grid": Difference(
        "readers ignore such entries when they look at paths, checksums and times",
        lambda case: any(max(index, default=0) >= 8 for index in case.indices),
        _manifest({"path": "%2f"}, "8.0"),
    ),
    "null": Difference(
        "it is not core Zarr; a Zarr library may open such an array all the same",
        lambda case: case.kind == "storage_transformers" and case.value is None,
        Case("storage_transformers", None),
    ),
    "another transformer": Difference(
        "the schema is for this one; a reader ignores others that need not be understood",
        _foreign_name,
        Case("declaration", {"name": "other", "must_understand": False}),
    ),
    "keys of other encodings": Difference(
        "readers accept the keys of every encoding they know; the schema knows two",
        lambda case: case.value == {"0.0.tiff": {}},
        _manifest({}, "0.0.tiff"),
        {"chunk_key_encoding": {"name": "suffixed", "configuration": {}}},
    ),
}
