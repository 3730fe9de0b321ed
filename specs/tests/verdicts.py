"""What the schemas say of a declaration or of a manifest document, and what the package says.

The package is asked from outside: a hierarchy in memory is opened, and its manifest loaded.
Nothing is read but these documents.
"""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from zarr.core.buffer.cpu import Buffer
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from specs.tests.text import DIRECTORY

__all__ = ["ARRAY", "MANIFEST_SCHEMA", "METADATA", "REGISTRY", "SCHEMA", "in_package", "in_schema"]

SCHEMA: dict[str, Any] = json.loads((DIRECTORY / "schema.json").read_text())
MANIFEST_SCHEMA: dict[str, Any] = json.loads((DIRECTORY / "manifest.schema.json").read_text())

ARRAY = "a/sst"
METADATA: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [8, 8],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes"}],
    "fill_value": 0,
    "attributes": {},
}
DECLARATION = {"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}

# Found only after the declaration and the document were found to be valid.
_VALID_SO_FAR = {"manifest_not_found", "location_not_allowed"}

REGISTRY: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in (SCHEMA, MANIFEST_SCHEMA)
)
_VALIDATORS = {
    kind: Draft202012Validator({"$ref": reference}, registry=REGISTRY)
    for kind, reference in {
        "declaration": "schema.json",
        "storage_transformers": "schema.json#/$defs/storage_transformers",
        "lock": "schema.json#/$defs/lock",
        "pending": "schema.json#/$defs/pending",
        "from_array": "schema.json#/$defs/from_array",
        "manifest_reference": "schema.json#/$defs/manifest_reference",
        "manifest": "manifest.schema.json",
        "path": "manifest.schema.json#/$defs/path",
    }.items()
}


def in_schema(kind: str, value: Any) -> bool:
    """Whether the schema, or the part of it, for such a value accepts it."""
    return _VALIDATORS[kind].is_valid(value)


def in_package(kind: str, value: Any, **metadata: Any) -> str | None:
    """The code with which the package refuses a value, or None.

    Parameters
    ----------
    kind : {"declaration", "storage_transformers", "lock", "manifest"}
    value : JSON value
    **metadata
        Members of the array's metadata that are other ones than in `METADATA`.
    """
    transformers = value if kind == "storage_transformers" else [value]
    files = {}
    if kind == "manifest":
        transformers = [DECLARATION]
        files["manifest.json"] = value
    if kind == "lock":
        transformers = [DECLARATION]
        metadata["chunk-manifest-json"] = value
    files["zarr.json"] = METADATA | metadata | {"storage_transformers": transformers}
    store = zm.ManifestStore(
        MemoryStore(
            {f"{ARRAY}/{name}": Buffer.from_bytes(_dump(file)) for name, file in files.items()}
        )
    )
    try:
        sync(_load_manifest(store))
    except zm.ManifestError as error:
        return None if error.code in _VALID_SO_FAR else error.code
    return None


async def _load_manifest(store: zm.ManifestStore) -> None:
    # Sizes of all chunks need the documents of all partitions, and no source.
    async for _ in store.list_prefix(f"{ARRAY}/"):
        pass


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()
