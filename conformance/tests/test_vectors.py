"""The vectors of paths and hosts: what they are, and that our own readers agree with them.

The JavaScript reader has its own test of them, `test/vectors.test.js`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.adapters.core_reader import locations as core
from conformance.generator.case import Case
from conformance.generator.writing import render
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import AllowList, Base, StoreLocation, UrlLocation
from zarr_manifest.stores import base_directory

SUITE = Path(__file__).parents[1]
FILE: dict[str, Any] = json.loads((SUITE / "vectors.json").read_bytes())
ROOT = UrlLocation("file", "", FILE["hierarchy"].removeprefix("file:///").strip("/"))
VECTORS: list[dict[str, Any]] = FILE["vectors"]
#: Beside paths, these have links, servers, or documents that lie elsewhere.
WITHOUT_VECTOR = {
    "climbing/manifest",
    "climbing/manifest-above-the-file-system",
    "climbing/manifest-that-is-not-authorised",
    "climbing/out-through-a-link",
    "climbing/path-above-the-host",
    "climbing/path-on-a-web-server",
    "climbing/path-on-a-web-server-not-authorised",
    "climbing/base-on-a-web-server",
    "climbing/base-on-a-web-server-not-authorised",
}
CASES = [entry["id"] for entry in json.loads((SUITE / "index.json").read_bytes())["cases"]]


def agrees(found: Any, vector: dict[str, Any]) -> bool:
    """Whether a reader found the location, or a phase and a code, that a vector wants."""
    if "errors" in vector:
        return (
            isinstance(found, tuple)
            and found[0] == vector["phase"]
            and found[1] in vector["errors"]
        )
    return isinstance(found, dict) and found == vector.get("location", found)


def with_the_package(vector: dict[str, Any]) -> Any:
    """The location that `zarr_manifest` finds, or the phase and the code of its error."""
    phase = "declaration"
    try:
        base = Base.parse(vector.get("base", "./"), directory=vector["array"], root=ROOT)
        if "override" in vector:
            base = Base.parse(base_directory(vector["override"]) or "", root=ROOT)
        phase = "manifest"
        location = base.resolve(vector["path"])
    except InvalidPathError as error:
        return phase, error.code
    if isinstance(location, StoreLocation):
        return {"key": location.key}
    if AllowList(vector["allow"]).match(location) is None:
        return phase, "location_not_allowed"
    return {
        "scheme": location.scheme,
        "authority": location.authority,
        "path": location.path,
    }


def with_the_core_reader(vector: dict[str, Any]) -> Any:
    """The same, with the reader of class `core`."""
    root = tuple(ROOT.path.split("/"))
    own = core.Location("", (*filter(None, vector["array"].split("/")), ""), root=root)
    phase = "declaration"
    try:
        base = core.resolve(vector.get("base", "./"), own, directory=True)
        phase = "manifest"
        location = core.resolve(vector["path"], base)
    except ValueError:
        return phase, "invalid_path"
    path = "/".join(location.segments)
    if not location.origin:
        return {"key": path}
    prefixes = [core.resolve(prefix, core.ROOT, directory=True) for prefix in vector["allow"]]
    if not any(core.covers(prefix, location) for prefix in prefixes):
        return phase, "location_not_allowed"
    scheme, _, authority = location.origin.partition("://")
    return {"scheme": scheme, "authority": authority, "path": path}


def test_the_vectors_satisfy_their_schema() -> None:
    schema = json.loads((SUITE / "vectors.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [
        error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(FILE)
    ] == []


def test_each_case_of_these_areas_that_reads_has_a_vector() -> None:
    areas = [id for id in CASES if id.startswith(("paths/", "hosts/", "climbing/"))]
    assert [vector["id"] for vector in VECTORS] == [
        id for id in areas if _reads(id) and id not in WITHOUT_VECTOR
    ]
    assert len(VECTORS) >= 120


def _reads(id: str) -> bool:
    case = json.loads((SUITE / "cases" / id / "case.json").read_bytes())
    return {"validate", "list"}.isdisjoint(step["op"] for step in case["steps"])


def test_every_kind_of_outcome_is_there() -> None:
    outcomes = {"errors", "allowed", "location"}
    assert {name for vector in VECTORS for name in outcomes & vector.keys()} == outcomes
    members = {name for vector in VECTORS for name in vector.get("location", ())}
    assert members == {"key", "scheme", "authority", "path"}
    codes = {code for vector in VECTORS for code in vector.get("errors", ())}
    assert codes == {"invalid_path", "location_not_allowed"}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_package_agrees(vector: dict[str, Any]) -> None:
    found = with_the_package(vector)
    assert agrees(found, vector), found


@pytest.mark.parametrize(
    "vector",
    # The core has no override.
    [vector for vector in VECTORS if "override" not in vector],
    ids=lambda vector: vector["id"],
)
def test_the_core_reader_agrees(vector: dict[str, Any]) -> None:
    found = with_the_core_reader(vector)
    assert agrees(found, vector), found


def test_a_reader_that_is_wrong_does_not_agree() -> None:
    """The comparison notices what it is there to notice."""
    by_id = {vector["id"]: vector for vector in VECTORS}
    place = {"scheme": "file", "authority": "", "path": "case/sources/d.bin"}
    assert agrees(place, by_id["paths/file-url"])
    assert not agrees({**place, "path": "case/sources/x"}, by_id["paths/file-url"])
    assert not agrees(("manifest", "invalid_path"), by_id["paths/file-url"])
    assert not agrees(place, by_id["paths/empty"])
    assert not agrees(("declaration", "invalid_path"), by_id["paths/empty"])
    assert not agrees(("manifest", "location_not_allowed"), by_id["hosts/ipv6-in-full"])


def test_a_case_whose_location_is_unclear_is_noticed() -> None:
    case = Case("paths/x", "path-resolution", "x").array(manifest={"0": {"path": "d.bin"}})
    twice = case.put("a/d.bin", b"e\0f\0g\0h\0").put("d.bin", b"e\0f\0g\0h\0").reads()
    with pytest.raises(ValueError, match=r"paths/x: the expected values are in \["):
        render([twice])


def test_a_location_that_is_a_link_is_that_of_the_link() -> None:
    case = Case("paths/x", "path-resolution", "x").array(manifest={"0": {"path": "what%3F.bin"}})
    linked = case.put("a/real.bin", b"e\0f\0g\0h\0").link("hierarchy/a/what?.bin", "real.bin")
    (vector,) = json.loads(render([linked.reads()])["vectors.json"])["vectors"]
    assert vector["location"] == {"key": "a/what?.bin"}


def test_what_is_on_a_server_has_no_location_among_the_files() -> None:
    manifest = {"0": {"path": "@HTTP@/d.bin"}}
    case = Case("paths/x", "path-resolution", "x", allow=[{"prefix": "@HTTP@/"}])
    served = case.array(manifest=manifest).source("d.bin", b"e\0f\0g\0h\0").serve("http")
    (vector,) = json.loads(render([served.reads()])["vectors.json"])["vectors"]
    assert vector["allowed"] is True


def test_what_lies_beside_the_hierarchy_has_a_url() -> None:
    case = Case("paths/x", "path-resolution", "x")
    climbing = case.array(manifest={"0": {"path": "../../sources/d.bin"}})
    read = climbing.source("d.bin", b"e\0f\0g\0h\0").reads()
    (vector,) = json.loads(render([read])["vectors.json"])["vectors"]
    assert vector["location"] == {"scheme": "file", "authority": "", "path": "case/sources/d.bin"}


def test_an_unknown_placeholder_is_noticed() -> None:
    case = Case("hosts/x", "path-resolution", "x").array(manifest={"0": {"path": "@S3@/d.bin"}})
    with pytest.raises(ValueError, match=r"no place for \['@S3@'\]"):
        render([case.refuses("invalid_path", "manifest")])
