"""What is inferred of a case: the features that its documents need, its class, its section."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "CLASSES",
    "FEATURES",
    "anchors",
    "class_of",
    "features_of",
    "in_document_order",
    "section_of",
]

CLASSES = (
    "core", "encoded-manifests", "partitions", "document-digests", "checksums",
    "source-conditions", "safe", "validator", "writer",
)  # fmt: skip
FEATURES = (
    "read", "get_chunk", "list", "validate", "write", "http", "s3", "s3-credentials",
    "s3-versions", "hierarchy-http", "sharding", "blosc", "zstd", "gzip", "crc32c", "transpose",
    "encoded-manifests", "manifest-zstd", "partitions", "document-digests", "checksums",
    "source-conditions", "base-override", "verify-policy", "missing-error", "limits",
    "consolidated", "own-metadata",
)  # fmt: skip
_OPTIONAL_FEATURES = (
    "document-digests", "partitions", "encoded-manifests", "checksums", "source-conditions",
)  # fmt: skip
_CLASS_OF_SECTION = {
    "encoded-manifests": "encoded-manifests",
    "partitioned-manifests": "partitions",
    "documents-by-digest": "document-digests",
    "checksums": "checksums",
    "source-conditions": "source-conditions",
    "security-considerations": "safe",
}
_CLASS_OF_DOCUMENT = {"reading-safely.md": "safe"}
_CLASS_OF_OPERATION = {"write": "writer", "validate": "validator"}

_SPECIFICATION = Path(__file__).parents[2] / "specs" / "chunk-manifest-json"
_CORE = "README.md"
_COMPANIONS = ("features.md", "reading-safely.md", "transports.md", "errors.md")
_CONDITIONS = {"etag", "last_modified", "version", "size"}


def section_of(anchor: str) -> str:
    """Return a section with its document, ``transports.md#s3``; those of the core have none.

    An anchor that no document has is taken for one of the core: a test reports it.
    """
    found = [name for name in _COMPANIONS if anchor in anchors(_SPECIFICATION / name)]
    if anchor in anchors(_SPECIFICATION / _CORE) or not found:
        return anchor
    if len(found) > 1:
        raise ValueError(f"{anchor}: an anchor of {' and of '.join(found)}")
    return f"{found[0]}#{anchor}"


@cache
def anchors(document: Path) -> frozenset[str]:
    """Return the anchors of a document's headings."""
    if not document.exists():
        return frozenset()
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings)


def class_of(features: Collection[str], lacks: Collection[str], section: str) -> str:
    """Return the class that a case belongs to, if it does not say."""
    for operation, cls in _CLASS_OF_OPERATION.items():
        if operation in features:
            return cls
    if lacks:
        # What a reader without the feature must do.
        return "core"
    document, _, anchor = section.rpartition("#")
    if stated := _CLASS_OF_SECTION.get(anchor) or _CLASS_OF_DOCUMENT.get(document):
        return stated
    return next((feature for feature in _OPTIONAL_FEATURES if feature in features), "core")


def in_document_order(id: str, features: Collection[str]) -> list[str]:
    """Return features in the order of the documentation."""
    if unknown := set(features) - set(FEATURES):
        raise ValueError(f"{id}: unknown features {sorted(unknown)}")
    return [feature for feature in FEATURES if feature in features]


def features_of(files: Iterable[bytes]) -> set[str]:
    """Return the optional features that metadata and manifests make use of."""
    features: set[str] = set()
    for content in files:
        document = _parsed(content)
        for configuration in _configurations(document):
            features |= _needed_by_configuration(configuration)
            features |= _needed_by_entries(configuration.get("manifest"))
        features |= _needed_by_entries(document)
    return features


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        # An array's bytes, an encoded manifest, or one that is deliberately not JSON.
        return None


def _configurations(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the configurations of all declarations, in consolidated metadata as well."""
    # Not recursive: documents may be nested deeply.
    values = [document]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            stated = value.get("configuration")
            if value.get("name") == "chunk-manifest-json" and isinstance(stated, dict):
                yield stated
            values += value.values()


def _needed_by_configuration(configuration: dict[str, Any]) -> set[str]:
    needed: set[str] = set()
    if "partition_shape" in configuration:
        needed.add("partitions")
    if "checksum" in configuration or isinstance(configuration.get("partitions"), dict):
        needed.add("document-digests")
    if "codecs" in configuration:
        needed.add("encoded-manifests")
        codecs = configuration["codecs"]
        stated = codecs if isinstance(codecs, list) else []
        if "zstd" in [codec.get("name") if isinstance(codec, dict) else codec for codec in stated]:
            needed.add("manifest-zstd")
    return needed


def _needed_by_entries(manifest: Any) -> set[str]:
    needed: set[str] = set()
    for entry in manifest.values() if isinstance(manifest, dict) else ():
        if isinstance(entry, dict):
            if "checksum" in entry:
                needed.add("checksums")
            if entry.keys() & _CONDITIONS:
                needed.add("source-conditions")
    return needed
