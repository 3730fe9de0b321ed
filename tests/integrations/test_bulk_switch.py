"""What reads in bulk: arrays that ``enable()``, the engine or zarr's configuration opened."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.buffer import cpu
from zarr.core import buffer as buffers
from zarr.core import codec_pipeline
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.conftest import PIPELINES
from tests.hierarchies import FIELD, Values
from zarr_manifest.integrations import bulk
from zarr_manifest.integrations.bulk_switch import read_in_bulk, reading_in_bulk

pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)
CONFIGURED = {"codec_pipeline.path": "zarr_manifest.BulkCodecPipeline"}
ARRAY = vars(zarr.AsyncArray)["__init__"]
EXTERNAL = "a/b/external"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    assert vars(zarr.AsyncArray)["__init__"] is ARRAY
    yield
    assert vars(zarr.AsyncArray)["__init__"] is ARRAY


@pytest.fixture
def selections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks each selection had that was read in bulk."""
    found: list[int] = []
    original = zm.ManifestStore.read_ranges

    async def counting(store: Any, ranges: Any, receiver: Any) -> None:
        found.append(len(ranges))
        await original(store, ranges, receiver)

    monkeypatch.setattr(zm.ManifestStore, "read_ranges", counting)
    return found


def pipeline_of(array: Any) -> Any:
    return array.async_array.codec_pipeline


def is_bulk(array: Any) -> bool:
    return type(pipeline_of(array)) is zm.BulkCodecPipeline


# Switched on ---------------------------------------------------------------------------------


def test_enable(root: Path, values: Values, selections: list[int]) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
        group: Any = zarr.open_group(root, mode="r")
        assert is_bulk(array)
        assert is_bulk(group["inline"])
    np.testing.assert_array_equal(array[...], values[EXTERNAL])
    np.testing.assert_array_equal(array.oindex[[0, 5], 2:7], values[EXTERNAL][[0, 5], 2:7])
    assert selections == [4, 4]
    assert not is_bulk(zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r"))


def test_enabled_twice_wraps_once(root: Path, values: Values) -> None:
    with zm.enable():
        with zm.enable(), zarr.config.set(CONFIGURED):
            array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
            assert is_bulk(array)
            assert not isinstance(pipeline_of(array).usual, zm.BulkCodecPipeline)
            read_in_bulk(array.async_array)
            assert not isinstance(pipeline_of(array).usual, zm.BulkCodecPipeline)
        assert is_bulk(zarr.open_array(root, path=EXTERNAL, mode="r"))


def test_the_engine(root: Path, values: Values, selections: list[int]) -> None:
    options: dict[str, Any] = {"consolidated": False, "mask_and_scale": False, "chunks": None}
    with xr.open_dataset(root, engine="zarr-manifest", group="a/b", **options) as dataset:
        assert not is_bulk(zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r"))
        np.testing.assert_array_equal(dataset["external"].values, values[EXTERNAL])
    assert selections == [4]
    tree = xr.open_datatree(root, engine="zarr-manifest", **options)
    np.testing.assert_array_equal(tree["a/b/external"].values, values[EXTERNAL])
    tree.close()
    groups = xr.open_groups(root, engine="zarr-manifest", **options)
    np.testing.assert_array_equal(groups["/a/b"]["external"].values, values[EXTERNAL])
    for one in groups.values():
        one.close()
    assert selections == [4, 4, 4]


def test_the_engine_leaves_other_stores_alone(tmp_path: Path, root: Path, values: Values) -> None:
    """Also those that other threads open meanwhile."""
    other = zm.ManifestStore(MemoryStore(), may_grow=False)
    zarr.create_array(other, data=FIELD)
    with reading_in_bulk(zm.ManifestStore(root)):
        with ThreadPoolExecutor(1) as pool:
            assert not is_bulk(pool.submit(zarr.open_array, other, mode="r").result())
            assert not is_bulk(
                pool.submit(zarr.open_array, MemoryStore(), mode="w", shape=3).result()
            )
        assert is_bulk(zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r"))


@pytest.mark.parametrize("pickled", [False, True])
def test_a_store_needs_enabling(
    pickled: bool, root: Path, values: Values, selections: list[int]
) -> None:
    """Constructing one changes nothing behind anybody's back."""
    store = zm.ManifestStore(root, read_only=True)
    store = pickle.loads(pickle.dumps(store)) if pickled else store
    assert vars(zarr.AsyncArray)["__init__"] is ARRAY
    with xr.open_zarr(
        store, group="a/b", consolidated=False, mask_and_scale=False, chunks=None
    ) as dataset:
        np.testing.assert_array_equal(dataset["external"].values, values[EXTERNAL])
    assert selections == []


def test_an_exception_while_opening_leaves_nothing_behind(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(root / "nothing", engine="zarr-manifest", chunks=None)


# zarr's configuration ----------------------------------------------------------------------------


def test_the_line_of_configuration(root: Path, values: Values, selections: list[int]) -> None:
    with zarr.config.set(CONFIGURED):
        array: Any = zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")
    assert is_bulk(array)
    usual = type(pipeline_of(array).usual)
    assert f"{usual.__module__}.{usual.__qualname__}" == default_pipeline()
    np.testing.assert_array_equal(array[...], values[EXTERNAL])
    assert selections == [4]


def default_pipeline() -> str:
    (path,) = [one["codec_pipeline"]["path"] for one in zarr.config.defaults[:1]]
    return str(path)


@pytest.mark.skipif(len(PIPELINES) < 2, reason="this release of zarr has one pipeline")
def test_defaults_of_others_count(root: Path, values: Values) -> None:
    before = copy.deepcopy(zarr.config.defaults), copy.deepcopy(zarr.config.config)
    fused = "zarr.core.codec_pipeline.FusedCodecPipeline"
    try:
        zarr.config.update_defaults({"codec_pipeline": {"path": fused}})
        with zarr.config.set(CONFIGURED):
            array: Any = zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")
        assert type(pipeline_of(array).usual).__name__ == "FusedCodecPipeline"
        with zm.enable():
            array = zarr.open_array(root, path=EXTERNAL, mode="r")
        assert type(pipeline_of(array).usual).__name__ == "FusedCodecPipeline"
    finally:
        zarr.config.defaults[:], zarr.config.config = before


@pytest.mark.slow
def test_the_environment_variable(root: Path, values: Values) -> None:
    script = (
        "import sys, zarr, zarr_manifest as zm\n"
        "array = zarr.open_array(zm.ManifestStore(sys.argv[1]), path=sys.argv[2], mode='r')\n"
        "print(type(array.async_array.codec_pipeline).__name__, int(array[...].sum()))\n"
    )
    environment = {**os.environ, "ZARR_CODEC_PIPELINE__PATH": "zarr_manifest.BulkCodecPipeline"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(root), EXTERNAL],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["BulkCodecPipeline", str(values[EXTERNAL].sum())]


@pytest.mark.parametrize("way", ["enable", "configured"])
def test_native_arrays(
    way: str, usual_pipeline: str, tmp_path: Path, selections: list[int]
) -> None:
    """Are created, written, resized, appended to and read as without us."""
    options: dict[str, Any] = {"store": tmp_path / "x", "data": FIELD, "chunks": (2, 3)}

    def steps(**more: Any) -> list[Any]:
        array: Any = zarr.create_array(**options, **more)
        array[1:4, 2:] = 9
        array.append(FIELD, axis=0)
        array.resize((11, 5))
        array.oindex[[0, 7], :] = 3
        opened: Any = zarr.open_array(tmp_path / "x", mode="r")
        info = [one for one in str(opened.info_complete()).splitlines() if "Store" not in one]
        return [opened[...], opened[3], info, opened.nchunks_initialized]

    kinds: list[dict[str, Any]] = [{}, {"shards": (4, 6)}, {"zarr_format": 2}]
    for kind in kinds:
        expected = steps(**kind, overwrite=True)
        if way == "enable":
            with zm.enable():
                actual = steps(**kind, overwrite=True)
        else:
            with zarr.config.set(CONFIGURED):
                actual = steps(**kind, overwrite=True)
        np.testing.assert_array_equal(actual[0], expected[0])
        np.testing.assert_array_equal(actual[1], expected[1])
        assert actual[2:] == expected[2:]
    assert selections == []


def test_sharded_arrays_within_the_configuration(root: Path, values: Values) -> None:
    """The pipelines of inner chunks are ours then, too."""
    with zarr.config.set(CONFIGURED):
        group: Any = zarr.open_group(zm.ManifestStore(root, read_only=True), mode="r")
        for path in ("sharded_manifest", "a/sharded"):
            np.testing.assert_array_equal(group[path][...], values[path])
            np.testing.assert_array_equal(group[path][1:3, ::3], values[path][1:3, ::3])


# The pipeline as an object -------------------------------------------------------------------


def test_it_equals_what_it_stands_for(root: Path, values: Values) -> None:
    """So that an array equals itself, however it was opened."""
    store = zm.ManifestStore(root, read_only=True)
    usual: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
    with zm.enable():
        wrapped: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
        inline: Any = zarr.open_array(store, path="sharded_manifest", mode="r")
    assert is_bulk(wrapped)
    assert pipeline_of(wrapped) == pipeline_of(wrapped)
    assert pipeline_of(wrapped) == pipeline_of(usual)
    assert pipeline_of(usual) == pipeline_of(wrapped)
    assert hash(pipeline_of(wrapped)) == hash(pipeline_of(usual))
    assert pipeline_of(wrapped) != pipeline_of(inline)
    assert pipeline_of(wrapped) != 1
    assert repr(pipeline_of(wrapped)).startswith("BulkCodecPipeline(")
    assert str(wrapped.info) == str(usual.info)


def test_it_has_the_members_of_the_usual_one(root: Path, values: Values) -> None:
    with zm.enable():
        pipeline = pipeline_of(zarr.open_array(root, path=EXTERNAL, mode="r"))
    assert list(pipeline) == list(pipeline.usual)
    assert pipeline.array_bytes_codec == pipeline.usual.array_bytes_codec
    assert pipeline.supports_partial_decode == pipeline.usual.supports_partial_decode
    assert pipeline.supports_partial_encode == pipeline.usual.supports_partial_encode
    assert not hasattr(pipeline, "nothing_of_this_kind")
    assert not hasattr(pipeline, "__nothing_of_this_kind__")
    assert type(copy.copy(pipeline)) is zm.BulkCodecPipeline
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


@pytest.mark.parametrize("way", ["enable", "configured"])
def test_pickled_arrays_still_read_in_bulk(
    way: str, root: Path, values: Values, selections: list[int]
) -> None:
    with zm.enable() if way == "enable" else zarr.config.set(CONFIGURED):
        array: Any = zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")
    for twin in (pickle.loads(pickle.dumps(array)), copy.copy(array), copy.deepcopy(array)):
        assert is_bulk(twin)
        np.testing.assert_array_equal(twin[...], values[EXTERNAL])
    assert selections == [4, 4, 4]


def _read_in_process(array: Any) -> tuple[bool, Any]:
    return is_bulk(array), array[...]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_another_process(start: str, root: Path, values: Values) -> None:
    with zm.enable():
        array: Any = zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")
    array[...]
    with multiprocessing.get_context(start).Pool(1) as pool:
        bulky, found = pool.apply(_read_in_process, (array,))
    assert bulky
    np.testing.assert_array_equal(found, values[EXTERNAL])


def test_several_threads(root: Path, values: Values, usual_pipeline: str) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: array[...], range(50)):
            np.testing.assert_array_equal(found, values[EXTERNAL])


def test_arrays_made_of_one_that_was_opened(root: Path, values: Values) -> None:
    """Those with another configuration have the values that it has."""
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    other = array.with_config({"order": "F"})
    found = other[...]
    assert found.flags.f_contiguous
    np.testing.assert_array_equal(found, values[EXTERNAL])


# Left to zarr --------------------------------------------------------------------------------


class Device(buffers.NDBuffer):
    """Memory that is not the processor's, to look at."""

    @classmethod
    def create(cls, **options: Any) -> Any:
        return cls(cpu.NDBuffer.create(**options)._data)

    @classmethod
    def empty(cls, shape: Any, dtype: Any, order: Any = "C") -> Any:
        return cls(np.empty(shape, dtype, order))

    @classmethod
    def from_numpy_array(cls, array_like: Any) -> Any:
        return cls(array_like)

    def as_numpy_array(self) -> Any:
        return np.array(self._data)

    def __getitem__(self, key: Any) -> Any:
        return type(self)(np.asanyarray(self._data[key]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[key] = value._data if isinstance(value, buffers.NDBuffer) else value


class Special(cpu.NDBuffer):
    """The processor's memory, of a kind that zarr does not know."""


@pytest.mark.parametrize("kind", [Device, Special])
def test_other_memory_is_left_to_zarr(
    kind: Any, root: Path, values: Values, selections: list[int]
) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    prototype = buffers.BufferPrototype(buffer=cpu.Buffer, nd_buffer=kind)
    found = array.get_basic_selection(..., prototype=prototype)
    np.testing.assert_array_equal(np.asarray(found), values[EXTERNAL])
    assert selections == []


def test_masked_memory_is_left_to_zarr(root: Path, values: Values, selections: list[int]) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    masked = np.ma.masked_all(array.shape, array.dtype)
    array.get_basic_selection(..., out=cpu.NDBuffer(masked))
    np.testing.assert_array_equal(masked.filled(-9), values[EXTERNAL])
    assert selections == []


def test_memory_that_is_read_only_is_refused_alike(root: Path, values: Values) -> None:
    store = zm.ManifestStore(root, read_only=True)
    usual: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
    with zm.enable():
        array: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
    out = np.zeros(array.shape, array.dtype)
    out.flags.writeable = False
    for one in (usual, array):
        with pytest.raises(ValueError, match="read-only"):
            one.get_basic_selection(..., out=cpu.NDBuffer(out))


def test_a_mapped_file_is_written_to(
    tmp_path: Path, root: Path, values: Values, selections: list[int]
) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    out: Any = np.memmap(tmp_path / "out", array.dtype, "w+", shape=array.shape)
    array.get_basic_selection(..., out=cpu.NDBuffer(out))
    out.flush()
    assert (tmp_path / "out").read_bytes() == values[EXTERNAL].tobytes()
    assert selections == [4]


def test_one_chunk_is_left_to_zarr(root: Path, values: Values, selections: list[int]) -> None:
    with zm.enable():
        array: Any = zarr.open_array(root, path=EXTERNAL, mode="r")
    np.testing.assert_array_equal(array[:3, :4], values[EXTERNAL][:3, :4])
    assert selections == []


def test_a_pipeline_of_another_kind_is_used_as_it_is(root: Path, values: Values) -> None:
    """Of which nothing is known but that it is one."""

    class Foreign(codec_pipeline.CodecPipeline):
        def __init__(self, inner: Any) -> None:
            self.inner = inner
            self.read_chunks = 0

        def evolve_from_array_spec(self, array_spec: Any) -> Any:
            return self

        from_codecs = classmethod(lambda cls, codecs: cls(None))
        supports_partial_decode = supports_partial_encode = False
        validate = compute_encoded_size = decode = encode = write = None

        async def read(self, batch: Any, out: Any, drop_axes: Any = ()) -> Any:
            batch = list(batch)
            self.read_chunks += len(batch)
            return await self.inner.read(batch, out, drop_axes)

    array: Any = zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")
    foreign = Foreign(pipeline_of(array))
    object.__setattr__(array.async_array, "codec_pipeline", zm.BulkCodecPipeline(foreign))
    np.testing.assert_array_equal(array[...], values[EXTERNAL])
    assert foreign.read_chunks == 4


def test_what_reads_in_bulk_is_imported_when_something_is_read() -> None:
    assert bulk.__all__ == ["read_selection"]


def test_other_stores_are_left_alone(tmp_path: Path) -> None:
    array: Any = zarr.create_array(LocalStore(tmp_path / "x"), data=FIELD)
    before = pipeline_of(array)
    read_in_bulk(array.async_array)
    assert pipeline_of(array) is before
