"""Arrays whose declaration says which bytes their documents have, for the cases of two areas."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, to_json
from conformance.generator.partitioned import ROW, split
from conformance.generator.standard import ENTRIES, SOURCE

__all__ = ["SECTION", "blocks", "checksum", "named", "of_blocks", "whole"]

SECTION = "documents-by-digest"


def checksum(document: Any) -> str:
    """Return the checksum of a document: bytes, or JSON."""
    stored = document if isinstance(document, bytes) else to_json(document)
    return f"sha256:{hashlib.sha256(stored).hexdigest()}"


def named(template: str, document: Any, block: str = "") -> str:
    """Return the name of a document, below the array."""
    name = template.removeprefix("./").replace("{partition}", block)
    return name.replace("{digest}", checksum(document).removeprefix("sha256:")[:16])


def whole(
    id: str,
    description: str,
    document: Any = ENTRIES,
    *,
    template: str = "./m-{digest}.json",
    stored: Any = None,
    declared: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Make a case with one document; `stored` are other bytes in its place.

    `declared` are further members of the configuration.
    """
    configuration = {"manifest": template, "checksum": checksum(document), **(declared or {})}
    case = Case(id, SECTION, description, **options)
    case.array(configuration=configuration).put("a/data.bin", SOURCE)
    return case.put(f"a/{named(template, document)}", document if stored is None else stored)


def blocks(
    array: Array = ROW, shape: tuple[int, ...] = (1,)
) -> tuple[dict[str, dict[str, Any]], bytes]:
    """Return the documents of an array, by name of the block, and its source."""
    entries, source = array.lay_out("data.bin")
    return split(entries, shape), source


def of_blocks(
    id: str,
    description: str,
    *,
    template: str = "./m/{partition}-{digest}.json",
    array: Array = ROW,
    shape: tuple[int, ...] = (1,),
    lost: str = "",
    stored: Mapping[str, Any] | None = None,
    partitions: Mapping[str, str] | None = None,
    **options: Any,
) -> Case:
    """Make a case with a document for each block; that of `lost` is left out.

    `stored` are other bytes in the place of documents, `partitions` what is declared instead of
    all of them.
    """
    documents, source = blocks(array, shape)
    declared = {name: checksum(document) for name, document in documents.items()}
    configuration = {
        "manifest": template,
        "partition_shape": list(shape),
        "partitions": declared if partitions is None else dict(partitions),
    }
    case = Case(id, SECTION, description, **options)
    case.array(array=array, configuration=configuration).put("a/data.bin", source)
    for name, document in documents.items():
        if name != lost:
            content = (stored or {}).get(name, document)
            case.put(f"a/{named(template, document, name)}", content)
    return case
