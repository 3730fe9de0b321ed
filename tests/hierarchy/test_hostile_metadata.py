"""Metadata of a few bytes that describe more than any reader can hold: one clear error each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.command_line.commands import run
from zarr_manifest.conversion import (
    export_kerchunk_json,
    export_kerchunk_parquet,
    to_virtual_datatree,
    upgrade,
)

ENTRIES = {"0": {"data": "AAA="}}


def declaration(manifest: Any = ENTRIES, **others: Any) -> list[Any]:
    configuration = {"manifest": manifest, **others}
    return [{"name": "chunk-manifest-json", "configuration": configuration}]


def array(**members: Any) -> dict[str, Any]:
    dimensions = len(members.get("shape", [4]))
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "uint8",
        "chunk_grid": regular(2),
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "fill_value": 0,
        "attributes": {},
        "dimension_names": [f"d{n}" for n in range(dimensions)],
        "storage_transformers": declaration(),
        **members,
    }


def regular(*lengths: Any) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(lengths)}}


def rectilinear(*lengths: Any) -> dict[str, Any]:
    configuration = {"kind": "inline", "chunk_shapes": list(lengths)}
    return {"name": "rectilinear", "configuration": configuration}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


INVALID, LIMIT = "invalid_configuration", "limit_exceeded"

ARRAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "one chunk of 2^62": (INVALID, array(shape=[2**62], chunk_grid=regular(2**62))),
    "4^10,000 chunks": (LIMIT, array(shape=[4] * 10_000, chunk_grid=regular(*[1] * 10_000))),
    "2^64 chunks": (LIMIT, array(shape=[2**32, 2**32], chunk_grid=regular(1, 1))),
    "2^62 chunks in a list": (LIMIT, array(shape=[4], chunk_grid=rectilinear([[1, 2**40]]))),
    "negative chunks": (INVALID, array(shape=[4], chunk_grid=rectilinear([4, -4, 4]))),
    "nested attributes": (LIMIT, array(attributes=nested(900))),
    "nested entry": (
        LIMIT,
        array(storage_transformers=declaration({"0": {"data": "AAA=", "_": nested(900)}})),
    ),
    "long base": (LIMIT, array(storage_transformers=declaration(base="x/" * 10**5))),
    "long key": ("invalid_chunk_key", array(storage_transformers=declaration({"9" * 10**5: {}}))),
}

MEMBERS = ["..", "a//b", "a/zarr.json"]


def by_path(root: Path) -> Any:
    with zm.enable():
        return np.asarray(zarr.open_array(root / "a", mode="r")[0:1])


def by_group(root: Path) -> Any:
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    return [np.asarray(member) for _, member in group.arrays()]


def by_command(root: Path) -> Iterator[str]:
    for command in ("info", "locations", "validate"):
        done = run(command, root)
        yield from () if command == "info" or done.status else ("nothing wrong",)


# What reads raises; what inspects and converts tells.
READERS: list[Callable[[Path], Any]] = [
    lambda root: zarr.open_array(zm.ManifestStore(root), path="a", mode="r")[0:1],
    by_path,
    by_group,
    lambda root: xr.open_zarr(zm.ManifestStore(root), consolidated=False).load(),
    lambda root: xr.open_dataset(str(root), engine="zarr-manifest", consolidated=False).load(),
    lambda root: zm.ManifestStore(root).locations(),
]


def told(root: Path, out: Path) -> list[str]:
    """The codes of the problems that each function names."""
    description = zm.contents(root)
    assert len(str(description)) < 8000
    codes = [node.problem.code for node in description.nodes if node.problem]
    codes += [problem.code for problem in zm.validate(root)]
    exported = export_kerchunk_json(root, out / "refs.json")
    parquet = export_kerchunk_parquet(root, out / "refs.parquet")
    for refused in (*exported.refused, *parquet.refused):
        # Zarr v2 can express even less.
        codes.append(codes[0] if refused.code == "not_convertible" else refused.code)
    return codes


def write(root: Path, node: dict[str, Any], group: dict[str, Any] | None = None) -> None:
    (root / "a").mkdir(parents=True)
    (root / "a" / "zarr.json").write_text(json.dumps(node))
    plain = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    (root / "zarr.json").write_text(json.dumps({**plain, **(group or {})}))


def require_refusals(root: Path, code: str, readers: list[Callable[[Path], Any]]) -> None:
    for reader in readers:
        with pytest.raises(zm.ManifestError) as raised:
            reader(root)
        assert raised.value.code == code
        assert raised.value.array is not None
        assert len(str(raised.value)) < 5000
    assert list(by_command(root)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_nobody_can_hold(tmp_path: Path, name: str) -> None:
    code, node = ARRAYS[name]
    root = tmp_path / "data.zarr"
    write(root, node)
    require_refusals(root, code, READERS)
    assert told(root, tmp_path) == [code] * 4
    to_virtual_datatree_or_refusal(root)
    upgrade_or_refusal(root)


def to_virtual_datatree_or_refusal(root: Path) -> None:
    try:
        to_virtual_datatree(root)
    except zm.ManifestError:
        return


def upgrade_or_refusal(root: Path) -> None:
    try:
        upgrade(root, dry_run=True)
    except zm.ManifestError:
        return


@pytest.mark.slow
def test_nesting_beyond_any_parser(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    write(root, array(attributes={"a": "@"}))
    document = root / "a" / "zarr.json"
    document.write_text(document.read_text().replace('"@"', "[" * 50_000 + "]" * 50_000))
    require_refusals(root, LIMIT, READERS)
    assert told(root, tmp_path) == [LIMIT] * 4


def test_nesting_of_ordinary_metadata(tmp_path: Path) -> None:
    """Brackets within text do not count."""
    root = tmp_path / "data.zarr"
    write(root, array(attributes={"a": nested(90), "b": "[" * 500, "c": [[], {}] * 500}))
    assert zarr.open_array(zm.ManifestStore(root), path="a", mode="r")[0] == 0
    assert zm.validate(root) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MEMBERS)
def test_a_consolidated_member_that_is_no_path(tmp_path: Path, name: str) -> None:
    root = tmp_path / "data.zarr"
    consolidated = {"kind": "inline", "must_understand": False, "metadata": {name: array()}}
    write(root, array(), {"consolidated_metadata": consolidated})
    require_refusals(root, INVALID, READERS[2:])
    assert set(told(root, tmp_path)) == {INVALID}
    to_virtual_datatree_or_refusal(root)


def test_consolidated_groups_within_groups(tmp_path: Path) -> None:
    node: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    for _ in range(400):
        inner = {"kind": "inline", "must_understand": False, "metadata": {"g": node}}
        node = {**node, "consolidated_metadata": inner}
    root = tmp_path / "data.zarr"
    write(root, array(), {"consolidated_metadata": node["consolidated_metadata"]})
    with pytest.raises(zm.errors.LimitExceededError):
        zarr.open_group(zm.ManifestStore(root), mode="r")
    assert "limit_exceeded" in [problem.code for problem in zm.validate(root)]


def test_an_empty_chunk_of_any_size_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    grid = {"shape": [2**40], "chunk_grid": regular(2**40)}
    write(root, array(**grid, storage_transformers=declaration({"0": {}})))
    report = export_kerchunk_json(root, tmp_path / "refs.json")
    assert [refused.code for refused in report.refused] == ["source_error"]
    assert "too large" in str(report.refused[0])


def test_a_native_grid_of_any_size(tmp_path: Path) -> None:
    """VirtualiZarr holds every chunk of a grid in memory, whether it exists or not."""
    root = tmp_path / "data.zarr"
    node = array(shape=[2**40], chunk_grid=regular(1))
    del node["storage_transformers"]
    write(root, node)
    with pytest.raises(zm.errors.NotConvertibleError, match="1,099,511,627,776 chunks"):
        to_virtual_datatree(root)
    assert zm.contents(root).nodes[1].chunks == 2**40


@pytest.mark.parametrize(
    "other",
    [
        {"shape": [True], "chunk_grid": regular(True)},
        {"chunk_grid": regular(2.0)},
        {"codecs": [[1]]},
    ],
)
def test_what_holds_for_an_array_does_not_hold_for_one_that_is_almost_alike(
    other: dict[str, Any], tmp_path: Path
) -> None:
    """Python takes some values for equal that JSON does not."""
    usual = array(shape=[1], chunk_grid=regular(1)) if other.get("shape") == [True] else array()
    for name, metadata in {"a": usual, "b": usual | other}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(json.dumps(metadata))
    store = zm.ManifestStore(tmp_path)
    zarr.open_array(store, path="a", mode="r")
    with pytest.raises(zm.errors.InvalidConfigurationError):
        zarr.open_array(store, path="b", mode="r")
