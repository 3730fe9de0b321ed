"""Make the test data here: sources, and what older releases of VirtualiZarr made of them.

    python make.py            # with the project's environment; needs a package registry

writes the sources (``types.h5``, ``classic.nc``, ``field.fits``, ``chunks.bin`` with
``references.json``, ``joined.1.h5`` and ``joined.2.h5``), makes an environment for every
release below in a temporary directory, and runs ``python make.py store RELEASE`` in it. That
opens every source with the release's own readers, joins the last two with xarray, and writes
it with its own ``to_zarr``. A store becomes one file, ``RELEASE/SOURCE.json``: the text of
every document by its key, byte for byte, except that the directory in which the release ran
is written as ``/writer``. What a release cannot open or write is left out, and printed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ("types.h5", "classic.nc", "field.fits", "references.json", "joined.h5")
JOINED = ("joined.1.h5", "joined.2.h5")

# What pip would have installed in the month of each release, as far as it runs on Python 3.12.
COMMON = ["h5py==3.12.1", "netCDF4==1.7.2", "scipy==1.14.1", "astropy==6.1.7", "numpy==2.1.3"]
RELEASES = {
    "1.0.0": [
        *("zarr==2.18.3", "numcodecs==0.13.1", "kerchunk==0.2.6", "xarray==2024.7.0"),
        *("universal_pathlib==0.2.5", "fsspec==2024.9.0", "h5netcdf==1.4.0"),
    ],
    "1.1.0": [
        *("zarr==3.0.8", "numcodecs==0.15.0", "kerchunk==0.2.8", "xarray==2024.11.0"),
        *("universal_pathlib==0.2.5", "fsspec==2024.12.0"),
    ],
    "1.2.0": [
        *("zarr==3.0.8", "numcodecs==0.15.0", "kerchunk==0.2.8", "xarray==2024.11.0"),
        *("universal_pathlib==0.2.5", "fsspec==2024.12.0"),
    ],
    "1.3.0": [
        *("zarr==3.0.8", "numcodecs==0.15.1", "kerchunk==0.2.8", "xarray==2025.1.2"),
        *("universal_pathlib==0.2.6", "fsspec==2024.12.0"),
    ],
}

# ---------------------------------------------------------------- sources


def write_sources() -> None:
    write_hdf5(HERE / "types.h5")
    write_classic(HERE / "classic.nc")
    write_fits(HERE / "field.fits")
    write_references(HERE / "chunks.bin", HERE / "references.json")
    for number, name in enumerate(JOINED):
        write_part(HERE / name, number)


def write_hdf5(path: Path) -> None:
    import h5py
    import numpy as np

    numbers = np.arange(12).reshape(3, 4)
    with h5py.File(path, "w", libver=("v110", "v110")) as file:

        def add(name, data, **options):
            return file.create_dataset(name, data=data, track_times=False, **options)

        for code in ("<f2", "<f4", ">f4", "<f8", ">f8", "<i2", ">i2", "<i8", "|u1", ">u4"):
            name = np.dtype(code).name + ("_big" if code[0] == ">" else "")
            add(name, numbers.astype(code), chunks=(2, 2), fillvalue=3)
        add("bool", numbers % 2 == 0, chunks=(2, 2))
        add("contiguous", numbers.astype(">i4"))
        add("scalar", np.float64(2.5))
        add("infinite", numbers.astype("<f8"), chunks=(2, 2), fillvalue=np.inf)
        add("gzip", numbers.astype("<f4"), chunks=(2, 2), compression="gzip")
        both = {"chunks": (2, 2), "shuffle": True, "compression": "gzip"}
        add("shuffled", numbers.astype(">i4"), **both)
        add("checked", numbers.astype("<i2"), fletcher32=True, **both)
        add("only_shuffled", numbers.astype("<i4"), chunks=(2, 2), shuffle=True)
        for name, dtype, fill in (("gaps", "<i4", -5), ("nan_gaps", "<f4", np.nan)):
            gaps = file.create_dataset(
                name, (4, 4), dtype=dtype, chunks=(2, 2), fillvalue=fill, track_times=False
            )
            gaps[:2, :2] = 7
        for name, dtype in (("packed", "<i2"), ("packed_big", ">i2")):
            packed = add(name, numbers.astype(dtype), **both)
            packed.attrs["scale_factor"] = 0.5
            packed.attrs["add_offset"] = 10.0


def write_part(path: Path, number: int) -> None:
    """Write one of two files, whose datasets end with a chunk, or within one."""
    import h5py
    import numpy as np

    # Rows of the first file and of the second; a chunk has two.
    rows = {"even": (4, 4), "second_short": (4, 3), "first_short": (3, 4), "both_short": (3, 3)}
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        file.attrs["limit"] = np.nan
        for name, lengths in rows.items():
            start, stop = sum(lengths[:number]), sum(lengths[: number + 1])
            data = np.arange(2 * start, 2 * stop, dtype="<i4").reshape(-1, 2)
            file.create_dataset(name, data=data, chunks=(2, 2), track_times=False)
        for name, fill in (("packed_gaps", 99), ("packed_zeros", 0)):
            gaps = file.create_dataset(
                name, (4, 2), dtype=">i2", chunks=(2, 2), fillvalue=fill, track_times=False
            )
            gaps[2:] = 7 + number  # the first chunk is missing
            gaps.attrs["scale_factor"] = 0.5
            gaps.attrs["add_offset"] = 10.0
        gaps = file.create_dataset(
            "last_missing", (4, 2), dtype="<i4", chunks=(2, 2), fillvalue=0, track_times=False
        )
        gaps[:2] = 7 + number
        data = np.arange(8, dtype="<i4").reshape(4, 2)
        whole = file.create_dataset("nan_attribute", data=data, chunks=(2, 2), track_times=False)
        whole.attrs["missing_value"] = np.nan


def write_classic(path: Path) -> None:
    import netCDF4
    import numpy as np

    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = [0, 1]
        field = file.createVariable("field", "f4", ("time", "x"), fill_value=np.nan)
        field[:] = np.arange(6).reshape(2, 3)
        packed = file.createVariable("packed", "i2", ("time", "x"), fill_value=-999)
        packed.scale_factor = 0.01
        packed.set_auto_scale(False)
        packed[:] = np.arange(6).reshape(2, 3)
        mask = file.createVariable("mask", "i1", ("x",))
        mask[:] = [0, 1, 0]
        label = file.createVariable("label", "S1", ("x",))
        label[:] = np.array([b"a", b"b", b"c"])


def write_fits(path: Path) -> None:
    import numpy as np
    from astropy.io import fits

    data = np.arange(12, dtype=">f4").reshape(3, 4)
    fits.HDUList([fits.PrimaryHDU(data)]).writeto(path, overwrite=True)


def write_references(chunks: Path, references: Path) -> None:
    """Write a Zarr v2 hierarchy as kerchunk references into one file."""
    import numcodecs
    import numpy as np
    import zarr
    from zarr.storage import MemoryStore

    numbers = np.arange(1, 13).reshape(3, 4)
    zlib = numcodecs.Zlib(1)
    arrays = {
        "blosc": (numbers.astype("<f4"), {"compressor": numcodecs.Blosc(cname="lz4", shuffle=1)}),
        "gzip": (numbers.astype("<f4"), {"compressor": numcodecs.GZip(1)}),
        "zstd": (numbers.astype(">i4"), {"compressor": numcodecs.Zstd(1)}),
        "lz4": (numbers.astype("<i2"), {"compressor": numcodecs.LZ4()}),
        "shuffle": (numbers.astype("<i4"), {"filters": [numcodecs.Shuffle(4)], "compressor": zlib}),
        "delta": (
            numbers.astype("<i4"),
            {"filters": [numcodecs.Delta("<i4")], "compressor": zlib},
        ),
        "delta_plain": (numbers.astype("<i4"), {"filters": [numcodecs.Delta("<i4")]}),
        "fortran": (numbers.astype("<i4"), {"order": "F"}),
        "fortran_zlib": (numbers.astype(">f8"), {"order": "F", "compressor": zlib}),
        "unsigned": (numbers.astype("<u2"), {"fill_value": None}),
        "flag": (numbers % 2 == 0, {"fill_value": None}),
        "signed": (numbers.astype("<i4"), {"fill_value": None}),
        "real": (numbers.astype("<f8"), {"fill_value": None}),
        "complex": ((numbers * (1 + 2j)).astype("<c8"), {"fill_value": None}),
        "time": (numbers.astype("<M8[s]"), {"fill_value": None}),
        "text": (numbers.astype("|S3"), {"fill_value": None}),
        "unicode": (numbers.astype("<U2"), {"fill_value": None}),
    }
    store = MemoryStore()
    zarr.create_group(store, zarr_format=2)
    for name, (data, options) in arrays.items():
        options = {"filters": None, "compressor": None, "fill_value": 0} | options
        compressor = options.pop("compressor")
        array = zarr.create_array(
            store, name=name, shape=data.shape, dtype=data.dtype, chunks=(2, 4), zarr_format=2,
            compressors=compressor, **options,
        )  # fmt: skip
        array[...] = data
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    refs, content = {}, b""
    for key, value in sorted((key, value.to_bytes()) for key, value in store._store_dict.items()):
        if key.rpartition("/")[2].startswith("."):
            refs[key] = json.dumps(json.loads(value))
        else:
            if value[:2] == b"\x1f\x8b":
                value = value[:4] + bytes(4) + value[8:]  # gzip's time of writing
            refs[key] = [chunks.name, len(content), len(value)]
            content += value
    chunks.write_bytes(content)
    references.write_text(json.dumps({"version": 1, "refs": refs}, indent=1) + "\n")


# ---------------------------------------------------------------- stores


def write_stores(release: str) -> None:
    """Write every source with the release that is installed, in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        for name in (*SOURCES[:-1], "chunks.bin", *JOINED):
            shutil.copy(HERE / name, directory)
        os.chdir(directory)
        (HERE / release).mkdir(exist_ok=True)
        for source in SOURCES:
            documents = store_documents(source, release, Path(directory, f"{source}.zarr"))
            text = json.dumps(documents, indent=1).replace(directory, "/writer")
            (HERE / release / f"{source}.json").write_text(text + "\n")


def store_documents(source: str, release: str, root: Path) -> dict[str, str]:
    documents: dict[str, str] = {}
    for dataset in datasets(source, release):
        for name in dataset.variables:
            only = dataset.drop_vars([other for other in dataset.variables if other != name])
            try:
                only.virtualize.to_zarr(str(root))
            except Exception as error:
                print(f"{release} {source} {name}: not written: {error!r:.200}")
            else:
                for path in sorted(root.rglob("*.json")):
                    documents[path.relative_to(root).as_posix()] = path.read_text()
            shutil.rmtree(root, ignore_errors=True)
    return documents


def datasets(source: str, release: str):
    """Open a source, as a whole if the release can, else variable by variable."""
    names = names_in(source)
    for name in names:
        try:
            dataset = open_virtual(source, release, [other for other in names if other != name])
        except Exception as error:
            print(f"{release} {source} {name}: not opened: {error!r:.200}")
        else:
            if name in dataset.variables:
                yield dataset


def names_in(source: str) -> list[str]:
    if source == "references.json":
        refs = json.loads((HERE / source).read_text())["refs"]
        return sorted({key.partition("/")[0] for key in refs if "/" in key})
    if source == "field.fits":
        return ["PRIMARY"]
    if source.endswith(".h5"):
        import h5py

        with h5py.File(JOINED[0] if source == "joined.h5" else source) as file:
            return list(file)
    import netCDF4

    with netCDF4.Dataset(source) as file:
        return list(file.variables)


def open_virtual(source: str, release: str, others: list[str]):
    from virtualizarr import open_virtual_dataset

    options = {"indexes": {}, "loadable_variables": [], "drop_variables": others}
    if source == "references.json":
        refs = json.loads(Path(source).read_text())
        for key in [key for key in refs["refs"] if key.partition("/")[0] in others]:
            del refs["refs"][key]
        return open_references(refs, release)
    if source.endswith(".h5") and release > "1.1.0":
        from virtualizarr.readers.hdf import HDFVirtualBackend

        options["backend"] = HDFVirtualBackend
    if source == "joined.h5":
        import xarray as xr

        parts = [open_virtual_dataset(name, **options) for name in JOINED]
        return xr.concat(parts, dim="phony_dim_0", coords="minimal", compat="override")
    return open_virtual_dataset(source, **options)


def open_references(refs: dict, release: str):
    if release == "1.0.0":
        from virtualizarr.xarray import dataset_from_kerchunk_refs

        return dataset_from_kerchunk_refs(refs, indexes={})
    from virtualizarr import open_virtual_dataset

    Path("one.json").write_text(json.dumps(refs, separators=(",", ":")))
    options = {"filetype": "kerchunk", "indexes": {}}
    if release > "1.1.0":
        options["virtual_backend_kwargs"] = {"fs_root": Path.cwd().as_uri()}
    return open_virtual_dataset("one.json", **options)


# ---------------------------------------------------------------- environments


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["store"]:
        warnings.simplefilter("ignore")
        gc.disable()  # h5py's objects, collected by zarr's thread, wait for kerchunk for ever
        write_stores(arguments[1])
        return
    write_sources()
    directory = Path(os.environ.get("OLDER_WRITERS", tempfile.mkdtemp()))
    for release in arguments or RELEASES:
        python = directory / release / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", directory / release], check=True)
            wanted = [f"virtualizarr=={release}", *RELEASES[release], *COMMON]
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        with contextlib.chdir(HERE):
            subprocess.run([python, __file__, "store", release], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
