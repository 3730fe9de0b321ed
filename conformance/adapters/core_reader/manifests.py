"""A manifest document and its entries: what it is, and steps 4 to 8 of the precedence."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from conformance.adapters.core_reader.locations import Location, resolve
from conformance.adapters.json_lines import RefusedError

__all__ = ["LARGEST", "Entry", "Index", "Reference", "parse_json", "parse_manifest"]

type Index = tuple[int, ...]

LARGEST = 2**53 - 1
_TYPES = {"path": str, "data": str, "offset": int, "length": int}
_CONDITIONS = {"etag", "last_modified", "version", "size"}
_OF_A_PATH = {"offset", "length", *_CONDITIONS}
_MEMBERS = {*_TYPES, *_CONDITIONS, "checksum"}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")


class Reference(NamedTuple):
    """A range of a source; without a length, up to its end."""

    location: Location
    offset: int
    length: int | None


type Entry = Reference | bytes
"""Where a chunk is, or the chunk; no bytes stand for an explicitly empty one."""


def parse_json(document: bytes) -> Any:
    """Parse JSON: raise ValueError for what is none, RecursionError for what is too deep."""
    return json.loads(
        document.decode(),
        parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits),
        parse_constant=_no_constant,
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_manifest(
    document: Any, grid: Index, own_key: Callable[[Index], str], base: Location
) -> dict[Index, Entry]:
    """Return the entries of chunks in the grid, in C order; check all entries."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _refuse("invalid_json", "the document has a lone surrogate")
    if not isinstance(document, dict):
        _refuse("invalid_manifest", "the document is not an object")
    for key, entry in document.items():
        _check_entry(key, entry)
    stated: dict[Index, dict[str, Any]] = {}
    for key, entry in document.items():
        index = _index(key, len(grid), own_key)
        if index in stated:
            _refuse("invalid_chunk_key", f"{key!r} is a second spelling of a chunk")
        if all(i < n for i, n in zip(index, grid, strict=True)):
            stated[index] = entry
    in_order = {index: stated[index] for index in sorted(stated)}
    for index, entry in in_order.items():
        _check_features(index, entry)
    return {index: _entry(index, entry, base) for index, entry in in_order.items()}


def _refuse(code: str, message: str) -> NoReturn:
    raise RefusedError(code, "manifest", message)


def _check_entry(key: str, entry: Any) -> None:
    """Check what an entry says by itself; step 4."""
    if not isinstance(entry, dict):
        _refuse("invalid_entry", f"the entry of {key!r} is not an object")
    for name, value in entry.items():
        if name not in _MEMBERS and ":" not in name and not name.startswith("_"):
            _refuse("invalid_entry", f"{key!r} has a member {name!r}, which is not known")
        # `type`, because a boolean is an instance of int.
        if name in _TYPES and type(value) is not _TYPES[name]:
            _refuse("invalid_entry", f"{name} of {key!r} is no {_TYPES[name].__name__}")
    if entry and ("path" in entry) == ("data" in entry):
        _refuse("invalid_entry", f"{key!r} needs either path or data")
    data = entry.get("data", "AAAA")
    if not data or not _BASE64.fullmatch(data):
        _refuse("invalid_entry", f"data of {key!r} is not base64")
    if "data" in entry and entry.keys() & _OF_A_PATH:
        _refuse("invalid_entry", f"{key!r} has members that need a path")
    offset, length = entry.get("offset", 0), entry.get("length", 0)
    if offset < 0 or length < ("length" in entry) or offset + length > LARGEST:
        _refuse("invalid_entry", f"offset and length of {key!r} are no range")


def _index(key: str, dimensions: int, own_key: Callable[[Index], str]) -> Index:
    """Return the index of which a key is the canonical or the array's own spelling."""
    numbers = key.removeprefix("c").strip("/.").replace("/", ".").split(".") if dimensions else []
    if len(numbers) == dimensions and all(map(_NUMBER.fullmatch, numbers)):
        index = tuple(map(int, numbers))
        if key in (".".join(numbers) or "0", own_key(index)) and max(index, default=0) <= LARGEST:
            return index
    _refuse("invalid_chunk_key", f"{key!r} is not the key of a chunk")


def _check_features(index: Index, entry: Mapping[str, Any]) -> None:
    """Refuse what this reader does not implement; step 7."""
    if "checksum" in entry:
        _refuse("unsupported_checksum", f"{index}: checksums are not implemented")
    if entry.keys() & _CONDITIONS:
        _refuse("unsupported_transformer", f"{index}: source conditions are not implemented")


def _entry(index: Index, stated: Mapping[str, Any], base: Location) -> Entry:
    """Resolve what an entry refers to; step 8."""
    if "path" not in stated:
        return base64.b64decode(stated.get("data", ""))
    try:
        location = resolve(stated["path"], base)
    except ValueError as error:
        _refuse("invalid_path", f"path of {index} {error}")
    return Reference(location, stated.get("offset", 0), stated.get("length"))
