"""How the entries of a document are written, taken from its first entry. Bytes only."""

from __future__ import annotations

import re

from msgspec import Struct, structs

__all__ = ["Field", "Template", "template_of"]

_SPACE = rb"[ \t\n\r]*+"
_OPENING = re.compile(rb'%b\{%b"' % (_SPACE, _SPACE))
_KEY = re.compile(rb"[0-9.]++")
_AFTER_KEY = re.compile(rb'"%b:%b\{%b' % (_SPACE, _SPACE, _SPACE))
_NAME = re.compile(
    rb'"(path|offset|length|checksum|etag|last_modified|version|size)"%b:%b' % (_SPACE, _SPACE)
)
_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(rb"[0-9]++")
_COMMA = re.compile(rb"%b,%b" % (_SPACE, _SPACE))
_CLOSING = re.compile(rb'%b\}%b,%b"' % (_SPACE, _SPACE, _SPACE))
_NUMBERS = ("offset", "length", "size")


class Field(Struct, frozen=True):
    """A member of each entry.

    Attributes
    ----------
    name : str
        Its name.
    before : bytes
        What stands between the text of the value before it, or of the key, and that of its own:
        ``": {"path": "`` for example.
    """

    name: str
    before: bytes

    @property
    def is_number(self) -> bool:
        """Whether the value is a number, not a string."""
        return self.name in _NUMBERS


class Template(Struct, frozen=True):
    """How the entries of a document are written, as far as they are like the first.

    Attributes
    ----------
    start : int
        Where the text of the first key begins.
    fields : tuple of Field
        The members of each entry in order.
    closing : bytes
        What stands between the text of the last value and that of the next key: ``}, "``.
    """

    start: int
    fields: tuple[Field, ...]
    closing: bytes


def template_of(document: bytes) -> Template | None:
    """Return how the first entry is written, if it has a path and another entry follows.

    None if it has other members than those that are columns: they are left to others.

    Examples
    --------
    >>> template_of(b'{"0": {"path": "a", "offset": 1}, "1": {}}').fields[1]
    Field(name='offset', before=b'", "offset": ')
    """
    opening = _OPENING.match(document)
    if opening is None:
        return None
    key = _KEY.match(document, opening.end())
    after_key = key and _AFTER_KEY.match(document, key.end())
    if key is None or after_key is None:
        return None
    fields: list[Field] = []
    end, position = key.end(), after_key.end()
    while name := _NAME.match(document, position):
        field = Field(name[1].decode(), b"")
        value = (_NUMBER if field.is_number else _TEXT).match(document, name.end())
        if value is None:
            return None
        within = 0 if field.is_number else 1  # the quotes belong to what stands between
        fields.append(structs.replace(field, before=document[end : value.start() + within]))
        end = value.end() - within
        comma = _COMMA.match(document, value.end())
        if comma is None:
            return _template(opening.end(), fields, document, end, value.end())
        position = comma.end()
    return None


def _template(
    start: int, fields: list[Field], document: bytes, end: int, after: int
) -> Template | None:
    closing = _CLOSING.match(document, after)
    names = {field.name for field in fields}
    if closing is None or len(names) < len(fields) or "path" not in names:
        return None
    return Template(start, tuple(fields), document[end : closing.end()])
