"""The directories of a TIFF file, checked before async-tiff reads them.

A damaged directory makes async-tiff panic, or end the process: it allocates what a tag asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.errors import NotConvertibleError

__all__ = ["check_structure"]

# Bytes of a value, by type of a tag.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_BIG_SIZES = {16: 8, 17: 8, 18: 8}

# Tags that async-tiff needs.
_PHOTOMETRIC = 262
_REQUIRED = {
    256: "ImageWidth",
    257: "ImageLength",
    258: "BitsPerSample",
    _PHOTOMETRIC: "PhotometricInterpretation",
    277: "SamplesPerPixel",
}
_PHOTOMETRICS = {*range(7), 8, 9, 10, 32803, 34892, 32844, 32845}

# XResolution and YResolution.
_RATIONALS = (282, 283)
_RATIONAL = 5
_TEXT = 2

_BLOCK = 64 * 1024
_MOST_DIRECTORIES = 10_000


def check_structure(read: Callable[[int, int], Any], size: int) -> None:
    """Refuse a file whose directories do not lie within it.

    Parameters
    ----------
    read : callable
        Returns a range of the file.
    size : int
        Of the file, in bytes.

    Raises
    ------
    NotConvertibleError
        It is damaged.
    """
    _File(read, size).check()


@dataclass(frozen=True, slots=True)
class _File:
    read: Callable[[int, int], Any]
    size: int
    blocks: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def check(self) -> None:
        order = {b"II": "<", b"MM": ">"}.get(self._bytes(0, 2))
        if order is None:
            raise _damaged("it does not begin with a byte order")
        (version,) = struct.unpack(f"{order}H", self._bytes(2, 2))
        is_big = version == 43
        if not is_big and version != 42:
            raise _damaged(f"its version is {version}, not 42 or 43")
        seen: set[int] = set()
        position = self._number(order, "Q" if is_big else "I", 8 if is_big else 4)
        while position:
            if position in seen or len(seen) == _MOST_DIRECTORIES:
                raise _damaged("its directories form a circle")
            seen.add(position)
            position = self._directory(order, position, is_big=is_big)

    def _directory(self, order: str, start: int, *, is_big: bool) -> int:
        """Check a directory, and return the position of the next one."""
        count = self._number(order, "Q" if is_big else "H", start)
        first, entry = start + (8 if is_big else 2), 20 if is_big else 12
        end = first + count * entry
        if end + (8 if is_big else 4) > self.size:
            raise _damaged(f"the directory at byte {start:,} ends after it")
        tags = dict(self._tags(order, first, count, is_big=is_big))
        for tag, name in _REQUIRED.items():
            if not tags.get(tag):
                raise _damaged(f"the directory at byte {start:,} has no {name}")
        return self._number(order, "Q" if is_big else "I", end)

    def _tags(
        self, order: str, first: int, count: int, *, is_big: bool
    ) -> Iterator[tuple[int, int]]:
        """Yield every tag and the number of its values."""
        head = struct.Struct(f"{order}HH{'Q' if is_big else 'I'}")
        inline, entry = (8, 20) if is_big else (4, 12)
        sizes = _SIZES | _BIG_SIZES
        for position in range(first, first + count * entry, entry):
            tag, kind, number = head.unpack(self._bytes(position, head.size))
            if kind not in sizes:
                raise _damaged(f"tag {tag} is of the unknown type {kind}")
            length = number * sizes[kind]
            if length > inline:
                at = self._number(order, "Q" if is_big else "I", position + head.size)
                if at + length > self.size:
                    raise _damaged(f"the values of tag {tag} end after it")
            if tag in _RATIONALS and (kind, number) != (_RATIONAL, 1):
                raise _damaged(f"tag {tag} is not one rational number")
            if (kind, number) == (_TEXT, 1) and self._bytes(position + head.size, 1) != b"\0":
                raise _damaged(f"the text of tag {tag} does not end")
            if tag == _PHOTOMETRIC:
                value = self._number(order, "H", position + head.size)
                if kind == 3 and value not in _PHOTOMETRICS:
                    raise _damaged(f"its PhotometricInterpretation is {value}")
            yield tag, number

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


def _damaged(problem: str) -> NotConvertibleError:
    return NotConvertibleError(f"the TIFF file is damaged: {problem}")
