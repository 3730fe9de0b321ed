"""Arrays along a dimension, with chunks of all kinds, in hierarchies of their own."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import zarr_manifest as zm
from tests.hierarchies import encode_chunks
from zarr_manifest.format import compute_checksum

FILL = 99

type Kinds = Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """Values of an array, and what each of its chunks is."""

    values: np.ndarray[Any, Any]
    chunks: tuple[int, ...]
    kinds: Sequence[str]

    def keys(self) -> list[str]:
        """Return the canonical keys of its chunks."""
        counts = [-(-n // c) for n, c in zip(self.values.shape, self.chunks, strict=True)]
        return [".".join(map(str, index)) for index in np.ndindex(*counts)]

    def kind(self, number: int) -> str:
        """Return what a chunk is."""
        return self.kinds[number % len(self.kinds)] if self.kinds else "stored"

    def expected(self) -> np.ndarray[Any, Any]:
        """Return its values, with fill values in chunks that are empty or missing."""
        found = self.values.copy()
        for number, key in enumerate(self.keys()):
            if self.kind(number) in ("empty", "missing"):
                index = [int(i) for i in key.split(".")]
                region = tuple(
                    slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunks, strict=True)
                )
                found[region] = FILL
        return found

    def write(self, root: Path, path: str, **options: Any) -> None:
        """Write a hierarchy with it; its chunks are in a file beside the hierarchy."""
        stored: dict[str, Any] = {"compressors": options.pop("compressors", None)}
        more = {name: options.pop(name) for name in ("partition_shape", "inline", "codecs")
                if name in options}  # fmt: skip
        source = root.parent / f"{root.stem}-{path.replace('/', '-')}.bin"
        entries: dict[str, Any] = {}
        body = bytearray(b"start")
        encoded = encode_chunks(self.values, self.chunks, fill_value=FILL, **stored)
        for number, key in enumerate(self.keys()):
            match self.kind(number):
                case "stored":
                    chunk = encoded[key]
                    entries[key] = {
                        "path": source.as_uri(), "offset": len(body), "length": len(chunk)
                    }  # fmt: skip
                    if number % 3 == 0:
                        entries[key]["checksum"] = compute_checksum("crc32c", chunk)
                    body += chunk
                case "inline":
                    entries[key] = {"data": base64.b64encode(encoded[key]).decode()}
                case "empty":
                    entries[key] = {}
                case _:
                    pass
        source.write_bytes(body)
        zm.create_array(
            root,
            path,
            entries,
            shape=self.values.shape,
            chunks=self.chunks,
            dtype=self.values.dtype,
            fill_value=FILL,
            **stored,
            **more,
            **options,
        )
