"""Writing manifests: what is written reads back, is valid, and is the same every time."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.hierarchies import files_below, split_into_source, without_partitions
from tests.properties import THOROUGH, examples
from zarr_manifest.format import format_canonical

type Index = tuple[int, ...]


# Written, and read back ---------------------------------------------------------------

CODEC = st.sampled_from(
    ["gzip", "zstd", "crc32c", {"name": "gzip", "configuration": {"level": 1}}, {"name": "zstd"}]
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "codecs": st.lists(CODEC, max_size=2),
        "partition_shape": st.lists(st.integers(1, 5), min_size=2, max_size=2),
        "base": st.sampled_from(["./", "../raw/"]),
    },
) | st.just({"inline": True})

SHAPE, CHUNKS = (5, 7), (2, 3)
GRID = list(itertools.product(range(3), range(3)))
DATA = np.arange(1, 36, dtype="<u2").reshape(SHAPE)
PADDED = np.zeros((6, 9), "<u2")
PADDED[:5, :7] = DATA


def chunk(index: Index) -> bytes:
    i, j = index
    return PADDED[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].tobytes()


def new_array(root: Any, path: str = "a") -> None:
    zarr.create_array(
        root,
        name=path or None,
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="<u2",
        compressors=None,
        fill_value=9,
    )


KINDS = st.sampled_from(["whole", "range", "inline", "empty", "missing"])


@pytest.mark.slow
@given(OPTIONS, st.lists(KINDS, min_size=9, max_size=9), st.booleans())
@examples(0.6)
def test_written_manifests_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    options: dict[str, Any],
    kinds: list[str],
    by_key: bool,
) -> None:
    root = tmp_path_factory.mktemp("h")
    new_array(root)
    directory = root / options.get("base", "./").replace("../", "").replace("./", "a")
    directory.mkdir(exist_ok=True)
    entries: dict[Any, dict[str, Any]] = {}
    expected = np.full_like(PADDED, 9)
    for index, kind in zip(GRID, kinds, strict=True):
        name = format_canonical(index)
        entry: dict[str, Any] = {
            "whole": {"path": f"{name}.bin"},
            "range": {"path": f"{name}.bin", "offset": 2, "length": 12},
            "inline": {"data": chunk(index)},
            "empty": {},
            "missing": {},
        }[kind]
        (directory / f"{name}.bin").write_bytes(
            b"--" + chunk(index) + b"--" if kind == "range" else chunk(index)
        )
        if kind != "missing":
            entries[name if by_key else index] = entry
        if kind not in ("missing", "empty"):
            i, j = index
            expected[2 * i : 2 * i + 2, 3 * j : 3 * j + 3] = np.frombuffer(
                chunk(index), "<u2"
            ).reshape(CHUNKS)
    zm.write_manifest(root, "a", entries, **{"inline": False, **options})
    first = files_below(root)
    zm.write_manifest(root, "a", entries, **{"inline": False, **options})
    assert files_below(root) == first
    assert zm.validate(root) == []
    store = zm.ManifestStore(root)
    np.testing.assert_array_equal(zarr.open_array(store, path="a")[:], expected[:5, :7])
    if "partition_shape" in options:
        shape = options["partition_shape"]
        blocks = {
            tuple(i // p for i, p in zip(index, shape, strict=True))
            for index, kind in zip(GRID, kinds, strict=True)
            if kind != "missing"
        }
        written = [p.name.partition("-")[0] for p in (root / "a" / "manifest").glob("*")]
        assert sorted(written) == sorted(map(format_canonical, blocks))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=3), st.data())
@examples(0.3)
def test_partitions_of_the_whole_grid_are_the_whole_manifest(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    counts = tuple(n for n, _ in sizes)
    larger = [n + data.draw(st.integers(0, 3)) for n in counts]
    root = tmp_path_factory.mktemp("h")
    entries: dict[Index, dict[str, Any]] = {
        index: {"data": bytes([number % 255 + 1])}
        for number, index in enumerate(itertools.product(*map(range, counts)))
    }
    for path in ("whole", "parts"):
        zarr.create_array(
            root, name=path, shape=counts, chunks=(1,) * len(counts), dtype="u1", compressors=None
        )
    zm.write_manifest(root, "whole", entries, inline=False)
    zm.write_manifest(root, "parts", entries, partition_shape=larger)
    (whole,) = (root / "whole").glob("manifest-*.json")
    name = whole.name.replace("manifest", format_canonical((0,) * len(counts)))
    assert files_below(root / "parts" / "manifest") == {name: whole.read_bytes()}
    store = zm.ManifestStore(root)
    values = zarr.open_array(store, path="parts")[...]
    np.testing.assert_array_equal(values, zarr.open_array(store, path="whole")[...])
    assert math.prod(counts) == len(entries)


def all_entries() -> dict[str, dict[str, Any]]:
    entries, source = split_into_source(DATA, CHUNKS, path="raw.bin")
    return {
        key: {"data": source[entry["offset"] : entry["offset"] + entry["length"]]}
        for key, entry in entries.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "options"),
    crossed(["deep/down", "a", ""], [{}, {"partition_shape": [2, 2]}, {"inline": True}]),
)
def test_any_store_and_any_path(tmp_path: Path, path: str, options: dict[str, Any]) -> None:
    memory = MemoryStore()
    locations = [
        tmp_path / "local",
        str(tmp_path / "text"),
        LocalStore(tmp_path / "store"),
        memory,
        zm.ManifestStore(MemoryStore()),
        ObjectStore(obstore.store.MemoryStore()),
        obstore.store.MemoryStore(),
    ]
    for location in locations:
        at = ObjectStore(location) if isinstance(location, obstore.store.MemoryStore) else location
        new_array(at, path)
        zm.write_manifest(location, path, all_entries(), **{"inline": False, **options})
        store = at if isinstance(at, zm.ManifestStore) else zm.ManifestStore(at)
        np.testing.assert_array_equal(zarr.open_array(store, path=path, mode="r")[:], DATA)


def test_a_manifest_object(tmp_path: Path) -> None:
    new_array(tmp_path)
    entries = {
        key: {"data": base64.b64encode(e["data"]).decode()} for key, e in all_entries().items()
    }
    manifest = zm.Manifest.loads(json.dumps(entries).encode(), ndim=2)
    zm.write_manifest(tmp_path, "a", manifest, partition_shape=(2, 1), codecs=["zstd"])
    np.testing.assert_array_equal(zarr.open_array(zm.ManifestStore(tmp_path), path="a")[:], DATA)


def test_an_open_store_sees_what_is_written_through_it(tmp_path: Path) -> None:
    new_array(tmp_path)
    store = zm.ManifestStore(tmp_path)
    assert (zarr.open_array(store, path="a")[:] == 9).all()
    zm.write_manifest(store, "a", all_entries(), inline=False)
    np.testing.assert_array_equal(zarr.open_array(store, path="a")[:], DATA)
    zm.write_manifest(store, "a", {}, inline=True)
    assert (zarr.open_array(store, path="a")[:] == 9).all()


# Declarations -------------------------------------------------------------------------


def declared(root: Path) -> list[Any]:
    found: list[Any] = json.loads((root / "a" / "zarr.json").read_text())["storage_transformers"]
    return found


def test_an_earlier_declaration_is_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    new_array(tmp_path)
    document = tmp_path / "a" / "zarr.json"
    before = json.loads(document.read_text())
    other = {"name": "urn:x", "must_understand": False}
    for transformers in (
        [],
        [other],
        ["chunk-manifest-json", other],
        [other, {"name": "chunk-manifest-json"}],
    ):
        before["storage_transformers"] = transformers
        before["attributes"] = {"units": "K"}
        document.write_text(json.dumps(before))
        zm.write_manifest(tmp_path, "a", {}, base="../", inline=True)
        ours = {"manifest": {}, "base": "../"}
        found = declared(tmp_path)
        assert sorted(t["name"] for t in found) == sorted(
            {"chunk-manifest-json"} | {t["name"] for t in transformers if isinstance(t, dict)}
        )
        assert {"name": "chunk-manifest-json", "configuration": ours} in found
        after = json.loads(document.read_text())
        assert after.pop("chunk-manifest-json") == {"must_understand": True}
        assert {**after, "storage_transformers": 0} == {**before, "storage_transformers": 0}


def test_codecs_are_declared_in_full(tmp_path: Path) -> None:
    new_array(tmp_path)
    zm.write_manifest(tmp_path, "a", {}, codecs=["zstd", {"name": "crc32c"}], manifest_url="m")
    assert declared(tmp_path)[0]["configuration"] == {
        "manifest": "m",
        "codecs": [
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
            {"name": "crc32c"},
        ],
    }


# Names of documents ---------------------------------------------------------------------


FORMS: dict[str, dict[str, Any]] = {
    "whole": {"inline": False},
    "encoded": {"codecs": ["gzip"]},
    "partitioned": {"partition_shape": [1, 1]},
    "otherwise partitioned": {"partition_shape": [2, 2]},
    "inline": {"inline": True},
    "plain": {"manifest_url": "./manifest.json"},
    "plain partitions": {"manifest_url": "./{partition}", "partition_shape": [1, 2]},
}


# Each is replaced by the next one; in the thorough tier, by all.
PAIRS = [*itertools.product(FORMS, FORMS)] if THOROUGH else [*itertools.pairwise([*FORMS, "whole"])]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_is_replaced_stays_for_those_who_have_it_open(before: str, after: str) -> None:
    store = MemoryStore()
    new_array(store)
    zm.write_manifest(store, "a", all_entries(), **FORMS[before])
    opened = zm.ManifestStore(store)
    groups = [zarr.open_array(opened, path="a", mode="r") for _ in range(2)]
    assert groups[0][0, 0] == DATA[0, 0]
    old = {key: body.to_bytes() for key, body in store._store_dict.items()}
    others = {key: {"data": bytes(len(entry["data"]))} for key, entry in all_entries().items()}
    for entries in ({"2.2": {}}, {}, others):
        zm.write_manifest(store, "a", entries, **FORMS[after])
        assert zm.validate(store) == []
        for array in groups:
            np.testing.assert_array_equal(array[:], DATA)
    np.testing.assert_array_equal(zarr.open_array(zm.ManifestStore(store), path="a")[:], 0)
    documents = old.keys() - {"a/zarr.json"}
    assert {key: store._store_dict[key].to_bytes() for key in documents} == {
        key: old[key] for key in documents
    }


@pytest.mark.parametrize("form", FORMS)
def test_the_same_again_is_no_change(form: str) -> None:
    store = MemoryStore()
    new_array(store)
    zm.write_manifest(store, "a", all_entries(), **FORMS[form])
    first = {key: body.to_bytes() for key, body in store._store_dict.items()}
    zm.write_manifest(store, "a", {}, **FORMS[form])
    zm.write_manifest(store, "a", all_entries(), **FORMS[form])
    if form.startswith("plain"):  # that name is in use for it
        assert store._store_dict["a/zarr.json"].to_bytes() == first["a/zarr.json"]
    again = {key: body.to_bytes() for key, body in store._store_dict.items()}
    assert again.items() >= first.items()
    zm.write_manifest(store, "a", all_entries(), **FORMS[form])
    assert {key: body.to_bytes() for key, body in store._store_dict.items()} == again


def test_documents_are_named_by_their_digests(tmp_path: Path) -> None:
    new_array(tmp_path)
    for _ in range(2):
        zm.write_manifest(tmp_path, "a", all_entries(), inline=False, codecs=["zstd"])
    (document,) = (tmp_path / "a").glob("manifest-*")
    digest = hashlib.sha256(document.read_bytes()).hexdigest()
    assert document.name == f"manifest-{digest[:16]}.json"
    configuration = declared(tmp_path)[0]["configuration"]
    assert configuration["manifest"] == "./manifest-{digest}.json"
    assert configuration["checksum"] == f"sha256:{digest}"


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("manifest.json", "manifest-{digest}.json"),
        ("./m", "./m-{digest}"),
        ("../m.json.gz", "../m-{digest}.json.gz"),
        ("{partition}", "{partition}-{digest}"),
        ("m-{partition}/x.json", "m-{partition}/x-{digest}.json"),
    ],
)
def test_a_plain_name_is_only_used_where_it_is_free(tmp_path: Path, name: str, taken: str) -> None:
    """Without a checksum, so that people can edit the document."""
    new_array(tmp_path)
    options: dict[str, Any] = {"partition_shape": [9, 9]} if "{partition}" in name else {}
    zm.write_manifest(tmp_path, "a", all_entries(), manifest_url=name, **options)
    configuration = declared(tmp_path)[0]["configuration"]
    assert configuration["manifest"] == name
    assert "checksum" not in configuration
    assert configuration.get("partitions", "all") == "all"
    place = tmp_path / "a" / name.replace("{partition}", "0.0")
    first = place.read_bytes()
    for body in (first, b"mine"):
        place.write_bytes(body)
        zm.write_manifest(tmp_path, "a", {"2.2": {}}, manifest_url=name, **options)
        assert declared(tmp_path)[0]["configuration"]["manifest"] == taken
        assert place.read_bytes() == body
        assert zm.validate(tmp_path) == []
    np.testing.assert_array_equal(zarr.open_array(zm.ManifestStore(tmp_path), path="a")[:], 9)


def test_a_name_that_the_present_declaration_would_read_is_not_taken(tmp_path: Path) -> None:
    """It does not say which partitions there are: a new document would be one of them."""
    new_array(tmp_path)
    entries = all_entries()
    del entries["2.2"]
    plain = "manifest/{partition}.json"
    zm.write_manifest(tmp_path, "a", entries, manifest_url=plain, partition_shape=[1, 1])
    metadata = tmp_path / "a" / "zarr.json"
    metadata.write_bytes(without_partitions(metadata.read_bytes()))
    array = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    zm.write_manifest(tmp_path, "a", all_entries(), manifest_url="manifest/2.2.json")
    assert declared(tmp_path)[0]["configuration"]["manifest"] == "manifest/2-{digest}.2.json"
    with pytest.raises(zm.errors.ManifestNotFoundError, match="has been replaced"):
        array[4:, 6:]
    np.testing.assert_array_equal(zarr.open_array(zm.ManifestStore(tmp_path), path="a")[:], DATA)


# What is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "options", "code", "says"),
    [
        ({"0.0": {"length": 4}}, {}, "invalid_entry", "'path'"),
        ({"0.0": {"path": "f", "lenght": 4}}, {}, "invalid_entry", "'lenght'"),
        ({"0.0": {"data": b""}}, {}, "invalid_entry", "'data'"),
        ({"0.0": {"path": "f", "offset": 1.5}}, {}, "invalid_entry", "offset"),
        ({"3.0": {}}, {}, "invalid_chunk_key", "outside"),
        ({(0, 3): {}}, {}, "invalid_chunk_key", "outside"),
        ({(0,): {}}, {}, "invalid_chunk_key", "not a chunk key"),
        ({"0.0": {}, "c/0/0": {}}, {}, "invalid_chunk_key", "same chunk"),
        ({"0.0": {}, (0, 0): {}}, {}, "invalid_chunk_key", "two entries name"),
        ({"0.0": {"path": "../" * 64 + "x"}}, {}, "invalid_path", "climbs"),
        ({"0.0": {"path": "x", "checksum": "y:0"}}, {}, "unsupported_checksum", "'y'"),
        ({}, {"base": "../" * 64}, "invalid_path", "climbs"),
        ({}, {"manifest_url": "s3://b/m.json"}, "invalid_path", "relative to the array"),
        ({}, {"manifest_url": "/tmp/m.json"}, "invalid_path", "relative to the array"),
        ({}, {"manifest_url": "../../m.json"}, "invalid_path", "relative to the array"),
        ({}, {"manifest_url": "zarr.json"}, "invalid_path", "another name"),
        ({}, {"manifest_url": "../zarr.json"}, "invalid_path", "another name"),
        ({}, {"manifest_url": "c/0/0"}, "invalid_path", "another name"),
        ({}, {"manifest_url": ""}, "invalid_configuration", "'manifest'"),
        ({}, {"manifest_url": "{partition}.json"}, "invalid_configuration", "partition"),
        ({}, {"manifest_url": "m", "partition_shape": [1, 1]}, "invalid_configuration", "once"),
        ({}, {"partition_shape": [1]}, "invalid_configuration", "dimension"),
        ({}, {"partition_shape": [1, 0]}, "invalid_configuration", "positive"),
        ({}, {"inline": True, "codecs": ["gzip"]}, "invalid_configuration", "inline"),
        ({}, {"inline": True, "partition_shape": [1, 1]}, "invalid_configuration", "inline"),
        ({}, {"codecs": ["blosc"]}, "unsupported_transformer", "'blosc'"),
        (
            {},
            {"codecs": [{"name": "gzip", "configuration": {"level": 99}}]},
            "invalid_configuration",
            "level",
        ),
    ],
)
def test_refused_before_anything_is_written(
    tmp_path: Path, entries: Any, options: dict[str, Any], code: str, says: str
) -> None:
    new_array(tmp_path)
    zm.write_manifest(tmp_path, "a", all_entries(), inline=False)
    before = files_below(tmp_path)
    with pytest.raises(zm.ManifestError) as raised:
        zm.write_manifest(tmp_path, "a", {**entries, "1.1": {}}, **{"inline": False, **options})
    assert raised.value.code == code
    assert says in str(raised.value)
    assert raised.value.array == "a"
    assert files_below(tmp_path) == before


def test_no_array_there(tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    for path in ("", "nothing"):
        with pytest.raises(zm.errors.InvalidConfigurationError, match="no Zarr v3 array"):
            zm.write_manifest(tmp_path, path, {}, inline=False)
    for location in (tmp_path / "nowhere", (tmp_path / "nowhere").as_uri()):
        with pytest.raises(zm.errors.SourceNotFoundError, match="there is no Zarr hier") as caught:
            zm.write_manifest(location, "a", {}, inline=False)
        assert caught.value.location == (tmp_path / "nowhere").as_uri()
    assert not (tmp_path / "nowhere").exists()


def test_metadata_that_is_not_valid(tmp_path: Path) -> None:
    new_array(tmp_path)
    document = tmp_path / "a" / "zarr.json"
    metadata = json.loads(document.read_text())
    document.write_text(json.dumps({**metadata, "storage_transformers": {}}))
    with pytest.raises(zm.errors.InvalidConfigurationError, match="not a list"):
        zm.write_manifest(tmp_path, "a", {}, inline=False)
    document.write_text(json.dumps({**metadata, "codecs": None}))
    with pytest.raises(zm.errors.InvalidConfigurationError, match="'codecs'"):
        zm.write_manifest(tmp_path, "a", {}, inline=False)


def test_what_readers_would_find_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As many inline bytes as readers really take would need 1.5 GB, and many seconds.
    limits = zm.Limits(inline_bytes=2**10)
    monkeypatch.setattr("zarr_manifest.writing.array_writer.Limits", lambda: limits)
    new_array(tmp_path)
    entries = {"0.0": {"data": bytes(2**10)}, "0.1": {"data": b"x"}}
    with pytest.raises(zm.errors.LimitExceededError, match="partition_shape"):
        zm.write_manifest(tmp_path, "a", entries, inline=False)
    assert set(files_below(tmp_path / "a")) == {"zarr.json"}


def test_numbers_of_numpy(tmp_path: Path) -> None:
    new_array(tmp_path)
    entries = {tuple(np.array([1, 2])): {"path": "f", "offset": np.int64(3), "length": np.uint8(4)}}
    zm.write_manifest(tmp_path, "a", entries, manifest_url="manifest.json")
    stored = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert stored == {"1.2": {"path": "f", "offset": 3, "length": 4}}
    with pytest.raises(TypeError, match="of type set"):
        zm.write_manifest(tmp_path, "a", {"0.0": {"path": {"f"}}}, inline=False)
