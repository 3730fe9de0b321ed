"""A hierarchy with objects that nothing refers to, for the tests of cleaning."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import zarr

import zarr_manifest as zm

__all__ = [
    "CREATION",
    "ENTRIES",
    "UNUSED",
    "VALUES",
    "chunk_name",
    "cleaned",
    "declare",
    "digest",
    "document_name",
    "put",
    "unused",
    "write_unused",
]

CREATION: dict[str, Any] = {"shape": 4, "chunks": 2, "dtype": "u1", "compressors": None}
ENTRIES = {"0": {"data": b"12"}, "1": {"data": b"34"}}
VALUES = [49, 50, 51, 52]


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def document_name(body: bytes, name: str = "manifest-{}.json") -> str:
    return name.format(digest(body)[:16])


def chunk_name(body: bytes) -> str:
    return f"chunks/sha256/{digest(body)[:2]}/{digest(body)}"


def put(root: Path, key: str, body: bytes) -> str:
    """Write a file, and return its key."""
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    (root / key).write_bytes(body)
    return key


def unused(report: Any) -> list[str]:
    return [each.key for each in report.unused]


def cleaned(root: Any, **options: Any) -> list[str]:
    """Clean of whatever age, and return the keys of what was removed."""
    return unused(zm.clean(root, **{"older_than": 0, **options}))


def write_unused(root: Path) -> Path:
    """Write a hierarchy, and a document, a chunk and a partial file that are unused."""
    zarr.create_group(root)
    zm.create_array(root, "a", ENTRIES, **CREATION)
    zm.create_array(root, "n", {}, **CREATION)
    put(root, f"a/{document_name(b'{}')}", b"{}")
    put(root, f"n/{chunk_name(b'12')}", b"12")
    put(root, "n/zarr.json.partial", b"{")
    return root


UNUSED = [f"a/{document_name(b'{}')}", f"n/{chunk_name(b'12')}", "n/zarr.json.partial"]


def declare(root: Path, path: str, manifest: Any, **members: Any) -> None:
    """Let an array's own metadata declare another manifest, and all copies the same as before."""
    document = root / path / "zarr.json"
    node = json.loads(document.read_text())
    node["storage_transformers"][0]["configuration"] = {"manifest": manifest, **members}
    document.write_text(json.dumps(node))
