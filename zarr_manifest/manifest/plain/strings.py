"""Strings of entries, most of which are those of the entry before. Bytes, until they differ."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.manifest.plain.scanning import WORD, Places, Text, Words, are_literal

__all__ = ["Strings", "strings_between"]

# Longer ones are left to others, since comparing them is no longer worth it.
_LONGEST = 1024

# How much of each entry is looked at together: words of strings of any length; bytes, if all are
# of the same length.
_AT_ONCE = 8
_MOST_BYTES = 128

_STRING = msgspec.json.Decoder(str)


class Strings(Struct, frozen=True):
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
) -> Strings | None:
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
    if shortest == longest:
        # What is the same as in the row before is followed by the same literal.
        since = _differing_in(text, starts, longest + len(after))
        rows = np.concatenate([[0], np.flatnonzero(since) + 1])
        followed = text.has(after, ends[rows])
    else:
        words = text.words(ends - WORD, 1 + -(-len(after) // WORD))
        since = _differing_strings(text, starts, lengths, words[:, 0])
        rows = np.concatenate([[0], np.flatnonzero(since) + 1])
        followed = are_literal(words[:, 1:], after)
    begins = starts[rows]
    if not followed or not text.has(before, begins):
        return None
    distinct: dict[bytes, int] = {}
    raw = text.slices(begins + len(before), ends[rows])
    numbers = [distinct.setdefault(string, len(distinct)) for string in raw]
    try:
        values = [_STRING.decode(b'"%b"' % string) for string in distinct]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Strings(rows, numbers, values, longest - len(before))


def _differing_in(text: Text, starts: Places, size: int) -> npt.NDArray[np.bool_]:
    """Whether so many bytes from each place differ from those of the place before."""
    result = np.zeros(len(starts) - 1, np.bool_)
    for first in range(0, size, _MOST_BYTES):
        nbytes = min(size - first, _MOST_BYTES)
        count = -(-nbytes // WORD)
        words = text.words(starts + first, count)
        if beyond := count * WORD - nbytes:
            words[:, -1] <<= np.uint64(8 * beyond)
        flat = words.ravel()
        differing = flat[count:] != flat[:-count]
        # The bytes that say so, eight at a time, or four, two or one.
        width = 1 << min(count, WORD).bit_length() - 1
        for column in {*range(0, count - width, width), count - width}:
            result |= np.ndarray(len(result), f"<u{width}", differing, column, count) != 0
    return result


def _differing_strings(
    text: Text, starts: Places, lengths: npt.NDArray[np.int64], tails: Words
) -> npt.NDArray[np.bool_]:
    """Whether bytes from each place, so many of them, differ from those of the place before.

    `tails` are the last eight of each.
    """
    result: npt.NDArray[np.bool_] = tails[1:] != tails[:-1]
    result |= lengths[1:] != lengths[:-1]
    words, most = lengths[1:] // WORD, int(lengths.max()) // WORD
    for first in range(0, most, _AT_ONCE):
        # A word, two, four or eight: all bytes that say whether they differ make one number.
        count = 1 << min(most - first - 1, _AT_ONCE - 1).bit_length()
        result |= _differing(text.words(starts + first * WORD, count), words - first)
    return result


def _differing(words: Words, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the first words of each row, so many of them, differ from those before it."""
    count = words.shape[1]
    flat = words.ravel()
    differing = (flat[count:] != flat[:-count]).view(f"<u{count}")
    fewest, most = int(counts.min(initial=0)), int(counts.max(initial=0))
    if fewest < most and fewest < count:
        bits = np.clip(counts, 0, count).view(np.uint64) << 3
        # Shifting by all 64 bits gives 0.
        differing = differing & (np.uint64(1) << bits) - np.uint64(1)
    elif most < count:
        differing &= differing.dtype.type((1 << 8 * most) - 1)
    result: npt.NDArray[np.bool_] = differing != 0
    return result
