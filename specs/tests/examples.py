"""Writes the specification's examples: ``python -m specs.tests.examples``.

Documents that the specification shows are taken from there, so that each is written once. What
it does not show (sources, groups, encoded documents) is made here. Deterministic: gzip documents
hold stored blocks and no time, so that no version of zlib changes them.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specs.tests.text import DIRECTORY, marked
from zarr_manifest.format.checksums import compute_checksum

__all__ = ["examples", "main"]

_README = """\
# Examples

Complete hierarchies; the [core](../README.md#examples) and its
[features](../features.md#an-example-with-features) say what each reads as.
"""

_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}

_MASK = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [2],
    "data_type": "bool",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes"}],
    "fill_value": False,
    "attributes": {},
}


def _text(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"


def _floats(*values: float) -> bytes:
    return struct.pack(f">{len(values)}f", *values)


def _stored_gzip(content: bytes) -> bytes:
    """One gzip member (RFC 1952) of one stored block (RFC 1951), without a name or a time."""
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    block = b"\x01" + struct.pack("<HH", len(content), len(content) ^ 0xFFFF)
    return header + block + content + struct.pack("<II", zlib.crc32(content), len(content))


def _partition(first_row: int, path: str, source: bytes) -> bytes:
    digests = (compute_checksum("crc32c", source[8 * row : 8 * row + 8]) for row in range(2))
    entries = (
        f'  "{first_row + row}.0": {{"path": "{path}", "offset": {8 * row}, "length": 8, '
        f'"checksum": "{digest}"}}'
        for row, digest in enumerate(digests)
    )
    return _stored_gzip(("{\n" + ",\n".join(entries) + "\n}\n").encode())


def examples() -> dict[str, bytes]:
    """Every file of the examples, by its path below the specification's directory."""
    upper, lower = _floats(1.5, 2.5, 3.5, 4.5), _floats(5.5, 6.5, 7.5, 8.5)
    files = {block.argument: block.body.encode() for block in marked("file")}
    return files | {
        "examples/README.md": _README.encode(),
        "examples/range/first-row.bin": struct.pack("<3h", 0, 1, 2),
        "examples/range/archive.bin": b"HEAD" + struct.pack("<3h", 3, 4, 5) + b"TAIL",
        "examples/beside/archive/sst.bin": upper,
        "examples/beside/archive.zarr/zarr.json": _text(_GROUP),
        "examples/beside/archive.zarr/mask/zarr.json": _text(_MASK),
        "examples/beside/archive.zarr/mask/c/0": b"\x01\x00",
        "examples/mixed/zarr.json": _text(_GROUP),
        "examples/mixed/mask/zarr.json": _text(_MASK),
        "examples/mixed/mask/c/0": b"\x01\x00",
        "examples/mixed/sources/rows-0-1.bin": upper,
        "examples/mixed/sources/rows-2-3.bin": lower,
        "examples/mixed/sst/manifest/0.0.json.gz": _partition(0, "rows-0-1.bin", upper),
        "examples/mixed/sst/manifest/1.0.json.gz": _partition(2, "rows-2-3.bin", lower),
    }


def main(arguments: Sequence[str]) -> None:
    """Write the examples below a directory, by default the specification's."""
    directory = Path(arguments[0]) if arguments else DIRECTORY
    for name, content in examples().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
