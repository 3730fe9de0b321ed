"""Documents as writers must write them: stricter than what readers accept. Pure.

Entries are compared by what they mean, so that a writer may state a default or leave it out.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Entries", "WrongError", "entries_of", "parse_object", "require"]

type Entries = dict[tuple[int, ...], Entry]

_STRINGS = frozenset({"path", "data", "checksum", "etag", "last_modified", "version"})
_INTEGERS = frozenset({"offset", "length", "size"})
_WITH_PATH = frozenset({"offset", "length", "etag", "last_modified", "version", "size"})
_LARGEST = 2**53 - 1
_KEY = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_SCHEMES = ("s3", "gs", "gcs", "az", "azure", "abfs", "abfss", "http", "https", "file")


class WrongError(Exception):
    """What is wrong with what was written."""


@dataclass(frozen=True)
class Entry:
    """What an entry means."""

    path: str | None = None
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    etag: str | None = None
    last_modified: datetime | None = None
    version: str | None = None
    size: int | None = None


def require(holds: bool, otherwise: str) -> None:
    """Raise WrongError unless something holds."""
    if not holds:
        raise WrongError(otherwise)


def parse_object(document: bytes, name: str) -> dict[str, Any]:
    """Return a document, which is one JSON object in UTF-8."""
    try:
        text = document.decode()
    except UnicodeDecodeError:
        raise WrongError(f"{name} is not UTF-8") from None
    require(not text.startswith("\ufeff"), f"{name} begins with a byte order mark")
    try:
        parsed = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)
    except _TwiceError:
        raise WrongError(f"{name} has two members of one name") from None
    except (ValueError, RecursionError):
        raise WrongError(f"{name} is not JSON") from None
    if not isinstance(parsed, dict):
        raise WrongError(f"{name} is not a JSON object")
    return parsed


class _TwiceError(Exception):
    """An object has two members of one name."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _TwiceError
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def entries_of(document: Mapping[str, Any], name: str, grid: Sequence[int]) -> Entries:
    """Return the entries of a document, whose keys are canonical and in the grid."""
    return {_index(key, name, grid): _entry(stated, name) for key, stated in document.items()}


def _index(key: str, name: str, grid: Sequence[int]) -> tuple[int, ...]:
    require(_KEY.fullmatch(key) is not None, f"{name}: {key!r} is not a canonical key")
    index = tuple(map(int, key.split(".")))
    if not grid:
        require(index == (0,), f"{name}: {key} is not in the chunk grid")
        return ()
    inside = len(index) == len(grid) and all(i < n for i, n in zip(index, grid, strict=True))
    require(inside, f"{name}: {key} is not in the chunk grid")
    return index


def _entry(stated: Any, name: str) -> Entry:
    if not isinstance(stated, dict):
        raise WrongError(f"{name}: an entry is not an object")
    known = {member: value for member, value in stated.items() if not _is_annotation(member)}
    for member, value in known.items():
        require(member in _STRINGS | _INTEGERS, f"{name}: an entry has an undefined member")
        kind = int if member in _INTEGERS else str
        require(type(value) is kind, f"{name}: {member} is not {_KINDS[kind]}")
    if not stated:
        return Entry()
    require(("path" in known) != ("data" in known), f"{name}: an entry needs a path or data")
    alone = "data" in known and known.keys() & _WITH_PATH
    require(not alone, f"{name}: an entry with data has members that need a path")
    _check_range(known, name)
    if "path" in known:
        known["path"] = _path(known["path"], name)
    if "data" in known:
        known["data"] = _decoded(known["data"], name)
    if "etag" in known:
        known["etag"] = known["etag"].strip('"')
    if "last_modified" in known:
        known["last_modified"] = _time(known["last_modified"], name)
    return Entry(**known)


_KINDS = {int: "an integer, without fraction and exponent", str: "a string"}


def _is_annotation(member: str) -> bool:
    return ":" in member or member.startswith("_")


def _check_range(entry: Mapping[str, Any], name: str) -> None:
    offset, length = entry.get("offset", 0), entry.get("length", 1)
    valid = offset >= 0 and length >= 1 and offset + length <= _LARGEST
    require(valid, f"{name}: an entry has no such range of bytes")
    possible = 0 <= entry.get("size", 0) <= _LARGEST
    require(possible, f"{name}: an entry has a size that no object has")


def _path(reference: str, name: str) -> str:
    """Return a path without the `./` that means nothing, and that a colon may require."""
    scheme, colon, _ = reference.partition("/")[0].partition(":")
    absolute = scheme.lower() in _SCHEMES
    require(not colon or absolute, f"{name}: a path with a colon does not begin with ./")
    require(reference != "", f"{name}: a path is empty")
    return reference if absolute else reference.removeprefix("./")


def _decoded(data: str, name: str) -> bytes:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise WrongError(f"{name}: data is not base64") from None
    canonical = base64.b64encode(decoded).decode() == data
    require(canonical and decoded != b"", f"{name}: data is not canonical base64 of some bytes")
    return decoded


def _time(stated: str, name: str) -> datetime:
    otherwise = f"{name}: last_modified is not a date and time with an offset"
    require(_TIME.fullmatch(stated) is not None, otherwise)
    try:
        time = datetime.fromisoformat(stated.upper().replace("Z", "+00:00"))
    except ValueError:
        raise WrongError(otherwise) from None
    return time.replace(microsecond=0)
