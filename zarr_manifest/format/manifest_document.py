"""The wire format of manifest documents: entries, decoded strictly and encoded.

Turns JSON into typed structures, and reports exactly which member is wrong. Knows
nothing about arrays, locations or source bytes.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, cast

import msgspec
import numpy as np

from zarr_manifest.errors import (
    InvalidEntryError,
    InvalidJSONError,
    InvalidManifestError,
    LimitExceededError,
    ManifestError,
)
from zarr_manifest.format.findings import Findings
from zarr_manifest.format.limits import LARGEST_INTEGER, Limits, limit_exceeded, too_much
from zarr_manifest.showing import brief, counted

_Natural = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
_Unset = msgspec.UnsetType


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One value in the manifest document (specification, "Entries").

    Absent members are ``msgspec.UNSET``. Annotations are left out: members whose names contain
    ``:`` or begin with ``_``.
    """

    path: str | _Unset = msgspec.UNSET
    offset: _Natural | _Unset = msgspec.UNSET
    length: _Natural | _Unset = msgspec.UNSET
    data: bytes | _Unset = msgspec.UNSET
    checksum: str | _Unset = msgspec.UNSET
    etag: str | _Unset = msgspec.UNSET
    last_modified: str | _Unset = msgspec.UNSET
    version: str | _Unset = msgspec.UNSET
    size: _Natural | _Unset = msgspec.UNSET


EMPTY_ENTRY = Entry()
_MEMBERS = frozenset(Entry.__struct_fields__)


class _PlainEntry(Entry, frozen=True, gc=False, forbid_unknown_fields=True):
    """An entry without annotations: most documents have no others."""


class _Data(msgspec.Struct):
    """Inline data as written."""

    data: str


def _contradiction(entry: Entry) -> str | None:
    """Return how the members of an entry contradict each other, or None."""
    unset = msgspec.UNSET
    if entry.path is not unset and entry.data is not unset:
        return "'path' and 'data' are mutually exclusive"
    if entry.path is unset:
        for name in ("offset", "length", "etag", "last_modified", "version", "size"):
            if getattr(entry, name) is not unset:
                return f"{name!r} requires 'path'"
        if entry.checksum is not unset and entry.data is unset:
            return "'checksum' requires 'path' or 'data'"
    if entry.length is not unset:
        if entry.length == 0:
            return "'length' must not be 0; write an explicitly empty chunk as {}"
        offset = 0 if entry.offset is unset else entry.offset
        if offset + entry.length > LARGEST_INTEGER:
            return "'offset' + 'length' is larger than 2^53-1"
    if entry.data is not unset and not entry.data:
        return "'data' must not be empty; write an explicitly empty chunk as {}"
    return None


_PLAIN_ENTRIES = msgspec.json.Decoder(dict[str, _PlainEntry])
_ENTRIES = msgspec.json.Decoder(dict[str, Entry])
_RAW_ENTRIES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW = msgspec.json.Decoder(msgspec.Raw)
_ENTRY = msgspec.json.Decoder(Entry)
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DATA = msgspec.json.Decoder(_Data)
_UNDECODABLE = (msgspec.ValidationError, UnicodeDecodeError, msgspec.DecodeError, RecursionError)


def interpret_document(
    document: bytes,
    limits: Limits,
    members: Members | None = None,
    *,
    validating: bool = False,
) -> Findings[dict[str, Entry]]:
    """Yield the problems of a manifest document, and return its valid entries.

    Of duplicate members, the last one counts. Only validators report them, and bits of base64
    that are not used, but set. `members` are those of the document, if the caller needs them too.

    Examples
    --------
    >>> from zarr_manifest.format import strict
    >>> document = b'{"0.0": {"path": "f.nc", "offset": 4}}'
    >>> strict(interpret_document(document, Limits()))["0.0"].offset
    4
    """
    if len(document) > limits.manifest_bytes:
        yield limit_exceeded(
            f"the manifest has {counted(len(document), 'byte')}",
            limits.manifest_bytes,
            "manifest_bytes",
        )
        return {}
    members = Members(document) if members is None else members
    entries: dict[str, Entry] = {}
    is_plain = True
    try:
        entries |= _PLAIN_ENTRIES.decode(document)
    except _UNDECODABLE as error:
        problem = _explain_document(document, members, error)
        if problem is not None:
            yield problem
            return {}
        is_plain = False
    duplicates = list(members.duplicates()) if validating else []
    yield from duplicates
    # Millions of entries are decoded once, unless there are annotations, or something is wrong.
    if not is_plain or any(map(_contradiction, entries.values())):
        problems = _judged(document, entries, members, is_known=bool(duplicates))
        yield from _dropping(problems, entries, members)
    if validating:
        yield from map(members.locate, _unused_bits(entries, members))
    yield from _dropping(list(_too_long(entries, limits)), entries, members)
    yield from too_much(len(entries), count_inline_bytes(entries), limits)
    return entries


def _dropping(
    problems: Iterable[ManifestError], entries: dict[str, Entry], members: Members
) -> Iterator[ManifestError]:
    """Yield problems with their places, and drop the entries that they name."""
    for problem in problems:
        if problem.chunk is not None:
            entries.pop(problem.chunk, None)
        yield members.locate(problem)


def _is_understood(name: str) -> bool:
    """Whether readers know a member of an entry, or are free to ignore it."""
    return name in _MEMBERS or name.startswith("_") or ":" in name


def _unknown_member(names: Iterable[str]) -> str | None:
    """Return what is wrong with the names of an entry's members, or None.

    Examples
    --------
    >>> _unknown_member(["path", "ofset", "_by", "example.org:run"])
    "the entry has an unknown member 'ofset', whose name neither contains ':' nor begins with '_'"
    """
    for name in names:
        if not _is_understood(name):
            return (
                f"the entry has an unknown member {brief(name)}, whose name neither contains ':' "
                "nor begins with '_'"
            )
    return None


# Otherwise ``{"Path": ...}`` would silently read as fill values.
_SAYS_NOTHING = "the entry has neither 'path' nor 'data', and is not {}"


def _judged(
    document: bytes, entries: dict[str, Entry], members: Members, *, is_known: bool
) -> Iterator[ManifestError]:
    """Decode the entries of a document one by one, and yield what is wrong with them.

    `is_known`: duplicate members have been reported already.
    """
    found = is_known
    for key, raw in members.raw.items():
        entry, problem = _judge(raw)
        if entry is not None:
            entries[key] = entry
        if problem is not None:
            found = True
            yield InvalidEntryError(problem, chunk=key)
    if not found:
        try:
            _ENTRIES.decode(document)
        except msgspec.ValidationError as error:
            # A duplicate that a later member replaced is the invalid one.
            yield InvalidManifestError(f"the manifest has a duplicate member: {error}")


def _judge(raw: msgspec.Raw) -> tuple[Entry | None, str | None]:
    """Decode one entry, and return what is wrong with it by itself."""
    try:
        entry = _ENTRY.decode(raw)
    except msgspec.MsgspecError as error:
        reason = str(error).replace("`$", "`entry")
        return None, f"the entry is invalid: {reason}"
    names = _NAMES.decode(raw)
    if entry == EMPTY_ENTRY:
        return entry, _SAYS_NOTHING if names else None
    return entry, _unknown_member(names) or _contradiction(entry)


def _unused_bits(entries: Mapping[str, Entry], members: Members) -> Iterator[ManifestError]:
    """Yield inline data that differ from what any encoder of base64 writes."""
    for key, entry in entries.items():
        if entry.data is not msgspec.UNSET:
            written = _DATA.decode(members.raw[key]).data
            if base64.b64encode(entry.data).decode() != written:
                yield InvalidEntryError(
                    "'data' has bits that base64 does not use, and that are not 0", chunk=key
                )


def _too_long(entries: Mapping[str, Entry], limits: Limits) -> Iterator[ManifestError]:
    """Yield the paths and conditions that are longer than the limit."""
    most, unset = limits.path_length, msgspec.UNSET
    for key, entry in entries.items():
        # Most entries have a path, and nothing else that may be long.
        if entry.path is not unset and len(entry.path) > most:
            yield _too_long_a("path", entry.path, most, key)
        if entry.etag is not unset and len(entry.etag) > most:
            yield _too_long_a("etag", entry.etag, most, key)
        if entry.version is not unset and len(entry.version) > most:
            yield _too_long_a("version", entry.version, most, key)


def _too_long_a(name: str, text: str, most: int, key: str) -> LimitExceededError:
    length = counted(len(text), "character")
    return limit_exceeded(f"{name!r} has {length}", most, "path_length", chunk=key)


def count_inline_bytes(entries: Mapping[str, Entry]) -> int:
    """Return the total decoded size of inline data."""
    return sum(len(entry.data) for entry in entries.values() if entry.data is not msgspec.UNSET)


def _value_position(document: bytes, value: msgspec.Raw) -> int:
    # A Raw is a view of the document: its position is the difference of the two addresses.
    def address(buffer: Any) -> int:
        return int(np.frombuffer(buffer, "u1").__array_interface__["data"][0])

    return address(value) - address(document)


class Lines:
    """The lines of a document, to tell people and editors where something is."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        # Byte, line and column of the last position asked for: the next is often further on.
        self._reached = (0, 1, 1)

    def position(self, byte: int) -> str:
        """Return the position of a byte of the document."""
        last, line, column = self._reached if self._reached[0] <= byte else (0, 1, 1)
        passed = self._document[last:byte]
        if newlines := passed.count(b"\n"):
            line, column = line + newlines, 1
        # In characters, as editors count; the start of a truncated character counts too.
        column += len(passed[passed.rfind(b"\n") + 1 :].decode(errors="replace"))
        self._reached = (byte, line, column)
        return f"line {line}, column {column} (byte {byte})"


class Members:
    """Where the members of a manifest document are. Decodes nothing until asked.

    Parameters
    ----------
    document : bytes
        A JSON object.
    whole : Lines, optional
        The document of which it is a part.
    start : int
        Where its byte 0 would be in the whole.
    """

    def __init__(self, document: bytes, whole: Lines | None = None, start: int = 0) -> None:
        self._document = document
        self._lines = Lines(document) if whole is None else whole
        self._start = start

    @functools.cached_property
    def raw(self) -> dict[str, msgspec.Raw]:
        """The undecoded values of the members."""
        return _RAW_ENTRIES.decode(self._document)

    def locate[E: ManifestError](self, error: E) -> E:
        """Add the position of its member to an error."""
        if error.chunk is not None and error.chunk in self.raw:
            where = self.position(_value_position(self._document, self.raw[error.chunk]))
            error.problem += f", in member {brief(error.chunk)} at {where}"
        return error

    def position(self, byte: int) -> str:
        """Return the position of a byte of the document."""
        return self._lines.position(self._start + byte)

    def duplicates(self) -> Iterator[ManifestError]:
        """Yield every member name that an object repeats, at any depth."""
        try:
            pairs = json.loads(
                self._document, object_pairs_hook=_Pairs, parse_int=str, parse_float=str
            )
        except RecursionError:
            yield LimitExceededError("the manifest is nested too deeply")
            return
        for key in _repeated(pairs):
            yield self.locate(
                InvalidManifestError("the manifest has a duplicate member", chunk=key)
            )
        for key, value in pairs:
            for name in _repeated_within(value):
                yield self.locate(
                    InvalidManifestError(f"an object has a duplicate member {name!r}", chunk=key)
                )


class _Pairs(list[tuple[str, Any]]):
    """Members of a JSON object in order, including duplicates."""


def _repeated(pairs: _Pairs) -> list[str]:
    return [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]


def _repeated_within(value: object) -> Iterator[str]:
    inside = [value]
    while inside:
        value = inside.pop()
        if isinstance(value, _Pairs):
            yield from _repeated(value)
            inside += [inner for _, inner in value]
        elif isinstance(value, list):
            inside += cast("list[object]", value)


def _explain_document(document: bytes, members: Members, error: Exception) -> ManifestError | None:
    """Return the problem of a document as a whole; None if a member is to blame."""
    if isinstance(error, RecursionError):
        return LimitExceededError("the manifest is nested too deeply")
    try:
        document.decode()  # the decoder may have ended before, or skipped, what is wrong
    except UnicodeDecodeError as in_document:
        where = members.position(in_document.start)
        return InvalidJSONError(f"the manifest is not UTF-8, at {where}")
    try:
        _RAW.decode(document)  # all of it: a document may begin like JSON and not be JSON
        _ = members.raw
    except msgspec.ValidationError:
        return InvalidManifestError("the manifest is not a JSON object")
    except msgspec.DecodeError as e:
        match = re.search(r"\(byte (\d+)\)", str(e))
        byte = int(match[1]) if match else len(document)
        text = re.sub(r" \(byte \d+\)", "", str(e))
        where = members.position(byte)
        return InvalidJSONError(f"the manifest is not JSON: {text}, at {where}")
    except RecursionError:
        return LimitExceededError("the manifest is nested too deeply")
    return None


def explain_object(document: bytes) -> ManifestError | None:
    """Return why a document is not a JSON object; its members are not looked at."""
    try:
        _RAW.decode(document)
        if not document.isascii():
            document.decode()
    except _UNDECODABLE as error:
        return _explain_document(document, Members(document), error)
    if re.match(rb"\s*\{", document) is None:
        return InvalidManifestError("the manifest is not a JSON object")
    return None
