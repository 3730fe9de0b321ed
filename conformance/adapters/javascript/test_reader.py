"""The JavaScript reader: its own tests, its adapter, and its example page in Chromium."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import google_crc32c
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from numcodecs import Zstd

from conformance.runner.exchanges import Reply, Request, Rules, answer, find
from conformance.runner.http_server import LoopbackServer, file_server

READER = Path(__file__).parent
SECONDS = 120
CONTENT_TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"}
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Opens the example page once for each query, in a frame, and reports what each of them printed.
HARNESS = """<!doctype html><link rel="icon" href="data:,"><script type="module">
async function printed(query) {
  const frame = document.createElement("iframe");
  frame.src = "/reader/example.html?" + query;
  document.body.append(frame);
  await new Promise((resolve) => { frame.onload = resolve; });
  const output = frame.contentDocument.querySelector("output");
  while (output.dataset.done !== "yes") await new Promise((resolve) => setTimeout(resolve, 20));
  return JSON.parse(output.textContent);
}
const { queries } = await (await fetch("/queries")).json();
const results = [];
for (const query of queries) results.push(await printed(query));
await fetch("/results?" + encodeURIComponent(JSON.stringify(results)));
</script><body></body>"""

SST = np.arange(8, dtype="<f4").reshape(4, 2) / 2
COUNTS = np.arange(-3, 5, dtype="<i8") * 10**15
SHARDED = np.arange(48, dtype="<u2").reshape(6, 8)


def tool(name: str, advice: str) -> str:
    """Find a program; without it the test fails, since nothing else would say that it is gone."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} was not found: {advice}")
    return found


@pytest.fixture(scope="module")
def node() -> str:
    found = tool("node", "install Node.js 20 or later")
    tool("npm", "install Node.js 20 or later, with npm")
    if not (READER / "node_modules" / "zarrita").is_dir():
        pytest.fail(
            f"the packages of the reader are not installed: cd {READER} && "
            "npm install --no-audit --no-fund --no-package-lock"
        )
    return found


@pytest.fixture(scope="module")
def chromium() -> str:
    return tool("chromium", "install it, in Debian with apt-get install chromium")


def test_its_own_tests_pass(node: str) -> None:
    tests = sorted((READER / "test").glob("*.test.js"))
    assert tests
    done = subprocess.run(
        [node, "--test", *map(str, tests)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("adapter", ["adapter.js", "plain-zarrita.js"])
def test_adapters_speak_the_protocol(node: str, adapter: str) -> None:
    requests = ['{"id": 0, "op": "hello", "protocol": 1}', "no JSON", '{"id": 2, "op": "fly"}']
    done = subprocess.run(
        [node, str(READER / adapter)],
        input="\n".join(requests),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    hello, *failures = map(json.loads, done.stdout.splitlines())
    assert (hello["id"], hello["ok"], hello["protocol"]) == (0, True, 1)
    assert "read" in hello["features"]
    assert [answer["error"]["code"] for answer in failures] == ["unexpected"] * 2
    assert [answer["id"] for answer in failures] == [None, 2]


# ---------------------------------------------------------------- a hierarchy


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_array(
    directory: Path,
    values: npt.NDArray[Any],
    chunk_shape: Sequence[int],
    configuration: Mapping[str, Any],
    codecs: Sequence[Mapping[str, Any]] = (
        {"name": "bytes", "configuration": {"endian": "little"}},
    ),
) -> None:
    """Write the `zarr.json` of a manifest array."""
    write_json(
        directory / "zarr.json",
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": values.shape,
            "data_type": values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": codecs,
            "fill_value": 0,
            "attributes": {},
            "storage_transformers": [
                {"name": "chunk-manifest-json", "configuration": configuration}
            ],
        },
    )


def write_hierarchy(root: Path, archive: Path, origin: str) -> None:
    """Write arrays whose sources lie beside them, and on the server at `origin`."""
    write_json(root / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    archive.mkdir()
    counts = b"head" + COUNTS.tobytes()
    (archive / "counts.bin").write_bytes(counts)
    write_near(root)
    write_far(root, counts, origin)
    write_sharded(root, archive, origin)
    native = zarr.create_array(
        root / "native", shape=(3,), dtype="int16", chunks=(2,), compressors=None, filters=None
    )
    native[:] = [1, 2, 3]


def write_near(root: Path) -> None:
    """Ranges of a file beside the array, with checksums; and one checksum that is wrong."""
    row = SST[0].nbytes
    (root / "rows.bin").write_bytes(b"head" + SST.tobytes() + b"tail")
    manifest = {
        f"{i}.0": {
            "path": "../rows.bin",
            "offset": 4 + i * row,
            "length": row,
            "checksum": f"crc32c:{google_crc32c.value(SST[i].tobytes()):08x}",
        }
        for i in range(4)
    }
    digest = hashlib.md5(SST[3].tobytes(), usedforsecurity=False).hexdigest()
    manifest["3.0"]["checksum"] = f"md5:{digest}"
    for name in ("sst", "corrupt"):
        write_array(root / name, SST, (1, 2), {"manifest": "./manifest.json"})
        write_json(root / name / "manifest.json", manifest)
        manifest["2.0"]["checksum"] = "crc32c:00000000"


def write_far(root: Path, counts: bytes, origin: str) -> None:
    """Ranges of a file on another origin, in manifests that are partitioned and encoded."""
    etag = hashlib.sha256(counts).hexdigest()[:16]
    entries = {
        str(i): {"path": f"{origin}/counts.bin", "offset": 4 + 16 * i, "length": 16, "etag": etag}
        for i in range(4)
    }
    del entries["3"]["length"]  # up to the end
    configuration = {
        "manifest": "./manifest/{partition}",
        "partition_shape": [2],
        "codecs": ["gzip", {"name": "crc32c"}],
    }
    write_array(root / "counts", COUNTS, (2,), configuration)
    for block in range(2):
        owned = {key: entries[key] for key in (str(2 * block), str(2 * block + 1))}
        encoded = gzip.compress(json.dumps(owned).encode())
        encoded += google_crc32c.value(encoded).to_bytes(4, "little")
        path = root / "counts" / "manifest" / str(block)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encoded)
    for name, change in (
        ("changed", {"etag": "another"}),
        ("redirected", {"path": f"{origin}/moved.bin"}),
    ):
        configuration = {"manifest": "./manifest.zst", "codecs": ["zstd"]}
        write_array(root / name, COUNTS, (2,), configuration)
        changed = {key: entry | change for key, entry in entries.items()}
        encoded = Zstd(level=3, checksum=True).encode(json.dumps(changed).encode())
        (root / name / "manifest.zst").write_bytes(encoded)


def write_sharded(root: Path, archive: Path, origin: str) -> None:
    """Shards one after another in a file on another origin."""
    native = zarr.create_array(
        archive / "native", shape=SHARDED.shape, dtype="uint16", shards=(6, 4), chunks=(2, 2)
    )
    native[:] = SHARDED
    shards = [(archive / "native" / "c" / "0" / str(i)).read_bytes() for i in range(2)]
    (archive / "shards.bin").write_bytes(b"".join(shards))
    path = f"{origin}/shards.bin"
    manifest = {
        "0.0": {"path": path, "length": len(shards[0])},
        "0.1": {"path": path, "offset": len(shards[0])},
    }
    codecs = json.loads((archive / "native" / "zarr.json").read_text())["codecs"]
    write_array(root / "sharded", SHARDED, (6, 4), {"manifest": manifest}, codecs)


# ---------------------------------------------------------------- servers, and a browser


class Site:
    """Serves the reader, its packages and a hierarchy; hands out queries, takes results."""

    def __init__(self, hierarchy: Path, queries: Sequence[str]) -> None:
        self._hierarchy = hierarchy
        self._queries = queries
        self._done = threading.Event()
        self._results: Any = None

    def respond(self, request: Request) -> Reply:
        """Answer one request."""
        head, _, rest = request.path.removeprefix("/").partition("/")
        if head == "results":
            self._results = json.loads(unquote(request.query))
            self._done.set()
            return Reply(200)
        if head == "queries":
            return Reply(200, {}, json.dumps({"queries": self._queries}).encode())
        if head == "harness":
            return Reply(200, {"Content-Type": "text/html"}, HARNESS.encode())
        root = READER if head == "reader" else self._hierarchy
        reply = answer(request, find(root, rest), {})
        kind = CONTENT_TYPES.get(Path(rest).suffix, "application/octet-stream")
        return replace(reply, headers={**reply.headers, "Content-Type": kind})

    def results(self) -> Any:
        """Wait for the results."""
        assert self._done.wait(SECONDS), "the page reported nothing"
        return self._results


@contextlib.contextmanager
def browser(chromium: str, url: str, profile: Path) -> Iterator[None]:
    """Open a page; end all processes of the browser when the block ends."""
    command = [chromium, *CHROMIUM_FLAGS, f"--user-data-dir={profile}", url]
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def listening(server: LoopbackServer) -> Iterator[str]:
    server.start()
    try:
        yield server.origin
    finally:
        server.stop()


def test_the_example_page_reads_a_hierarchy_in_a_browser(
    tmp_path: Path, node: str, chromium: str
) -> None:
    archive, site_server = LoopbackServer(), LoopbackServer()
    write_hierarchy(tmp_path / "data", tmp_path / "archive", archive.origin)
    moved = {"path": "/moved.bin", "status": 302, "location": "/counts.bin"}
    archive.answer = file_server(tmp_path / "archive", Rules([moved]))
    allowed = f"{archive.origin}/"
    cases: list[tuple[str, str | None, Any]] = [
        ("sst", None, SST),
        ("native", None, np.array([1, 2, 3], "i2")),
        ("counts", allowed, COUNTS),
        ("sharded", allowed, SHARDED),
        ("corrupt", None, "checksum_mismatch"),
        ("counts", None, "location_not_allowed"),
        ("changed", allowed, "source_changed"),
        ("redirected", allowed, "location_not_allowed"),
    ]
    queries = [
        urlencode(
            {"hierarchy": "/data/", "array": array} | ({} if allow is None else {"allow": allow})
        )
        for array, allow, _ in cases
    ]
    site = Site(tmp_path / "data", queries)
    site_server.answer = site.respond
    profile = tmp_path / "profile"
    with (
        listening(archive),
        listening(site_server) as origin,
        browser(chromium, f"{origin}/harness", profile),
    ):
        results = site.results()
    for (array, allow, expected), printed in zip(cases, results, strict=True):
        if isinstance(expected, str):
            assert printed.get("code") == expected, (array, allow, printed)
        else:
            assert printed.get("shape") == list(expected.shape), (array, allow, printed)
            assert printed["dtype"] == expected.dtype.name
            assert np.array(printed["values"]).astype(expected.dtype).tolist() == (
                expected.ravel().tolist()
            )
