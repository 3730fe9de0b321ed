"""Which chunks are read of all: chosen by a hash of their identity. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(k?B|[MGT]B)")

_ALL = 2**64


class Sample(Struct, frozen=True):
    """Chunks to read.

    Parameters
    ----------
    text : str
        What was asked for: ``"all"``, a part such as ``"3/30"``, a percentage such as ``"1%"``,
        or an amount such as ``"10GB"``.
    kind : {"all", "part", "percentage", "amount"}
        Which of these.
    first, second : float
        The two numbers of a part, a percentage, or a number of bytes.
    salt : int
        Chooses other chunks; not for parts, which together are all chunks.

    Examples
    --------
    >>> parts = [Sample.parse(f"{n}/3").chosen("a", np.arange(9)) for n in (1, 2, 3)]
    >>> sum(part.astype(int) for part in parts).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    text: str
    kind: Literal["all", "part", "percentage", "amount"]
    first: float = 0
    second: float = 0
    salt: int = 0

    @classmethod
    def parse(cls, text: str) -> Sample:
        """Return what a text asks for.

        Raises
        ------
        ValueError
            It is none of these.
        """
        if text == "all":
            return cls(text, "all")
        if found := _PART.fullmatch(text):
            if 1 <= int(found[1]) <= int(found[2]):
                return cls(text, "part", int(found[1]), int(found[2]))
        elif found := _PERCENTAGE.fullmatch(text):
            if 0 < float(found[1]) <= 100:
                return cls(text, "percentage", float(found[1]))
        elif found := _AMOUNT.fullmatch(text):
            return cls(text, "amount", float(found[1]) * _UNITS[found[2]])
        raise ValueError(
            "what is read is 'all', a part such as '3/30', a percentage such as '1%', or an "
            f"amount such as '10GB', not {text!r}"
        )

    def out_of(self, nbytes: int) -> Sample:
        """Return an amount as a percentage of so many bytes; anything else as it is."""
        if self.kind != "amount":
            return self
        percentage = min(100.0, 100 * self.first / max(nbytes, 1))
        return replace(self, kind="percentage", first=percentage)

    def chosen(self, array: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which chunks of an array are read, given by their numbers."""
        if self.kind == "all":
            return np.ones(len(numbers), np.bool_)
        if self.kind == "part":
            remainders: npt.NDArray[np.uint64] = _hashes(array, 0, numbers) % np.uint64(self.second)
            return np.equal(remainders, np.uint64(self.first - 1))
        limit = round(_ALL * self.first / 100)
        if limit >= _ALL:
            return np.ones(len(numbers), np.bool_)
        return np.less(_hashes(array, self.salt, numbers), np.uint64(limit))


def _hashes(array: str, salt: int, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a hash of each chunk: splitmix64, from a seed for each array."""
    digest = hashlib.sha256(f"{salt}:{array}".encode(errors="surrogatepass")).digest()
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += np.frombuffer(digest[:8], "<u8")
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
