"""Hierarchies whose arrays have their chunks in other files, for the tests beside this module."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from numcodecs import Zstd

__all__ = ["COUNTS", "SHARDED", "SST", "write_array", "write_hierarchy", "write_json"]

SST = np.arange(8, dtype="<f4").reshape(4, 2) / 2
COUNTS = np.arange(-3, 5, dtype="<i8") * 10**15
SHARDED = np.arange(48, dtype="<u2").reshape(6, 8)


def write_json(path: Path, value: Any) -> None:
    """Write a document, and the directories that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_array(
    directory: Path,
    values: npt.NDArray[Any],
    chunk_shape: Sequence[int],
    configuration: Mapping[str, Any],
    codecs: Sequence[Mapping[str, Any]] = (
        {"name": "bytes", "configuration": {"endian": "little"}},
    ),
) -> None:
    """Write the `zarr.json` of a manifest array."""
    write_json(
        directory / "zarr.json",
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": values.shape,
            "data_type": values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": codecs,
            "fill_value": 0,
            "attributes": {},
            "storage_transformers": [
                {"name": "chunk-manifest-json", "configuration": configuration}
            ],
        },
    )


def write_hierarchy(root: Path, archive: Path, origin: str) -> None:
    """Write arrays whose sources lie beside them, and on the server at `origin`."""
    write_json(root / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    archive.mkdir()
    counts = b"head" + COUNTS.tobytes()
    (archive / "counts.bin").write_bytes(counts)
    write_near(root)
    write_far(root, counts, origin)
    write_sharded(root, archive, origin)
    native = zarr.create_array(
        root / "native", shape=(3,), dtype="int16", chunks=(2,), compressors=None, filters=None
    )
    native[:] = [1, 2, 3]


def write_near(root: Path) -> None:
    """Ranges of a file beside the array, with checksums; and one checksum that is wrong."""
    row = SST[0].nbytes
    (root / "rows.bin").write_bytes(b"head" + SST.tobytes() + b"tail")
    manifest = {
        f"{i}.0": {
            "path": "../rows.bin",
            "offset": 4 + i * row,
            "length": row,
            "checksum": f"crc32c:{google_crc32c.value(SST[i].tobytes()):08x}",
        }
        for i in range(4)
    }
    digest = hashlib.md5(SST[3].tobytes(), usedforsecurity=False).hexdigest()
    manifest["3.0"]["checksum"] = f"md5:{digest}"
    for name in ("sst", "corrupt"):
        write_array(root / name, SST, (1, 2), {"manifest": "./manifest.json"})
        write_json(root / name / "manifest.json", manifest)
        manifest["2.0"]["checksum"] = "crc32c:00000000"


def write_far(root: Path, counts: bytes, origin: str) -> None:
    """Ranges of a file on another origin, in manifests that are partitioned and encoded."""
    etag = hashlib.sha256(counts).hexdigest()[:16]
    entries = {
        str(i): {"path": f"{origin}/counts.bin", "offset": 4 + 16 * i, "length": 16, "etag": etag}
        for i in range(4)
    }
    del entries["3"]["length"]  # up to the end
    configuration = {
        "manifest": "./manifest/{partition}",
        "partition_shape": [2],
        "codecs": ["gzip", {"name": "crc32c"}],
    }
    write_array(root / "counts", COUNTS, (2,), configuration)
    for block in range(2):
        owned = {key: entries[key] for key in (str(2 * block), str(2 * block + 1))}
        encoded = gzip.compress(json.dumps(owned).encode())
        encoded += google_crc32c.value(encoded).to_bytes(4, "little")
        path = root / "counts" / "manifest" / str(block)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encoded)
    for name, change in (
        ("changed", {"etag": "another"}),
        ("redirected", {"path": f"{origin}/moved.bin"}),
    ):
        configuration = {"manifest": "./manifest.zst", "codecs": ["zstd"]}
        write_array(root / name, COUNTS, (2,), configuration)
        changed = {key: entry | change for key, entry in entries.items()}
        encoded = Zstd(level=3, checksum=True).encode(json.dumps(changed).encode())
        (root / name / "manifest.zst").write_bytes(encoded)


def write_sharded(root: Path, archive: Path, origin: str) -> None:
    """Shards one after another in a file on another origin."""
    native = zarr.create_array(
        archive / "native", shape=SHARDED.shape, dtype="uint16", shards=(6, 4), chunks=(2, 2)
    )
    native[:] = SHARDED
    shards = [(archive / "native" / "c" / "0" / str(i)).read_bytes() for i in range(2)]
    (archive / "shards.bin").write_bytes(b"".join(shards))
    path = f"{origin}/shards.bin"
    manifest = {
        "0.0": {"path": path, "length": len(shards[0])},
        "0.1": {"path": path, "offset": len(shards[0])},
    }
    codecs = json.loads((archive / "native" / "zarr.json").read_text())["codecs"]
    write_array(root / "sharded", SHARDED, (6, 4), {"manifest": manifest}, codecs)
