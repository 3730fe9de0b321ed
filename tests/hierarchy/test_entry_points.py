"""Every function that walks over somebody's hierarchy meets the same situations in the same way.

Each is called on a hierarchy that is not there, cannot be listed, has links that lead out of
it, refers to files relative to another directory, has consolidated metadata, has nodes of Zarr
v2, or exceeds the limits.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore.store
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import consolidate, files_below, without_partitions, write_manifest_array
from tests.servers.http_files import FileServer
from zarr_manifest import conversion
from zarr_manifest.inspection import contents

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

# The path of every node that an entry point complains of, and the code of the first complaint.
type Complaints = dict[str, str]
type EntryPoint = Callable[..., Complaints]

DATA = np.arange(8, dtype="u1")
ENTRIES = {
    "0": {"path": "raw.bin", "offset": 0, "length": 4},
    "1": {"path": "raw.bin", "offset": 4, "length": 4},
}


def by_contents(location: Any, **options: Any) -> Complaints:
    nodes = contents(location, **options).nodes
    return {node.path: node.problem.code for node in nodes if node.problem is not None}


def by_locations(location: Any, **options: Any) -> Complaints:
    """Which raises the first problem."""
    is_store = isinstance(location, zm.ManifestStore)
    try:
        (location if is_store else zm.ManifestStore(location, **options)).locations()
    except zm.ManifestError as error:
        if error.array is None:
            raise
        return {error.array: error.code}
    return {}


def by_validate(location: Any, **options: Any) -> Complaints:
    return {problem.array: problem.code for problem in zm.validate(location, **options)}


def by_json(location: Any, **options: Any) -> Complaints:
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "references.json"
        report = conversion.export_kerchunk_json(location, target, **options)
    return {node.path: node.code for node in report.refused}


@pytest.fixture
def by_parquet(tmp_path_factory: pytest.TempPathFactory) -> EntryPoint:
    def export(location: Any, **options: Any) -> Complaints:
        target = tmp_path_factory.mktemp("sets") / "references.parq"
        report = conversion.export_kerchunk_parquet(location, target, **options)
        return {node.path: node.code for node in report.refused}

    return export


def by_dataset(location: Any, **options: Any) -> Complaints:
    return refused_by_virtualizarr(conversion.to_virtual_dataset, location, **options)


def by_datatree(location: Any, **options: Any) -> Complaints:
    return refused_by_virtualizarr(conversion.to_virtual_datatree, location, **options)


def refused_by_virtualizarr(make: Any, location: Any, **options: Any) -> Complaints:
    try:
        make(location, **options)
    except zm.errors.NotConvertibleError as error:
        return dict(re.findall(r"'([^']*)': [^;]*? \((\w+)\)", error.problem))
    return {}


def by_upgrade(location: Any, **options: Any) -> Complaints:
    report = conversion.upgrade(location, dry_run=True, lock=False, **options)
    assert report.repaired == []
    return {node.path: node.code for node in report.refused}


READERS = ["by_contents", "by_locations", "by_validate"]
EXPORTS = ["by_json", "by_parquet", "by_dataset", "by_datatree"]
EVERY = pytest.mark.parametrize("look", [*READERS, "by_upgrade", *EXPORTS], indirect=True)
# An upgrade reads documents only if VirtualiZarr 1.0 to 1.3 may have written them.
OF_DOCUMENTS = pytest.mark.parametrize("look", [*READERS, *EXPORTS], indirect=True)


@pytest.fixture(params=["by_contents", "by_validate", "by_json"])
def look(request: pytest.FixtureRequest) -> EntryPoint:
    """An entry point: a few where a hierarchy is walked over, which all do in the same way."""
    found: EntryPoint = globals()[request.param]
    return request.getfixturevalue(request.param) if request.param == "by_parquet" else found


@pytest.fixture(params=["by_json", "by_dataset"])
def export(request: pytest.FixtureRequest) -> EntryPoint:
    found: EntryPoint = globals()[request.param]
    return request.getfixturevalue(request.param) if request.param == "by_parquet" else found


def write(root: Path, path: str = "a", entries: Any = ENTRIES, **options: Any) -> None:
    """Write a group, if there is none, and an array whose manifest is inline."""
    if not (root / "zarr.json").exists():
        zarr.create_group(root)
    more = {"dimension_names": ["x"], "inline": True, "base": "../"} | options
    write_manifest_array(root, path, DATA, (4,), entries, **more)


def as_path(root: Path) -> Any:
    return root


as_url: Any = Path.as_uri
as_obstore: Any = obstore.store.LocalStore
as_store: Any = LocalStore


# Nothing there ---------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("locate", combinations([as_path, as_url, as_store], besides=[as_path]))
def test_a_directory_that_is_not_there(look: EntryPoint, locate: Any, tmp_path: Path) -> None:
    with pytest.raises(zm.errors.SourceNotFoundError, match="there is no Zarr hierarchy") as caught:
        look(locate(tmp_path / "nowhere"))
    assert caught.value.location == (tmp_path / "nowhere").as_uri()
    assert caught.value.remedy is not None
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "locate",
    combinations([as_path, as_obstore, lambda _: MemoryStore()], besides=[as_path]),
)
def test_a_store_without_nodes(look: EntryPoint, locate: Any, tmp_path: Path) -> None:
    (tmp_path / "f.nc").write_bytes(b"")
    with pytest.raises(zm.errors.SourceNotFoundError, match="there is no Zarr hierarchy"):
        look(locate(tmp_path))


def test_nothing_on_a_web_server(look: EntryPoint, http_server: FileServer) -> None:
    with pytest.raises(zm.errors.SourceNotFoundError, match="there is no Zarr hierarchy"):
        look(f"{http_server.url}/nowhere")


# Stores that cannot be listed ------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A hierarchy, and its URL on a web server, which lists nothing."""
    # Relative ones have no URL there.
    write(tmp_path / "h", entries={"0": {"path": "s3://b/raw.bin", "offset": 0, "length": 4}})
    with FileServer(tmp_path) as server:
        yield tmp_path / "h", f"{server.url}/h"


@EVERY
@pytest.mark.servers
def test_without_consolidated_metadata(look: EntryPoint, served: tuple[Path, str]) -> None:
    with pytest.raises(zm.errors.SourceError, match="cannot be listed") as caught:
        look(served[1])
    assert caught.value.location == served[1]
    assert "consolidate" in str(caught.value.remedy)


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_with_consolidated_metadata(look: EntryPoint, served: tuple[Path, str]) -> None:
    root, url = served
    consolidate(root)
    assert look(url) == {}
    write(root, "b", {"0": {"path": 1}})
    consolidate(root)
    assert look(url) == {"b": "invalid_entry"}


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_chunks_that_cannot_be_listed(export: EntryPoint, served: tuple[Path, str]) -> None:
    """Whoever left them out would have fill values in their place."""
    root, url = served
    zarr.create_array(root / "native", data=DATA, dimension_names=["x"])
    consolidate(root)
    assert export(url) == {"native": "source_error"}


@pytest.mark.servers
def test_consolidated_metadata_that_leads_elsewhere(
    look: EntryPoint, served: tuple[Path, str]
) -> None:
    root, url = served
    name = ".."
    node = json.loads((root / "zarr.json").read_text())
    node["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {name: json.loads((root / "a/zarr.json").read_text())},
    }
    (root / "zarr.json").write_text(json.dumps(node))
    assert look(url) == {name: "invalid_configuration"}


# Links that lead out ---------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("what", combinations(["b", "b/zarr.json"], besides=["b"]))
def test_links_that_lead_out(look: EntryPoint, what: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    write(root, "b")
    (root / what).rename(tmp_path / "elsewhere")
    (root / what).symlink_to(tmp_path / "elsewhere")
    assert look(root) == {"b": "location_not_allowed"}
    assert look(zm.ManifestStore(root)) == {"b": "location_not_allowed"}


@pytest.mark.parametrize("what", ["b", "native/c/1"])
def test_links_into_what_is_authorised(look: EntryPoint, what: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    write(root, "b")
    zarr.create_array(root / "native", data=DATA + 1, chunks=4, dimension_names=["x"])
    (root / what).rename(tmp_path / "elsewhere")
    (root / what).symlink_to(tmp_path / "elsewhere")
    assert look(root, allow=[tmp_path / "elsewhere"]) == {}


@pytest.mark.parametrize("group", ["sub", "sub/g"])
def test_datasets_behind_links(group: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    write(tmp_path / "elsewhere/g", "b")
    (root / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(zm.errors.NotConvertibleError, match="location_not_allowed"):
        conversion.to_virtual_dataset(root, group)


@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_chunks_of_consolidated_metadata_behind_links(export: EntryPoint, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    zarr.create_array(root / "native", data=DATA + 1, chunks=4, dimension_names=["x"])
    consolidate(root)
    (root / "native/zarr.json").unlink()
    (root / "native").rename(tmp_path / "elsewhere")
    (root / "native").symlink_to(tmp_path / "elsewhere")
    assert export(root) == {"native": "location_not_allowed"}


def test_links_that_stay_inside(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "a/zarr.json").rename(tmp_path / "kept")
    (tmp_path / "a/zarr.json").symlink_to(tmp_path / "kept")
    assert look(tmp_path) == {}


@pytest.mark.parametrize("what", ["native/c", "native/c/1"])
def test_chunks_behind_links(export: EntryPoint, what: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    zarr.create_array(root / "native", data=DATA + 1, chunks=4, dimension_names=["x"])
    (root / what).rename(tmp_path / "elsewhere")
    (root / what).symlink_to(tmp_path / "elsewhere")
    assert export(root) == {"native": "location_not_allowed"}


@pytest.mark.parametrize("what", ["native/c", "native/c/1"])
def test_links_out_of_the_hierarchy_are_not_copied(what: str, tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    zarr.create_array(root / "native", data=DATA + 1, chunks=4)
    (root / what).rename(tmp_path / "elsewhere")
    (root / what).symlink_to(tmp_path / "elsewhere")
    report = conversion.upgrade(root, target=tmp_path / "copy")
    assert [(node.path, node.code) for node in report.refused] == [(what, "location_not_allowed")]
    assert what not in files_below(tmp_path / "copy")


def test_metadata_that_is_a_link_to_nothing(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "b")
    (tmp_path / "b/zarr.json").unlink()
    (tmp_path / "b/zarr.json").symlink_to("missing.json")
    assert look(tmp_path) == {"b": "source_not_found"}
    # zarr reads this one.
    zarr.create_array(tmp_path / "old", data=DATA, zarr_format=2)
    (tmp_path / "b/.zarray").write_bytes((tmp_path / "old/.zarray").read_bytes())
    assert look(tmp_path).get("b") == look(tmp_path).get("old")


@pytest.mark.parametrize("name", ["b", "b/zarr.json"])
def test_links_to_themselves(look: EntryPoint, name: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / name)
    assert look(tmp_path) == ({} if name == "b" else {"b": "source_not_found"})


# What the caller says --------------------------------------------------------------------


@pytest.mark.parametrize(
    "look", ["by_contents", "by_locations", "by_validate", *EXPORTS], indirect=True
)
def test_base(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path, entries={"0": {"path": "../../raw.bin", "length": 4}})
    bucket, refused = "s3://bucket/one/", {"a": "invalid_path"}
    assert look(tmp_path, base=bucket) == refused
    assert look(zm.ManifestStore(tmp_path, base=bucket)) == refused
    assert look(tmp_path, base=f"{bucket}two/") == {}
    assert look(tmp_path) == look(tmp_path, base="../") == {}


def test_references_relative_to_the_base(tmp_path: Path) -> None:
    root = tmp_path / "h"
    write(root)
    base = (tmp_path / "theirs").as_uri()
    url = f"{base}/raw.bin"
    assert [place.prefix for place in contents(root, base=base).locations] == [f"{base}/"]
    conversion.export_kerchunk_json(root, tmp_path / "refs.json", base=base)
    exported = json.loads((tmp_path / "refs.json").read_text())["refs"]["a/1"]
    assert exported == [url, 4, 4]
    virtual = conversion.to_virtual_dataset(root, base=base)["a"].data.manifest.dict()
    assert virtual["1"] == {"path": url, "offset": 4, "length": 4}


@OF_DOCUMENTS
def test_limits(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path)
    assert look(tmp_path, limits=zm.Limits(entries=2)) == {}
    assert look(tmp_path, limits=zm.Limits(entries=1)) == {"a": "limit_exceeded"}
    assert look(tmp_path, limits=zm.Limits(manifest_bytes=9)) == {"a": "limit_exceeded"}
    assert look(zm.ManifestStore(tmp_path, limits=zm.Limits(entries=1))) == {"a": "limit_exceeded"}


@OF_DOCUMENTS
def test_documents_elsewhere_have_to_be_allowed(look: EntryPoint, tmp_path: Path) -> None:
    document = tmp_path / "manifest.json"
    document.write_text(json.dumps(ENTRIES))
    root = tmp_path / "h"
    write(root, entries=document.as_uri())
    assert look(root) == {"a": "location_not_allowed"}
    assert look(root, allow=[tmp_path]) == {}
    assert look(zm.ManifestStore(root, allow=[tmp_path])) == {}


@pytest.fixture
def in_bucket(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> str:
    """The URL of a hierarchy in a bucket that is not public."""
    write(tmp_path / "h")
    for key, body in files_below(tmp_path / "h").items():
        s3_server.put(s3_bucket, f"h/{key}", body)
    s3_server.clear()
    return f"s3://{s3_bucket}/h"


def test_a_bucket_with_credentials(look: EntryPoint, in_bucket: str, s3_server: S3Server) -> None:
    assert look(in_bucket, allow={in_bucket: s3_server.options}) == {}
    assert s3_server.requests
    assert all(request.signed for request in s3_server.requests)
    with pytest.raises((zm.errors.SourceAccessDeniedError, zm.errors.SourceError)):
        look(in_bucket, allow={in_bucket: s3_server.anonymous_options})


def test_an_upgrade_in_a_bucket(in_bucket: str, s3_server: S3Server) -> None:
    allow = {in_bucket.removesuffix("h"): s3_server.options}
    report = conversion.upgrade(in_bucket, target=in_bucket + "2", allow=allow)
    assert report.written == ["a/zarr.json", "zarr.json"]
    assert zm.validate(in_bucket + "2", allow=allow) == []


# Nodes -----------------------------------------------------------------------------------


def test_zarr_v2_beside_v3(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path)
    zarr.create_array(tmp_path / "old", data=DATA, zarr_format=2)
    zarr.create_array(tmp_path / "both", data=DATA, zarr_format=2)
    write(tmp_path, "both")
    # What has no counterpart there is refused by name; the others have nothing to say of it.
    is_export = look not in (by_contents, by_locations, by_validate, by_upgrade)
    assert look(tmp_path) == ({"old": "not_convertible"} if is_export else {})


def test_a_node_whose_metadata_is_none(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path)
    for path, text in {"b": "{", "c": "{}", "d": '{"node_type": "table"}'}.items():
        (tmp_path / path).mkdir()
        (tmp_path / path / "zarr.json").write_text(text)
    expected = dict.fromkeys(["b", "c", "d"], "invalid_configuration")
    assert look(tmp_path) == ({"b": expected["b"]} if look is by_locations else expected)


@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_arrays_that_only_consolidated_metadata_has(look: EntryPoint, tmp_path: Path) -> None:
    """As zarr reads it, where it is there."""
    write(tmp_path, entries={"0": {"path": 1}})
    consolidate(tmp_path)
    (tmp_path / "a/zarr.json").unlink()
    code = "invalid_configuration" if look is by_upgrade else "invalid_entry"
    assert look(tmp_path) == {"a": code}


@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_consolidated_metadata_beside_zarr_v2(look: EntryPoint, tmp_path: Path) -> None:
    write(tmp_path, entries={"0": {"path": 1}})
    consolidate(tmp_path)
    (tmp_path / "a/zarr.json").unlink()
    zarr.create_array(tmp_path / "a", data=DATA, zarr_format=2)
    array = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")["a"]
    assert isinstance(array, zarr.Array)
    assert array.metadata.zarr_format == 3
    code = "invalid_configuration" if look is by_upgrade else "invalid_entry"
    assert look(tmp_path) == {"a": code}


@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_groups_below_consolidated_metadata(tmp_path: Path) -> None:
    write(tmp_path)
    for group in ("g", "g/sub"):
        zarr.create_group(tmp_path / group)
    write(tmp_path, "g/sub/b", base="../../../")
    consolidate(tmp_path)
    (tmp_path / "g/sub/b/zarr.json").unlink()
    dataset = conversion.to_virtual_dataset(tmp_path, "g/sub")
    assert [*dataset.variables] == ["b"]
    url = (tmp_path / "raw.bin").as_uri()
    assert dataset["b"].data.manifest.dict()["0"] == {"path": url, "offset": 0, "length": 4}


@pytest.mark.filterwarnings("ignore:Consolidated:zarr.errors.ZarrUserWarning")
def test_partitions_that_only_consolidated_metadata_has(tmp_path: Path) -> None:
    """Whether one was removed, or never written, cannot be known."""
    entries = {"0": {"path": "s3://b/raw.bin", "length": 1}}
    zarr.create_group(tmp_path)
    options: Any = {"shape": 8, "chunks": 1, "dtype": "u1", "partition_shape": (4,)}
    zm.create_array(tmp_path, "a", entries, manifest_url="./{partition}.json", **options)
    metadata = tmp_path / "a/zarr.json"
    metadata.write_bytes(without_partitions(metadata.read_bytes()))
    consolidate(tmp_path)
    assert by_contents(tmp_path) == {}
    metadata.unlink()
    (node,) = (node for node in contents(tmp_path).nodes if node.problem is not None)
    array = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")["a"]
    assert isinstance(array, zarr.Array)
    with pytest.raises(zm.errors.ManifestNotFoundError) as caught:
        array[4:]
    for problem in (node.problem, caught.value):
        assert isinstance(problem, zm.errors.ManifestNotFoundError)
        assert "a/zarr.json" in problem.problem
        assert "restore its 'zarr.json'" in str(problem.remedy)
