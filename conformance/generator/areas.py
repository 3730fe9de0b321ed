"""The areas of the corpus; each has a module that builds its cases."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from conformance.generator.case import Case

__all__ = ["AREAS", "all_cases"]

AREAS = (
    "declaration",
    "array_metadata",
    "manifest_syntax",
    "chunk_keys",
    "entries",
    "ranges",
    "paths",
    "climbing",
    "hosts",
    "checksums",
    "source_conditions",
    "empty_and_missing",
    "inline",
    "codecs",
    "sharding",
    "partitions",
    "partition_names",
    "document_digests",
    "digest_forms",
    "encoded_manifests",
    "http",
    "s3",
    "statuses",
    "content_encodings",
    "redirects",
    "links",
    "base_override",
    "security",
    "older_writers",
    "mixed",
    "pending",
    "writing",
    "precedence",
    "limits",
    "validators",
    "lacking_features",
    "combinations",
)


def all_cases() -> Iterator[Case]:
    """Yield every case of every area."""
    for area in AREAS:
        module = import_module(f"conformance.generator.area_{area}")
        for case in module.cases():
            if not case.id.startswith(f"{area.replace('_', '-')}/"):
                raise ValueError(f"{case.id} is in another area's module")
            yield case
