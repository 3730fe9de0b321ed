"""Text of a document, looked at in many places at once. Bytes only.

Eight bytes are handled as one little-endian word, since numpy has no faster way to look at
short texts that begin anywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zarr_manifest.manifest.parts import LazyPart

__all__ = ["WORD", "Places", "Text", "Words", "are_literal"]

# Indices into the bytes of a text.
type Places = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

# Bytes in a word.
WORD = 8

# So many slices of memory take less time than a copy of all of it.
_FEW = 2**10


class Text:
    """Bytes that are looked at by their places: those of one document after the other.

    All are read into the same memory, since new memory takes as long as reading.

    Parameters
    ----------
    margin : int
        How far before the start, and beyond the end, words may be asked for, in bytes.

    Attributes
    ----------
    start, end : int
        Where the text begins and ends.
    """

    def __init__(self, margin: int) -> None:
        self.start = self.end = margin
        self._bytes = bytearray(2 * margin)
        self._found = np.empty(0, np.bool_)

    def load(self, document: LazyPart) -> None:
        """Take a document as the text."""
        margin, end = self.start, self.start + len(document)
        if len(self._bytes) < end + margin:
            # Others are a little larger.
            self._bytes = bytearray(end + end // 16 + margin)
            self._found = np.empty(len(self._bytes), np.bool_)
        document.read_into(memoryview(self._bytes)[margin:end])
        self._end_at(end)

    def end_with(self, literal: bytes, place: int) -> None:
        """End the text with a literal, in place of what begins at a place."""
        end = place + len(literal)
        self._bytes[place:end] = literal
        self._end_at(end)

    def _end_at(self, end: int) -> None:
        self.end = end
        # Not what a document before had there.
        self._bytes[end : end + self.start] = bytes(self.start)

    def __getitem__(self, places: slice) -> bytes:
        return bytes(memoryview(self._bytes)[places])

    def find(self, character: str) -> Places:
        """Return every place of a character."""
        text = np.frombuffer(self._bytes, np.uint8, self.end)
        return np.flatnonzero(np.equal(text, ord(character), out=self._found[: self.end]))

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
        text: bytes | memoryview = memoryview(self._bytes)
        if len(starts) > _FEW:
            text = bytes(text)  # of which slices are bytes
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        return [bytes(text[start:end]) for start, end in bounds]

    def has(self, literal: bytes, places: Places) -> bool:
        """Whether a literal stands at every place."""
        return are_literal(self.words(places, -(-len(literal) // WORD)), literal)


def are_literal(words: Words, literal: bytes) -> bool:
    """Whether all rows of words begin with a literal, which is as long as they are or shorter.

    Examples
    --------
    >>> text = Text(8)
    >>> text.load(LazyPart.all_of(b'"0":{},"1":{}'))
    >>> are_literal(text.words(text.start + np.array([2, 9]), 1), b'":{')
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
