"""Test vectors of paths and hosts, for unit tests in languages without an adapter.

Taken from the cases of three areas, in which one path of one manifest decides what happens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import Any

__all__ = ["vectors"]

_AREAS = ("paths", "hosts", "climbing")
_PLACES = {
    "@SOURCES@": "file:///case/sources",
    "@SOURCES_PATH@": "/case/sources",
    "@HIERARCHY@": "file:///case/hierarchy",
    "@HTTP@": "http://127.0.0.1:8001",
}
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
# Codes of a source that is asked for and not there: the location itself is fine.
_OF_SOURCES = frozenset({"source_error", "source_not_found", "source_access_denied"})


def vectors(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the vectors of a corpus, whose files are given by their path."""
    ids = [name.removesuffix("/case.json") for name in files if name.endswith("/case.json")]
    found: list[dict[str, Any]] = []
    for id in ids:
        if id.removeprefix("cases/").partition("/")[0] in _AREAS:
            own = {
                name.removeprefix(f"{id}/"): files[name]
                for name in files
                if name.startswith(f"{id}/")
            }
            found += _vectors(own)
    return {"version": 1, "hierarchy": f"{_PLACES['@HIERARCHY@']}/", "vectors": found}


def _vectors(files: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the vector of a case; none of those for validators, which repeat others."""
    text = files["case.json"].decode()
    case, (step, *_) = json.loads(text), json.loads(text)["steps"]
    if step["op"] != "read" or case.get("open", {}).get("via") == "http":
        return
    array = step["array"]
    metadata = _parse(files[join("hierarchy", array, "zarr.json")])
    (declaration,) = metadata["storage_transformers"]
    if declaration["configuration"]["manifest"] != "./manifest.json":
        return
    manifest = _parse(files[join("hierarchy", array, "manifest.json")])
    *_, entry = manifest.values()
    opened = _parse(json.dumps(case.get("open", {})).encode())
    references = {
        "base": declaration["configuration"].get("base"),
        "override": opened.get("base"),
        "path": entry["path"],
    }
    stated = {name: value for name, value in references.items() if value is not None}
    allow = [one["prefix"] for one in opened.get("allow", ())]
    linked = {
        normpath(join(dirname(link), target)): link
        for link, target in case.get("links", {}).items()
    }
    expected = _expected(step["expect"])
    if linked and "errors" in expected:
        return  # where a link leads
    if not expected:
        name = _one_file(case["id"], files, files[step["expect"]["values"]])
        # Names that some systems cannot store are those of links.
        expected = _location(linked.get(name, name), references)
    yield {
        "id": case["id"],
        "description": case["description"],
        "array": array,
        **stated,
        "allow": allow,
        **expected,
    }


def _parse(document: bytes) -> Any:
    text = document.decode()
    for placeholder, place in _PLACES.items():
        text = text.replace(placeholder, place)
    if unknown := re.findall(r"@[A-Z0-9_]+@", text):
        raise ValueError(f"vectors have no place for {unknown}")
    return json.loads(text)


def _expected(expect: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is expected of a path, but for the location of one that reads."""
    errors = [one["error"] for one in expect.get("any_of", [expect]) if "error" in one]
    codes = [code for error in errors for code in _listed(error["code"])]
    if _OF_SOURCES.issuperset(codes):
        return {"allowed": True} if codes else {}
    return {"errors": codes, "phase": errors[0]["phase"]}


def _listed(code: str | list[str]) -> list[str]:
    return [code] if isinstance(code, str) else code


def _one_file(id: str, files: Mapping[str, bytes], values: bytes) -> str:
    """Return the name of the one file that has the expected values."""
    names = [
        name
        for name, content in files.items()
        if name.startswith(("hierarchy/", "sources/")) and values in content
    ]
    if len(names) != 1:
        raise ValueError(f"{id}: the expected values are in {names}, and not in one file")
    return names[0]


def _location(name: str, references: Mapping[str, str | None]) -> dict[str, Any]:
    """Return where a path leads that reads a file of the case."""
    base = references["override"] or references["base"] or ""
    absolute = next((r for r in (references["path"], base) if _ABSOLUTE.match(r or "")), "")
    if absolute and not re.match("/|file:", absolute, re.IGNORECASE):
        # Servers have other locations than the files that they serve.
        return {"allowed": True}
    if name.startswith("hierarchy/") and not absolute:
        return {"location": {"key": name.removeprefix("hierarchy/")}}
    return {"location": {"scheme": "file", "authority": "", "path": f"case/{name}"}}
