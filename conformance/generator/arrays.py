"""Small arrays: their values, their chunks as bytes, their metadata.

Values are given as numbers in C order; the expected results are computed from them and from
the set of chunks that must be missing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

__all__ = ["ABSENT", "LOCK", "Array", "Index", "declaration", "pack"]

# A member that is not there, and so is not null.
ABSENT: Any = object()
LOCK = {"must_understand": True}

type Index = tuple[int, ...]

_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip
_NUMBERS_IN_JSON = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def pack(values: Collection[Any], data_type: str, endian: str = "little") -> bytes:
    """Return numbers as bytes."""
    order = "<" if endian == "little" else ">"
    return struct.pack(f"{order}{len(values)}{_FORMATS[data_type]}", *values)


def declaration(configuration: Any) -> dict[str, Any]:
    """Return the storage transformer of this specification."""
    return {"name": "chunk-manifest-json", "configuration": configuration}


@dataclass(frozen=True)
class Array:
    """An array of a case. By default, its values are 101, 102, and so on."""

    shape: Index = (4,)
    chunks: Index = (2,)
    data_type: str = "int16"
    values: tuple[Any, ...] | None = None
    endian: str = "little"
    fill_value: Any = -1
    key_encoding: tuple[str, str] = ("default", "/")
    codecs: tuple[Any, ...] | None = None
    order: Index = field(default=())
    """Permutation of the dimensions within chunks, where a codec transposes."""

    @property
    def numbers(self) -> list[Any]:
        """All values, in C order."""
        if self.values is not None:
            return list(self.values)
        return list(range(101, 101 + math.prod(self.shape)))

    @property
    def fill(self) -> Any:
        """The fill value as a number."""
        if isinstance(self.fill_value, str):
            return _NUMBERS_IN_JSON[self.fill_value]
        return self.fill_value

    def indices(self) -> Iterator[Index]:
        """Grid indices of all chunks, in C order."""
        counts = (-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))
        return product(*(range(n) for n in counts))

    def chunk(self, index: Index) -> bytes:
        """Return a chunk before codecs other than ``bytes`` and ``transpose``."""
        dims = self.order or tuple(range(len(self.shape)))
        values = []
        for moved in product(*(range(self.chunks[d]) for d in dims)):
            inside = dict(zip(dims, moved, strict=True))
            values.append(self._at([index[d] * self.chunks[d] + inside[d] for d in sorted(dims)]))
        return pack(values, self.data_type, self.endian)

    def _at(self, element: list[int]) -> Any:
        if any(i >= n for i, n in zip(element, self.shape, strict=True)):
            return self.fill
        return self.numbers[self._flat(element)]

    def _flat(self, element: list[int] | Index) -> int:
        flat = 0
        for i, n in zip(element, self.shape, strict=True):
            flat = flat * n + i
        return flat

    def expected(
        self, missing: Collection[Index] = (), selection: list[list[int]] | None = None
    ) -> tuple[list[int], bytes]:
        """Shape and bytes of what a reader must return."""
        spans = selection if selection is not None else [[0, n] for n in self.shape]
        values = []
        for element in product(*(range(start, stop) for start, stop in spans)):
            chunk = tuple(i // c for i, c in zip(element, self.chunks, strict=True))
            values.append(self.fill if chunk in missing else self.numbers[self._flat(element)])
        return [stop - start for start, stop in spans], pack(values, self.data_type)

    def metadata(self, transformers: Any, lock: Any = ABSENT) -> dict[str, Any]:
        """Return the array's ``zarr.json``."""
        name, separator = self.key_encoding
        codecs = self.codecs
        if codecs is None:
            plain = self.data_type in ("bool", "int8", "uint8")
            codecs = ({"name": "bytes"} if plain else bytes_codec(self.endian),)
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": name, "configuration": {"separator": separator}},
            "codecs": list(codecs),
            "fill_value": self.fill_value,
            "attributes": {},
            **({} if transformers is None else {"storage_transformers": transformers}),
            **({} if lock is ABSENT else {"chunk-manifest-json": lock}),
        }

    def key(self, index: Index) -> str:
        """Return the array's own relative key for a chunk."""
        name, separator = self.key_encoding
        if name == "default":
            return separator.join(("c", *map(str, index)))
        return separator.join(map(str, index)) or "0"

    def lay_out(
        self,
        path: str,
        *,
        start: bytes = b"HEAD",
        gap: bytes = b"",
        end: bytes = b"TAIL",
        encode: Callable[[bytes], bytes] = bytes,
        without: Collection[Index] = (),
    ) -> tuple[dict[str, Any], bytes]:
        """Put the encoded chunks into one source; return the entries and the source."""
        entries: dict[str, Mapping[str, Any]] = {}
        body = start
        for index in self.indices():
            if index in without:
                continue
            encoded = encode(self.chunk(index))
            entry = {"path": path, "offset": len(body), "length": len(encoded)}
            entries[canonical(index)] = entry
            body += encoded + gap
        return entries, body + end


def bytes_codec(endian: str) -> dict[str, Any]:
    """Zarr's ``bytes`` codec."""
    return {"name": "bytes", "configuration": {"endian": endian}}


def canonical(index: Index) -> str:
    """Return the canonical chunk key."""
    return ".".join(map(str, index)) or "0"
