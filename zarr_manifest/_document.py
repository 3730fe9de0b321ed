"""The wire format: declaration, configuration and entries, decoded strictly.

Turns JSON into typed structures and says exactly which member is wrong. Knows
nothing of arrays, locations or bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidEntryError,
    InvalidJSONError,
    InvalidManifestError,
    LimitExceededError,
    ManifestError,
    UnsupportedTransformerError,
)

__all__ = [
    "LARGEST_INTEGER",
    "TRANSFORMER_NAME",
    "Configuration",
    "Entry",
    "Limits",
    "at_member",
    "decode_document",
    "parse_declaration",
]

TRANSFORMER_NAME = "chunk-manifest-json"

# Integers that every JSON implementation represents exactly (specification, "Manifest document").
LARGEST_INTEGER = 2**53 - 1

_Natural = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)]
_Unset = msgspec.UnsetType


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a manifest may be before it is refused.

    A manifest is untrusted input: a small document must not be able to fill the
    memory of whoever opens it. Limits are per array.

    Parameters
    ----------
    manifest_bytes : int
        Size of the manifest document, in bytes.
    entries : int
        Number of members of the manifest document.
    inline_bytes : int
        Sum of the decoded sizes of inline ``data``, in bytes.

    Examples
    --------
    >>> Limits(entries=1000).entries
    1000
    """

    manifest_bytes: int = 2**31
    entries: int = 20_000_000
    inline_bytes: int = 2**28


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One value of the manifest document (specification, "Entries").

    Members that are absent are ``msgspec.UNSET``; unknown members are ignored.
    """

    path: str | _Unset = msgspec.UNSET
    offset: _Natural | _Unset = msgspec.UNSET
    length: _Natural | _Unset = msgspec.UNSET
    data: bytes | _Unset = msgspec.UNSET
    checksum: str | _Unset = msgspec.UNSET
    etag: str | _Unset = msgspec.UNSET
    last_modified: str | _Unset = msgspec.UNSET
    version: str | _Unset = msgspec.UNSET


EMPTY_ENTRY = Entry()


def _contradiction(entry: Entry) -> str | None:
    """Return what members of an entry say against each other, or None."""
    unset = msgspec.UNSET
    if entry.path is not unset and entry.data is not unset:
        return "'path' and 'data' exclude each other"
    if entry.path is unset:
        for name in ("offset", "length", "etag", "last_modified", "version"):
            if getattr(entry, name) is not unset:
                return f"{name!r} needs a 'path' beside it"
        if entry.checksum is not unset and entry.data is unset:
            return "'checksum' needs a 'path' or 'data' beside it"
    if entry.length is not unset:
        if entry.length == 0:
            return "'length' 0 names no bytes; an explicitly empty chunk is {}"
        offset = 0 if entry.offset is unset else entry.offset
        if offset + entry.length > LARGEST_INTEGER:
            return "'offset' + 'length' is larger than 2^53-1"
    return None


@dataclass(frozen=True, slots=True)
class Configuration:
    """A valid declaration of the transformer (specification, "Name and configuration").

    Parameters
    ----------
    manifest : str or bytes
        URL reference of the manifest document, or the inline document as JSON.
    base : str
        URL reference against which relative paths resolve.
    """

    manifest: str | bytes
    base: str = "./"


_NOT_READ_YET = ("codecs", "partition_shape")


def parse_declaration(transformers: object) -> Configuration | None:
    """Return the configuration that an array's ``storage_transformers`` declare.

    Parameters
    ----------
    transformers : object
        The decoded JSON value of ``storage_transformers``.

    Returns
    -------
    Configuration or None
        None when nothing has to be applied.

    Raises
    ------
    UnsupportedTransformerError
        A transformer is unknown and must be understood, ours is stacked on
        itself, or uses a form that this release does not read.
    InvalidConfigurationError
        The declaration is malformed.

    Examples
    --------
    >>> declared = [{"name": "chunk-manifest-json", "configuration": {"manifest": "./m.json"}}]
    >>> parse_declaration(declared)
    Configuration(manifest='./m.json', base='./')
    """
    try:
        stated = msgspec.convert(transformers, list[Any])
    except msgspec.ValidationError:
        raise InvalidConfigurationError("'storage_transformers' is not a list") from None
    found: list[Configuration] = []
    for declared in map(_named, stated):
        must_understand = declared.get("must_understand", True)
        if not isinstance(must_understand, bool):
            raise InvalidConfigurationError("'must_understand' is not a boolean")
        if declared["name"] == TRANSFORMER_NAME:
            found.append(_parse_configuration(declared, must_understand))
        elif must_understand:
            raise UnsupportedTransformerError(
                f"the array declares an unknown storage transformer {declared['name']!r}",
                remedy=f"Only {TRANSFORMER_NAME!r} can be read.",
            )
    if len(found) > 1:
        raise UnsupportedTransformerError(
            f"the array declares {TRANSFORMER_NAME!r} {len(found)} times; "
            "only one manifest can be read"
        )
    return found[0] if found else None


def _named(stated: Any) -> dict[str, Any]:
    """Return a declaration as an object; a string is short for one with just a name."""
    if isinstance(stated, str):
        return {"name": stated}
    try:
        declared = msgspec.convert(stated, dict[str, Any])
    except msgspec.ValidationError:
        declared = {}
    if not isinstance(declared.get("name"), str):
        raise InvalidConfigurationError("a storage transformer has no 'name'")
    return declared


def _parse_configuration(item: Mapping[str, Any], must_understand: bool) -> Configuration:
    if not must_understand:
        raise InvalidConfigurationError(
            "'must_understand' must not be false: a reader that ignores the manifest "
            "would return fill values"
        )
    unknown = sorted(set(item) - {"name", "configuration", "must_understand"})
    if unknown:
        raise InvalidConfigurationError(f"unknown member {unknown[0]!r} in the declaration")
    if not isinstance(item.get("configuration"), dict):
        raise InvalidConfigurationError("'configuration' is missing or not an object")
    configuration: dict[str, Any] = item["configuration"]
    for name in _NOT_READ_YET:
        if name in configuration:
            raise UnsupportedTransformerError(
                f"this release cannot read a manifest with {name!r} in its configuration",
                remedy="A later release will; ask the writer for a single plain document.",
            )
    unknown = sorted(set(configuration) - {"manifest", "base"})
    if unknown:
        raise InvalidConfigurationError(f"unknown member {unknown[0]!r} in 'configuration'")
    manifest = configuration.get("manifest")
    base = configuration.get("base", "./")
    if not isinstance(base, str):
        raise InvalidConfigurationError("'base' is not a string")
    if isinstance(manifest, dict):
        return Configuration(msgspec.json.encode(manifest), base)
    if not isinstance(manifest, str) or not manifest:
        raise InvalidConfigurationError("'manifest' is neither a URL reference nor an object")
    return Configuration(manifest, base)


_ENTRIES = msgspec.json.Decoder(dict[str, Entry])
_RAW_ENTRIES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRY = msgspec.json.Decoder(Entry)


def decode_document(document: bytes, limits: Limits) -> dict[str, Entry]:
    """Decode a manifest document into its entries, by member name.

    Parameters
    ----------
    document : bytes
        UTF-8 JSON.
    limits : Limits
        Larger documents are refused.

    Returns
    -------
    dict of str to Entry

    Raises
    ------
    InvalidJSONError, InvalidManifestError, InvalidEntryError, LimitExceededError
        With the offending member and its position.

    Examples
    --------
    >>> decode_document(b'{"0.0": {"path": "f.nc", "offset": 4}}', Limits())["0.0"].offset
    4
    """
    if len(document) > limits.manifest_bytes:
        raise LimitExceededError(
            f"the manifest has {len(document)} bytes, the limit is {limits.manifest_bytes}",
            remedy="Raise Limits(manifest_bytes=...) if you trust it.",
        )
    try:
        entries = _ENTRIES.decode(document)
    except (msgspec.ValidationError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as e:
        _explain(document, e)
    if len(entries) > limits.entries:
        raise LimitExceededError(
            f"the manifest has {len(entries)} entries, the limit is {limits.entries}",
            remedy="Raise Limits(entries=...) if you trust it.",
        )
    inline_bytes = 0
    for key, entry in entries.items():
        problem = _contradiction(entry)
        if problem is not None:
            raise at_member(document, key, InvalidEntryError(problem, chunk=key))
        if entry.data is not msgspec.UNSET:
            inline_bytes += len(entry.data)
    if inline_bytes > limits.inline_bytes:
        raise LimitExceededError(
            f"the manifest holds {inline_bytes} inline bytes, the limit is {limits.inline_bytes}",
            remedy="Raise Limits(inline_bytes=...) if you trust it.",
        )
    if EMPTY_ENTRY in entries.values():
        _require_plainly_empty(document, entries)
    return entries


def _require_plainly_empty(document: bytes, entries: Mapping[str, Entry]) -> None:
    """Refuse entries that say something, but nothing that we know.

    ``{"Path": ...}`` would otherwise read as fill values without a word.
    """
    for key, raw in _RAW_ENTRIES.decode(document).items():
        if entries[key] == EMPTY_ENTRY and msgspec.json.decode(raw) != {}:
            problem = "the entry has neither 'path' nor 'data', and is not {}"
            raise at_member(document, key, InvalidEntryError(problem, chunk=key))


def _position(document: bytes, byte: int) -> str:
    """Where a byte of a document is, for people and for editors."""
    before = document[:byte]
    line = before.count(b"\n") + 1
    # In characters, as editors count; the start of a truncated one counts too.
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"line {line}, column {column} (byte {byte})"


def _value_position(document: bytes, value: msgspec.Raw) -> int:
    # A Raw is a view of the document: the distance of the two is the position.
    def address(buffer: Any) -> int:
        return int(np.frombuffer(buffer, "u1").__array_interface__["data"][0])

    return address(value) - address(document)


def at_member(document: bytes, key: str, error: ManifestError) -> ManifestError:
    """Add to an error which member of a valid document it is about, and where that is."""
    value = _RAW_ENTRIES.decode(document)[key]
    where = _position(document, _value_position(document, value))
    error.problem += f", in member {key!r} at {where}"
    return error


def _explain(document: bytes, error: Exception) -> NoReturn:
    """Turn what the decoder says of a whole document into the member that is wrong."""
    if isinstance(error, RecursionError):
        raise LimitExceededError("the manifest is nested too deeply") from error
    if isinstance(error, UnicodeDecodeError):
        try:
            document.decode()
        except UnicodeDecodeError as in_document:
            where = _position(document, in_document.start)
            raise InvalidJSONError(f"the manifest is not UTF-8, at {where}") from error
        raise InvalidJSONError("the manifest is not UTF-8") from error
    try:
        members = _RAW_ENTRIES.decode(document)
    except msgspec.ValidationError:
        raise InvalidManifestError("the manifest is not a JSON object") from error
    except msgspec.DecodeError as e:
        match = re.search(r"\(byte (\d+)\)", str(e))
        byte = int(match[1]) if match else len(document)
        text = re.sub(r" \(byte \d+\)", "", str(e))
        where = _position(document, byte)
        raise InvalidJSONError(f"the manifest is not JSON: {text}, at {where}") from error
    except RecursionError:
        raise LimitExceededError("the manifest is nested too deeply") from error
    for key, raw in members.items():
        try:
            _ENTRY.decode(raw)
        except msgspec.MsgspecError as e:
            problem = str(e).replace("`$", "`entry")
            raise at_member(
                document, key, InvalidEntryError(f"the entry is wrong: {problem}", chunk=key)
            ) from error
    # The value that is wrong is not the last one of its name.
    raise InvalidManifestError(f"the manifest names a member twice: {error}") from error
