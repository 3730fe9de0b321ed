"""Calls of the command line, in this process; and a directory with what its examples name."""

from __future__ import annotations

import json
import shlex
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from click import Command
from click.testing import CliRunner

import zarr_manifest as zm
from tests.hierarchies import declare_manifest
from zarr_manifest import conversion
from zarr_manifest.command_line.application import application

__all__ = [
    "BUCKET_ZARR2",
    "Finished",
    "application",
    "commands",
    "make_inputs",
    "run",
    "words",
    "write_by_hand",
    "write_data",
    "write_theirs",
    "zarray",
]

# A group of Zarr v2 in the bucket that examples name.
BUCKET_ZARR2 = {".zgroup": b'{"zarr_format": 2}', ".zattrs": b'{"title": "2023"}'}


@dataclass(frozen=True)
class Finished:
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    status: int

    @property
    def document(self) -> dict[str, Any]:
        """What ``--json`` printed: one object, and nothing else."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        assert found["status"] == self.status
        return found


def run(*arguments: str | Path, stdin: str | None = None) -> Finished:
    """Call ``zarr-manifest``; a traceback is the caller's."""
    done = CliRunner().invoke(
        application, [str(each) for each in arguments], stdin, prog_name="zarr-manifest"
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Finished(done.stdout, done.stderr, done.exit_code)


def commands() -> dict[str, Command]:
    """Return all commands that do something, by name, such as ``"import kerchunk"``."""
    found: dict[str, Command] = {}
    for name, command in application.commands.items():
        members = getattr(command, "commands", None)
        for inner, task in {"": command}.items() if members is None else members.items():
            found[f"{name} {inner}".strip()] = task
    return found


def make_inputs(directory: Path) -> None:
    """Write what the examples in the help name, and some that are broken."""
    for year in (2023, 2024):
        time = np.arange(f"{year}-01-01", f"{year}-01-05", dtype="datetime64[D]")
        sst = np.arange(48, dtype="f4").reshape(4, 3, 4) + year
        xr.Dataset(
            {"sst": (("time", "y", "x"), sst)}, coords={"time": time.astype("M8[ns]")}
        ).to_netcdf(
            directory / f"{year}.nc",
            engine="h5netcdf",
            encoding={
                "sst": {"chunksizes": (1, 3, 4)},
                "time": {"units": "days since 2000-01-01"},
            },
        )
        nodes = conversion.read_files(directory / f"{year}.nc", concat_dim="time")
        conversion.write_hierarchy(directory / f"{year}.zarr", nodes)
    references = {
        "version": 1,
        "refs": {".zgroup": {"zarr_format": 2}, "sst/.zarray": zarray(), "sst/0": ["f.nc", 0, 4]},
    }
    for name, url in {"references.json": "s3://b/f.nc", "theirs.json": "/home/them/f.nc"}.items():
        references["refs"]["sst/0"][0] = url  # type: ignore[index]
        (directory / name).write_text(json.dumps(references))
    references["refs"]["odd/.zarray"] = zarray(compressor={"id": "our-own"})  # type: ignore[index]
    (directory / "odd.json").write_text(json.dumps(references))
    old = zarr.create_group(directory / "old.zarr", zarr_format=2)
    old.create_array("sst", data=np.arange(6, dtype=">i2"), chunks=(2,))
    zm.snapshot(directory / "old.zarr", directory / "snap.zarr", checksum="crc32c")
    (directory / "chunks").mkdir()  # all are small
    for name in ("may.zarr", "june.zarr"):
        zm.snapshot(
            directory / "old.zarr", directory / name, copy=True, chunks_in=directory / "chunks"
        )
    write_data(directory / "data.zarr", directory / "2023.nc")
    conversion.export_kerchunk_parquet(directory / "data.zarr", directory / "references.parq")
    write_theirs(directory / "theirs.zarr")
    for copy in (directory / "archive", directory / "mirror.zarr" / "raw"):
        copy.mkdir(parents=True)
        shutil.copy(directory / "2023.nc", copy)
    write_data(directory / "mirror.zarr", directory / "mirror.zarr" / "raw" / "2023.nc")
    (directory / "model.json").write_text(json.dumps(zm.to_model(directory / "data.zarr")))
    entries = {name: [len(body)] for name, body in BUCKET_ZARR2.items()}
    state = {"fields": ["size"], "entries": entries}
    (directory / "state.json").write_text(json.dumps(state))


def zarray(**members: Any) -> dict[str, Any]:
    """Return metadata of a v2 array of two chunks."""
    document = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i2", "order": "C"}
    return document | {"fill_value": 0, "filters": None, "compressor": None} | members


def write_data(root: Path, source: Path) -> None:
    """Write a hierarchy with the arrays ``sst`` and ``ice``."""
    conversion.write_hierarchy(root, conversion.read_files(source), inline_below=0)
    zarr.create_array(root / "ice", data=np.arange(3))


def write_theirs(root: Path) -> None:
    """Write a hierarchy as VirtualiZarr 1 did, which is not valid."""
    zarr.create_group(root)
    array = root / "sst"
    with warnings.catch_warnings():
        zarr.create_array(array, shape=4, chunks=2, dtype="i2")
    manifest = {"0": {"path": "/data/f.nc", "offset": 0, "length": 4}}
    (array / "manifest.json").write_text(json.dumps(manifest))
    declare_manifest(array, "./manifest.json")
    document = json.loads((array / "zarr.json").read_text()) | {"codecs": None}
    (array / "zarr.json").write_text(json.dumps(document))


def write_by_hand(root: Path, path: str, document: str) -> None:
    """Let an array declare a plain document, without a checksum, and write that."""
    zm.write_manifest(root, path, {}, manifest_url="./manifest.json")
    (root / path / "manifest.json").write_text(document)


def words(call: str) -> list[str]:
    """Return the arguments of an example."""
    program, *arguments = shlex.split(call)
    assert program == "zarr-manifest"
    return arguments
