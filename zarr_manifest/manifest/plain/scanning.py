"""Text of a document, looked at in many places at once. Bytes only.

Eight bytes are handled as one little-endian word, since numpy has no faster way to look at
short texts that begin anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["WORD", "Places", "Text", "Words", "are_literal"]

# Indices into the bytes of a text.
type Places = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

# Bytes in a word.
WORD = 8


class Text:
    """Bytes that are looked at by their places.

    Parameters
    ----------
    parts : iterable of bytes or memoryview
        The text is all of them, joined.
    most : int
        How far beyond the end words may be asked for, in bytes.
    """

    def __init__(self, parts: Iterable[bytes | memoryview], most: int) -> None:
        self._bytes = b"".join((*parts, bytes(most)))
        self._size = len(self._bytes) - most

    def find(self, character: str) -> Places:
        """Return every place of a character."""
        return np.flatnonzero(np.frombuffer(self._bytes, np.uint8, self._size) == ord(character))

    def words(self, places: Places, count: int) -> Words:
        """Return the bytes from each place on.

        Returns
        -------
        ndarray of uint64 and shape (places, count)
        """
        nbytes = count * WORD
        last = len(self._bytes) - nbytes
        # Every place is an element of its own: they overlap, and are copied as they are indexed.
        every = np.ndarray((last + 1,), f"V{nbytes}", self._bytes, strides=(1,))
        return every[places].view("<u8").reshape(-1, count)

    def slices(self, starts: Places, ends: Places) -> list[bytes]:
        """Return the bytes between places."""
        text = self._bytes
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        return [text[start:end] for start, end in bounds]

    def has(self, literal: bytes, places: Places) -> bool:
        """Whether a literal stands at every place."""
        return are_literal(self.words(places, -(-len(literal) // WORD)), literal)


def are_literal(words: Words, literal: bytes) -> bool:
    """Whether all rows of words begin with a literal, which is as long as they are or shorter.

    Examples
    --------
    >>> are_literal(Text([b'"0":{},"1":{}'], 8).words(np.array([2, 9]), 1), b'":{')
    True
    """
    for number in range(words.shape[1]):
        part = literal[number * WORD : (number + 1) * WORD]
        column = words[:, number]
        if len(part) < WORD:
            column = column & np.uint64((1 << 8 * len(part)) - 1)
        if not (column == np.uint64(int.from_bytes(part, "little"))).all():
            return False
    return True
