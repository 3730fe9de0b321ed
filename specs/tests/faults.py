"""Valid documents, and every single change to one of them that the vocabulary has.

Complete where hypothesis draws: no rule of the schemas goes without a document that breaks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specs.tests.vocabulary import (
    BASES,
    BY_DIGEST,
    CHECKSUMS,
    CODECS,
    DATA,
    DOCUMENT_CHECKSUM,
    KEYS,
    LARGEST,
    NAMES,
    NUMBERS,
    ODD_BY_DIGEST,
    ODD_CHECKSUMS,
    ODD_CODECS,
    ODD_DATA,
    ODD_DOCUMENT_CHECKSUMS,
    ODD_PARTITIONS,
    ODD_ROOTS,
    ODD_SHAPES,
    ODD_TEMPLATES,
    ODD_TIMES,
    ODD_VALUES,
    PARTITIONS,
    PIECES,
    ROOTS,
    SHAPES,
    TEMPLATES,
    TIMES,
)

__all__ = ["declaration_faults", "list_faults", "manifest_faults", "references"]

ENTRIES: list[dict[str, Any]] = [
    {},
    {"path": "d/f.nc"},
    {"data": DATA[0], "checksum": CHECKSUMS[0]},
    {
        "path": "s3://b/f.nc",
        "offset": 4,
        "length": 8,
        "checksum": CHECKSUMS[1],
        "etag": '"x"',
        "last_modified": TIMES[0],
        "version": "v",
        "size": 12,
    },
]
OF_ENTRIES: dict[str, list[Any]] = {
    "path": [],
    "offset": [*NUMBERS, LARGEST],
    "length": [*NUMBERS, LARGEST],
    "data": [*DATA, *ODD_DATA],
    "checksum": [*CHECKSUMS, *ODD_CHECKSUMS],
    "etag": ['"x"'],
    "last_modified": [*TIMES, *ODD_TIMES],
    "version": ["v"],
    "size": [*NUMBERS, LARGEST],
    "x:note": [],
    "_x": [],
    ":": [],
    "x": [],
    "x_": [],
    "": [],
}

# Each with the values that its members may be given; others get `ODD_VALUES` only.
CONFIGURATIONS: list[tuple[dict[str, Any], dict[str, list[Any]]]] = [
    (
        {"manifest": "./manifest.json", "base": "../", "codecs": ["gzip"]},
        {
            "codecs": [[], CODECS, *([codec] for codec in ODD_CODECS)],
            "partition_shape": [[2, 2]],
            "partitions": PARTITIONS,
        },
    ),
    (
        {"manifest": {"0.0": {}}},
        {"codecs": [[], ["gzip"]], "partition_shape": [[2, 2]], "base": BASES, "x:note": []},
    ),
    (
        {"manifest": "./{partition}.json", "partition_shape": [2, 2]},
        {
            "manifest": [*TEMPLATES, *ODD_TEMPLATES],
            "partition_shape": [*SHAPES, *ODD_SHAPES],
            "partitions": [*PARTITIONS, *ODD_PARTITIONS],
            "checksum": [DOCUMENT_CHECKSUM],
        },
    ),
    (
        {"manifest": "./m-{digest}.json", "checksum": DOCUMENT_CHECKSUM},
        {
            "manifest": [*BY_DIGEST, *ODD_BY_DIGEST, {"0.0": {}}],
            "checksum": ODD_DOCUMENT_CHECKSUMS,
            "partition_shape": [[2, 2]],
            "partitions": PARTITIONS,
            "codecs": [["gzip"]],
        },
    ),
    (
        {
            "manifest": "./{partition}-{digest}.json",
            "partition_shape": [2, 2],
            "partitions": {"0.0": DOCUMENT_CHECKSUM},
        },
        {
            "manifest": [*TEMPLATES, *BY_DIGEST, *ODD_TEMPLATES, "{digest}/{partition}{digest}"],
            "partitions": [*PARTITIONS, *ODD_PARTITIONS],
            "checksum": [DOCUMENT_CHECKSUM],
        },
    ),
]


def _changes(value: Mapping[str, Any], known: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """The object itself, and each that differs from it in one member."""
    yield dict(value)
    for name in value:
        rest = {other: value[other] for other in value if other != name}
        yield rest
        yield rest | {name.capitalize(): value[name]}
        yield {name: value[name]}
    for name, values in known.items():
        yield from ({**value, name: stated} for stated in [*values, *ODD_VALUES])


def manifest_faults() -> Iterator[Any]:
    """Manifest documents."""
    for entry in ENTRIES:
        yield from ({"0.0": changed} for changed in _changes(entry, OF_ENTRIES))
    yield from ({"0.0": value} for value in ODD_VALUES)
    yield from ({key: {"path": "f.nc"}} for key in KEYS)
    yield {"0.0": {}, "c/0/0": {}}
    yield from ODD_VALUES


def declaration_faults() -> Iterator[Any]:
    """Declarations."""
    members = {"name": ["other"], "must_understand": [], "x": [], "configuration": []}
    for configuration, known in CONFIGURATIONS:
        for changed in _changes(configuration, known):
            yield {"name": "chunk-manifest-json", "configuration": changed}
        declaration = {"name": "chunk-manifest-json", "configuration": configuration}
        yield from _changes(declaration, members)
    yield "chunk-manifest-json"
    # What an inline manifest says is looked at, and its base decides what a query means.
    for base, path in (("./", 1), ("./", "f?x"), ("https://h/d/", "f?x"), ("https://h/d/e", "?x")):
        inline = {"manifest": {"0.0": {"path": path}}, "base": base}
        yield {"name": "chunk-manifest-json", "configuration": inline}


def list_faults() -> Iterator[Any]:
    """Values of ``storage_transformers``."""
    ours = {"name": "chunk-manifest-json", "configuration": CONFIGURATIONS[0][0]}
    ignored = {"name": "other", "must_understand": False}
    yield from ([ours], [ours, ours], [ours, "other"], [ours, ignored], [ignored, ignored], [])
    yield from (["chunk-manifest-json"], [{**ours, "configuration": {}}], [{**ignored, "name": 1}])
    for value in ODD_VALUES:
        yield from (
            value,
            [value],
            [{"name": value}],
            [{"name": "other", "must_understand": value}],
        )


def references() -> Iterator[str]:
    """URL references: a start, a piece, an end."""
    for start in ["", *ROOTS, *ODD_ROOTS, NAMES[0], "d/e/"]:
        yield from (f"{start}{end}" for end in ("", "f.nc", "/f.nc", "?x"))
    for start in ("", "d/", "s3://b/", "https://h/", "/d/"):
        for piece in PIECES:
            yield from (f"{start}{piece}{end}" for end in ("", "f.nc"))
