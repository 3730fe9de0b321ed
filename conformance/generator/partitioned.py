"""Arrays whose manifest is split into documents, for the cases of several areas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from conformance.generator.arrays import Array, Index, canonical
from conformance.generator.case import Case

__all__ = ["GRID", "ROW", "SECTION", "TEMPLATE", "partitioned", "served", "split"]

SECTION = "partitioned-manifests"
GRID = Array(shape=(5, 7), chunks=(1, 2))  # 5 by 4 chunks
ROW = Array(shape=(8,))  # 4 chunks
TEMPLATE = "./m/{partition}.json"


def split(entries: Mapping[str, Any], shape: Collection[int]) -> dict[str, dict[str, Any]]:
    """Return the documents, by name of the block, for entries by canonical key."""
    documents: dict[str, dict[str, Any]] = {}
    for key, entry in entries.items():
        index = [int(i) for i in key.split(".")] if shape else []
        block = tuple(i // n for i, n in zip(index, shape, strict=True))
        documents.setdefault(canonical(block), {})[key] = entry
    return documents


def partitioned(
    id: str,
    description: str,
    array: Array = GRID,
    shape: Index = (2, 2),
    *,
    template: str = TEMPLATE,
    without: Collection[str] = (),
    chunks: Collection[Index] = (),
    declared: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Make a case with a document for every block that has entries.

    `without` are blocks whose document is left out, `chunks` chunks without an entry, `declared`
    further members of the configuration.
    """
    entries, source = array.lay_out("data.bin", without=chunks)
    case = Case(id, SECTION, description, needs=["partitions"], **options)
    configuration = {"manifest": template, "partition_shape": list(shape), **(declared or {})}
    case.array(array=array, configuration=configuration).put("a/data.bin", source)
    for block, document in split(entries, shape).items():
        if block not in without:
            case.put("a/" + template.removeprefix("./").replace("{partition}", block), document)
    return case


def served(
    id: str,
    description: str,
    *rules: Mapping[str, Any],
    declared: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Make a case with the documents of four blocks on a server, their source in the hierarchy."""
    entries, source = ROW.lay_out("data.bin")
    case = Case(
        id,
        SECTION,
        description,
        needs=["partitions"],
        allow=[{"prefix": "@HTTP@/m/"}],
        **options,
    )
    configuration = {
        "manifest": "@HTTP@/m/{partition}.json",
        "partition_shape": [1],
        **(declared or {}),
    }
    case.array(array=ROW, configuration=configuration).put("a/data.bin", source)
    for block, document in split(entries, (1,)).items():
        case.source(f"m/{block}.json", document)
    return case.serve("http", *rules)
