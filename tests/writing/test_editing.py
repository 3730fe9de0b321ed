"""An edit is one change: values as numpy would have them, for everybody, or nothing."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, GzipCodec
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import consolidate, files_below, read
from tests.properties import examples
from tests.writing.edited_fields import BASES, FORMS, with_field
from zarr_manifest.conversion import accept

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata is currently not part",
    "ignore:Object at (src|field) is not recognized",
)


@st.composite
def writes(draw: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], int]:
    bounds = [sorted(draw(st.tuples(*[st.integers(0, n)] * 2))) for n in shape]
    return tuple(slice(*each) for each in bounds), draw(st.sampled_from([-1, 0, 7]))


@pytest.mark.slow
@given(
    data=st.data(),
    form=st.sampled_from(sorted(FORMS)),
    base=st.sampled_from(BASES),
    consolidated=st.booleans(),
)
@examples(0.3)
def test_values_are_those_of_numpy_and_earlier_readers_see_the_old_ones(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    form: str,
    base: str,
    consolidated: bool,
) -> None:
    root = tmp_path_factory.mktemp("edit")
    chunks = data.draw(st.sampled_from([(2, 3), (1, 200), (4, 1)]))
    values = np.arange(5 * (2 * chunks[1] - 1), dtype="<i4").reshape(5, -1)
    allow = with_field(
        root, values, chunks=chunks, base=base, consolidated=consolidated, **FORMS[form]
    )
    before = zarr.open_group(zm.ManifestStore(root / "h", allow=[allow]), mode="r")["field"]
    assert isinstance(before, zarr.Array)
    expected = values.copy()
    for _ in range(data.draw(st.integers(1, 2))):
        with zm.edit(root / "h", allow=[allow]) as group:
            for part, value in data.draw(st.lists(writes(values.shape), max_size=4)):
                group["field"][part] = value
                expected[part] = value
                np.testing.assert_array_equal(group["field"][:], expected)
    np.testing.assert_array_equal(before[:], values)
    for use in {consolidated, False}:
        group = zarr.open_group(
            zm.ManifestStore(root / "h", allow=[allow]), mode="r", use_consolidated=use
        )
        np.testing.assert_array_equal(read(group.store, "field"), expected)
    assert zm.validate(root / "h", allow=[allow]) == []


@pytest.fixture
def field() -> np.ndarray[Any, Any]:
    return np.arange(2000, dtype="<i4").reshape(4, 500)


@pytest.fixture
def place(tmp_path: Path, field: np.ndarray[Any, Any]) -> tuple[Path, str]:
    allow = with_field(tmp_path, field, chunks=(1, 500), inline=False)
    zarr.create_array(tmp_path / "h/t", data=np.arange(4), chunks=(2,), dimension_names=["t"])
    consolidate(tmp_path / "h")
    return tmp_path / "h", allow


def test_documents_with_plain_names_and_checksums(tmp_path: Path) -> None:
    """As accept() declares them: those that an edit does not touch are there afterwards, too."""
    entries = {str(i): {"data": bytes([i]) * 600} for i in range(4)}
    zm.create_array(
        tmp_path, "a", entries, shape=2400, chunks=600, dtype="u1",
        manifest_url="m/{partition}.json", partition_shape=(2,),
    )  # fmt: skip
    accept(tmp_path, ["a"])
    with zm.edit(tmp_path) as group:
        group["a"][:600] = 9
    assert read(zm.ManifestStore(tmp_path), "a")[::600].tolist() == [9, 1, 2, 3]


def test_an_exception_changes_nothing(place: tuple[Path, str]) -> None:
    root, allow = place
    before = files_below(root)
    with pytest.raises(ZeroDivisionError), zm.edit(root, allow=[allow]) as group:  # noqa: PT012
        group["field"][:] = 3
        group.attrs["title"] = "new"
        group.create_array("other", data=np.arange(3))
        group["t"].append(np.arange(2))
        del group["field"]
        raise ZeroDivisionError
    after = files_below(root)
    written = after.keys() - before.keys()
    assert {key: after[key] for key in before} == before
    # Nothing refers to these, which are removed by and by.
    assert all(key.startswith("field/chunks/sha256/") for key in written)


@pytest.mark.slow
def test_xarray_appends_and_writes_regions(place: tuple[Path, str]) -> None:
    root, allow = place
    before = files_below(root)
    new = xr.Dataset(
        {"field": (("t", "x"), np.full((1, 500), 6, "i4")), "t": ("t", [9])}, attrs={"title": "new"}
    )
    for expected in ([0, 1, 2, 3, 9], [0, 1, 2, 3, 9, 9]):
        # The last chunk of t is full at first, and then half full.
        with zm.edit(root, allow=[allow]) as group:
            new.to_zarr(group.store, append_dim="t", consolidated=False)
        np.testing.assert_array_equal(read(zm.ManifestStore(root), "t"), expected)
    with zm.edit(root, allow=[allow]) as group:
        new.drop_attrs().to_zarr(group.store, region={"t": slice(1, 2), "x": slice(0, 500)})
    after = files_below(root)
    assert {key: after[key] for key in before if "/c/" in key} == {
        key: body for key, body in before.items() if "/c/" in key
    }
    for use in (True, False):
        found = xr.open_zarr(zm.ManifestStore(root, allow=[allow]), consolidated=use)
        assert found["t"].values.tolist() == [0, 1, 2, 3, 9, 9]
        assert found["field"][:, 0].values.tolist() == [0, 6, 1000, 1500, 6, 6]
        assert found.attrs == {"title": "new"}
    assert zm.validate(root, allow=[allow]) == []


@pytest.mark.slow
def test_dask_writes_from_threads(place: tuple[Path, str]) -> None:
    root, allow = place
    values = np.arange(2000, dtype="i4").reshape(4, 500) * 3
    new = xr.Dataset({"field": (("t", "x"), values), "more": (("t", "x"), values)}).chunk(t=1)
    with zm.edit(root, allow=[allow]) as group:
        new.to_zarr(group.store, mode="a", consolidated=False)
    found = xr.open_zarr(zm.ManifestStore(root, allow=[allow]), consolidated=False)
    for name in ("field", "more"):
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.slow
def test_all_arrays_at_once(place: tuple[Path, str], field: np.ndarray[Any, Any]) -> None:
    root, allow = place
    opened = xr.open_zarr(zm.ManifestStore(root, allow=[allow]))
    with zm.edit(root, allow=[allow]) as group:
        group["field"].resize((6, 500))
        group["field"][4:] = 5
        group["t"].append(np.array([4, 5]))
        group.create_array("new", data=np.arange(3), dimension_names=["n"])
        group.attrs["title"] = "six days"
        # Readers see nothing of it so far.
        assert zarr.open_group(zm.ManifestStore(root), mode="r").attrs.asdict() == {}
        assert xr.open_zarr(zm.ManifestStore(root, allow=[allow])).sizes == {"t": 4, "x": 500}
    np.testing.assert_array_equal(opened["field"], field)
    for consolidated in (True, False):
        found = xr.open_zarr(zm.ManifestStore(root, allow=[allow]), consolidated=consolidated)
        assert found.sizes == {"t": 6, "x": 500, "n": 3}
        assert found.attrs == {"title": "six days"}
        np.testing.assert_array_equal(found["field"][4:], 5)
        np.testing.assert_array_equal(found["t"], range(6))
    assert "pending" not in (root / "zarr.json").read_text()


def test_equal_chunks_are_stored_once_and_small_ones_in_the_manifest(
    place: tuple[Path, str],
) -> None:
    root, allow = place
    with zm.edit(root, allow=[allow]) as group:
        group["field"][1:3] = 5
    assert len([*root.glob("field/chunks/sha256/*/*")]) == 1
    (root.parent / "small").mkdir()
    small = with_field(root.parent / "small", np.arange(8, dtype="i4").reshape(2, 4))
    with zm.edit(root.parent / "small/h", allow=[small]) as group:
        group["field"][:] = 5
    assert not [*root.parent.glob("small/h/field/chunks")]


def test_chunks_can_be_shared_by_hierarchies(place: tuple[Path, str]) -> None:
    root, allow = place
    shared = root.parent / "shared"
    shared.mkdir()
    with zm.edit(root, allow=[allow], chunks_in=shared) as group:
        group["field"][1] = 5
        assert (group["field"][1] == 5).all()
    assert len([*shared.glob("sha256/*/*")]) == 1
    assert not (root / "field/chunks").exists()
    with pytest.raises(zm.errors.LocationNotAllowedError):
        read(zm.ManifestStore(root, allow=[allow]), "field")
    store = zm.ManifestStore(root, allow=[allow, f"{shared.as_uri()}/"])
    assert (read(store, "field")[1] == 5).all()


@pytest.mark.slow
def test_sharded_arrays_and_codecs(tmp_path: Path) -> None:
    data = np.arange(64, dtype="i4").reshape(8, 8)
    source = zarr.create_array(
        tmp_path / "src", data=data, chunks=(2, 2), shards=(4, 8), compressors=[GzipCodec()]
    )
    entries = {f"{i}.0": {"path": f"../../src/c/{i}/0"} for i in range(2)}
    zm.create_array(
        tmp_path / "h", "a", entries, shape=(8, 8), chunks=(2, 2), shards=(4, 8), dtype="i4",
        compressors=[GzipCodec()], serializer=BytesCodec(),
    )  # fmt: skip
    del source
    allow = [f"{(tmp_path / 'src').as_uri()}/"]
    with zm.edit(tmp_path / "h", allow=allow) as group:
        group["a"][3:5, 1] = -5
    data[3:5, 1] = -5
    np.testing.assert_array_equal(read(zm.ManifestStore(tmp_path / "h", allow=allow), "a"), data)


@pytest.mark.slow
def test_native_arrays_get_a_manifest_of_their_own_chunks(place: tuple[Path, str]) -> None:
    """Those that readers see stay: who opened the array before goes on reading them."""
    root, allow = place
    for write, expected in (
        (lambda group: group["t"].set_basic_selection(slice(0, 1), 7), [7, 1, 2, 3]),
        (lambda group: group["t"].resize((3,)), [7, 1, 2]),
        (lambda group: group["t"].append(np.array([8, 9])), [7, 1, 2, 8, 9]),
        (lambda group: group.create_array("t", data=np.arange(3), overwrite=True), [0, 1, 2]),
    ):
        before = files_below(root)
        opened: Any = zarr.open_group(zm.ManifestStore(root), mode="r")["t"]
        old = opened[:].tolist()
        edit: Any = write
        with zm.edit(root, allow=[allow]) as group:
            edit(group)
            assert group["t"][:].tolist() == expected
        after = files_below(root)
        kept = {key for key in before if not key.endswith("zarr.json")}
        assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
        assert opened[:].tolist() == old
        assert read(zm.ManifestStore(root), "t").tolist() == expected
        assert zm.validate(root, allow=[allow]) == []


def test_attributes_of_a_native_array_leave_it_native(place: tuple[Path, str]) -> None:
    root, allow = place
    with zm.edit(root, allow=[allow]) as group:
        group["t"].attrs["units"] = "days"
    array: Any = zarr.open_array(root / "t", mode="r")
    assert (array[:].tolist(), dict(array.attrs)) == ([0, 1, 2, 3], {"units": "days"})


def test_chunks_that_others_left_are_not_taken_over(place: tuple[Path, str]) -> None:
    """Those of a new array, and those beyond the present shape of a native one."""
    root, allow = place
    (root / "lost/c").mkdir(parents=True)
    (root / "lost/c/0").write_bytes(b"1234")
    (root / "t/c/2").write_bytes((root / "t/c/1").read_bytes())
    with zm.edit(root, allow=[allow]) as group:
        group.create_array("lost", shape=1, dtype="i4", chunks=1, compressors=None)
        group["t"].resize((6,))
        assert group["lost"][:].tolist() == [0]
    assert read(zm.ManifestStore(root), "lost").tolist() == [0]
    assert read(zm.ManifestStore(root), "t").tolist() == [0, 1, 2, 3, 0, 0]


def test_other_writers_of_this_package_are_refused_in_an_edit(place: tuple[Path, str]) -> None:
    """They would write at once, and without what is in the edit."""
    root, allow = place
    before = files_below(root)
    with zm.edit(root, allow=[allow]) as group:
        options: dict[str, Any] = {"shape": 1, "chunks": 1, "dtype": "u1"}
        with pytest.raises(TypeError, match="is being edited"):
            zm.create_array(group.store, "new", {}, **options)
        with pytest.raises(TypeError, match="is being edited"):
            zm.validate(group.store)
    assert files_below(root) == before


@pytest.mark.slow
def test_arrays_can_be_removed_and_replaced(place: tuple[Path, str]) -> None:
    root, allow = place
    with zm.edit(root, allow=[allow]) as group:
        del group["t"]
        group.create_array("field", data=np.arange(3), overwrite=True)
        assert sorted(group) == ["field"]
    for use in (True, False):
        group = zarr.open_group(zm.ManifestStore(root), mode="r", use_consolidated=use)
        assert sorted(group) == ["field"]
        np.testing.assert_array_equal(read(group.store, "field"), range(3))


def test_a_removed_array_has_no_keys(tmp_path: Path) -> None:
    zarr.create_group(tmp_path).create_array("native", data=np.arange(3))

    async def keys(store: zm.ManifestStore) -> set[str]:
        return {key async for key in store.list_prefix("")}

    with zm.edit(tmp_path) as group:
        assert sync(keys(group.store)) == {"zarr.json", "native/zarr.json", "native/c/0"}
        group.create_group("new")
        del group["native"]
        assert sync(keys(group.store)) == {"zarr.json", "new/zarr.json"}


def test_an_edit_that_has_ended(place: tuple[Path, str]) -> None:
    root, allow = place
    with zm.edit(root, allow=[allow]) as group:
        field = group["field"]
    with pytest.raises(zm.errors.ReadOnlyError, match="has ended"):
        field[0] = 1
    with pytest.raises(TypeError, match="another process"):
        pickle.dumps(group.store)


def test_there_must_be_a_hierarchy(tmp_path: Path) -> None:
    with pytest.raises(zm.errors.SourceNotFoundError), zm.edit(tmp_path):
        pass


# Several editors ------------------------------------------------------------------------


@pytest.mark.slow
def test_another_chunk_of_the_same_array(place: tuple[Path, str]) -> None:
    root, allow = place
    with zm.edit(root, allow=[allow]) as first:
        first["field"][0] = 1
        with zm.edit(root, allow=[allow]) as second:
            second["field"][1] = 2
            second["field"].attrs["units"] = "K"
            second.create_array("other", data=np.arange(2))
    values = read(zm.ManifestStore(root, allow=[allow]), "field")
    assert values[:3, 0].tolist() == [1, 2, 1000]
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    assert group["field"].attrs["units"] == "K"
    assert "other" in group


@pytest.mark.parametrize(
    "change",
    [
        lambda group: group["field"].set_basic_selection(slice(0, 1), 2),
        lambda group: zm.entries(group["field"]).__setitem__((0, 0), {}),
        lambda group: group.__delitem__("field"),
        lambda group: group["field"].attrs.update(units="m"),
    ],
)
def test_the_same_chunk_or_attributes(place: tuple[Path, str], change: Any) -> None:
    root, allow = place
    with (  # noqa: PT012
        pytest.raises(zm.errors.WriteConflictError, match="another writer") as caught,
        zm.edit(root, allow=[allow]) as first,
    ):
        first["field"][0] = 1
        first["field"].attrs["units"] = "K"
        with zm.edit(root, allow=[allow]) as second:
            change(second)
        before = files_below(root)
    assert caught.value.array == "field"
    assert {key: files_below(root)[key] for key in before} == before


@pytest.mark.slow
def test_many_editors_at_once(place: tuple[Path, str]) -> None:
    root, allow = place
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                with zm.edit(root, allow=[allow]) as group:
                    group["field"][number] = 10 * number + turn
                    group.attrs  # noqa: B018  # read only
        except BaseException as error:  # of a thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    values = read(zm.ManifestStore(root, allow=[allow]), "field")
    assert values[:, 0].tolist() == [2, 12, 22, 32]


def test_in_memory_and_without_consolidated_metadata() -> None:
    store = MemoryStore()
    zm.create_array(store, "a", {"0": {"data": b"1234"}}, shape=8, chunks=4, dtype="u1")
    with zm.edit(store) as group:
        group["a"][4:] = 7
        group["a"].attrs["n"] = 1
    assert read(zm.ManifestStore(store), "a").tolist() == [49, 50, 51, 52, 7, 7, 7, 7]
    document = store._store_dict["zarr.json"].to_bytes()
    assert "consolidated_metadata" not in json.loads(document)
