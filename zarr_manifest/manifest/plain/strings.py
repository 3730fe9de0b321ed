"""Strings of entries, most of which are those of the entry before. Bytes, until they differ."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.manifest.plain.scanning import WORD, Places, Text, Words

__all__ = ["LONGEST", "Strings", "strings_between"]

# Longer ones are left to others, since comparing them is no longer worth it.
LONGEST = 1024

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
    if shortest < len(before) or longest > LONGEST:
        return None
    changed = np.empty(len(starts), np.bool_)
    changed[0] = True
    since = changed[1:]
    np.not_equal(tails[1:], tails[:-1], out=since)
    if shortest < longest:
        since |= lengths[1:] != lengths[:-1]
    words = lengths[1:] // WORD
    for first in range(0, longest // WORD, _AT_ONCE):
        since |= _differing(text.words(starts + first * WORD, _AT_ONCE), words - first)
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
    """Whether the first words of each row, so many of up to 8, differ from those before it."""
    flat = words.ravel()
    # One byte per word, eight of which are a word again.
    differing = (flat[_AT_ONCE:] != flat[:-_AT_ONCE]).view("<u8")
    fewest, most = int(counts.min(initial=0)), int(counts.max(initial=0))
    if fewest == most:
        differing &= np.uint64((1 << 8 * min(most, _AT_ONCE)) - 1)
    elif fewest < _AT_ONCE:
        bits = np.clip(counts, 0, _AT_ONCE).view(np.uint64) << 3
        differing &= (np.uint64(1) << bits) - np.uint64(1)
    result: npt.NDArray[np.bool_] = differing != 0
    return result
