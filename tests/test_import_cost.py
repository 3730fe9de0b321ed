"""``import zarr_manifest`` loads little besides zarr, and nothing optional."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest

from tests.documentation import ROOT

_PROGRAM = """
import json, sys
import zarr
before = set(sys.modules)
import zarr_manifest
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the modules that the import adds to those of zarr."""
    # Isolated (-I), so that nothing in the environment imports more.
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{_PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True
    )
    return set(json.loads(done.stdout))


def test_rooms_for_other_purposes_are_not_loaded(loaded: set[str]) -> None:
    assert "zarr_manifest.hierarchy" in loaded
    unneeded = re.compile(r"zarr_manifest\.(conversion|command_line|integrations\.xarray_engine)\b")
    assert [name for name in loaded if unneeded.match(name)] == []


def test_obstore_is_not_loaded(loaded: set[str]) -> None:
    assert [name for name in loaded if name.split(".")[0] == "obstore"] == []
    assert "zarr_manifest.sources.object_reader" not in loaded


def test_nothing_optional_is_loaded(loaded: set[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {
        re.match(r"[\w-]+", requirement)[0].replace("-", "_").lower()  # type: ignore[index]
        for requirement in project["dependencies"]
    }
    packages = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert packages - {"zarr_manifest"} <= required
