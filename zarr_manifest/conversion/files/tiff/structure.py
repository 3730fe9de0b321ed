"""The directories of a TIFF file, checked and completed before async-tiff reads them.

A damaged directory makes async-tiff panic, or end the process: it allocates what a tag asks for.
It demands tags that TIFF 6 gives a default, and a form of tags that only describe the image.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zarr_manifest.errors import NotConvertibleError

# Bytes of a value, by type of a tag.
_SIZES = {
    **dict(enumerate((1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4), start=1)),
    **dict.fromkeys((16, 17, 18), 8),  # of BigTIFF
}

# Tags that async-tiff needs; those with a value are 1 where a file omits them. TIFF 6 defines this
# for two; without the third, other readers take the image for grey, too.
_PHOTOMETRIC = 262
_REQUIRED = {256: "ImageWidth", 257: "ImageLength"}
_DEFAULT_ONE = (258, _PHOTOMETRIC, 277)  # BitsPerSample, …, SamplesPerPixel

# Tags that only describe the image, and their types; async-tiff refuses the file for another.
_TEXT, _SHORT, _RATIONAL = 2, 3, 5
_DESCRIPTIONS = {
    **dict.fromkeys((269, 270, 271, 272, 285, 305, 306, 315, 316, 33432), _TEXT),
    **dict.fromkeys((282, 283), _RATIONAL),
    296: _SHORT,
}
_PHOTOMETRICS = {*range(7), 8, 9, 10, 32803, 34892, 32844, 32845}

_BLOCK = 64 * 1024
_MOST_DIRECTORIES = 10_000


@dataclass(frozen=True, slots=True)
class Completion:
    """What to read in place of parts of a file, so that its directories are complete.

    Parameters
    ----------
    head : bytes
        Its first bytes.
    tail : bytes
        What follows its end.
    """

    head: bytes
    tail: bytes


def check_structure(read: Callable[[int, int], Any], size: int) -> Completion | None:
    """Return how to complete the directories of a file, or None if they are complete.

    Parameters
    ----------
    read : callable
        Returns a range of the file.
    size : int
        Of the file, in bytes.

    Raises
    ------
    NotConvertibleError
        It is damaged: its directories do not lie within it.
    """
    return _TiffFile(read, size).completion()


@dataclass(slots=True)
class _Tag:
    """An entry of a directory; a text that is to be placed elsewhere has none."""

    number: int
    kind: int
    count: int
    value: bytes
    text: bytes | None = None


class _TiffFile:
    def __init__(self, read: Callable[[int, int], Any], size: int) -> None:
        self._read = read
        self._size = size
        self._blocks: dict[int, bytes] = {}
        order = {b"II": "<", b"MM": ">"}.get(self._bytes(0, 2))
        if order is None:
            raise _damaged("it does not begin with a byte order")
        self._short = struct.Struct(f"{order}H")
        version = self._number(self._short, 2)
        if version not in (42, 43):
            raise _damaged(f"its version is {version}, not 42 or 43")
        # Positions and numbers have 8 bytes in BigTIFF; so has what stands in the entry of a tag.
        wide = "Q" if version == 43 else "I"
        self._pointer = struct.Struct(order + wide)
        self._count = struct.Struct(order + ("Q" if version == 43 else "H"))
        self._entry = struct.Struct(f"{order}HH{wide}{self._pointer.size}s")

    def completion(self) -> Completion | None:
        seen: set[int] = set()
        is_complete = True
        directories: list[list[_Tag]] = []
        position = self._number(self._pointer, self._pointer.size)
        while position:
            if position in seen or len(seen) == _MOST_DIRECTORIES:
                raise _damaged("its directories form a circle")
            seen.add(position)
            found, position = self._directory(position)
            directories.append(_completed(self._short, found))
            is_complete &= directories[-1] == found
        return None if is_complete else self._with_directories(directories)

    def _with_directories(self, directories: list[list[_Tag]]) -> Completion:
        """Return how to read the file with other directories, after its end."""
        pointer = self._pointer
        tail = bytearray(self._size % 2)  # a directory begins at an even position
        for tag in (tag for tags in directories for tag in tags if tag.text is not None):
            tag.value = text = tag.text or b""
            if len(text) > pointer.size:
                tag.value = pointer.pack(self._size + len(tail))
                tail += text + bytes(len(text) % 2)
        first = self._size + len(tail)
        for number, tags in enumerate(directories):
            tail += self._count.pack(len(tags))
            for tag in tags:
                tail += self._entry.pack(tag.number, tag.kind, tag.count, tag.value)
            following = self._size + len(tail) + pointer.size
            tail += pointer.pack(following if number < len(directories) - 1 else 0)
        return Completion(self._bytes(0, pointer.size) + pointer.pack(first), bytes(tail))

    def _directory(self, start: int) -> tuple[list[_Tag], int]:
        """Check a directory, and return it and the position of the next one."""
        first = start + self._count.size
        end = first + self._number(self._count, start) * self._entry.size
        if end + self._pointer.size > self._size:
            raise _damaged(f"the directory at byte {start:,} ends after it")
        tags = [self._tag(position) for position in range(first, end, self._entry.size)]
        stated = {tag.number for tag in tags if tag.count}
        for tag, name in _REQUIRED.items():
            if tag not in stated:
                raise _damaged(f"the directory at byte {start:,} has no {name}")
        return tags, self._number(self._pointer, end)

    def _tag(self, position: int) -> _Tag:
        inline = self._pointer.size
        number, kind, count, value = self._entry.unpack(self._bytes(position, self._entry.size))
        tag = _Tag(number, kind, count, value)
        if kind not in _SIZES:
            raise _damaged(f"tag {number} is of the unknown type {kind}")
        length = count * _SIZES[kind]
        if length > inline:
            if self._pointer.unpack(value)[0] + length > self._size:
                raise _damaged(f"the values of tag {number} end after it")
        elif kind == _TEXT and count and value[count - 1]:
            tag.text = value[:count]
        stated = self._short.unpack_from(value)[0]
        if (number, kind) == (_PHOTOMETRIC, _SHORT) and stated not in _PHOTOMETRICS:
            raise _damaged(f"its PhotometricInterpretation is {stated}")
        return tag

    def _number(self, form: struct.Struct, position: int) -> int:
        number: int = form.unpack(self._bytes(position, form.size))[0]
        return number

    def _bytes(self, position: int, length: int) -> bytes:
        if position + length > self._size:
            raise _damaged(f"a directory at byte {position:,} is not in it")
        found = b""
        while len(found) < length:
            start = position + len(found)
            block = start - start % _BLOCK
            if block not in self._blocks:
                self._blocks[block] = bytes(self._read(block, min(block + _BLOCK, self._size)))
            found += self._blocks[block][start - block : start - block + length - len(found)]
        return found


def _completed(short: struct.Struct, found: list[_Tag]) -> list[_Tag]:
    """Return the tags of a directory in the form that async-tiff demands."""
    one = short.pack(1)
    tags: list[_Tag] = []
    for tag in found:
        if tag.text is not None:
            ended = tag.text + b"\0"
            tags.append(_Tag(tag.number, tag.kind, len(ended), tag.value, ended))
        elif _is_usable(tag):
            tags.append(tag)
    stated = {tag.number for tag in tags}
    tags += [_Tag(number, _SHORT, 1, one) for number in _DEFAULT_ONE if number not in stated]
    return sorted(tags, key=lambda tag: tag.number)


def _is_usable(tag: _Tag) -> bool:
    if tag.number in _DEFAULT_ONE:
        return tag.count > 0
    kind = _DESCRIPTIONS.get(tag.number, tag.kind)
    return tag.kind == kind and (kind == _TEXT or tag.number not in _DESCRIPTIONS or tag.count == 1)


def _damaged(problem: str) -> NotConvertibleError:
    return NotConvertibleError(f"the TIFF file is damaged: {problem}")
