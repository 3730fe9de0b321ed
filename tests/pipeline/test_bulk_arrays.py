"""What reads in bulk: arrays that zarr opens from a ManifestStore, however it does so."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.buffer import cpu
from zarr.core import buffer as buffers
from zarr.core import codec_pipeline
from zarr.registry import get_pipeline_class
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.conftest import PIPELINES
from tests.forked import Forked
from tests.hierarchies import FIELD, Values
from tests.opened_files import opened_files
from tests.processes import CONTEXT
from zarr_manifest.pipeline import BulkCodecPipeline

pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)
EXTERNAL = "a/b/external"


@pytest.fixture
def opens() -> Iterator[Callable[[], int]]:
    """Return how often the source has been opened: once for a selection that is read in bulk.

    For one of four chunks that zarr asks for one by one, four times.
    """
    with opened_files() as names:
        yield lambda: names.count("external.bin")


def pipeline_of(array: Any) -> Any:
    return array.async_array.codec_pipeline


def is_bulk(array: Any) -> bool:
    return type(pipeline_of(array)) is BulkCodecPipeline


# However it is opened ------------------------------------------------------------------------


def _by_open_array(root: Path) -> Any:
    return zarr.open_array(zm.ManifestStore(root), path=EXTERNAL, mode="r")


def _by_open(root: Path) -> Any:
    return zarr.open(zm.ManifestStore(root), mode="r")[EXTERNAL]


def _by_members(root: Path) -> Any:
    return dict(zarr.open_group(zm.ManifestStore(root), path="a/b", mode="r").arrays())["external"]


def _by_path(root: Path) -> Any:
    with zm.enable():
        return zarr.open_array(root, path=EXTERNAL, mode="r")


def _by_path_twice(root: Path) -> Any:
    with zm.enable(), zm.enable():
        return zarr.open_array(root, path=EXTERNAL, mode="r")


def _by_pickled_store(root: Path) -> Any:
    store = pickle.loads(pickle.dumps(zm.ManifestStore(root)))
    return zarr.open_array(store, path=EXTERNAL, mode="r")


def _by_pickled_array(root: Path) -> Any:
    return pickle.loads(pickle.dumps(_by_open_array(root)))


@pytest.mark.parametrize(
    "opened",
    [
        _by_open_array,
        _by_open,
        _by_members,
        _by_path,
        _by_path_twice,
        _by_pickled_store,
        _by_pickled_array,
    ],
)
def test_a_store_is_enough(
    opened: Any, root: Path, values: Values, opens: Callable[[], int], usual_pipeline: str
) -> None:
    array = opened(root)
    assert is_bulk(array)
    assert type(pipeline_of(array).usual).__name__ == usual_pipeline
    np.testing.assert_array_equal(array[...], values[EXTERNAL])
    np.testing.assert_array_equal(array.oindex[[0, 5], 2:7], values[EXTERNAL][[0, 5], 2:7])
    assert opens() == 2


@pytest.mark.slow
def test_xarray(root: Path, values: Values, opens: Callable[[], int]) -> None:
    options: dict[str, Any] = {"consolidated": False, "mask_and_scale": False, "chunks": None}
    with xr.open_zarr(zm.ManifestStore(root), group="a/b", **options) as dataset:
        np.testing.assert_array_equal(dataset["external"].values, values[EXTERNAL])
    assert opens() == 1
    options["engine"] = "zarr-manifest"
    with xr.open_dataset(root, group="a/b", **options) as dataset:
        np.testing.assert_array_equal(dataset["external"].values, values[EXTERNAL])
    assert opens() == 2
    tree = xr.open_datatree(root, **options)
    np.testing.assert_array_equal(tree["a/b/external"].values, values[EXTERNAL])
    tree.close()
    groups = xr.open_groups(root, **options)
    np.testing.assert_array_equal(groups["/a/b"]["external"].values, values[EXTERNAL])
    for one in groups.values():
        one.close()
    assert opens() == 4


@pytest.mark.parametrize("enabled", [False, True])
def test_other_stores_are_left_alone(enabled: bool, tmp_path: Path, root: Path) -> None:
    """They have the pipeline that zarr's configuration names, and nothing around it."""
    zm.ManifestStore(MemoryStore())
    with zm.enable() if enabled else zarr.config.set({}):
        for store in (LocalStore(tmp_path / "x"), MemoryStore()):
            array: Any = zarr.create_array(store, data=FIELD)
            assert type(pipeline_of(array)) is get_pipeline_class()
            assert type(pipeline_of(zarr.open_array(store))) is get_pipeline_class()


@pytest.mark.skipif(len(PIPELINES) < 2, reason="this release of zarr has one pipeline")
def test_the_configured_pipeline_is_found_when_an_array_is_opened(
    root: Path, values: Values
) -> None:
    store = zm.ManifestStore(root)
    names: list[str] = []
    for name in (*PIPELINES, *PIPELINES):
        with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{name}"}):
            array: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
        names.append(type(pipeline_of(array).usual).__name__)
        np.testing.assert_array_equal(array[...], values[EXTERNAL])
    assert names == [*PIPELINES, *PIPELINES]


# What zarr takes from the environment when it is imported.
_FROM_ENVIRONMENT: dict[str, Any] = zarr.config.collect(
    paths=[], env={"ZARR_ZARR_MANIFEST__BULK": "False"}
)


@pytest.mark.parametrize("asked", [{"zarr_manifest.bulk": False}, _FROM_ENVIRONMENT], ids=str)
def test_zarr_reads_chunk_by_chunk_if_asked_to(
    root: Path, values: Values, opens: Callable[[], int], asked: dict[str, Any]
) -> None:
    with zarr.config.set(asked):
        for opened in (_by_open_array, _by_path, _by_members):
            array = opened(root)
            assert type(pipeline_of(array)) is get_pipeline_class()
            np.testing.assert_array_equal(array[...], values[EXTERNAL])
    assert opens() == 3 * 4
    assert is_bulk(_by_open_array(root))


@pytest.mark.slow
def test_zarr_reads_chunk_by_chunk_where_it_makes_arrays_differently(
    root: Path, values: Values, forked: Forked
) -> None:
    script = (
        "import sys, zarr\n"
        "make = zarr.AsyncArray.__init__\n"
        "zarr.AsyncArray.__init__ = lambda *of, **options: make(*of, **options)\n"
        "import zarr_manifest as zm\n"
        "array = zarr.open_array(zm.ManifestStore(sys.argv[1]), path=sys.argv[2], mode='r')\n"
        "print(type(array.async_array.codec_pipeline).__name__, int(array[...].sum()))\n"
    )
    done = forked.run(script, root, EXTERNAL)
    assert done.stdout.split() == [get_pipeline_class().__name__, str(values[EXTERNAL].sum())]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["enable", "store"])
def test_native_arrays(way: str, usual_pipeline: str, tmp_path: Path) -> None:
    """Are created, written, resized, appended to and read as without us."""

    def steps(store: Any, **options: Any) -> list[Any]:
        array: Any = zarr.create_array(store, data=FIELD, chunks=(2, 3), overwrite=True, **options)
        array[1:4, 2:] = 9
        array.append(FIELD, axis=0)
        array.resize((11, 5))
        array.oindex[[0, 7], :] = 3
        opened: Any = zarr.open_array(store, mode="r")
        info = [one for one in str(opened.info_complete()).splitlines() if "Store" not in one]
        return [opened[...], opened[3], info, opened.nchunks_initialized]

    kinds: list[dict[str, Any]] = [{}, {"shards": (4, 6)}, {"zarr_format": 2}]
    for kind in kinds:
        expected = steps(LocalStore(tmp_path / "x"), **kind)
        with zm.enable() if way == "enable" else zarr.config.set({}):
            store = tmp_path / "x" if way == "enable" else zm.ManifestStore(tmp_path / "x")
            actual = steps(store, **kind)
        np.testing.assert_array_equal(actual[0], expected[0])
        np.testing.assert_array_equal(actual[1], expected[1])
        assert actual[2:] == expected[2:]


# The pipeline as an object -------------------------------------------------------------------


def test_it_equals_what_it_stands_for(root: Path, values: Values) -> None:
    """So that an array equals itself, however it was opened."""
    store = zm.ManifestStore(root, read_only=True)
    with zarr.config.set({"zarr_manifest.bulk": False}):
        usual: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
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
    pipeline = pipeline_of(_by_open_array(root))
    assert list(pipeline) == list(pipeline.usual)
    assert pipeline.array_bytes_codec == pipeline.usual.array_bytes_codec
    assert pipeline.supports_partial_decode == pipeline.usual.supports_partial_decode
    assert pipeline.supports_partial_encode == pipeline.usual.supports_partial_encode
    assert not hasattr(pipeline, "nothing_of_this_kind")
    assert not hasattr(pipeline, "__nothing_of_this_kind__")
    assert type(copy.copy(pipeline)) is BulkCodecPipeline
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


def test_copied_arrays_still_read_in_bulk(
    root: Path, values: Values, opens: Callable[[], int]
) -> None:
    array = _by_open_array(root)
    for twin in (pickle.loads(pickle.dumps(array)), copy.copy(array), copy.deepcopy(array)):
        assert is_bulk(twin)
        np.testing.assert_array_equal(twin[...], values[EXTERNAL])
    assert opens() == 3


def _read_in_process(array: Any) -> tuple[bool, Any]:
    return is_bulk(array), array[...]


@pytest.mark.slow
def test_another_process(root: Path, values: Values) -> None:
    array = _by_open_array(root)
    array[...]
    with ProcessPoolExecutor(1, CONTEXT) as pool:
        bulky, found = pool.submit(_read_in_process, array).result()
    assert bulky
    np.testing.assert_array_equal(found, values[EXTERNAL])


@pytest.mark.slow
def test_several_threads(root: Path, values: Values, usual_pipeline: str) -> None:
    array = _by_open_array(root)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: array[...], range(50)):
            np.testing.assert_array_equal(found, values[EXTERNAL])


def test_arrays_made_of_one_that_was_opened(root: Path, values: Values) -> None:
    """Those with another configuration have the values that it has."""
    array = _by_open_array(root)
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
def test_zarr_decodes_to_other_memory(
    kind: Any, root: Path, values: Values, opens: Callable[[], int]
) -> None:
    array = _by_open_array(root)
    prototype = buffers.BufferPrototype(buffer=cpu.Buffer, nd_buffer=kind)
    found = array.get_basic_selection(..., prototype=prototype)
    np.testing.assert_array_equal(np.asarray(found), values[EXTERNAL])
    assert opens() == 1


def test_zarr_decodes_to_masked_memory(
    root: Path, values: Values, opens: Callable[[], int]
) -> None:
    array = _by_open_array(root)
    masked = np.ma.masked_all(array.shape, array.dtype)
    array.get_basic_selection(..., out=cpu.NDBuffer(masked))
    np.testing.assert_array_equal(masked.filled(-9), values[EXTERNAL])
    assert opens() == 1


def test_memory_that_is_read_only_is_refused_alike(root: Path, values: Values) -> None:
    store = zm.ManifestStore(root, read_only=True)
    with zarr.config.set({"zarr_manifest.bulk": False}):
        usual: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
    array: Any = zarr.open_array(store, path=EXTERNAL, mode="r")
    out = np.zeros(array.shape, array.dtype)
    out.flags.writeable = False
    for one in (usual, array):
        with pytest.raises(ValueError, match="read-only"):
            one.get_basic_selection(..., out=cpu.NDBuffer(out))


def test_a_mapped_file_is_written_to(
    tmp_path: Path, root: Path, values: Values, opens: Callable[[], int]
) -> None:
    array = _by_open_array(root)
    out: Any = np.memmap(tmp_path / "out", array.dtype, "w+", shape=array.shape)
    array.get_basic_selection(..., out=cpu.NDBuffer(out))
    out.flush()
    assert (tmp_path / "out").read_bytes() == values[EXTERNAL].tobytes()
    assert opens() == 1


def test_one_chunk(root: Path, values: Values, usual_pipeline: str) -> None:
    """With each of zarr's pipelines: none reads it itself."""
    array = _by_open_array(root)
    np.testing.assert_array_equal(array[:3, :4], values[EXTERNAL][:3, :4])


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

    array = _by_open_array(root)
    foreign = Foreign(pipeline_of(array).usual)
    object.__setattr__(array.async_array, "codec_pipeline", BulkCodecPipeline(foreign))
    np.testing.assert_array_equal(array[...], values[EXTERNAL])
    assert foreign.read_chunks == 4


@pytest.mark.parametrize("selection", [(), ...])
def test_nul_at_the_end_of_a_text(root: Path, selection: Any) -> None:
    """NumPy drops it from an array that is made of a text alone."""
    entries = {"0": {"data": b"\1\0\0\0\2\0\0\0b\0"}}
    zm.create_array(root, "a", entries, shape=(), chunks=(), dtype="string")
    array: Any = zarr.open_array(zm.ManifestStore(root), path="a", mode="r")
    assert str(array[selection]) == "b\0"
