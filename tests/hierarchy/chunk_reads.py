"""The ways in which zarr may ask a store for a chunk that are not one and the same inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from zarr.abc.store import RangeByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.combinations import combinations

__all__ = ["READS", "WAYS", "Read"]

PROTOTYPE = default_buffer_prototype()
_PARTS = [RangeByteRequest(0, 2), RangeByteRequest(2, 4)]

type Read = Callable[[zm.ManifestStore, str], Any]
"""Returns what a store has for a key; None or False if it has nothing."""


def _body(found: Any) -> bytes | None:
    return None if found is None else found.to_bytes()


def by_get(store: zm.ManifestStore, key: str) -> bytes | None:
    return _body(sync(store.get(key, PROTOTYPE)))


def by_get_sync(store: zm.ManifestStore, key: str) -> bytes | None:
    return _body(store.get_sync(key))


def by_exists(store: zm.ManifestStore, key: str) -> bool:
    return sync(store.exists(key))


def by_getsize(store: zm.ManifestStore, key: str) -> int | None:
    try:
        return sync(store.getsize(key))
    except FileNotFoundError:
        return None


def by_get_ranges(store: zm.ManifestStore, key: str) -> bytes | None:
    async def collect() -> bytes | None:
        found: dict[int, bytes] = {}
        try:
            async for group in store.get_ranges(key, _PARTS, prototype=PROTOTYPE):
                found.update({i: part.to_bytes() for i, part in group if part is not None})
        except* FileNotFoundError:
            found.clear()
        return b"".join(found[i] for i in sorted(found)) or None

    return sync(collect())


def by_many_at_once(store: zm.ManifestStore, key: str) -> bytes | None:
    async def read() -> bytes | None:
        found = await asyncio.gather(*(store.get(key, PROTOTYPE) for _ in range(20)))
        return _body(found[0])

    return sync(read())


_ALL: list[Read] = [by_get, by_get_sync, by_exists, by_getsize, by_many_at_once]
# Newer than the oldest zarr that is supported.
if hasattr(Store, "get_ranges"):
    _ALL.append(by_get_ranges)

WAYS = combinations(_ALL, besides=[by_get, by_get_sync, by_exists])
READS = pytest.mark.parametrize("chunk", WAYS)
