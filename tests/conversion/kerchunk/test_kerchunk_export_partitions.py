"""Export to kerchunk of manifests of many partitions, few of which have a document."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from zarr.storage import LocalStore, WrapperStore

import zarr_manifest as zm
from tests.hierarchy.test_partition_counts import COUNT, CannotList, declare
from zarr_manifest.conversion import export_kerchunk_json, export_kerchunk_parquet

FOUND = (7, COUNT // 2, COUNT - 1)
EXPORTS: list[Callable[..., Any]] = [export_kerchunk_json, export_kerchunk_parquet]


def test_documents_that_exist_are_exported(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    declare(root)
    limits = zm.Limits(partitions=1)
    report = export_kerchunk_json(root, tmp_path / "refs.json", limits=limits)
    assert (report.references, report.refused) == (3, [])
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    assert [key for key in refs if not key.endswith(("array", "group"))] == [
        f"a/{number}" for number in FOUND
    ]
    report = export_kerchunk_parquet(root, tmp_path / "refs.parquet", limits=limits)
    assert (report.references, report.refused) == (3, [])
    files = {path.name for path in (tmp_path / "refs.parquet/a").iterdir()}
    assert files == {f"refs.{number // 10_000}.parq" for number in FOUND}


@pytest.mark.parametrize("export", EXPORTS)
def test_partitions_that_the_declaration_names_count(
    tmp_path: Path, export: Callable[..., Any]
) -> None:
    array = declare(tmp_path / "data.zarr")
    metadata = json.loads((array / "zarr.json").read_text())
    configuration = metadata["storage_transformers"][0]["configuration"]
    configuration["partitions"] = [str(number) for number in FOUND]
    group = json.loads((tmp_path / "data.zarr/zarr.json").read_text())
    group["consolidated_metadata"]["metadata"]["a"] = metadata
    (array / "zarr.json").write_text(json.dumps(metadata))
    (tmp_path / "data.zarr/zarr.json").write_text(json.dumps(group))
    for limit, refused in ((3, 0), (2, 1)):
        report = export(
            CannotList(LocalStore(tmp_path / "data.zarr")),
            tmp_path / f"refs-{limit}",
            limits=zm.Limits(partitions=limit),
        )
        assert (len(report.refused), report.references) == (refused, 0 if refused else 3)


class ReplacedWhileListed(WrapperStore[Any]):
    """A store in which a writer replaces the manifest just before its documents are listed."""

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        if "m" in prefix:
            self._replace()
        return super().list_prefix(prefix)

    def _replace(self) -> None:
        array = Path(self._store.root) / "a"
        document = array / "zarr.json"
        document.write_text(document.read_text().replace("m/{partition}", "n/{partition}"))
        for file in (array / "m").iterdir():
            file.unlink()


@pytest.mark.parametrize("export", EXPORTS)
def test_a_replaced_manifest_is_noticed(tmp_path: Path, export: Callable[..., Any]) -> None:
    declare(tmp_path / "data.zarr")
    store = ReplacedWhileListed(LocalStore(tmp_path / "data.zarr"))
    report = export(store, tmp_path / "refs")
    assert [node.code for node in report.refused] == ["manifest_not_found"]
    assert "replaced" in report.refused[0].reason


def test_json_has_nothing_of_an_array_that_is_refused_halfway(tmp_path: Path) -> None:
    root = tmp_path / "h"
    zarr.create_group(root)
    for name, last in (("a", {"path": "s3://b/f", "offset": 1}), ("b", {"path": "s3://b/g"})):
        entries = {(number,): {"path": "s3://b/f"} for number in range(3)} | {(3,): last}
        zm.create_array(
            root, name, entries, shape=4, chunks=1, dtype="u1", partition_shape=[2]
        )  # fmt: skip
    told: list[int] = []
    report = export_kerchunk_json(
        root, tmp_path / "refs.json", progress=lambda _path, done, _of: told.append(done)
    )
    assert [node.path for node in report.refused] == ["a"]
    assert len(told) == 3  # a block of the first array, and two of the second
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    assert sorted(refs) == [".zgroup", "b/.zarray", "b/0", "b/1", "b/2", "b/3"]


def test_there_is_no_file_if_an_export_to_json_is_interrupted(tmp_path: Path) -> None:
    declare(tmp_path / "data.zarr")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_kerchunk_json(tmp_path / "data.zarr", tmp_path / "refs.json", progress=interrupt)
    assert not (tmp_path / "refs.json").exists()
