"""Damaged HDF5 files: what is damaged is refused, and no error is another's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.command_line.commands import run
from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from tests.conversion.files.damaged_hdf5 import outcome, report, write
from tests.processes import CONTEXT
from zarr_manifest.conversion import read_files
from zarr_manifest.errors import NotConvertibleError, SourceError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

# What HDF5's structures begin with: object headers, B-trees, heaps and symbol tables.
SIGNATURES = [b"OHDR", b"BTHD", b"TREE", b"HEAP", b"FRHP", b"FHDB", b"SNOD", b"GCOL", b"FADB"]


def broken(body: bytes, at: int) -> bytes:
    return body[:at] + b"\0" + body[at + 1 :]


def places(body: bytes, mark: bytes) -> list[int]:
    found = [body.find(mark)]
    while found[-1] >= 0:
        found.append(body.find(mark, found[-1] + 1))
    return found[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_broken_structure_is_refused(tmp_path: Path, libver: Any) -> None:
    # In turn, each structure of the file.
    body = write(tmp_path / "f.h5", libver)
    found = Counter[str]()
    for mark in SIGNATURES:
        for at in places(body, mark)[:3]:
            (tmp_path / "f.h5").write_bytes(broken(body, at))
            found[outcome(tmp_path / "f.h5")] += 1
    assert found.keys() == {"read", "source_error"}
    assert found["read"] > found["source_error"]


def test_a_broken_dataset_loses_nothing_else(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w", libver="latest") as file:
        file["g/bad"] = np.arange(3)
        file["g/good"] = np.arange(4)
        file["worse/x"] = np.arange(5)
        at = [h5py.h5o.get_info(file[name].id).addr for name in ("g/bad", "worse")]
    body = (tmp_path / "f.h5").read_bytes()
    (tmp_path / "f.h5").write_bytes(broken(broken(body, at[0]), at[1]))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused.keys() == {"g/bad", "worse"}
    assert "it cannot be read: Unable to" in found.refused["g/bad"]
    assert same(found.arrays["g/good"][...], np.arange(4))


@pytest.mark.slow
def test_a_shape_that_no_memory_holds_takes_none(tmp_path: Path) -> None:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(9)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        options: Any = {"chunks": (1,), "maxshape": (None,)}
        file.create_dataset("empty", (2**50,), "i4", **options)
        file.create_dataset("sparse", (2**50,), "i4", **options)[7] = 1
        options["chunks"] = (2**20,)
        strings = file.create_dataset("strings", (2**50,), h5py.Datatype(kind), **options)
        strings[7] = b"a"
        file["good"] = np.arange(4)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert not found.refused
    assert found.arrays["empty"][-1] == 0
    assert found.arrays["sparse"][6:9].tolist() == [0, 1, 0]
    assert found.arrays["strings"][7] == b"a"


def test_coordinates_that_no_memory_holds_are_refused(tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            scale = file.create_dataset("x", (2**50,), "i4", chunks=(1,), maxshape=(None,))
            scale.make_scale("x")
    with pytest.raises(NotConvertibleError, match=r"no memory holds its values.*array 'x'"):
        list(read_files([tmp_path / "a.h5", tmp_path / "b.h5"]))


@pytest.mark.parametrize("part", [0.01, 0.2, 0.9])
def test_a_truncated_file_is_an_error(tmp_path: Path, part: float) -> None:
    body = write(tmp_path / "f.h5", "latest")
    (tmp_path / "f.h5").write_bytes(body[: int(len(body) * part)])
    with pytest.raises(SourceError, match=r"truncated: it has .*/f\.h5"):
        list(read_files(tmp_path / "f.h5", format="hdf5"))


def test_the_command_line_shows_no_traceback(tmp_path: Path) -> None:
    body = write(tmp_path / "f.h5", "latest")
    (tmp_path / "f.h5").write_bytes(broken(body, body.index(b"OHDR")))
    finished = run("create", f"{tmp_path}/f.h5", f"{tmp_path}/h.zarr")
    assert finished.status == 3
    assert "error: source_error: the file cannot be read: Unable to" in finished.stderr


@pytest.mark.slow
def test_random_damage_is_read_or_refused(tmp_path: Path) -> None:
    # HDF5 itself may not survive: 10 of 3,200 files ended the process, or kept it busy.
    start, stop = 0, 100
    found = Counter[str]()
    while start < stop:
        printed = tmp_path / f"from-{start}"
        process = CONTEXT.Process(target=report, args=(start, stop, printed))
        process.start()
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()
        done = [json.loads(line) for line in printed.read_text().splitlines()]
        found.update(what for _, what in done)
        start += len(done)
        if start < stop:
            assert process.exitcode is not None
            assert process.exitcode < 0, f"seed {start}"
            found["HDF5 did not survive"] += 1
            start += 1
    assert found["read"] > 10
    assert found["source_error"] > 10
    assert found["HDF5 did not survive"] < 5
