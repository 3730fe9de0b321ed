"""The directories of a TIFF file, checked and completed before async-tiff reads them.

A damaged directory makes async-tiff panic, or end the process: it allocates what a tag asks for.
It demands tags that TIFF 6 gives a default, and a form of tags that only describe the image.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.errors import NotConvertibleError

# Bytes of a value, by type of a tag.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_BIG_SIZES = {16: 8, 17: 8, 18: 8}

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
    return _TiffFile(read, size).check()


@dataclass(slots=True)
class _Tag:
    """An entry of a directory; a text that is to be placed elsewhere has none."""

    number: int
    kind: int
    count: int
    value: bytes
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class _TiffFile:
    read: Callable[[int, int], Any]
    size: int
    blocks: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def check(self) -> Completion | None:
        order = {b"II": "<", b"MM": ">"}.get(self._bytes(0, 2))
        if order is None:
            raise _damaged("it does not begin with a byte order")
        (version,) = struct.unpack(f"{order}H", self._bytes(2, 2))
        is_big = version == 43
        if not is_big and version != 42:
            raise _damaged(f"its version is {version}, not 42 or 43")
        seen: set[int] = set()
        is_complete = True
        directories: list[list[_Tag]] = []
        position = self._number(order, "Q" if is_big else "I", 8 if is_big else 4)
        while position:
            if position in seen or len(seen) == _MOST_DIRECTORIES:
                raise _damaged("its directories form a circle")
            seen.add(position)
            found, position = self._directory(order, position, is_big=is_big)
            directories.append(_completed(order, found))
            is_complete &= directories[-1] == found
        return None if is_complete else self._completion(order, directories, is_big=is_big)

    def _completion(self, order: str, directories: list[list[_Tag]], *, is_big: bool) -> Completion:
        """Return how to read the file with other directories, after its end."""
        pointer, inline = struct.Struct(order + ("Q" if is_big else "I")), 8 if is_big else 4
        count = struct.Struct(order + ("Q" if is_big else "H"))
        entry = struct.Struct(f"{order}HH{'Q' if is_big else 'I'}{inline}s")
        tail = bytearray(self.size % 2)  # a directory begins at an even position
        for tag in (tag for tags in directories for tag in tags if tag.text is not None):
            text = tag.text or b""
            tag.value = text
            if len(text) > inline:
                tag.value = pointer.pack(self.size + len(tail))
                tail += text + bytes(len(text) % 2)
        first = self.size + len(tail)
        for number, tags in enumerate(directories):
            tail += count.pack(len(tags))
            for tag in tags:
                tail += entry.pack(tag.number, tag.kind, tag.count, tag.value)
            following = self.size + len(tail) + pointer.size
            tail += pointer.pack(following if number < len(directories) - 1 else 0)
        start = 8 if is_big else 4
        return Completion(self._bytes(0, start) + pointer.pack(first), bytes(tail))

    def _directory(self, order: str, start: int, *, is_big: bool) -> tuple[list[_Tag], int]:
        """Check a directory, and return it and the position of the next one."""
        count = self._number(order, "Q" if is_big else "H", start)
        first, entry = start + (8 if is_big else 2), 20 if is_big else 12
        end = first + count * entry
        if end + (8 if is_big else 4) > self.size:
            raise _damaged(f"the directory at byte {start:,} ends after it")
        tags = list(self._tags(order, first, count, is_big=is_big))
        stated = {tag.number for tag in tags if tag.count}
        for tag, name in _REQUIRED.items():
            if tag not in stated:
                raise _damaged(f"the directory at byte {start:,} has no {name}")
        return tags, self._number(order, "Q" if is_big else "I", end)

    def _tags(self, order: str, first: int, count: int, *, is_big: bool) -> Iterator[_Tag]:
        head = struct.Struct(f"{order}HH{'Q' if is_big else 'I'}")
        inline, entry = (8, 20) if is_big else (4, 12)
        sizes = _SIZES | _BIG_SIZES
        for position in range(first, first + count * entry, entry):
            tag, kind, number = head.unpack(self._bytes(position, head.size))
            if kind not in sizes:
                raise _damaged(f"tag {tag} is of the unknown type {kind}")
            length = number * sizes[kind]
            value = self._bytes(position + head.size, inline)
            if length > inline:
                at = self._number(order, "Q" if is_big else "I", position + head.size)
                if at + length > self.size:
                    raise _damaged(f"the values of tag {tag} end after it")
            elif kind == _TEXT and number and value[number - 1]:
                yield _Tag(tag, kind, number, value, value[:number])
                continue
            if tag == _PHOTOMETRIC:
                stated = self._number(order, "H", position + head.size)
                if kind == _SHORT and stated not in _PHOTOMETRICS:
                    raise _damaged(f"its PhotometricInterpretation is {stated}")
            yield _Tag(tag, kind, number, value)

    def _number(self, order: str, code: str, position: int) -> int:
        form = struct.Struct(order + code)
        number: int = form.unpack(self._bytes(position, form.size))[0]
        return number

    def _bytes(self, position: int, length: int) -> bytes:
        if position + length > self.size:
            raise _damaged(f"a directory at byte {position:,} is not in it")
        found = b""
        while len(found) < length:
            start = position + len(found)
            block = start - start % _BLOCK
            if block not in self.blocks:
                self.blocks[block] = bytes(self.read(block, min(block + _BLOCK, self.size)))
            found += self.blocks[block][start - block : start - block + length - len(found)]
        return found


def _completed(order: str, found: list[_Tag]) -> list[_Tag]:
    """Return the tags of a directory in the form that async-tiff demands."""
    one = struct.pack(f"{order}H", 1)
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
