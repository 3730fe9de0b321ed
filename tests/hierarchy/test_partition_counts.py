"""Manifests of very many partitions, few of which have a document."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, WrapperStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.counted_requests import Requests
from tests.hierarchies import in_memory, in_memory_of_obstore, write_manifest_array
from tests.servers.http_files import FileServer
from zarr_manifest.conversion import export_kerchunk_json, upgrade

COUNT = 20_000_000


class CannotList(WrapperStore[Any]):
    """A store that cannot be listed, such as a web server."""

    supports_listing = False


def declare(root: Path, *, count: int = COUNT, template: str = "./m/{partition}.json") -> Path:
    """Write some 400 bytes that declare so many partitions, three of which have a document."""
    array = write_manifest_array(root, "a", np.zeros(1, "u1"), 1, template)
    document = array / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["shape"] = [count]
    metadata["storage_transformers"][0]["configuration"]["partition_shape"] = [1]
    document.write_text(json.dumps(metadata))
    members = {"a": metadata}
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    group["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": members,
    }
    (root / "zarr.json").write_text(json.dumps(group))
    for n in (7, count // 2, count - 1):
        file = array / template.replace("{partition}", str(n))
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({str(n): {"data": "Bw=="}}))
    return array


def keys(store: zm.ManifestStore) -> list[str]:
    async def listed() -> list[str]:
        return [key async for key in store.list_prefix("a/c/")]

    return sync(listed())


STORES: list[Callable[[Path], Any]] = [
    lambda root: root,
    lambda root: FsspecStore.from_url(f"file://{root}"),
    in_memory,
    in_memory_of_obstore,
]


@pytest.mark.parametrize(
    ("template", "open_store"),
    crossed(["./m/{partition}.json", "{partition}.json", "../{partition}"], STORES),
)
def test_only_documents_that_exist_are_read(
    tmp_path: Path, template: str, open_store: Callable[[Path], Any]
) -> None:
    declare(tmp_path, template=template)
    location = open_store(tmp_path)
    store = zm.ManifestStore(location)
    assert keys(store) == [f"a/c/{n}" for n in (7, COUNT // 2, COUNT - 1)]
    assert zarr.open_array(store, path="a", mode="r")[COUNT // 2] == 7
    assert zm.contents(location).nodes[1].inline == 3
    assert store.locations() == []
    assert zm.validate(location) == []


def test_problems_of_the_documents_that_exist(tmp_path: Path) -> None:
    array = declare(tmp_path)
    (array / "m" / "9.json").write_text('{"8": {}}')
    (array / "m" / f"{COUNT}.json").write_text("outside the grid, and not read")
    (array / "m" / "09.json").write_text("not the name of a partition")
    (array / "m" / "8.json").symlink_to(array / "m" / "9.json")
    found = [(problem.code, problem.chunk) for problem in zm.validate(tmp_path)]
    assert found == [("invalid_chunk_key", "8")]


def test_a_document_behind_a_link_that_leads_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "data.zarr", tmp_path / "outside.json"
    array = declare(root)
    shutil.move(array / "m" / "7.json", outside)
    (array / "m" / "7.json").symlink_to(outside)
    assert [problem.code for problem in zm.validate(root)] == ["location_not_allowed"]
    with pytest.raises(zm.errors.LocationNotAllowedError):
        zm.ManifestStore(root).locations()


def test_a_replaced_manifest_is_noticed(tmp_path: Path) -> None:
    """A writer removes the documents of the manifest that it replaced."""
    array = declare(tmp_path)
    store = zm.ManifestStore(tmp_path, read_only=True)
    zarr.open_array(store, path="a", mode="r")
    document = array / "zarr.json"
    document.write_text(document.read_text().replace("{partition}", "new-{partition}"))
    (array / "m" / "7.json").unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError, match="replaced"):
        keys(store)


class ChecksLater(Requests):
    """A store whose own metadata of the array arrive late, once documents have been asked for."""

    supports_listing = False

    def __init__(self, store: Any, made: list[tuple[str, str]] | None = None) -> None:
        super().__init__(store, made)
        self.asked, self.arrive = asyncio.Event(), asyncio.Event()

    def with_read_only(self, read_only: bool = False) -> Self:
        found = super().with_read_only(read_only)
        found.asked, found.arrive = self.asked, self.arrive
        return found

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        if key == "a/zarr.json" and ("get", "a/m/0.json") in self.made:
            self.asked.set()
            await self.arrive.wait()
        return await super().get(key, prototype, byte_range)


def test_a_replaced_manifest_is_noticed_by_who_reads_while_another_finds_out(
    tmp_path: Path,
) -> None:
    array = declare(tmp_path, count=10)
    late = ChecksLater(LocalStore(tmp_path))
    store = zm.ManifestStore(late, read_only=True)
    zarr.open_array(store, path="a", mode="r")
    document = array / "zarr.json"
    document.write_text(document.read_text().replace("{partition}", "new-{partition}"))

    async def read() -> list[Any]:
        async def listed() -> list[str]:
            return [key async for key in store.list_prefix("a/c/")]

        first = asyncio.create_task(listed())
        await asyncio.wait_for(late.asked.wait(), 10)
        second = asyncio.create_task(store.get("a/c/3", default_buffer_prototype()))
        await asyncio.wait([second], timeout=0.1)
        late.arrive.set()
        return await asyncio.gather(first, second, return_exceptions=True)

    for found in sync(read()):
        assert isinstance(found, zm.errors.ManifestNotFoundError)


REFUSED = ["limit_exceeded of a"] * 2 + ["limit_exceeded"] * 3


def refusals(location: Any, tmp_path: Path, **options: Any) -> list[str]:
    """Ask for everything that needs all partitions; return the codes of the errors."""
    store = zm.ManifestStore(location, **options)
    zarr.open_array(store, path="a", mode="r")
    codes: list[str] = []
    for ask in (lambda: keys(store), store.locations):
        try:
            ask()
        except zm.ManifestError as error:
            codes.append(f"{error.code} of {error.array}")
    codes += [node.problem.code for node in zm.contents(location, **options).nodes if node.problem]
    codes += [problem.code for problem in zm.validate(location, **options)]
    report = export_kerchunk_json(
        location, tmp_path / f"{len(list(tmp_path.iterdir()))}.json", **options
    )
    return codes + [refused.code for refused in report.refused]


def test_documents_that_cannot_be_listed_are_asked_for_up_to_a_limit(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    declare(root)
    location = CannotList(LocalStore(root))
    assert refusals(location, tmp_path) == REFUSED
    problem = str(zm.validate(location)[0])
    assert "20,000,000 partitions, all of which are needed; the limit is 10,000" in problem
    assert "Raise Limits(partitions=...)" in problem


@pytest.mark.slow
def test_the_limit_is_inclusive(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    declare(root, count=100)
    location = CannotList(LocalStore(root))
    assert refusals(location, tmp_path, limits=zm.Limits(partitions=100)) == []
    many = refusals(location, tmp_path, limits=zm.Limits(partitions=99))
    assert many == REFUSED


def test_documents_elsewhere(tmp_path: Path, http_server: FileServer) -> None:
    """They are below a URL, where nothing can be listed: nothing is asked for."""
    root = tmp_path / "data.zarr"
    array = declare(root)
    document = array / "zarr.json"
    document.write_text(document.read_text().replace("./m/", f"{http_server.url}/"))
    (root / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    codes = refusals(root, tmp_path, allow=[http_server.url])
    assert codes == REFUSED
    assert http_server.requests == []


def test_upgrade_does_not_look_at_them(tmp_path: Path) -> None:
    declare(tmp_path)
    upgrade(tmp_path, dry_run=True)


def test_one_chunk_needs_one_document(tmp_path: Path) -> None:
    declare(tmp_path)
    array = zarr.open_array(zm.ManifestStore(CannotList(LocalStore(tmp_path))), path="a", mode="r")
    assert np.asarray(array[5:9]).tolist() == [0, 0, 7, 0]
