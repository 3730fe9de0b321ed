"""Four chunks in storage of each kind, of which one can be damaged."""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numcodecs.checksum32 import CRC32C
from zarr.codecs import Crc32cCodec

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, status
from zarr_manifest.format import compute_checksum
from zarr_manifest.inspection import Report

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server


CREATION: dict[str, Any] = {
    "shape": 32,
    "chunks": 8,
    "dtype": "u1",
    "compressors": Crc32cCodec(),
    "fill_value": 0,
}
DAMAGED = 2
THEN = datetime(2024, 1, 31, 12, tzinfo=UTC)
NOWHERE = "http://127.0.0.1:9"


def encoded(number: int) -> bytes:
    """Return a chunk, and the CRC-32C that its codec adds."""
    body = bytes([number + 1] * 8)
    return body + int(compute_checksum("crc32c", body)[7:], 16).to_bytes(4, "little")


CHUNKS = [encoded(number) for number in range(4)]
OTHER = bytes([99]) + CHUNKS[DAMAGED][1:]
GARBAGE = b"no codec's own bytes"[:12]


class Place:
    """An array of four chunks, each an object of its own; the third is to be damaged."""

    allow: Any = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self.declare()

    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        """Write the hierarchy, with some other chunks from the beginning."""
        for number, body in enumerate(CHUNKS):
            self.put(number, (bodies or {}).get(number, body))
        entries = {str(n): self.entry(n, (bodies or {}).get(n, CHUNKS[n])) for n in range(4)}
        shutil.rmtree(self.root, ignore_errors=True)
        zarr.create_group(self.root)
        zm.create_array(self.root, "a", entries, inline=False, **CREATION)

    def entry(self, number: int, body: bytes) -> dict[str, Any]:
        checksum = compute_checksum("crc32c", body)
        return {**self.conditions(number, body), "length": len(body), "checksum": checksum}

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        raise NotImplementedError

    def put(self, number: int, body: bytes) -> None:
        raise NotImplementedError


class OnDisk(Place):
    def path(self, number: int) -> Path:
        return self.root.parent / f"raw-{number}.bin"

    def put(self, number: int, body: bytes) -> None:
        self.path(number).write_bytes(body)
        os.utime(self.path(number), (THEN.timestamp(),) * 2)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        self.allow = [f"file://{self.root.parent}/"]
        return {
            "path": self.path(number).as_uri(),
            "size": len(body),
            "last_modified": "2024-01-31T12:00:00Z",
        }

    def remove(self) -> None:
        self.path(DAMAGED).unlink()


class OnWeb(Place):
    def __init__(self, root: Path, server: FileServer) -> None:
        self.server = server
        self.allow = {f"{server.url}/": zm.anonymous(retry_config=NO_RETRIES)}
        super().__init__(root)

    def put(self, number: int, body: bytes, etag: str | None = None) -> None:
        self.server.put(f"{number}.bin", body, etag=etag or f"tag-{number}", last_modified=THEN)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        url = f"{self.server.url}/{number}.bin"
        return {"path": url, "size": len(body), "etag": f'"tag-{number}"'}

    def remove(self) -> None:
        self.server.remove(f"{DAMAGED}.bin")

    def answer(self, code: int) -> None:
        self.server.script(f"{DAMAGED}.bin", status(code), sticky=True)


class InBuckets(Place):
    """The third chunk is in a bucket of its own."""

    def __init__(self, root: Path, server: S3Server, bucket: str) -> None:
        self.server, self.bucket = server, bucket
        server.create_bucket(f"{bucket}-b", public=True)
        self.etags: dict[int, str] = {}
        options = {**server.location_options, "retry_config": NO_RETRIES}
        self.allow = {f"s3://{name}/": zm.anonymous(**options) for name in (bucket, f"{bucket}-b")}
        super().__init__(root)

    def place(self, number: int) -> tuple[str, str]:
        return (f"{self.bucket}-b" if number == DAMAGED else self.bucket, f"x/{number}.bin")

    def put(self, number: int, body: bytes) -> None:
        self.server.put(*self.place(number), body)

    def conditions(self, number: int, body: bytes) -> dict[str, Any]:
        bucket, key = self.place(number)
        etag = hashlib.md5(body).hexdigest()
        return {"path": f"s3://{bucket}/{key}", "size": len(body), "etag": f'"{etag}"'}

    def remove(self) -> None:
        self.server.delete(*self.place(DAMAGED))

    def deny(self) -> None:
        self.server._public.discard(f"{self.bucket}-b")

    def end(self) -> None:
        options = {**self.server.location_options, "endpoint": NOWHERE}
        self.allow[f"s3://{self.bucket}-b/"] = zm.anonymous(**options, retry_config=NO_RETRIES)


class Inline(Place):
    def put(self, number: int, body: bytes) -> None:
        pass

    def entry(self, number: int, body: bytes) -> dict[str, Any]:
        # An entry with the checksum of other bytes, unless those are what was to be written.
        stated = body if body == GARBAGE else CHUNKS[number]
        return {"data": body, "checksum": compute_checksum("crc32c", stated)}


class Native(Place):
    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        if not self.root.exists():
            values = np.repeat(np.arange(1, 5, dtype="u1"), 8)
            made = {k: v for k, v in CREATION.items() if k not in ("shape", "dtype")}
            zarr.create_group(self.root).create_array("a", data=values, **made)
        for number, body in (bodies or {}).items():
            self.put(number, body)

    def path(self, number: int) -> Path:
        return self.root / "a" / "c" / str(number)

    def put(self, number: int, body: bytes) -> None:
        self.path(number).write_bytes(body)

    def remove(self) -> None:
        self.path(DAMAGED).unlink()


class NativeOfV2(Native):
    def declare(self, bodies: dict[int, bytes] | None = None) -> None:
        if not self.root.exists():
            options: Any = {"filters": [CRC32C()], "compressors": None, "fill_value": 0}
            group = zarr.create_group(self.root, zarr_format=2)
            array = group.create_array("a", shape=32, chunks=8, dtype="u1", **options)
            array[:] = np.repeat(np.arange(1, 5, dtype="u1"), 8)
        super().declare(bodies)

    def path(self, number: int) -> Path:
        return self.root / "a" / str(number)


def names(report: Report) -> list[Any]:
    """Return the findings without their messages, in which some servers' answers are timed."""
    return [(each.array, each.chunks, each.state, each.code, each.location) for each in report]
