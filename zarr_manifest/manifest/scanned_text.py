"""Numbers and strings that stand anywhere in a text, found without a Python step for each.

Eight bytes are handled as one little-endian word, whose first byte is in its lowest bits: numpy has
no faster way to compare and convert short texts that begin anywhere. Functions return None if a
single value is not as expected: their callers fall back to the general decoder. Pure; bytes only.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.manifest.parts import LazyPart

# Indices into the bytes of a text.
type Places = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

# Bytes in a word.
WORD = 8

# So many slices of memory take less time than a copy of all of it.
_FEW = 2**10


class Text:
    """The bytes of one document after the other, accessed by position.

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
    >>> text.load(LazyPart(b'"0":{},"1":{}', 0, 13))
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


# ------------------------------------------------------------ numbers

# The sum of two such numbers is below the largest integer (specification, "Manifest document").
MOST_DIGITS = 15

type _Integers = npt.NDArray[np.int64]
type _Mask = npt.NDArray[np.bool_]


def _in_every_byte(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * WORD, "little"))


_ZEROS = _in_every_byte(ord("0"))
_UP_TO_HIGH_BIT = _in_every_byte(0x80 - 10)
_HIGH_BITS = _in_every_byte(0x80)
_BYTE = np.uint64(0xFF)

# Not a number of Python, which the oldest numpy may take for one with a sign.
_WORD_BITS = np.uint64(8 * WORD)
_PAIRS = np.uint64(0x000000FF_000000FF)
_FIRST_PAIRS = np.uint64((1_000_000 << 32) + 100)
_SECOND_PAIRS = np.uint64((10_000 << 32) + 1)


class _Leading(Struct, frozen=True):
    """Numbers that begin texts.

    Attributes
    ----------
    values : ndarray of int64
        The numbers.
    sizes : ndarray of int64
        The bytes of each, including the character behind it.
    rest : list of ndarray of uint64
        What comes after that: columns of words, zeros at the end.
    """

    values: _Integers
    sizes: _Integers
    rest: list[Words]


def leading_numbers(columns: list[Words], behind: str) -> _Leading | None:
    """Return the numbers with which texts begin.

    None if one has no digits, more than 8, a leading zero, or is not followed by the character
    `behind`.

    Parameters
    ----------
    columns : list of ndarray of uint64
        The first words of the texts, the second words, and so on.
    behind : str
        A character.

    Examples
    --------
    >>> found = leading_numbers([np.frombuffer(b"12.3....7.45....", "<u8")], ".")
    >>> found.values, found.sizes, found.rest[0].tobytes()[:2]
    (array([12,  7]), array([3, 2]), b'3.')
    """
    digits = columns[0] ^ _ZEROS
    others = _no_digits(digits)
    # All bits below the highest of the first byte that is no digit; all, if there is none.
    others &= ~others + np.uint64(1)
    others -= np.uint64(1)
    bits = np.bitwise_count(others) & np.uint8(0b1111_1000)
    wrong = bits == 0
    leading_zero = digits & _BYTE == 0
    leading_zero &= bits > 8
    wrong |= leading_zero
    shift = bits.astype(np.uint64)
    # The last digit to the last byte, and zeros before the first.
    values = _values(digits << (_WORD_BITS - shift))
    rest = _shifted(columns, shift)
    wrong |= rest[0] & _BYTE != ord(behind)
    if wrong.any():
        return None
    sizes = (shift >> np.uint64(3)) + np.uint64(1)
    return _Leading(values.view(np.int64), sizes.view(np.int64), _shifted(rest, np.uint64(8)))


def _shifted(columns: list[Words], shift: Words | np.uint64) -> list[Words]:
    """Return texts without so many bits at their beginning."""
    shifted = [column >> shift for column in columns]
    # Shifting by all 64 bits gives 0.
    for word, further in zip(shifted, columns[1:], strict=False):
        word |= further << (_WORD_BITS - shift)
    return shifted


def words_for_digits(lengths: _Integers) -> int | None:
    """Return how many words hold numbers of so many digits; None if one has 0 or more than 15."""
    longest = int(lengths.max())
    if int(lengths.min()) < 1 or longest > MOST_DIGITS:
        return None
    return 1 if longest <= WORD else 2


def trailing_numbers(words: Words, lengths: _Integers) -> _Integers | None:
    """Return the numbers of given lengths with which texts end.

    None if one has a leading zero, or a character that is no digit.

    Parameters
    ----------
    words : ndarray of uint64 and shape (texts, 1 or 2)
        The ends of the texts.
    lengths : ndarray of int64
        Number of digits of each number, at least 1, which are within the words.

    Examples
    --------
    >>> text = np.frombuffer(b'"length":2048', "<u8", 1, offset=5)
    >>> trailing_numbers(text.reshape(1, 1), np.array([4]))
    array([2048])
    """
    if words.shape[1] == 1:
        values = _trailing(words[:, 0], lengths, lengths > 1)
        return None if values is None else values.view(np.int64)
    in_last = np.minimum(lengths, WORD)
    last = _trailing(words[:, 1], in_last, (lengths > 1) & (lengths <= WORD))
    first = _trailing(words[:, 0], lengths - in_last, lengths > WORD)
    if last is None or first is None:
        return None
    return (first * np.uint64(10**WORD) + last).view(np.int64)


def _trailing(words: Words, lengths: _Integers, may_not_begin_with_zero: _Mask) -> Words | None:
    """Return the numbers in the last bytes of words; 0 if they have no digits."""
    shift = (WORD - lengths).view(np.uint64) << 3
    digits = words ^ _ZEROS
    digits >>= shift
    wrong = digits & _BYTE == 0
    wrong &= may_not_begin_with_zero
    digits <<= shift
    if wrong.any() or _no_digits(digits).any():
        return None
    return _values(digits)


def _no_digits(digits: Words) -> Words:
    """Return words with the highest bit of bytes that are no digits.

    What is above the first of them may be wrong in words with characters beyond ASCII.
    """
    found = digits + _UP_TO_HIGH_BIT
    found |= digits
    found &= _HIGH_BITS
    return found


def _values(digits: Words) -> Words:
    """Return the number that is written with each word of eight digits."""
    pairs = digits * np.uint64(10)
    pairs += digits >> 8
    second = pairs >> 16
    pairs &= _PAIRS
    pairs *= _FIRST_PAIRS
    second &= _PAIRS
    second *= _SECOND_PAIRS
    pairs += second
    pairs >>= 32
    return pairs


# ------------------------------------------------------------ strings

# Longer ones are left to the general decoder: comparing them is not worth it.
_LONGEST = 1024

_STRING = msgspec.json.Decoder(str)


class StringRuns(Struct, frozen=True):
    """A column of strings, as runs of equal ones.

    Attributes
    ----------
    starts : ndarray of int64
        The first row of each run.
    numbers : list of int
        The string of each run: its index in `values`.
    values : list of str
        The distinct strings.
    longest : int
        Upper limit of their lengths, in characters.
    """

    starts: npt.NDArray[np.int64]
    numbers: list[int]
    values: list[str]
    longest: int


def strings_between(
    text: Text, before: bytes, after: bytes, starts: Places, ends: Places
) -> StringRuns | None:
    """Return the strings that stand between two literals.

    None if the literals do not stand there, or what is between them is not valid within the
    quotes of a JSON string.

    Parameters
    ----------
    text : Text
        The text.
    before, after : bytes
        The literals, with the quotes. The first has at least 8 bytes.
    starts : ndarray of int64
        Where the first literal begins.
    ends : ndarray of int64
        Where the second one begins.
    """
    lengths = ends - starts
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < len(before) or longest > _LONGEST:
        return None
    # What is the same as in the row before is followed by the same literal.
    rows = np.flatnonzero(_differing(text, starts, lengths + len(after)))
    begins = starts[rows]
    if not text.has(after, ends[rows]) or not text.has(before, begins):
        return None
    distinct: dict[bytes, int] = {}
    raw = text.slices(begins + len(before), ends[rows])
    numbers = [distinct.setdefault(string, len(distinct)) for string in raw]
    try:
        values = [_STRING.decode(b'"%b"' % string) for string in distinct]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return StringRuns(rows, numbers, values, longest - len(before))


def _differing(text: Text, starts: Places, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the bytes from each place, so many of them, differ from those of the place before."""
    result = np.ones(len(starts), np.bool_)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        rows = np.flatnonzero(sizes == size)
        count = -(-size // WORD)
        words = text.words(starts[rows], count)
        words[:, -1] <<= np.uint64(8 * (count * WORD - size))
        flat = words.ravel()
        differing = np.diff(rows) > 1
        for column in (flat[count:] != flat[:-count]).reshape(-1, count).T:
            differing |= column
        result[rows[1:]] = differing
    return result
