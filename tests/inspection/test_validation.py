"""The validator: every problem at once, each with its code, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.hierarchies import copy_into, write_hierarchy, write_manifest_array
from tests.servers.http_files import FileServer, status

DATA = np.zeros((4, 6), "u1")
GOOD = {"path": "f.nc", "offset": 0, "length": 4}


def found(problems: list[zm.inspection.Problem]) -> list[tuple[str, str | None]]:
    return [(problem.code, problem.chunk) for problem in problems]


def write(
    root: Path, content: Any, path: str = "a", *, inline: bool = False, **configuration: Any
) -> Path:
    """A 2 × 3 grid of chunks; content that is bytes goes to the document as it is."""
    array = write_manifest_array(
        root, path, DATA, (2, 2), content if inline else "./m.json", inline=inline
    )
    if not inline:
        document = content if isinstance(content, bytes) else json.dumps(content).encode()
        (array / "m.json").write_bytes(document)
    edit(array, lambda node: declared(node)["configuration"].update(configuration))
    return array


def declared(node: dict[str, Any]) -> dict[str, Any]:
    transformer: dict[str, Any] = node["storage_transformers"][0]
    return transformer


def edit(array: Path, change: Any) -> None:
    node = json.loads((array / "zarr.json").read_text())
    change(node)
    (array / "zarr.json").write_text(json.dumps(node))


@pytest.mark.slow
def test_a_valid_hierarchy(tmp_path: Path) -> None:
    root = tmp_path / "data.zarr"
    write_hierarchy(root)
    memory = MemoryStore()
    copy_into(memory, root)
    through_obstore = obstore.store.LocalStore(root)
    zarr_stores = [LocalStore(root), memory, zm.ManifestStore(root), ObjectStore(through_obstore)]
    for location in [root, str(root), through_obstore, *zarr_stores]:
        assert zm.validate(location) == []


BAD = {
    "0.0": ({"path": "a", "length": 0}, "invalid_entry"),
    "0.1": ({"data": ""}, "invalid_entry"),
    "0.2": ({"Path": "a"}, "invalid_entry"),
    "1.0": ({"path": "a", "checksum": "md5:xyz"}, "invalid_entry"),
    "1.1": ({"path": "a", "checksum": "crc9:00"}, "unsupported_checksum"),
    "1.2": ({"path": "%2e%2e/up.nc"}, "invalid_path"),
    "2.0": (GOOD, "invalid_chunk_key"),
    "0.3": ({}, "invalid_chunk_key"),
    "c/9/9": (GOOD, "invalid_chunk_key"),
    "junk": (GOOD, "invalid_chunk_key"),
    "0": (GOOD, "invalid_chunk_key"),
}
CANONICAL = ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]


@pytest.mark.slow
@given(st.sets(st.sampled_from(sorted(BAD))))
def test_every_bad_member_is_reported_once(
    tmp_path_factory: pytest.TempPathFactory, bad: set[str]
) -> None:
    root = tmp_path_factory.mktemp("h")
    manifest: dict[str, Any] = {key: GOOD for key in CANONICAL if key not in bad}
    manifest |= {key: BAD[key][0] for key in bad}
    write(root, manifest)
    problems = zm.validate(root)
    assert sorted(found(problems)) == sorted((BAD[key][1], key) for key in bad)
    assert {(problem.phase, problem.array) for problem in problems} <= {("manifest", "a")}


def test_two_things_wrong_with_one_entry(tmp_path: Path) -> None:
    write(tmp_path, {"0.0": {"path": "a\\b", "checksum": "crc9:0", "last_modified": "x"}})
    assert [code for code, _ in found(zm.validate(tmp_path))] == [
        "unsupported_checksum",
        "invalid_entry",
        "invalid_path",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"0.0": {}, "0\\u002e0": {}}',
        '{"0.0": {"path": "a", "path": "b"}}',
        '{"0.0": {"path": "a", "x:y": {"z": [{"w": 1, "w": 1}]}}}',
    ],
)
def test_duplicate_members_of_an_inline_manifest(tmp_path: Path, text: str) -> None:
    array = write(tmp_path, {"0.0": "@"}, inline=True)
    document = (array / "zarr.json").read_text().replace('{"0.0": "@"}', text)
    assert text in document
    (array / "zarr.json").write_text(document)
    assert found(zm.validate(tmp_path)) == [("invalid_manifest", "0.0")]


@pytest.mark.parametrize(
    ("last", "problems"), [(b"}", []), (b', "2.9": {}}', [("invalid_chunk_key", "2.9")])]
)
def test_white_space_of_an_inline_manifest_does_not_count(
    tmp_path: Path, last: bytes, problems: list[Any]
) -> None:
    array = write(tmp_path, {"0.0": "@"}, inline=True)
    text = (array / "zarr.json").read_bytes()
    document = b'{"0.0": {"data": "YQ=="}, "0.1": {"path": "\xc3\xbc\\u00fc"}' + last
    (array / "zarr.json").write_bytes(text.replace(b'{"0.0": "@"}', b" " * 1000 + document))
    compact = json.dumps(json.loads(document), separators=(",", ":"), ensure_ascii=False)
    limits = zm.Limits(manifest_bytes=len(compact.encode()))
    assert found(zm.validate(tmp_path, limits=limits)) == problems
    zm.ManifestStore(tmp_path, limits=limits).locations()
    limits = zm.Limits(manifest_bytes=limits.manifest_bytes - 1)
    assert found(zm.validate(tmp_path, limits=limits)) == [("limit_exceeded", None)]
    (problem,) = zm.validate(tmp_path, limits=limits)
    assert problem.phase == "manifest"
    with pytest.raises(zm.errors.LimitExceededError):
        zm.ManifestStore(tmp_path, limits=limits).locations()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"0.0": {"path": "a", "x": "\xff"}}', "invalid_json"),
        (b"[" * 200_000, "limit_exceeded"),
    ],
)
def test_documents(tmp_path: Path, content: bytes, code: str) -> None:
    write(tmp_path, content)
    assert [problem.code for problem in zm.validate(tmp_path)] in ([code], ["invalid_json"])


def test_a_document_that_is_missing_and_the_rest_goes_on(tmp_path: Path) -> None:
    (write(tmp_path, {}, "a") / "m.json").unlink()
    write(tmp_path, {"9.9": {}}, "b/c")
    write(tmp_path, b"nothing", "d", codecs=["gzip"])
    problems = zm.validate(tmp_path)
    assert [(p.code, p.array) for p in problems] == [
        ("manifest_not_found", "a"),
        ("invalid_chunk_key", "b/c"),
        ("invalid_manifest", "d"),
    ]
    assert all(f"array {p.array!r}" in p.message for p in problems)
    assert "a/m.json" in problems[0].message
    assert [p.array for p in zm.validate(tmp_path, arrays=["b/c"])] == ["b/c"]
    with pytest.raises(zm.errors.SourceNotFoundError, match="'nope'"):
        zm.validate(tmp_path, arrays=["nope"])


def test_base(tmp_path: Path) -> None:
    write(tmp_path, {"0.0": {"path": "../../x.nc"}})
    assert zm.validate(tmp_path) == []
    assert zm.validate(tmp_path, base="s3://b/deep/down/") == []
    assert found(zm.validate(tmp_path, base="s3://b/deep/")) == [("invalid_path", "0.0")]
    assert found(zm.validate(tmp_path, base="../" * 40))[0][0] == "invalid_path"


# Declarations -------------------------------------------------------------------------


def test_every_problem_of_a_declaration(tmp_path: Path) -> None:
    array = write(tmp_path, {}, base=7, codecs=["lzma", {"name": 1}], more=1, partition_shape=[0])
    edit(array, lambda node: declared(node).update(must_understand=False, extra=1))
    edit(array, lambda node: node["storage_transformers"].insert(0, "zip"))
    problems = zm.validate(tmp_path)
    says = ["'zip'", "must not be false", "'extra'", "'more'", "'base'", "codec", "partition_shape"]
    for text, problem in zip(says, problems, strict=False):
        assert text in problem.message
    assert {problem.phase for problem in problems} == {"declaration"}
    assert len(problems) == len(says) + 1  # {partition} is missing


def test_a_declaration_with_a_problem_does_not_hide_its_document(tmp_path: Path) -> None:
    write(tmp_path, {"9.9": {}}, unknown=1)
    problems = zm.validate(tmp_path)
    assert [(p.code, p.phase) for p in problems] == [
        ("invalid_configuration", "declaration"),
        ("invalid_chunk_key", "manifest"),
    ]


def test_metadata_that_is_not_zarr(tmp_path: Path) -> None:
    array = write(tmp_path, {})
    edit(array, lambda node: (node.pop("fill_value"), node.update(codecs=None)))
    problems = zm.validate(tmp_path)
    assert found(problems) == [("invalid_configuration", None)] * 2
    assert "'codecs'" in problems[0].message
    assert "'fill_value'" in problems[1].message
    (array / "zarr.json").write_text("{")
    assert found(zm.validate(tmp_path)) == [("invalid_configuration", None)]


def test_a_codec_that_is_not_configured_validly(tmp_path: Path) -> None:
    # As VirtualiZarr took them from six options of an HDF5 filter. Nothing of it is for decoding.
    blosc = {"typesize": 4, "cname": "zstd", "clevel": 32768, "shuffle": "shuffle", "blocksize": 0}
    array = write(tmp_path, {"0.0": {}})
    edit(array, lambda node: node["codecs"].append({"name": "blosc", "configuration": blosc}))
    (problem,) = zm.validate(tmp_path)
    assert (problem.code, problem.phase, problem.array) == (
        "invalid_configuration",
        "declaration",
        "a",
    )
    assert "'clevel' is 32768, not an integer from 0 to 9" in str(problem)
    assert (zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")[0:2, 0:2] == 0).all()


def test_native_arrays_are_for_zarr_to_judge(tmp_path: Path) -> None:
    array = write(tmp_path, {})
    edit(array, lambda node: (node.pop("fill_value"), node.update(storage_transformers=[])))
    assert zm.validate(tmp_path) == []


def consolidated(root: Path, members: dict[str, Any]) -> None:
    zarr.create_group(root, overwrite=False)
    edit(
        root,
        lambda node: node.update(
            consolidated_metadata={"kind": "inline", "must_understand": False, "metadata": members}
        ),
    )


def test_consolidated_metadata_has_to_agree(tmp_path: Path) -> None:
    node = json.loads((write(tmp_path, {}) / "zarr.json").read_text())
    consolidated(tmp_path, {"a": node})
    assert zm.validate(tmp_path) == []
    declared(node)["configuration"]["base"] = "../"
    consolidated(tmp_path / "again", {})
    edit(tmp_path, lambda root: root["consolidated_metadata"]["metadata"].update(a=node))
    problems = zm.validate(tmp_path)
    assert [(p.code, p.phase, p.array) for p in problems] == [
        ("invalid_configuration", "declaration", "a")
    ]
    del node["storage_transformers"]
    edit(tmp_path, lambda root: root["consolidated_metadata"]["metadata"].update(a=node))
    assert [p.array for p in zm.validate(tmp_path)] == ["a"]


@pytest.mark.parametrize("text", ["{", None])
def test_an_array_that_cannot_be_read_is_not_compared(tmp_path: Path, text: str | None) -> None:
    """What it declares is unknown, so that no other manifest is declared."""
    array = write(tmp_path, {})
    consolidated(tmp_path, {"a": json.loads((array / "zarr.json").read_text())})
    if text is None:
        (array / "zarr.json").unlink()
        (array / "zarr.json").symlink_to("missing.json")
    else:
        (array / "zarr.json").write_text(text)
    code = "source_not_found" if text is None else "invalid_configuration"
    assert found(zm.validate(tmp_path)) == [(code, None)]


def test_arrays_that_only_consolidated_metadata_knows(tmp_path: Path) -> None:
    array = write(tmp_path, {"9.9": {}})
    consolidated(tmp_path, {"a": json.loads((array / "zarr.json").read_text())})
    (array / "zarr.json").unlink()
    assert found(zm.validate(tmp_path)) == [("invalid_chunk_key", "9.9")]


def test_own_metadata_that_are_gone_while_a_change_is_written(tmp_path: Path) -> None:
    """`pending` names metadata that were there; of arrays that are named, nothing else counts."""
    nodes = {p: json.loads((write(tmp_path, {}, p) / "zarr.json").read_text()) for p in "ab"}
    consolidated(tmp_path, nodes)
    stated = {"a": f"sha256:{64 * '0'}"}
    edit(tmp_path, lambda root: root["consolidated_metadata"].update(pending=stated))
    assert [p.code for p in zm.validate(tmp_path)] == []
    (tmp_path / "a/zarr.json").unlink()
    (problem,) = zm.validate(tmp_path)
    assert (problem.code, problem.array) == ("invalid_configuration", "a")
    assert "there is no 'a/zarr.json'" in problem.message
    assert zm.validate(tmp_path, arrays=["b"]) == []
    with pytest.raises(zm.errors.SourceNotFoundError, match="no array 'a'"):
        zm.validate(tmp_path, arrays=["a"])


@pytest.mark.servers
def test_changes_of_a_hierarchy_that_cannot_be_listed(tmp_path: Path) -> None:
    array = write(tmp_path, {})
    consolidated(tmp_path, {"a": json.loads((array / "zarr.json").read_text())})
    edit(tmp_path, lambda root: root["consolidated_metadata"].update(pending={"a": "gone"}))
    with FileServer(tmp_path) as server:
        (problem,) = zm.validate(server.url)
        assert (problem.code, problem.array) == ("invalid_configuration", "")
        stated = {"a": f"sha256:{64 * '0'}"}
        edit(tmp_path, lambda root: root["consolidated_metadata"].update(pending=stated))
        assert zm.validate(server.url) == []
        (array / "zarr.json").unlink()
        (problem,) = zm.validate(server.url)
        assert (problem.code, problem.array) == ("invalid_configuration", "a")


# Partitions, other places ---------------------------------------------------------------


@pytest.mark.slow
def test_of_very_many_problems_the_first_are_reported(tmp_path: Path) -> None:
    write(tmp_path, {str(n): 1 for n in range(12_000)})
    problems = zm.validate(tmp_path)
    assert len(problems) == 10_001
    assert {problem.code for problem in problems[:-1]} == {"invalid_entry"}
    assert problems[-1].code == "limit_exceeded"
    assert "more than 10,000 problems" in problems[-1].message


def test_documents_elsewhere(tmp_path: Path, http_server: FileServer) -> None:
    http_server.put("m.json", b'{"9.9": {}}')
    write(tmp_path, {}, manifest=f"{http_server.url}/m.json")
    assert found(zm.validate(tmp_path)) == [("location_not_allowed", None)]
    assert http_server.requests == []
    assert found(zm.validate(tmp_path, allow=[http_server.url])) == [("invalid_chunk_key", "9.9")]
    http_server.script("m.json", status(403), sticky=True)
    assert found(zm.validate(tmp_path, allow=[http_server.url])) == [("source_access_denied", None)]


@pytest.mark.servers
def test_a_hierarchy_that_cannot_be_listed(tmp_path: Path) -> None:
    node = json.loads((write(tmp_path, {"9.9": {}}) / "zarr.json").read_text())
    zarr.create_group(tmp_path)
    with FileServer(tmp_path) as server:
        with pytest.raises(zm.errors.SourceError, match="cannot be listed"):
            zm.validate(server.url)
        expected = [("invalid_chunk_key", "9.9")]
        assert found(zm.validate(server.url, arrays=["a"])) == expected
        assert found(zm.validate(f"{server.url}/a")) == expected
        edit(
            tmp_path,
            lambda root: root.update(consolidated_metadata={"metadata": {"a": node}}),
        )
        assert found(zm.validate(server.url)) == expected
        with pytest.raises(zm.errors.SourceNotFoundError, match="no Zarr hierarchy"):
            zm.validate(f"{server.url}/nothing")


LOCK = {"chunk-manifest-json": {"must_understand": True}}
ALL_EMPTY = {f"{row}.{column}": {} for row in range(2) for column in range(3)}


def test_arrays_without_a_lock_are_noted(tmp_path: Path) -> None:
    for path in ("a", "b"):
        write(tmp_path, ALL_EMPTY, path)
    edit(tmp_path / "b", lambda node: node.update(LOCK))
    zarr.create_array(tmp_path / "c", shape=4, chunks=2, dtype="u1")
    assert zm.validate(tmp_path) == []
    note, *others = zm.validate(tmp_path, strict=True)
    assert {other.code for other in others} == {"checksums_missing"}
    assert (note.code, note.phase, note.array, note.is_note) == (
        "lock_missing", "declaration", "a", True,
    )  # fmt: skip
    assert str(note).startswith("array 'a': the lock is missing")


def test_a_lock_that_only_the_consolidated_metadata_lack_is_noted(tmp_path: Path) -> None:
    array = write(tmp_path, ALL_EMPTY)
    consolidated(tmp_path, {"a": json.loads((array / "zarr.json").read_text())})
    edit(array, lambda node: node.update(LOCK))
    note, *others = zm.validate(tmp_path, strict=True)
    assert {other.code for other in others} == {"checksums_missing"}
    assert (note.code, note.array) == ("lock_missing", "a")
    assert "in the consolidated metadata of '/'" in str(note)
    assert zm.validate(tmp_path) == []


@pytest.mark.parametrize("partition_shape", [None, (2,)])
@pytest.mark.parametrize(
    ("entries", "missing"),
    [({}, 5), ({1: {"data": b"ab"}, 3: {}}, 3), ({i: {} for i in range(5)}, 0)],
)
def test_chunks_without_an_entry_are_noted(
    tmp_path: Path, entries: Any, missing: int, partition_shape: Any
) -> None:
    named = {(i,): entry for i, entry in entries.items()}
    zm.create_array(
        *(tmp_path, "a", named), shape=10, chunks=2, dtype="u1", partition_shape=partition_shape
    )
    assert zm.validate(tmp_path) == []
    notes = zm.validate(tmp_path, strict=True)
    assert [note.code for note in notes] == (["entries_missing"] if missing else [])
    assert all(f"{missing} of 5 chunks have no entry" in str(note) for note in notes)


def test_a_lost_declaration_is_a_problem(tmp_path: Path) -> None:
    array = write(tmp_path, {})
    edit(array, lambda node: (node.update(LOCK), node.pop("storage_transformers")))
    (problem,) = zm.validate(tmp_path)
    assert (problem.code, problem.phase) == ("invalid_configuration", "declaration")
    assert "the declaration was lost" in str(problem)
