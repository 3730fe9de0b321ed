"""Importing the package, and a first read of files, load little besides zarr, and nothing optional.

What is loaded is counted, not timed: ``python -m benchmarks import-time`` prints times.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zarr_manifest as zm
from tests.documentation import ROOT
from tests.servers.http_files import FileServer

# Each program runs in a copy of the process that has imported zarr.
_PROGRAM = """
import json, os, sys
sys.path.insert(0, {root!r})
import zarr
for statements, hidden in {programs!r}:
    if not os.fork():
        sys.modules |= dict.fromkeys(hidden)
        before = set(sys.modules)
        exec(statements)
        print(json.dumps(sorted(set(sys.modules) - before)))
        break
    assert os.wait()[1] == 0
"""

_READING = """
from zarr_manifest import ManifestStore
array = zarr.open_group(ManifestStore({hierarchy!r}), mode="r")["a"]
assert array[0] == 1
"""

_OPENING = """
from zarr_manifest import ManifestStore
zarr.open_group(ManifestStore({url!r}), mode="r", zarr_format=3)
"""

_PURPOSES = re.compile(
    r"zarr_manifest\.(conversion|command_line|inspection|integrations|writing)\b"
)

_NOT_FOR_FILES = ("obstore", "urllib3", "zstandard")


def _packages(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules} - {"zarr", "zarr_manifest"}


_PACKAGES = "errors format hierarchy inspection integrations locations manifest sources writing"
_USES = {
    "the root alone": "import zarr_manifest",
    "zarr alone": "zarr.create_array({}, shape=1, dtype='u1')[:]",
    "everything": "from zarr_manifest import *\nimport zarr_manifest.sources",
    "packages": "\n".join(
        ["import zarr_manifest", *(f"zarr_manifest.{name}.__name__" for name in _PACKAGES.split())]
    ),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the modules that each use adds to those of zarr, which is imported once for all."""
    root: Path = tmp_path_factory.mktemp("hierarchy")
    (root / "raw.bin").write_bytes(b"\1\2")
    entries = {str(i): {"path": "raw.bin", "offset": i, "length": 1} for i in range(2)}
    zm.create_array(
        *(root, "a", entries), base="../", partition_shape=[1], shape=2, chunks=1, dtype="u1"
    )
    with FileServer() as server:
        server.put("h.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
        server.latency = 0.2
        uses = _USES | {
            "reading": _READING.format(hierarchy=str(root)),
            "opening": _OPENING.format(url=f"{server.url}/h.zarr"),
        }
        hidden = {"reading": _NOT_FOR_FILES}
        programs = [(statements, hidden.get(use, ())) for use, statements in uses.items()]
        # Isolated (-I), so that nothing in the environment imports more.
        call = [sys.executable, "-I", "-c", _PROGRAM.format(root=str(ROOT), programs=programs)]
        done = subprocess.run(call, capture_output=True, check=True, text=True)
    found = [set(json.loads(line)) for line in done.stdout.splitlines()]
    return dict(zip(uses, found, strict=True))


@pytest.fixture(scope="module")
def reading(loaded: dict[str, set[str]]) -> set[str]:
    """Return the modules that opening a partitioned hierarchy and reading a chunk add."""
    return loaded["reading"]


@pytest.mark.slow
def test_the_root_alone_loads_no_package(loaded: dict[str, set[str]]) -> None:
    assert loaded["the root alone"] == {"zarr_manifest"}


@pytest.mark.slow
def test_packages_for_other_purposes_are_not_loaded(reading: set[str]) -> None:
    assert "zarr_manifest.hierarchy" in reading
    assert [name for name in reading if _PURPOSES.match(name)] == []
    others = {"format.object_models", "manifest.given_columns", "hierarchy.inspected_hierarchy"}
    assert reading & {f"zarr_manifest.{name}" for name in others} == set()


@pytest.mark.slow
def test_programs_that_use_zarr_alone_load_no_package(loaded: dict[str, set[str]]) -> None:
    found = {name for name in loaded["zarr alone"] if "zarr_manifest" in name}
    assert found <= {"zarr_manifest"}


@pytest.mark.slow
def test_reading_files_loads_no_other_package_than_zarr_does(reading: set[str]) -> None:
    # obstore, urllib3 and zstandard could not even be imported.
    assert _packages(reading) - set(sys.stdlib_module_names) == set()


@pytest.mark.slow
def test_reading_files_loads_nothing_for_the_web(reading: set[str]) -> None:
    assert reading & {"http.client", "urllib.request", "html"} == set()


@pytest.mark.slow
def test_what_reads_arrays_is_loaded_while_metadata_are_awaited(
    loaded: dict[str, set[str]],
) -> None:
    assert "zarr_manifest.pipeline" in loaded["opening"]


@pytest.mark.slow
def test_nothing_optional_is_loaded(loaded: dict[str, set[str]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {
        re.match(r"[\w-]+", requirement)[0].replace("-", "_").lower()  # type: ignore[index]
        for requirement in project["dependencies"]
    }
    assert _packages(loaded["everything"]) - set(sys.stdlib_module_names) <= required


def test_records_are_made_quickly() -> None:
    """Each dataclass takes half a millisecond of every import, a Struct a thirtieth of that."""
    import zarr_manifest.hierarchy  # noqa: F401

    packages = ("format", "hierarchy", "locations", "manifest", "sources")
    found = {
        thing.__qualname__
        for name, module in sys.modules.items()
        if name.startswith(tuple(f"zarr_manifest.{package}" for package in packages))
        for thing in vars(module).values()
        if isinstance(thing, type)
        and dataclasses.is_dataclass(thing)
        and thing.__module__.startswith("zarr_manifest.")
    }
    assert found == set(), "derive records from msgspec.Struct"


@pytest.mark.slow
def test_packages_are_attributes_of_the_package(loaded: dict[str, set[str]]) -> None:
    assert loaded["packages"] > {"zarr_manifest.errors"}
    assert {*_PACKAGES.split(), *zm.__all__} <= set(dir(zm))


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'zarr_manifest' has no attribute 'missing'"):
        _ = zm.missing  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
