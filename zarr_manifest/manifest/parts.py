"""Parts of a large manifest document: smaller documents, with its members in order.

Works on bytes only; callers interpret the members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from zarr_manifest.format import Body

# How many bytes are copied at a time to search in them.
_WINDOW = 2**12

_RAW = msgspec.json.Decoder(msgspec.Raw)
_NAME = re.compile(rb'\s*"(?:[^"\\]|\\.)*+"\s*:\s*', re.DOTALL)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


class DocumentPart(Struct, frozen=True):
    """A part of a document, as a document of its own.

    Attributes
    ----------
    document : bytes
        A JSON object.
    start : int
        Where byte 0 of the part would be in the whole document.
    """

    document: bytes
    start: int


class LazyPart(Struct, frozen=True):
    """A part of a document, as a document of its own, read when it is used.

    Attributes
    ----------
    whole : bytes, memoryview or LazyBytes
        The whole document.
    start, stop : int
        Which of its bytes the part has.
    opening, closing : bytes
        What is added before and after them.
    """

    whole: Body
    start: int
    stop: int
    opening: bytes = b""
    closing: bytes = b""

    def __len__(self) -> int:
        return len(self.opening) + self.stop - self.start + len(self.closing)

    def __bytes__(self) -> bytes:
        return b"".join((self.opening, self.whole[self.start : self.stop], self.closing))

    def read_into(self, view: memoryview) -> None:
        """Fill a view of memory, which is as long as the part."""
        first, last = len(self.opening), len(view) - len(self.closing)
        view[:first], view[last:] = self.opening, self.closing
        if isinstance(self.whole, bytes | memoryview):
            view[first:last] = memoryview(self.whole)[self.start : self.stop]
        else:
            self.whole.read_into(self.start, view[first:last])


def split_document(document: Body, size: int) -> Iterator[LazyPart]:
    """Split a document into smaller ones of at least this size, with its members in order.

    If every part is a JSON object with members, then so is the document, and the split is
    correct. Otherwise the document may have been cut anywhere.

    Examples
    --------
    >>> [bytes(part) for part in split_document(b'{"0": {}, "1": {}, "2": {}}', 10)]
    [b'{"0": {}, "1": {}}', b'{ "2": {}}']
    """
    view: Body = memoryview(document) if isinstance(document, bytes) else document
    start, opening = 0, b""
    while comma := _find(view, b"},", start + size) + 1:
        yield LazyPart(view, start, comma, opening, b"}")
        start, opening = comma + 1, b"{"
    yield LazyPart(view, start, len(view), opening)


def _find(view: Body, wanted: bytes, start: int) -> int:
    """Return where some bytes are, or -1."""
    while start < len(view):
        window = bytes(view[start : start + _WINDOW + len(wanted) - 1])
        if (found := window.find(wanted)) >= 0:
            return start + found
        start += _WINDOW
    return -1


def split_members(document: bytes, size: int) -> Iterator[DocumentPart]:
    """Split a JSON object as above, but always between two members.

    Takes a multiple of the time, and no more memory than a part, whatever the members are.
    A part is larger only if it has a single member.

    Parameters
    ----------
    document : bytes
        A JSON object: this is not checked.
    size : int
        Size of a part in bytes.

    Examples
    --------
    >>> [part.document for part in split_members(b'{"0": "},", "1": 5 , "2": {}}', 5)]
    [b'{"0": "},"}', b'{ "1": 5 }', b'{ "2": {}}']
    """
    start = document.index(b"{") + 1
    close = document.rindex(b"}")
    while True:
        end = _likely_end(document, start, size, close)
        part = b"{%b}" % document[start:end]
        if not end or not _is_json(part):
            end = _end_of_members(document, start, size, close)
            part = b"{%b}" % document[start:end]
        yield DocumentPart(part, start - 1)
        if end == close:
            return
        start = end + 1


def _likely_end(document: bytes, start: int, size: int, close: int) -> int:
    """Return where a part may end, at a comma or at the end of the document."""
    if close - start <= size:
        return close
    # 0 if there is no such place.
    return document.find(b"},", start + size, start + 2 * size) + 1


def _is_json(part: bytes) -> bool:
    try:
        _RAW.decode(part)
    except msgspec.DecodeError:
        return False
    return True


def _end_of_members(document: bytes, start: int, size: int, close: int) -> int:
    """Return the comma after the member at which a part is large enough."""
    view = memoryview(document)
    position = start
    while True:
        name = _NAME.match(document, position)
        assert name is not None  # the document is a JSON object
        position = _end_of_value(view, name.end())
        if position == close or position - start >= size:
            return position
        position += 1


def _end_of_value(view: memoryview, start: int) -> int:
    """Return where what follows a JSON value begins, which is not read."""
    try:
        _RAW.decode(view[start:])
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        assert trailing is not None  # the document is a JSON object
        return start + int(trailing[1]) - 1
    raise AssertionError("the value is followed by the end of its object")
