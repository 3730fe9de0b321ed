"""What a hierarchy refers to is never removed, and nothing is if it cannot all be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zarr
from zarr.storage import LocalStore

import zarr_manifest as zm
from tests.hierarchies import consolidate, files_below, read
from tests.writing.unused_objects import (
    CREATION,
    ENTRIES,
    UNUSED,
    VALUES,
    chunk_name,
    cleaned,
    declare,
    document_name,
    put,
    write_unused,
)
from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidJSONError,
    LocationNotAllowedError,
    ManifestError,
    ManifestNotFoundError,
    ReadOnlyError,
    SourceNotFoundError,
)

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_unused(tmp_path / "h")


# What refers to it -------------------------------------------------------------------------


def named_document(root: Path, path: str = "a", body: bytes = b'{"0":{"data":"MTI="}}') -> str:
    """Write a document with a name by digest, declare it, and return its key."""
    key = put(root, f"{path}/{document_name(body)}", body)
    declare(root, path, f"./{document_name(body)}")
    return key


def test_what_own_metadata_declare_stays(root: Path) -> None:
    key = named_document(root)
    assert cleaned(root) == UNUSED
    assert (root / key).exists()
    assert read(zm.ManifestStore(root), "a").tolist() == [49, 50, 0, 0]


@pytest.mark.parametrize("group", ["", "g"])
@pytest.mark.parametrize("is_own", [True, False])
def test_what_only_a_copy_declares_stays(root: Path, group: str, is_own: bool) -> None:
    """Also where it differs from the array's own metadata, or there are none."""
    zarr.create_group(root / "g")
    zm.create_array(root, "g/b", ENTRIES, **CREATION)
    key = named_document(root, "g/b")
    consolidate(root, path=group)
    declare(root, "g/b", {})
    if not is_own:
        (root / "g/b/zarr.json").unlink()
    assert cleaned(root) == UNUSED
    assert (root / key).exists()
    (root / group / "zarr.json").write_bytes((root / "zarr.json").read_bytes()) if group else None
    document = json.loads((root / group / "zarr.json").read_text())
    document.pop("consolidated_metadata", None)
    (root / group / "zarr.json").write_text(json.dumps(document))
    assert cleaned(root) == [key]


@pytest.mark.parametrize("how", ["relative", "base", "own URL", "another scheme", "link"])
def test_chunks_that_any_entry_refers_to_stay(root: Path, how: str) -> None:
    body = b"12"
    key = f"n/{chunk_name(body)}"
    path, base = {
        "relative": (f"../{key}", None),
        "base": (chunk_name(body), "../n/"),
        "own URL": ((root / key).as_uri(), None),
        "another scheme": (f"https://our-mirror.example/h/{key}", None),
        "link": ("linked.bin", None),
    }[how]
    if how == "link":
        (root / "a/linked.bin").symlink_to(f"../{key}")
    zm.write_manifest(root, "a", {"0": {"path": path}, "1": {"data": b"34"}}, base=base)
    assert cleaned(root) == [each for each in UNUSED if each != key]
    if how != "another scheme":
        store = zm.ManifestStore(root, allow=[root] if how == "own URL" else None)
        assert read(store, "a").tolist() == VALUES


@pytest.mark.parametrize("inline", [True, False])
def test_the_manifest_of_a_copy_counts(root: Path, inline: bool) -> None:
    entries = {"0": {"path": f"../n/{chunk_name(b'12')}"}}
    zm.write_manifest(root, "a", entries, inline=inline)
    consolidate(root)
    declare(root, "a", {})
    removed = cleaned(root)
    assert UNUSED[1] not in removed


def test_a_base_of_the_readers_own_does_not_count(root: Path) -> None:
    key = f"n/{chunk_name(b'12')}"
    zm.write_manifest(root, "a", {"0": {"path": key}}, base="../")
    store = zm.ManifestStore(root, base="elsewhere/")
    assert key not in cleaned(store)


def test_documents_of_partitions_outside_the_grid_stay(root: Path) -> None:
    zm.create_array(root, "p", ENTRIES, **CREATION, partition_shape=[1])
    bodies = {name: b'{"%d":{"data":"MTI="}}' % name for name in (0, 1)}
    metadata = json.loads((root / "p/zarr.json").read_text())
    configuration = metadata["storage_transformers"][0]["configuration"]
    configuration["manifest"] = "./m/x-{partition}/0123456789abcdef.json"
    configuration["partitions"] = ["0", "7"]
    (root / "p/zarr.json").write_text(json.dumps(metadata))
    put(root, "p/m/x-0/0123456789abcdef.json", bodies[0])
    outside = put(root, "p/m/x-7/0123456789abcdef.json", bodies[1])
    report = zm.clean(root, older_than=0)
    assert (root / outside).exists()
    assert not report.kept


# What cannot be read -----------------------------------------------------------------------


def damage(root: Path, key: str, body: bytes | None) -> None:
    if body is None:
        (root / key).unlink()
    else:
        (root / key).write_bytes(body)


DAMAGES: dict[str, tuple[Callable[[Path], object], type[ManifestError], str]] = {
    "root": (lambda root: damage(root, "zarr.json", b"{"), InvalidConfigurationError, "zarr.json"),
    "array": (lambda root: damage(root, "a/zarr.json", b""), InvalidConfigurationError, "'a'"),
    "v2": (lambda root: put(root, "v/.zarray", b"["), InvalidConfigurationError, "'v'"),
    "declaration": (lambda root: declare(root, "a", 7), InvalidConfigurationError, "'a'"),
    "lost document": (lambda root: damage(root, "m/m.json", None), ManifestNotFoundError, "'m'"),
    "document": (lambda root: damage(root, "m/m.json", b"{"), InvalidJSONError, "'m'"),
    "copy": (
        lambda root: (consolidate(root), _spoil_copy(root)),
        InvalidConfigurationError,
        "'a'",
    ),
    "copy of nothing": (
        lambda root: (
            consolidate(root),
            _spoil_copy(root, whole=True),
        ),
        InvalidConfigurationError,
        "'a'",
    ),
    "document elsewhere": (
        lambda root: declare(root, "a", "https://x.example/m.json"),
        LocationNotAllowedError,
        "'a'",
    ),
    "node behind a link": (
        lambda root: (root / "l").symlink_to(root.parent),
        LocationNotAllowedError,
        "'l'",
    ),
}


def _spoil_copy(root: Path, *, whole: bool = False) -> None:
    node = json.loads((root / "zarr.json").read_text())
    members = node["consolidated_metadata"]["metadata"]
    if whole:
        members["a"] = 7
    else:
        members["a"]["storage_transformers"][0]["configuration"] = {}
    (root / "zarr.json").write_text(json.dumps(node))


@pytest.mark.parametrize("what", DAMAGES)
def test_nothing_is_removed_if_something_cannot_be_read(root: Path, what: str) -> None:
    zm.create_array(root, "m", ENTRIES, **CREATION, manifest_url="./m.json")
    spoil, kind, named = DAMAGES[what]
    spoil(root)
    before = files_below(root)
    with pytest.raises(kind) as raised:
        zm.clean(root, older_than=0)
    assert named in str(raised.value)
    assert files_below(root) == before


def test_no_hierarchy(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError):
        zm.clean(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    key = put(tmp_path, document_name(b"{}"), b"{}")
    with pytest.raises(SourceNotFoundError):
        zm.clean(tmp_path, older_than=0)
    assert (tmp_path / key).exists()


def test_negative_ages(root: Path) -> None:
    for age in (-1, timedelta(seconds=-1), float("nan")):
        with pytest.raises(ValueError, match="older_than"):
            zm.clean(root, older_than=age)


def test_stores_that_are_open_for_reading(root: Path) -> None:
    store = LocalStore(root, read_only=True)
    with pytest.raises(ReadOnlyError, match="dry_run=True"):
        zm.clean(store, older_than=0)
    assert cleaned(store, dry_run=True) == UNUSED
    assert (root / UNUSED[0]).exists()
