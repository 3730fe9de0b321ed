"""What of HDF5 files cannot be references: refused by name, and the rest converted."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numcodecs import Blosc

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from zarr_manifest.conversion import ArrayNode, RefusedNode, read_files
from zarr_manifest.errors import SourceError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]


def quad() -> Any:
    """The type of 128 bits of C's ``long double`` on some machines."""
    kind = h5py.h5t.IEEE_F64LE.copy()
    kind.set_size(16)
    kind.set_precision(128)
    kind.set_fields(127, 112, 15, 0, 112)
    return kind


QUAD = quad()


def of_type(file: h5py.File, name: str, kind: Any, count: int = 3) -> None:
    space = h5py.h5s.create_simple((count,))
    h5py.h5d.create(file.id, name.encode(), kind, space)


def filter_mask(file: h5py.File) -> None:
    dataset = file.create_dataset("x", (4,), "i4", chunks=(2,), compression="gzip")
    dataset[0:2] = [1, 2]
    raw = np.array([3, 4], "i4").tobytes()
    dataset.id.write_direct_chunk((2,), raw, filter_mask=1)


def external_storage(file: h5py.File) -> None:
    raw = Path(file.filename).parent / "raw.bin"
    file.create_dataset("x", (4,), "i4", external=[(str(raw), 0, 16)])[...] = 1


def virtual_dataset(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "i4")
    layout[...] = h5py.VirtualSource("other.h5", "y", (4,))
    file.create_virtual_dataset("x", layout)


def external_link(file: h5py.File) -> None:
    file["x"] = h5py.ExternalLink("other.h5", "/y")


def dangling_link(file: h5py.File) -> None:
    file["x"] = h5py.SoftLink("/nowhere")


def cycle(file: h5py.File) -> None:
    group = file.create_group("g")
    group["x"] = file["/"]


def scaleoffset(file: h5py.File) -> None:
    file.create_dataset("x", data=np.arange(200_000), scaleoffset=4, chunks=(1000,))


def szip(file: h5py.File) -> None:
    file.create_dataset("x", data=np.arange(200_000), compression="szip", chunks=(1000,))


def lzf(file: h5py.File) -> None:
    file.create_dataset("x", data=np.arange(200_000), compression="lzf", chunks=(1000,))


def lzo(file: h5py.File) -> None:
    # As PyTables writes it.
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    plist.set_filter(305, h5py.h5z.FLAG_OPTIONAL, (1,))
    h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((100,)), plist)


def twelve_bits(file: h5py.File) -> None:
    kind = h5py.h5t.STD_U16LE.copy()
    kind.set_precision(12)
    kind.set_offset(2)
    of_type(file, "x", kind)


def bit_field(file: h5py.File) -> None:
    of_type(file, "x", h5py.h5t.STD_B16LE)


def long_double(file: h5py.File) -> None:
    file["x"] = np.arange(3, dtype="longdouble")


def gaps(file: h5py.File) -> None:
    file["x"] = np.zeros(100_000, np.dtype([("a", "i1"), ("b", "f8")], align=True))


def mixed_byte_orders(file: h5py.File) -> None:
    file["x"] = np.zeros(3, np.dtype([("a", "<i4"), ("b", ">f8")]))


def array_elements(file: h5py.File) -> None:
    file.create_dataset("x", (2,), np.dtype(("f4", (3,))))


def array_field(file: h5py.File) -> None:
    file["x"] = np.zeros(2, np.dtype([("a", "i4", (3,))]))


def sequences(file: h5py.File) -> None:
    file.create_dataset("x", (2,), h5py.vlen_dtype("i4"))


def object_references(file: h5py.File) -> None:
    file.create_dataset("x", (2,), h5py.ref_dtype)


def complex_parts(file: h5py.File, *offsets: int) -> None:
    # h5py takes them for complex numbers by the names of their parts.
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, max(offsets) + 8)
    for name, offset in zip((b"r", b"i"), offsets, strict=True):
        kind.insert(name, offset, h5py.h5t.IEEE_F64LE)
    of_type(file, "x", kind)


def swapped_complex(file: h5py.File) -> None:
    complex_parts(file, 8, 0)


def complex_with_a_gap(file: h5py.File) -> None:
    complex_parts(file, 0, 16)


def shuffled_last(file: h5py.File) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((50,))
    plist.set_deflate(4)
    plist.set_shuffle()
    h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((100,)), plist)
    file["x"][...] = np.arange(100)


def null_dataspace(file: h5py.File) -> None:
    file["x"] = h5py.Empty("f4")


def many_strings(file: h5py.File) -> None:
    file.create_dataset("x", (1_000_000,), h5py.string_dtype())


def quad_precision(file: h5py.File) -> None:
    of_type(file, "x", QUAD)


def unix_time(file: h5py.File) -> None:
    of_type(file, "x", h5py.h5t.UNIX_D32LE)


def field_of_unix_time(file: h5py.File) -> None:
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
    kind.insert(b"a", 0, h5py.h5t.STD_I32LE)
    kind.insert(b"b", 4, h5py.h5t.UNIX_D32LE)
    of_type(file, "x", kind)


REFUSALS = {
    filter_mask: "some filters were skipped for 1 of 2 chunks",
    external_storage: "its bytes are in external files",
    virtual_dataset: "it is a virtual dataset: a view of datasets in ['other.h5']",
    external_link: "it is a link to '/y' in another file, 'other.h5'",
    dangling_link: "it is a link to '/nowhere', which does not exist",
    cycle: "it is a link to a group that contains it",
    scaleoffset: "no codec that Zarr finds decodes its filter 'scaleoffset'; with 1600000 bytes",
    szip: "no codec that Zarr finds decodes its filter 'szip'",
    lzf: "Raise inline_limit, or rewrite the file: h5repack -f GZIP=4 OLD.h5 NEW.h5.",
    lzo: "no codec is known for its filter 305",
    twelve_bits: "its integers use 12 of 16 bits",
    bit_field: "its values are bit fields",
    long_double: "are not IEEE 754 numbers",
    gaps: "have gaps between them; with 1600000 bytes it is too large",
    mixed_byte_orders: "mix byte orders",
    array_elements: "its elements are arrays",
    array_field: "field 'a': its elements are arrays",
    sequences: "its values are sequences of different lengths",
    object_references: "its values are references to other objects",
    swapped_complex: "the parts of its complex numbers have gaps between them, or another order",
    complex_with_a_gap: "its complex numbers have gaps",
    shuffled_last: "its filter 'shuffle' follows one that leaves partial elements",
    null_dataspace: "it has a null dataspace",
    many_strings: "too large to be stored inline",
    quad_precision: "h5py cannot express its data type: Insufficient precision",
    unix_time: "h5py cannot express its data type: No NumPy equivalent for TypeTimeID",
    field_of_unix_time: "h5py cannot express its data type: No NumPy equivalent for TypeTimeID",
}


@pytest.mark.slow
@pytest.mark.parametrize("make", REFUSALS, ids=lambda make: make.__name__)
def test_a_dataset_is_refused_with_the_reason_and_the_rest_is_converted(
    tmp_path: Path, make: Any
) -> None:
    if make is szip and not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        pytest.skip("this HDF5 has no szip")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        make(file)
        file["good"] = np.arange(3)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    path = "g/x" if make is cycle else "x"
    if make is filter_mask:
        with h5py.File(tmp_path / "f.h5") as file:
            assert file["x"][...].tolist() == [1, 2, 3, 4]
    assert found.refused.keys() == {path}
    assert REFUSALS[make] in found.refused[path]
    assert found.report.refused[0].code == "not_convertible"
    assert found.arrays.keys() == {"good"}
    assert same(found.arrays["good"][...], np.arange(3))


@pytest.mark.parametrize("filters", ["gzip", "shuffle", "fletcher32"])
@pytest.mark.parametrize("filtered", [True, False])
def test_filters_that_spare_the_chunks_over_the_edge(
    tmp_path: Path, filters: str, filtered: bool
) -> None:
    # An option of HDF5 that h5py does not offer; no filter mask tells of it.
    (library,) = (Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*")
    set_options = ctypes.CDLL(str(library)).H5Pset_chunk_opts
    set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4, 4))
    {
        "gzip": lambda: plist.set_deflate(4),
        "shuffle": plist.set_shuffle,
        "fletcher32": plist.set_fletcher32,
    }[filters]()
    assert set_options(plist.id, 0 if filtered else 2) >= 0
    values = np.arange(60, dtype="<i4").reshape(6, 10)
    with h5py.File(tmp_path / "f.h5", "w", libver="latest") as file:
        space = h5py.h5s.create_simple(values.shape)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    if filtered:
        assert same(found.arrays["x"][...], values)
    else:
        assert "not applied to chunks across its edge" in found.refused["x"]


@pytest.mark.parametrize("count", range(4, 8))
def test_options_of_blosc_that_a_file_omits(tmp_path: Path, count: int) -> None:
    # VirtualiZarr took the size of the chunk, which is one of six, for the level.
    pytest.importorskip("hdf5plugin")
    options = (2, 2, 4, 40, 7, 2, 5)[:count]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    # h5py would complete them: the filter gets its number afterwards.
    plist.set_filter(305, h5py.h5z.FLAG_OPTIONAL, options)
    values = np.arange(10, dtype="<i4")
    raw = Blosc("zstd", clevel=7, shuffle=2).encode(values)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        space = h5py.h5s.create_simple((10,))
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist)
        dataset.write_direct_chunk((0,), raw)
    body = (tmp_path / "f.h5").read_bytes()
    message = [struct.pack("<HHHH", number, 0, 1, count) for number in (305, 32001)]
    assert body.count(message[0]) == 1
    (tmp_path / "f.h5").write_bytes(body.replace(*message))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["x"][...], values)
    (compressor,) = found.arrays["x"].metadata.to_dict()["codecs"][1:]
    configuration = dict(compressor["configuration"])
    assert configuration["clevel"] == (7 if count > 4 else 5)
    assert configuration["shuffle"] == (2 if count > 5 else 1)
    assert configuration["cname"] == ("zstd" if count > 6 else "blosclz")


def test_attributes_of_types_that_h5py_cannot_express_are_left_out(tmp_path: Path) -> None:
    # Among them those of groups, which cost the whole group.
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["g/x"] = np.arange(3)
        for item in (file, file["g"], file["g/x"]):
            h5py.h5a.create(item.id, b"time", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((1,)))
            h5py.h5a.create(item.id, b"quad", QUAD, h5py.h5s.create_simple((1,)))
            item.attrs["title"] = "kept"
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    for path in ("", "g", "g/x"):
        item = found.group[path] if path else found.group
        assert dict(item.attrs) == {"title": "kept"}
        notes = [note for at, note in found.report.notes if at == path]
        assert len(notes) == 2
        assert any("the attribute 'time' was left out: No NumPy" in n for n in notes)
        assert any("the attribute 'quad' was left out: Insuff" in n for n in notes)


def test_the_limit_of_what_is_held_inline_can_be_raised(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = ["abc"] * 100
    (refused,) = [
        node
        for node in read_files(tmp_path / "f.h5", inline_limit=100)
        if isinstance(node, RefusedNode)
    ]
    assert "Raise inline_limit" in refused.reason
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr", inline_limit=10_000)
    assert found.arrays["x"][...].tolist() == ["abc"] * 100


@pytest.mark.parametrize("options", [{"compression": "lzf"}, {"scaleoffset": 4}])
def test_small_datasets_that_only_hdf5_decodes_are_held_inline(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("x", data=np.arange(10), chunks=(4,), shuffle=True, **options)
        file.create_dataset("never_written", (10,), "i4", chunks=(4,), fillvalue=7, **options)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    with h5py.File(tmp_path / "f.h5") as file:
        for name in file:
            assert found.arrays[name][...].tolist() == file[name][...].tolist()


def test_a_mask_without_filters_has_no_effect(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        dataset = file.create_dataset("x", (2,), "i4", chunks=(2,))
        dataset.id.write_direct_chunk((0,), np.array([3, 4], "i4").tobytes(), filter_mask=1)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.arrays["x"][...].tolist() == [3, 4]


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.arange(1000)
    body = (tmp_path / "f.h5").read_bytes()
    (tmp_path / "f.h5").write_bytes(body[:-1000])
    with pytest.raises(SourceError, match=r"truncated.*f\.h5"):
        list(read_files(tmp_path / "f.h5"))


def test_a_file_that_was_cut_short_is_refused_where_it_ends(tmp_path: Path) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    whole = tmp_path / "f.nc"
    with netCDF4.Dataset(whole, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 1000)
        file.createVariable("first", "f8", ("x",))[:] = 1
        file.createVariable("last", "f8", ("x",))[:] = 2
    whole.write_bytes(whole.read_bytes()[:-100])
    nodes = list(read_files(whole))
    assert [node.path for node in nodes if isinstance(node, ArrayNode)] == ["first"]
    (refused,) = [node for node in nodes if isinstance(node, RefusedNode)]
    assert refused.path == "last"
    assert "ends at" in refused.reason
