"""Strings of entries, most of which are those of the entry before. Bytes, until they differ."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.manifest.plain.scanning import WORD, Places, Text, Words

__all__ = ["Strings", "strings_between"]

# Longer ones are left to others, since comparing them is no longer worth it.
_LONGEST = 1024

_AT_ONCE = 8
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
    text: Text, before: bytes, starts: Places, ends: Places, tails: Words
) -> Strings | None:
    """Return the strings that end at places, after a literal.

    None if the literal does not stand there, or what comes after it is not valid within the
    quotes of a JSON string.

    Parameters
    ----------
    text : Text
        The text.
    before : bytes
        The literal, with the opening quote; at least 8 bytes.
    starts : ndarray of int64
        Where the literal begins.
    ends : ndarray of int64
        Where the string ends.
    tails : ndarray of uint64
        The last eight bytes of each.
    """
    lengths = ends - starts
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < len(before) or longest > _LONGEST:
        return None
    changed = np.empty(len(starts), np.bool_)
    changed[0] = True
    since = changed[1:]
    np.not_equal(tails[1:], tails[:-1], out=since)
    if shortest < longest:
        since |= lengths[1:] != lengths[:-1]
    words = lengths[1:] // WORD
    for first in range(0, longest // WORD, _AT_ONCE):
        # A word, two, four or eight: all bytes that say whether they differ make one number.
        count = 1 << min(longest // WORD - first - 1, _AT_ONCE - 1).bit_length()
        since |= _differing(text.words(starts + first * WORD, count), words - first)
    rows = np.flatnonzero(changed)
    begins = starts[rows]
    if not text.has(before, begins):
        return None
    distinct: dict[bytes, int] = {}
    raw = text.slices(begins + len(before), ends[rows])
    numbers = [distinct.setdefault(string, len(distinct)) for string in raw]
    try:
        values = [_STRING.decode(b'"%b"' % string) for string in distinct]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Strings(rows, numbers, values, longest - len(before))


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
