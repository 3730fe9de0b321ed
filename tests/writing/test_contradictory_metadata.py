"""Own metadata that contradict the copies, and are not behind: no writer chooses one of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.hierarchies import consolidate
from zarr_manifest.conversion import lock, refresh, relocate, write_hierarchy
from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.writing import guarded_store

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")

type Objects = dict[str, bytes]

DAYS = [[10 * day + hour for hour in range(4)] for day in range(1, 4)]


def copied[**P](write: Callable[P, MemoryStore]) -> Callable[P, MemoryStore]:
    """Write a hierarchy once, and return a copy each time."""
    known = functools.cache(write)
    return lambda *args, **kwargs: MemoryStore(dict(known(*args, **kwargs)._store_dict))


@copied
def day(number: int, *names: str) -> MemoryStore:
    """A hierarchy with one day of the arrays; with documents, as the inline ones are small."""
    store = MemoryStore()
    zarr.create_group(store)
    for name in names or ("v", "w"):
        entries = {(i,): {"data": bytes(DAYS[number][2 * i :][:2])} for i in range(2)}
        options: dict[str, Any] = {"shape": 4, "chunks": 2, "dtype": "u1", "compressors": None}
        zm.create_array(store, name, entries, dimension_names=["time"], inline=False, **options)
    consolidate(store)
    return store


def objects(store: MemoryStore) -> Objects:
    return {key: body.to_bytes() for key, body in store._store_dict.items()}


def put(store: MemoryStore, key: str, body: bytes) -> None:
    store._store_dict[key] = default_buffer_prototype().buffer.from_bytes(body)


@copied
def both_days() -> MemoryStore:
    store = day(0)
    zm.append(store, day(1), dim="time")
    return store


def two_days() -> tuple[MemoryStore, Objects]:
    """A hierarchy of two days, and what it was on the first."""
    return both_days(), objects(day(0))


def changed(body: bytes, **members: Any) -> bytes:
    node = {**json.loads(body), **members}
    return json.dumps({name: node[name] for name in node if node[name] is not ...}).encode()


def own_is_older() -> MemoryStore:
    store, first = two_days()
    put(store, "v/zarr.json", first["v/zarr.json"])
    return store


def own_is_newer() -> MemoryStore:
    store, first = two_days()
    for key in ("zarr.json", "w/zarr.json"):
        put(store, key, first[key])
    return store


def own_declares_nothing() -> MemoryStore:
    store, _ = two_days()
    native = {"storage_transformers": ..., "chunk-manifest-json": ...}
    put(store, "v/zarr.json", changed(objects(store)["v/zarr.json"], **native))
    return store


def own_has_other_attributes() -> MemoryStore:
    store, _ = two_days()
    attributes = {"attributes": {"scale_factor": 0.5}}
    put(store, "v/zarr.json", changed(objects(store)["v/zarr.json"], **attributes))
    return store


def damaged(body: bytes | None) -> Callable[[], MemoryStore]:
    def prepare() -> MemoryStore:
        store, _ = two_days()
        put(store, "v/zarr.json", objects(store)["v/zarr.json"][:90] if body is None else body)
        return store

    return prepare


CONTRADICTIONS: dict[str, Callable[[], MemoryStore]] = {
    "older": own_is_older,
    "newer": own_is_newer,
    "without its declaration": own_declares_nothing,
    "other attributes": own_has_other_attributes,
}
DAMAGED: dict[str, Callable[[], MemoryStore]] = {
    "truncated": damaged(None),
    "empty": damaged(b""),
    "an empty object": damaged(b"{}"),
    "a list": damaged(b"[]"),
}
CONTRADICTIONS |= DAMAGED


def edit_chunk(store: MemoryStore) -> None:
    with zm.edit(store) as root:
        root["v"][:2] = 7


def edit_attributes(store: MemoryStore) -> None:
    with zm.edit(store) as root:
        root["v"].attrs["new"] = True


def consolidate_in_an_edit(store: MemoryStore) -> None:
    with zm.edit(store) as root:
        zarr.consolidate_metadata(root.store)


WRITERS: dict[str, Callable[[MemoryStore], object]] = {
    "append": lambda store: zm.append(store, day(2), dim="time"),
    "append again": lambda store: zm.append(store, day(1), dim="time"),
    "replace": lambda store: zm.append(store, day(1), dim="time", replace=True),
    "trim": lambda store: zm.trim(store, dim="time", keep=2),
    "write_manifest": lambda store: zm.write_manifest(store, "v", {"0": {"data": b"xy"}}),
    "lock": lock,
    "refresh": refresh,
    "relocate": lambda store: relocate(store, {"file:///a/": "file:///b/"}),
    "accept": lambda store: zm.conversion.accept(store, ["v"]),
    "recover": zm.recover,
    "edit a chunk": edit_chunk,
    "edit attributes": edit_attributes,
    "consolidate in an edit": consolidate_in_an_edit,
}


@pytest.mark.parametrize(("state", "writer"), crossed(CONTRADICTIONS, WRITERS))
def test_writers_refuse_it(state: str, writer: str) -> None:
    store = CONTRADICTIONS[state]()
    before = objects(store)
    refusals = (InvalidConfigurationError, KeyError, ValueError, TypeError)
    with pytest.raises(refusals) as caught:
        WRITERS[writer](store)
    written = {key for key, body in objects(store).items() if before.get(key) != body}
    assert before.keys() <= objects(store).keys()
    assert not written
    if state in DAMAGED and "edit" in writer:
        return  # as zarr says it, which opens the array
    assert isinstance(caught.value, InvalidConfigurationError)
    assert caught.value.array == "v"
    if not (state in DAMAGED and writer == "lock"):
        for named in ("'v/zarr.json'", "'zarr.json'", "contradict", "recover(location, trust="):
            assert named in str(caught.value)


def test_an_upgrade_refuses_it() -> None:
    store = own_is_older()
    unlocked = changed(objects(store)["v/zarr.json"], **{"chunk-manifest-json": ...})
    put(store, "v/zarr.json", unlocked)
    before = objects(store)
    with pytest.raises(InvalidConfigurationError, match="contradict"):
        zm.conversion.upgrade(store)
    assert objects(store) == before


@pytest.mark.parametrize("state", ["older", "newer", "other attributes"])
def test_other_nodes_are_written(state: str) -> None:
    store = CONTRADICTIONS[state]()
    own = objects(store)["v/zarr.json"]
    with zm.edit(store) as root:
        root["w"][:2] = 7
    assert objects(store)["v/zarr.json"] == own
    assert zm.validate(store, strict=True)
    assert zarr.open_group(zm.ManifestStore(store), mode="r")["w"][:2].tolist() == [7, 7]


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[]"])
def test_damaged_metadata_without_a_copy(body: bytes | None) -> None:
    store, _ = two_days()
    plain = objects(store)
    put(store, "zarr.json", changed(plain["zarr.json"], consolidated_metadata=...))
    put(store, "v/zarr.json", plain["v/zarr.json"][:90] if body is None else body)
    before = objects(store)
    with pytest.raises(zm.errors.ManifestError, match="array 'v'"):
        zm.append(store, day(2), dim="time")
    assert objects(store) == before


# What puts it right ---------------------------------------------------------------------------


def values(store: MemoryStore, use_consolidated: bool) -> dict[str, list[int]]:
    root: Any = zarr.open_group(
        zm.ManifestStore(store, read_only=True), mode="r", use_consolidated=use_consolidated
    )
    return {name: root[name][:].tolist() for name in ("v", "w")}


@pytest.mark.parametrize("state", CONTRADICTIONS)
def test_copies_are_kept(state: str) -> None:
    store = CONTRADICTIONS[state]()
    expected = values(store, use_consolidated=True)
    assert zm.recover(store, trust="consolidated") == ["v"]
    for use_consolidated in (True, False):
        assert values(store, use_consolidated) == expected
    assert zm.validate(store, strict=True) == []
    assert zm.recover(store) == []
    zm.append(store, day(2), dim="time")
    length = len(expected["v"])
    assert values(store, use_consolidated=True)["v"] == expected["v"] + DAYS[2]
    assert length in (4, 8)


@pytest.mark.parametrize("state", CONTRADICTIONS)
def test_own_metadata_are_kept(state: str) -> None:
    store = CONTRADICTIONS[state]()
    before = objects(store)
    if state in DAMAGED:
        with pytest.raises(InvalidConfigurationError, match="empty or damaged"):
            zm.recover(store, trust="own")
        assert objects(store) == before
        return
    own = json.loads(before["v/zarr.json"])
    assert zm.recover(store, trust="own") == ["v"]
    after = objects(store)
    assert json.loads(after["v/zarr.json"]) == own
    assert json.loads(after["zarr.json"])["consolidated_metadata"]["metadata"]["v"] == own
    assert zm.validate(store) == []


def test_nothing_else_can_be_kept() -> None:
    with pytest.raises(ValueError, match="trust must be"):
        zm.recover(own_is_older(), trust="copies")  # type: ignore[arg-type]


def test_overwriting_keeps_none_of_them() -> None:
    for prepare in CONTRADICTIONS.values():
        store = prepare()
        nodes = zm.conversion.read_hierarchy(day(2))
        write_hierarchy(store, nodes, overwrite=True)
        assert values(store, use_consolidated=False)["v"] == DAYS[2]
        assert zm.validate(store) == []


def test_overwriting_refuses_to_choose_of_what_stays() -> None:
    store = day(0)
    zarr.create_array(store, name="native", data=np.arange(4), chunks=2)
    consolidate(store)
    zarr.open_array(store, path="native").resize((6,))
    with pytest.raises(InvalidConfigurationError, match=r"native.*differ in 'shape'"):
        write_hierarchy(store, zm.conversion.read_hierarchy(day(2)), overwrite=True)


# What is no contradiction ---------------------------------------------------------------------


def test_what_only_one_of_them_has() -> None:
    """A node that was not consolidated, one without metadata of its own, and a lock."""
    store = day(0)
    root = json.loads(objects(store)["zarr.json"])
    copies = root["consolidated_metadata"]["metadata"]
    copies["v"].pop("chunk-manifest-json")
    copies["w"]["attributes"] = None
    put(store, "zarr.json", json.dumps(root).encode())
    zarr.create_array(store, name="new", shape=4, dtype="u1", dimension_names=["x"])
    zm.trim(store, dim="time", keep=2)
    assert values(store, use_consolidated=False) == {"v": DAYS[0][2:], "w": DAYS[0][2:]}


def test_numbers_that_are_none() -> None:
    store = day(0)
    body = objects(store)["v/zarr.json"].replace(b'"attributes": {}', b'"attributes": {"x": NaN}')
    assert b"NaN" in body
    put(store, "v/zarr.json", body)
    consolidate(store)
    assert b"NaN" in objects(store)["zarr.json"]
    zm.append(store, day(1), dim="time")


def test_a_writer_that_commits_while_another_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other has read the root before, and the array after."""
    store = day(0)
    kind = type(guarded_store(store))
    read, appended = kind.read, list[str]()

    def read_later(self: Any, key: str) -> Any:
        if key == "v/zarr.json" and not appended:
            appended.append(key)
            zm.append(store, day(1), dim="time")
        return read(self, key)

    monkeypatch.setattr(kind, "read", read_later)
    zm.append(store, day(2), dim="time")
    assert appended
    assert values(store, use_consolidated=True)["v"] == DAYS[0] + DAYS[1] + DAYS[2]
