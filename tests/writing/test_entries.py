"""Every form of entry, as zarr reads it: values equal what was put into the sources."""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs
import zarr.registry
from zarr.abc.store import Store

import zarr_manifest as zm
from tests.hierarchies import encode_chunks, write_manifest_array
from zarr_manifest.hierarchy import encode_fill_chunk

FIELD = np.arange(1, 31, dtype="<i4").reshape(5, 6)
CHUNKS = (2, 4)
FILL = -9
POISON = b"\xee"
FORMS = ("range", "whole", "tail", "head", "data")

ARRAY_CONFIG = zarr.config.get("array")
HAS_MISSING_CHUNKS = "read_missing_chunks" in ARRAY_CONFIG
needs_missing_chunks = pytest.mark.skipif(
    not HAS_MISSING_CHUNKS, reason=f"zarr {zarr.__version__} has no array.read_missing_chunks"
)
needs_rectilinear = pytest.mark.skipif(
    "rectilinear_chunks" not in ARRAY_CONFIG,
    reason=f"zarr {zarr.__version__} has no rectilinear chunk grids",
)


def place(sources: Path, name: str, body: bytes, form: str, prefix: str) -> dict[str, Any]:
    """Write a chunk into a source, and return the entry that refers to it in a certain form."""
    path = prefix + name
    match form:
        case "data":
            return {"data": base64.b64encode(body).decode()}
        case "whole":
            content, entry = body, {"path": path}
        case "tail":
            content, entry = POISON * 5 + body, {"path": path, "offset": 5}
        case "head":
            content, entry = body + POISON * 5, {"path": path, "length": len(body)}
        case _:
            content = POISON * 5 + body + POISON * 5
            entry = {"path": path, "offset": 5, "length": len(body)}
    sources.mkdir(parents=True, exist_ok=True)
    (sources / name).write_bytes(content)
    return entry


def refer(
    chunks: dict[str, bytes],
    sources: Path,
    *,
    forms: tuple[str, ...] = FORMS,
    prefix: str = "../sources/",
) -> dict[str, dict[str, Any]]:
    """Place every chunk, in all forms by turns."""
    turns = itertools.cycle(forms)
    return {
        key: place(sources, f"{key}.bin", body, next(turns), prefix) for key, body in chunks.items()
    }


def read(store: Store, path: str = "x") -> Any:
    return zarr.open(store, path=path, mode="r")[...]


def check(root: Path, data: np.ndarray[Any, Any], chunks: Any, **options: Any) -> None:
    """Write an array behind a manifest, and read it in all ways of zarr."""
    manifest = refer(encode_chunks(data, chunks, **options), root / "sources")
    write_manifest_array(root, "x", data, chunks, manifest, **options)
    store = zm.ManifestStore(root)
    actual = read(store)
    assert actual.dtype == data.dtype
    np.testing.assert_array_equal(actual, data)
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["x"][...], data)


@pytest.fixture
def group(root: Path) -> Path:
    zarr.create_group(root)
    return root


# Bases ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["relative", "path", "pathlib", "URL"])
def test_base_of_the_reader_overrides(how: str, root: Path, tmp_path: Path) -> None:
    inside = how == "relative"
    sources = root / "sources" if inside else tmp_path / "elsewhere"
    manifest = refer(encode_chunks(FIELD, CHUNKS), sources, forms=("range", "tail"), prefix="")
    write_manifest_array(root, "g/x", FIELD, CHUNKS, manifest, base="../wrong/")
    base: Any = {
        "relative": "sources",
        "path": str(sources),
        "pathlib": sources,
        "URL": f"{sources.as_uri()}/",
    }[how]
    store = zm.ManifestStore(root, base=base, allow=None if inside else [sources.as_uri() + "/"])
    np.testing.assert_array_equal(read(store, "g/x"), FIELD)


# Grids ----------------------------------------------------------------------


@needs_rectilinear
@pytest.mark.parametrize("chunks", [[[2, 3], [1, 3, 2]], [[5], [3, 3]], [[1, 1, 3], 4]])
def test_rectilinear_grid(chunks: Any, group: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        check(group, FIELD, chunks)


# Chunk key encodings --------------------------------------------------------


@pytest.fixture
def register() -> Any:
    """Registers a chunk key encoding with zarr, which cannot forget it again."""
    register = getattr(zarr.registry, "register_chunk_key_encoding", None)
    if register is None:
        pytest.skip(f"zarr {zarr.__version__} has no registry of chunk key encodings")
    return register


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("own_keys", [False, True])
def test_registered_chunk_key_encoding(
    decodes: bool, own_keys: bool, register: Any, root: Path
) -> None:
    from zarr.core.chunk_key_encodings import ChunkKeyEncoding

    encoding_name = f"tiles-{decodes}-{own_keys}"

    @dataclass(frozen=True)
    class Tiles(ChunkKeyEncoding):
        name = encoding_name
        mark: str = "t"

        def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
            return f"tiles/{self.mark}-" + "_".join(map(str, chunk_coords))

    if decodes:

        def decode(self: Any, chunk_key: str) -> tuple[int, ...]:
            return tuple(int(i) for i in chunk_key.rpartition("-")[2].split("_"))

        Tiles.decode_chunk_key = decode  # type: ignore[method-assign]
    register(encoding_name, Tiles)
    encoding = {"name": encoding_name, "configuration": {"mark": "m"}}
    manifest = refer(encode_chunks(FIELD, CHUNKS), root / "g" / "sources")
    if own_keys:
        manifest = {f"tiles/m-{k.replace('.', '_')}": e for k, e in manifest.items()}
    write_manifest_array(root, "g/x", FIELD, CHUNKS, manifest, chunk_key_encoding=encoding)
    store = zm.ManifestStore(root)
    np.testing.assert_array_equal(read(store, "g/x"), FIELD)


# Data types -----------------------------------------------------------------


# Numbers are those of the conformance corpus.
@pytest.mark.parametrize("dtype", ["<c16", "<M8[s]", "S5", "<U3"])
@pytest.mark.filterwarnings("ignore:The data type:zarr.errors.UnstableSpecificationWarning")
def test_data_types(dtype: str, group: Path) -> None:
    check(group, FIELD.astype(dtype), CHUNKS)


# Explicitly empty chunks where missing ones are errors -----------------------

STRICT = {"array.read_missing_chunks": False}
KINDS: dict[str, dict[str, Any]] = {
    "edges": {"chunks": (4, 4)},
    "checked": {"chunks": CHUNKS, "compressors": zarr.codecs.Crc32cCodec()},
    "sharded": {"chunks": (1, 2), "shards": (2, 4)},
    "sharded-compressed": {
        "chunks": (1, 2),
        "shards": (2, 4),
        "compressors": zarr.codecs.GzipCodec(),
    },
}


@pytest.mark.slow
@needs_missing_chunks
@pytest.mark.parametrize(("kind", "fill"), [*((kind, FILL) for kind in KINDS), ("sharded", 0)])
def test_empty_is_not_missing(kind: str, fill: int, root: Path) -> None:
    options = dict(KINDS[kind])
    chunks = options.pop("chunks")
    entries = {key: {} for key in encode_chunks(FIELD, chunks, **options)}
    write_manifest_array(root, "x", FIELD, chunks, entries, fill_value=fill, **options)
    expected = np.full_like(FIELD, fill)
    np.testing.assert_array_equal(read(zm.ManifestStore(root)), expected)
    with zarr.config.set(STRICT):
        np.testing.assert_array_equal(read(zm.ManifestStore(root)), expected)
        array = zarr.open_array(zm.ManifestStore(root), path="x", mode="r")
        np.testing.assert_array_equal(array[1:4, 3:], expected[1:4, 3:])
    # zarr remembers the setting in the array.
    np.testing.assert_array_equal(array[...], expected)


@needs_missing_chunks
@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize(
    "fill",
    [0.0, float("nan"), 1.5, np.datetime64("NaT", "s"), np.timedelta64("NaT", "ns")],
    ids=str,
)
def test_empty_is_not_missing_in_zero_dimensions(fill: Any, root: Path) -> None:
    values = np.zeros((), np.asarray(fill).dtype)
    write_manifest_array(root, "x", values, (), {"0": {}}, fill_value=fill)
    with zarr.config.set(STRICT):
        np.testing.assert_array_equal(read(zm.ManifestStore(root)), fill)


@needs_missing_chunks
@needs_rectilinear
def test_empty_is_not_missing_in_a_rectilinear_grid(root: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True, **STRICT}):
        entries = {f"{i}.{j}": {} for i in range(2) for j in range(2)}
        write_manifest_array(root, "x", FIELD, [[2, 3], [1, 5]], entries, fill_value=FILL)
        np.testing.assert_array_equal(read(zm.ManifestStore(root)), np.full_like(FIELD, FILL))


@needs_missing_chunks
@pytest.mark.parametrize("kind", KINDS)
def test_absent_is_missing(kind: str, root: Path) -> None:
    options = dict(KINDS[kind])
    chunks = options.pop("chunks")
    encoded = encode_chunks(FIELD, chunks, **options)
    manifest = refer(encoded, root / "sources")
    absent = list(encoded)[-1]
    del manifest[absent]
    write_manifest_array(root, "x", FIELD, chunks, manifest, fill_value=FILL, **options)
    with zarr.config.set(STRICT):
        array = zarr.open_array(zm.ManifestStore(root), path="x", mode="r")
        with pytest.raises(zarr.errors.ChunkNotFoundError):
            array[...]
        np.testing.assert_array_equal(array[:2, :4], FIELD[:2, :4])
    # zarr remembers the setting in the array.
    with pytest.raises(zarr.errors.ChunkNotFoundError):
        array[...]


@needs_missing_chunks
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_codecs_that_lose_the_fill_value(root: Path) -> None:
    codecs = pytest.importorskip("zarr.codecs.numcodecs")
    data = np.ones(4, "f4")
    write_manifest_array(
        root, "x", data, (2,), {"0": {}}, fill_value=0.3, filters=[codecs.BitRound(keepbits=1)]
    )
    with (
        zarr.config.set(STRICT),
        pytest.raises(zm.errors.SourceError, match="do not preserve the fill value") as e,
    ):
        read(zm.ManifestStore(root))
    assert (e.value.array, e.value.chunk) == ("x", "0")


def test_empty_chunk_of_an_unknown_grid() -> None:
    metadata = {"shape": [3], "chunk_grid": {"name": "hexagonal", "configuration": {}}}
    with pytest.raises(zm.errors.SourceError, match="extent is unknown"):
        encode_fill_chunk(metadata, (0,), "c/0")
