"""The text of a reference set as Python values, so many references at a time.

A million values take less memory as JSON than as Python objects, and a small part of a document
is decoded several times as fast as the whole, because it stays in the processor's cache.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

import msgspec

from zarr_manifest.errors import InvalidJSONError

__all__ = [
    "TOO_LARGE",
    "Batch",
    "Members",
    "UsualReference",
    "batches",
    "parsed",
    "parsed_members",
]

# The smallest integer too large for a manifest (specification, "Manifest document").
TOO_LARGE = 2**53

# Number of references, and of bytes of a document, that are parsed at a time.
_BATCH_SIZE = 2**14
_PART = 2**18

# Where a part may end: between a reference and the next key, unless it is within a text.
_BOUNDARY = re.compile(rb'\]\s*(,)\s*"')


class UsualReference(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A reference to a byte range or, with neither offset nor length, to a whole object.

    With only one of them, it has another form.
    """

    url: str
    offset: Annotated[int, msgspec.Meta(ge=0, lt=TOO_LARGE)] = -1
    length: Annotated[int, msgspec.Meta(ge=1, lt=TOO_LARGE)] = -1


# Keys and their values.
type Batch = tuple[list[str], list[object]]

# A set of references: as text, or by key.
type Members = msgspec.Raw | Mapping[str, object]

type _Usual = UsualReference | str | dict[str, Any]

_UNPARSED_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_UNPARSED_SETS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_USUAL_MEMBERS = msgspec.json.Decoder(dict[str, _Usual])
_USUAL_VALUES = msgspec.json.Decoder(list[_Usual])
_VALUE: msgspec.json.Decoder[object] = msgspec.json.Decoder()
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parsed_members(content: bytes | msgspec.Raw) -> object:
    """Return a document with the values of its members unparsed: of a set, or of each set.

    Raises
    ------
    InvalidJSONError
        It is not JSON.
    """
    is_list = bytes(memoryview(content)[:1024]).lstrip()[:1] == b"["
    return _decoded(content, _UNPARSED_SETS if is_list else _UNPARSED_MEMBERS)


def parsed(value: object) -> object:
    """Return a member of a document, parsing it if necessary.

    Raises
    ------
    InvalidJSONError
        It is not JSON.
    """
    return _decoded(value, _VALUE) if type(value) is msgspec.Raw else value


def _decoded(content: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> object:
    try:
        found: object = decoder.decode(content)
    except _UNDECODABLE:
        # It has another type, or kerchunk's bare NaNs, which Python's own parser accepts.
        try:
            found = json.loads(bytes(content))
        except (ValueError, RecursionError) as error:
            raise InvalidJSONError(f"the reference set is not JSON: {error}") from error
    return found


def batches(members: Members) -> Iterator[Batch]:
    """Yield the members of a set in batches, with references to byte ranges decoded.

    Of members with the same name, all may be yielded; the last one counts.

    Raises
    ------
    InvalidJSONError
        The text is not JSON.

    Examples
    --------
    >>> list(batches({"a/0": ["f.nc", 0, 5], "a/1": "text"}))
    [(['a/0', 'a/1'], [['f.nc', 0, 5], 'text'])]
    >>> list(batches(msgspec.Raw(b'{"a/0": ["f.nc"]}')))
    [(['a/0'], [UsualReference(url='f.nc', offset=-1, length=-1)])]
    """
    if isinstance(members, msgspec.Raw):
        yield from _parts(members)
        return
    for batch in itertools.batched(members.items(), _BATCH_SIZE):
        yield [key for key, _ in batch], _values([value for _, value in batch])


def _parts(text: msgspec.Raw) -> Iterator[Batch]:
    """Yield the members of an object part by part.

    If a part is a JSON object then so is what was cut off before it, and the cuts are correct:
    one within a text or a list leaves it open.
    """
    view = memoryview(text)
    start, opening = 0, b""
    while True:
        found = _BOUNDARY.search(view, start + _PART)
        end, closing = (len(view), b"") if found is None else (found.start(1), b"}")
        batch = _usual_part(b"".join((opening, view[start:end], closing)))
        if batch is None:
            yield from batches(_remainder(text, opening + bytes(view[start:])))
            return
        yield batch
        if found is None:
            return
        start, opening = found.end(1), b"{"


def _usual_part(part: bytes) -> Batch | None:
    """Return the members of a part; None if it is no JSON object, or one for Python's parser."""
    try:
        usual = _USUAL_MEMBERS.decode(part)
    except _UNDECODABLE:
        pass
    else:
        return list(usual), list(usual.values())
    try:
        unparsed = _UNPARSED_MEMBERS.decode(part)
    except _UNDECODABLE:
        return None
    return list(unparsed), _values(list(unparsed.values()))


def _remainder(whole: msgspec.Raw, text: bytes) -> Mapping[str, object]:
    try:
        found = parsed_members(text)
    except InvalidJSONError:
        parsed_members(whole)  # raises, with the position of the mistake in the whole
        raise
    return cast("Mapping[str, object]", found)


def _values(values: Sequence[object]) -> list[object]:
    """Return the values of references, parsing them if necessary: together if all are usual."""
    kinds = set(map(type, values))
    if msgspec.Raw not in kinds:
        return list(values)
    if len(kinds) == 1:
        document = b"[%b]" % b",".join(cast("Sequence[msgspec.Raw]", values))
        try:
            return list[object](_USUAL_VALUES.decode(document))
        except _UNDECODABLE:
            pass  # some have another form
    return [parsed(value) for value in values]
