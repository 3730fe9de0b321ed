"""What the first read of each variable requests: nothing but the bytes that are wanted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.hierarchies import declared, document_of
from tests.servers.http_files import Exchange, Fault, FileServer, Reply, delay, status
from zarr_manifest.conversion import ArrayNode, write_hierarchy

VARIABLES = 20
CHUNKS = 36

pytestmark = pytest.mark.servers


def nodes(url: str, variables: int = VARIABLES, chunks: int = CHUNKS) -> list[ArrayNode]:
    """Return variables whose chunks are interleaved in two objects."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [chunks],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "dimension_names": ["x"],
    }
    numbers = np.arange(chunks)
    paths = np.array([f"{url}/o0", f"{url}/o1"])[numbers % 2]
    return [
        ArrayNode(
            f"v{number}",
            metadata,
            zm.Manifest.from_columns(
                (chunks,), paths=list(paths), offsets=numbers * variables + number, lengths=1
            ),
        )
        for number in range(variables)
    ]


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as found:
        for name in ("o0", "o1"):
            found.put(name, bytes(number % 251 for number in range(VARIABLES * CHUNKS)))
        yield found


def publish(root: Path, server: FileServer) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            server.put(f"h/{path.relative_to(root).as_posix()}", path.read_bytes())


def requested(server: FileServer) -> Counter[str]:
    return Counter(request.target for request in server.requests)


def test_small_manifests_are_opened_with_the_group(tmp_path: Path, server: FileServer) -> None:
    write_hierarchy(tmp_path, nodes(server.url))
    publish(tmp_path, server)
    dataset = xr.open_zarr(zm.ManifestStore(f"{server.url}/h", allow=[server.url]), chunks=None)
    opening = requested(server)
    for number in range(VARIABLES):
        assert dataset[f"v{number}"][1].values == (VARIABLES + number) % 251
    touched = requested(server) - opening
    assert set(touched) == {"/o1"}
    assert {target for target in opening if "/v" in target} == set()


def test_a_hierarchy_keeps_few_bytes_of_manifests_in_its_root(tmp_path: Path) -> None:
    """Receiving them must not take longer than the requests that they save."""
    many = nodes("https://example.org/a-long-name", 400)
    write_hierarchy(tmp_path, many)
    inline = [one.path for one in many if not list((tmp_path / one.path).glob("manifest*"))]
    assert 50 < len(inline) < 400
    assert (tmp_path / "zarr.json").stat().st_size < 800_000


@pytest.mark.parametrize(("chunks", "is_inline"), [(36, True), (400, False)])
def test_manifests_are_written_inline_if_they_are_small(
    tmp_path: Path, chunks: int, is_inline: bool
) -> None:
    node = nodes("https://example.org", 1, chunks)[0]
    zm.create_array(tmp_path, "a", node.manifest, shape=chunks, chunks=1, dtype="u1")

    def is_written_inline() -> bool:
        return isinstance(declared(tmp_path, "a")[0]["configuration"]["manifest"], dict)

    assert is_written_inline() is is_inline
    zm.write_manifest(tmp_path, "a", node.manifest, inline=not is_inline)
    assert is_written_inline() is not is_inline
    zm.write_manifest(tmp_path, "a", node.manifest)
    assert is_written_inline() is is_inline


@pytest.mark.parametrize(
    "document",
    [{"manifest_url": "./m.json"}, {"codecs": ["gzip"]}, {"partition_shape": [7]}],
    ids=lambda document: next(iter(document)),
)
def test_who_says_how_to_write_documents_gets_them(
    tmp_path: Path, document: dict[str, object]
) -> None:
    node = nodes("https://example.org", 1)[0]
    zm.create_array(tmp_path, "a", node.manifest, shape=CHUNKS, chunks=1, dtype="u1", **document)
    assert len(list((tmp_path / "a").rglob("*.json"))) > 1


# Larger manifests ----------------------------------------------------------------------


@pytest.fixture
def documents(tmp_path: Path, server: FileServer) -> zm.ManifestStore:
    """Return a hierarchy whose manifests are documents."""
    write_hierarchy(tmp_path, nodes(server.url), inline_below=0)
    publish(tmp_path, server)
    return zm.ManifestStore(f"{server.url}/h", allow=[server.url])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for manifests that are loaded together, however busy the machine is."""
    monkeypatch.setattr("zarr_manifest.hierarchy.following_manifests._PATIENCE", 30)


def manifests(server: FileServer) -> list[str]:
    """Return which manifests were requested, each once, whatever else its request took."""
    targets = [request.target for request in server.requests if "manifest" in request.target]
    return list(dict.fromkeys(target.split("/")[2] for target in targets))


def value(number: int) -> int:
    return (VARIABLES + number) % 251


@pytest.mark.usefixtures("patient")
def test_manifests_of_one_variable_after_the_other_are_loaded_together(
    documents: zm.ManifestStore, server: FileServer
) -> None:
    dataset = xr.open_zarr(documents, chunks=None)
    waits = 0
    for number, name in enumerate(dataset):
        before = len(manifests(server))
        assert dataset[name][1].values == value(int(str(name)[1:]))
        loaded = len(manifests(server))
        waits += loaded > before
        assert loaded <= 2 * (number + 1)
    assert len(manifests(server)) == VARIABLES
    assert waits <= 6


def test_manifests_are_not_loaded_for_who_reads_here_and_there(
    documents: zm.ManifestStore, server: FileServer
) -> None:
    dataset = xr.open_zarr(documents, chunks=None)
    wanted = ["v11", "v3", "v17", "v0"]
    for name in wanted:
        assert dataset[name][1].values == value(int(name[1:]))
    assert manifests(server) == wanted


@pytest.mark.usefixtures("patient")
def test_many_chunks_are_not_loaded_in_vain(tmp_path: Path, server: FileServer) -> None:
    write_hierarchy(tmp_path, [*nodes(server.url, 2, 6000), *nodes(server.url, 9, 6000)[2:]])
    publish(tmp_path, server)
    group = zarr.open_group(zm.ManifestStore(f"{server.url}/h", allow=[server.url]), mode="r")
    for number in range(4):
        group[f"v{number}"][0]  # type: ignore[index]
    assert sorted(manifests(server)) == ["v0", "v1", "v2", "v3", "v4"]


@pytest.mark.parametrize("fault", [status(404), status(503), delay(2)], ids=["404", "503", "slow"])
def test_a_manifest_that_nobody_wanted_concerns_nobody(
    documents: zm.ManifestStore, server: FileServer, fault: Fault, tmp_path: Path
) -> None:
    unwanted = f"h/v10/{document_of(tmp_path, 'v10').name}"
    server.script(unwanted, fault, sticky=True)
    dataset = xr.open_zarr(documents, chunks=None)
    begun = time.monotonic()
    for name in ("v0", "v1", "v11"):  # v10 follows v1
        assert dataset[name][1].values == value(int(name[1:]))
    assert time.monotonic() - begun < 1.5
    assert "v10" in manifests(server)
    server.script(unwanted, status(403), sticky=True)
    with pytest.raises(zm.errors.SourceAccessDeniedError):
        _ = dataset["v10"][1].values


# Connections ---------------------------------------------------------------------------


def test_the_first_requests_share_connections(
    documents: zm.ManifestStore, server: FileServer
) -> None:
    """zarr begins with four requests at the same time; those that follow use their connections."""
    server.latency = 0.05
    for _ in range(3):
        zarr.open_group(documents, mode="r")
    assert server.connections <= 4


# Versions of Zarr ----------------------------------------------------------------------


def test_a_group_is_opened_with_one_request(
    documents: zm.ManifestStore, server: FileServer
) -> None:
    """zarr asks for metadata of Zarr v2 at the same time, which can only be absent."""
    server.latency = 0.05
    zarr.open_group(documents, mode="r")
    assert requested(server) == {"/h/zarr.json": 1}
    assert server.connections == 1


def write_v2(server: FileServer) -> zm.ManifestStore:
    server.put("h2/.zgroup", b'{"zarr_format": 2}')
    server.put("h2/.zattrs", b'{"title": "of v2"}')
    return zm.ManifestStore(f"{server.url}/h2")


def test_metadata_of_v2_are_requested_if_there_are_none_of_v3(server: FileServer) -> None:
    """Only of the first node after those of v3: then zarr's requests overlap, as usual."""
    store = write_v2(server)
    others = [f"/h2/{name}" for name in (".zattrs", ".zgroup", ".zmetadata")]
    overlapping: list[bool] = []

    def answer(exchange: Exchange) -> Reply:
        until = time.monotonic() + (10 if overlapping else 0.1)
        while not set(others) <= set(requested(server)) and time.monotonic() < until:
            time.sleep(0.002)
        overlapping.append(set(others) <= set(requested(server)))
        return exchange.normal()

    server.script("h2/zarr.json", Fault(answer), sticky=True)
    for _ in range(2):
        server.clear()
        assert zarr.open_group(store, mode="r").attrs["title"] == "of v2"
        assert sorted(requested(server).elements()) == [*others, "/h2/zarr.json"]
    assert overlapping == [False, True]


def test_metadata_of_v2_are_there_for_who_asks_for_them(server: FileServer) -> None:
    store = write_v2(server)
    server.put("h2/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    assert "title" not in zarr.open_group(store, mode="r").attrs
    assert zarr.open_group(store, mode="r", zarr_format=2).attrs["title"] == "of v2"


def test_metadata_of_v2_do_not_depend_on_a_failure(server: FileServer) -> None:
    store = write_v2(server)
    server.script("h2/zarr.json", status(403), sticky=True)

    async def both() -> list[Any]:
        reads = (store.get(name) for name in ("zarr.json", ".zgroup"))
        return await asyncio.gather(*reads, return_exceptions=True)

    failure, found = asyncio.run(both())
    assert isinstance(failure, zm.errors.SourceAccessDeniedError)
    assert found.to_bytes() == b'{"zarr_format": 2}'
