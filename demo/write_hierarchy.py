"""Write chunk references as a Zarr hierarchy of ``chunk-manifest-json`` arrays.

The authoring functions of zarr_manifest come with a later release; until then
this module shows that the format needs none: two plain JSON documents per
array, written with the standard library.
"""

from __future__ import annotations

import base64
import json
import math
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from demo.source_files import DATA_DIRECTORY, DATA_URL, VirtualFile, VirtualVariable

if TYPE_CHECKING:
    from pathlib import Path

#: Attribute of the root group by which a later run knows that it may delete the hierarchy.
MARK = "made_by"
MARK_VALUE = "zarr-manifest demo"

TRANSFORMER = {
    "name": "chunk-manifest-json",
    "configuration": {"manifest": "./manifest.json", "base": DATA_URL},
}


def start_hierarchy(root: Path) -> None:
    """Create an empty hierarchy, in place of the one that an earlier run left.

    Raises
    ------
    FileExistsError
        If something is there that this program did not write.
    """
    if root.exists():
        if not _is_ours(root):
            raise FileExistsError(f"{root} was not written by the demo; name another directory")
        shutil.rmtree(root)
    root.mkdir(parents=True)
    _write_group(root, {MARK: MARK_VALUE})


def write_file(root: Path, virtual: VirtualFile) -> None:
    """Write a group with one manifest-backed array for each variable of a file."""
    group = root / virtual.group
    group.mkdir()
    _write_group(group, virtual.attributes)
    for variable in virtual.variables:
        _write_array(group / variable.name, variable, virtual.path)


def _is_ours(root: Path) -> bool:
    try:
        document = json.loads((root / "zarr.json").read_text(encoding="utf-8"))
        return bool(document["attributes"][MARK] == MARK_VALUE)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_group(directory: Path, attributes: dict[str, Any]) -> None:
    document = {"zarr_format": 3, "node_type": "group", "attributes": _json_safe(attributes)}
    _write_json(directory / "zarr.json", document, indent=2)


def _write_array(directory: Path, variable: VirtualVariable, source: Path) -> None:
    metadata = {
        **variable.metadata,
        "dimension_names": list(variable.dimension_names),
        "attributes": _json_safe(variable.attributes),
        "storage_transformers": [TRANSFORMER],
    }
    path = quote(source.relative_to(DATA_DIRECTORY).as_posix())
    manifest = {key: _entry(chunk, path) for key, chunk in variable.chunks.items()}
    directory.mkdir()
    _write_json(directory / "zarr.json", metadata, indent=2)
    _write_json(directory / "manifest.json", manifest)


def _entry(chunk: dict[str, Any], path: str) -> dict[str, Any]:
    if "data" in chunk:
        return {"data": base64.b64encode(chunk["data"]).decode("ascii")}
    return {"path": path, "offset": int(chunk["offset"]), "length": int(chunk["length"])}


def _json_safe(value: Any) -> Any:
    """Replace what JSON cannot hold: numpy values, bytes, NaN and the infinities."""
    match value:
        case dict():
            return {str(key): _json_safe(member) for key, member in value.items()}
        case list() | tuple():
            return [_json_safe(member) for member in value]
        case np.ndarray() | np.generic():
            return _json_safe(value.tolist())
        case bytes():
            return value.decode("utf-8", errors="backslashreplace")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def _write_json(path: Path, document: dict[str, Any], indent: int | None = None) -> None:
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(document, indent=indent, separators=separators, allow_nan=False)
    path.write_text(text, encoding="utf-8")
