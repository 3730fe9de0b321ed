"""Arrays over sources that fail as tests script them; what every error owes to its reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.quick_retries import QUICK
from tests.servers.http_files import Fault, FileServer
from tests.servers.s3 import S3Server

# Two chunks of 8 bytes at 4 and at 12, in an object of 24 bytes.
RAW = bytes(range(100, 124))
DATA = np.frombuffer(RAW[4:20], "u1")
ENTRY = {"offset": 4, "length": 8}


def declare(root: Path, manifest: dict[str, Any] | str, **options: Any) -> None:
    """Write a group of one manifest array; a string is the text of the manifest document."""
    zarr.create_group(root, overwrite=True)
    document = "./manifest.json" if isinstance(manifest, str) else manifest
    array = write_manifest_array(root, "a", DATA, 8, document, fill_value=7, **options)
    if isinstance(manifest, str):
        (array / "manifest.json").write_text(manifest)


def read(root: Any, **options: Any) -> Any:
    return zarr.open(zm.ManifestStore(root, **options), mode="r")["a"][...]


def refused(
    expected: type[zm.ManifestError], root: Any, *, chunk: str | None = "0", **options: Any
) -> zm.ManifestError:
    """Read, and check what every error owes to its reader."""
    with pytest.raises(zm.ManifestError) as raised:
        read(root, **options)
    error = raised.value
    assert type(error) is expected, error
    assert not isinstance(error, FileNotFoundError | KeyError)
    text = str(error)
    assert text.startswith(f"{expected.code}: ")
    assert error.array == "a"
    assert "array 'a'" in text
    if chunk is not None:
        assert error.chunk == chunk
        assert f"chunk '{chunk}'" in text
    assert "secret" not in text.lower()
    return error


def has_location(error: zm.ManifestError, location: str) -> None:
    assert error.location == location
    assert f"location {location!r}" in str(error)


def has_remedy(error: zm.ManifestError) -> None:
    assert error.remedy
    assert error.remedy in str(error)


class Web:
    """One array whose two chunks lie in one object of an HTTP server."""

    def __init__(self, root: Path, server: FileServer) -> None:
        self.root, self.server = root, server
        self.url = f"{server.url}/d/f.bin"
        self.allow: Any = {f"{server.url}/d/": zm.anonymous(retry_config=QUICK)}
        self.etag = server.put("d/f.bin", RAW)

    def declare(self, **members: Any) -> None:
        declare(
            self.root,
            {
                str(i): {"path": self.url, "offset": 4 + 8 * i, "length": 8, **members}
                for i in range(2)
            },
        )

    def declare_one(self, **members: Any) -> None:
        """Chunk 1 is explicitly empty, so that the requests are those of chunk 0."""
        declare(self.root, {"0": {"path": self.url, **ENTRY, **members}, "1": {}})

    def script(self, *faults: Fault, sticky: bool = True) -> None:
        self.server.script("d/f.bin", *faults, sticky=sticky)

    def refused(self, expected: type[zm.ManifestError], **options: Any) -> zm.ManifestError:
        error = refused(expected, self.root, **{"allow": self.allow, **options})
        has_location(error, self.url)
        return error


class Bucket:
    """One array whose two chunks lie in one object of a bucket."""

    def __init__(self, root: Path, server: S3Server, name: str) -> None:
        self.root, self.server, self.name = root, server, name
        self.url = f"s3://{name}/d/f.bin"
        self.allow: Any = {f"s3://{name}/d/": {**server.options, "retry_config": QUICK}}
        server.put(name, "d/f.bin", RAW)

    def declare(self, **members: Any) -> None:
        declare(
            self.root,
            {
                str(i): {"path": self.url, "offset": 4 + 8 * i, "length": 8, **members}
                for i in range(2)
            },
        )

    def etag(self) -> str:
        store = obstore.store.S3Store(self.name, **self.server.options)
        found = obs.head(store, "d/f.bin")["e_tag"]
        assert found is not None
        return found


class Disk:
    """One array whose chunk lies in a local file outside the hierarchy."""

    def __init__(self, root: Path, directory: Path) -> None:
        directory.mkdir()
        self.root = root
        self.file = directory / "f.bin"
        self.file.write_bytes(RAW)
        self.url = self.file.as_uri()
        self.allow = [directory.as_uri()]

    def declare(self, **members: Any) -> None:
        declare(self.root, {"0": {"path": self.url, **ENTRY, **members}, "1": {}})
