"""Decimal numbers in words of text, all at once. Bytes only.

A word has its first byte in its lowest bits. Digits are handled as what they are above ``"0"``:
a byte that is no digit is then larger than 9. Functions return None if a single number is not as
expected: whoever asks has others to turn to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.manifest.plain.scanning import WORD, Words

__all__ = ["MOST_DIGITS", "Leading", "leading_numbers", "trailing_numbers", "words_for_digits"]

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


class Leading(Struct, frozen=True):
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


def leading_numbers(columns: list[Words], behind: str) -> Leading | None:
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
    return Leading(values.view(np.int64), sizes.view(np.int64), _shifted(rest, np.uint64(8)))


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
