"""What writers write is checked by the runner itself: what was asked passes, all else does not."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generator.arrays import Array
from conformance.runner.errors import UsageError
from conformance.runner.run import run_suite
from conformance.runner.written_arrays import left_behind, wrong_array
from conformance.runner.written_documents import WrongError, entries_of
from conformance.tests.corpora import CorpusWriter, adapter_command

METADATA = Array((4, 4), (2, 2)).metadata(None)
REQUEST: dict[str, Any] = {
    "op": "write",
    "array": "g/a",
    "metadata": METADATA,
    "chunks": [
        {"chunk": [0, 0], "path": "d.bin", "offset": 4, "length": 4, "checksum": "md5:00"},
        {"chunk": [0, 1], "data": "AAE="},
        {"chunk": [1, 1], "empty": True},
    ],
    "partition_shape": None,
    "codecs": None,
    "inline": False,
}
ENTRIES: dict[str, Any] = {
    "0.0": {"path": "d.bin", "offset": 4, "length": 4, "checksum": "md5:00"},
    "0.1": {"data": "AAE="},
    "1.1": {},
}
BLOCKS = {"0.0": ENTRIES["0.0"], "0.1": ENTRIES["0.1"]}, {"1.1": ENTRIES["1.1"]}


def declared(manifest: Any = "./manifest.json", **configuration: Any) -> dict[str, Any]:
    stated = {"manifest": manifest, **configuration}
    transformer = {"name": "chunk-manifest-json", "configuration": stated}
    return {**METADATA, "storage_transformers": [transformer]}


def problem(directory: Path, node: Any, request: dict[str, Any] | None = None, **files: Any) -> str:
    """What is wrong with a hierarchy of these files."""
    written = {"zarr.json": node, **files}
    for name, content in written.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = directory / "g" / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return wrong_array(directory, REQUEST | (request or {}))


def with_entries(directory: Path, document: Any) -> str:
    return problem(directory, declared(), **{"manifest.json": document})


# ------------------------------------------------------------------ what is right


def test_what_was_asked_is_right(tmp_path: Path) -> None:
    assert with_entries(tmp_path, ENTRIES) == ""


def test_the_same_in_other_words_is_right(tmp_path: Path) -> None:
    entries = {
        "1.1": {},
        "0.1": {"_made_by": None, "data": "AAE="},
        "0.0": {"checksum": "md5:00", "length": 4, "offset": 4, "path": "./d.bin", "x:y": [1]},
    }
    node = declared("manifests/a%20b.json", base="./", codecs=[])
    node["storage_transformers"][0]["must_understand"] = True
    node["dimension_names"] = [None, None]
    assert problem(tmp_path, node, **{"manifests/a b.json": entries}) == ""


def test_inline_encoded_and_partitioned_are_right(tmp_path: Path) -> None:
    assert problem(tmp_path / "inline", declared(ENTRIES), {"inline": True}) == ""
    encoded = {"manifest.json": gzip.compress(json.dumps(ENTRIES).encode())}
    node = declared(codecs=[{"name": "gzip", "configuration": {"level": 1}}])
    assert problem(tmp_path / "gzip", node, {"codecs": ["gzip"]}, **encoded) == ""
    parts = {"m/0.0.json": BLOCKS[0], "m/1.0.json": BLOCKS[1]}
    for name, partitions in (("all", "all"), ("list", ["1.0", "0.0"]), ("none", None)):
        stated = {} if partitions is None else {"partitions": partitions}
        node = declared("./m/{partition}.json", partition_shape=[1, 2], **stated)
        assert problem(tmp_path / name, node, {"partition_shape": [1, 2]}, **parts) == ""


def digest_of(document: Any) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def checksum_of(document: Any) -> str:
    return f"sha256:{digest_of(document)}"


CHECKSUM = checksum_of(ENTRIES)


def test_documents_by_digest_are_right(tmp_path: Path) -> None:
    for name in ("manifest.json", "m-{digest}.json"):
        files = {name.replace("{digest}", digest_of(ENTRIES)[:16]): ENTRIES}
        assert problem(tmp_path / name, declared(name, checksum=CHECKSUM), **files) == ""
    template = "m/{partition}-{digest}.json"
    named = {"0.0": BLOCKS[0], "1.0": BLOCKS[1]}
    node = declared(
        template,
        partition_shape=[1, 2],
        partitions={block: checksum_of(document) for block, document in named.items()},
    )
    files = {f"m/{block}-{digest_of(one)[:16]}.json": one for block, one in named.items()}
    assert problem(tmp_path / "blocks", node, {"partition_shape": [1, 2]}, **files) == ""


@given(
    st.dictionaries(
        st.integers(0, 3).map(lambda i: f"{i // 2}.{i % 2}"),
        st.fixed_dictionaries(
            {"path": st.sampled_from(["a.bin", "s3://b/c"])},
            optional={
                "offset": st.integers(0, 2**52),
                "length": st.integers(1, 2**52),
                "version": st.text(st.characters(codec="ascii", categories=["L"]), max_size=3),
            },
        )
        | st.binary(min_size=1, max_size=9).map(lambda d: {"data": base64.b64encode(d).decode()})
        | st.just({}),
        max_size=4,
    )
)
def test_entries_are_the_same_only_if_they_mean_the_same(document: dict[str, Any]) -> None:
    entries = entries_of(document, "it", [2, 2])
    assert len(entries) == len(document)
    for key, stated in document.items():
        for member in stated:
            fewer = {name: value for name, value in stated.items() if name != member}
            # A default may be left out; without a place, an entry is invalid or empty.
            same = member == "offset" and stated[member] == 0
            try:
                assert (entries_of({**document, key: fewer}, "it", [2, 2]) == entries) == same
            except WrongError:
                assert member in ("path", "data")


# ------------------------------------------------------------------ what is wrong


def changed(**members: Any) -> dict[str, Any]:
    return {**ENTRIES, "0.0": {**ENTRIES["0.0"], **members}}


WRONG_ENTRIES: dict[str, tuple[Any, str]] = {
    "lost": ({k: v for k, v in ENTRIES.items() if k != "0.1"}, "chunk 0.1 was asked for"),
    "fill": ({**ENTRIES, "1.0": {}}, "chunk 1.0 has an entry that nobody asked for"),
    "offset": (changed(offset=5), "the entry of chunk 0.0 is not the one asked for"),
    "checksum": (changed(checksum="md5:01"), "the entry of chunk 0.0"),
    "emptied": ({**ENTRIES, "0.0": {}}, "the entry of chunk 0.0"),
    "floats": (b'{"0.0": {"path": "d.bin", "offset": 4.0}}', "offset is not an integer"),
    "exponents": (b'{"0.0": {"path": "d.bin", "length": 4e0}}', "length is not an integer"),
    "booleans": (changed(offset=True), "offset is not an integer"),
    "null": (changed(etag=None), "etag is not a string"),
    "length zero": (changed(length=0), "no such range of bytes"),
    "too far": (changed(offset=2**53 - 4), "no such range of bytes"),
    "both": (changed(data="AA=="), "needs a path or data"),
    "only an annotation": ({**ENTRIES, "1.1": {"_x": 1}}, "needs a path or data"),
    "data with offset": ({**ENTRIES, "0.1": {"data": "AAE=", "offset": 0}}, "that need a path"),
    "undefined": (changed(ofset=4), "an undefined member"),
    "base64": ({**ENTRIES, "0.1": {"data": "AAE"}}, "data is not base64"),
    "unused bits": ({**ENTRIES, "0.1": {"data": "AAF="}}, "not canonical base64"),
    "colon": (changed(path="d:e.bin"), "does not begin with ./"),
    "time": (changed(last_modified="Mon, 01 Jan 2024 00:00:00 GMT"), "last_modified is not"),
    "entry": ({**ENTRIES, "1.1": []}, "an entry is not an object"),
    "own key": ({**ENTRIES, "c/1/0": {}}, "'c/1/0' is not a canonical key"),
    "zeros": ({**ENTRIES, "01.0": {}}, "'01.0' is not a canonical key"),
    "outside": ({**ENTRIES, "2.0": {}}, "2.0 is not in the chunk grid"),
    "dimensions": ({**ENTRIES, "1": {}}, "1 is not in the chunk grid"),
    "mark": (b"\xef\xbb\xbf" + json.dumps(ENTRIES).encode(), "begins with a byte order mark"),
    "Latin": ('{"0.0": {"path": "\xe9"}}'.encode("latin-1"), "is not UTF-8"),
    "list": ([], "is not a JSON object"),
    "NaN": (b'{"0.0": NaN}', "is not JSON"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "twice": (b'{"0.0": {}, "0.0": {"path": "d.bin"}}', "two members of one name"),
    "twice inside": (b'{"0.0": {"path": "c", "path": "d"}}', "two members of one name"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_ENTRIES)
def test_wrong_documents_fail(tmp_path: Path, kind: str) -> None:
    document, message = WRONG_ENTRIES[kind]
    assert message in with_entries(tmp_path, document)


def blocks(partitions: Any, *, shape: Any = (1, 2), name: str = "m/{partition}.json") -> Any:
    return declared(name, partition_shape=list(shape), partitions=partitions)


PARTITIONED = {"partition_shape": [1, 2]}
WRONG_DECLARATIONS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "none": (METADATA, {}, "one storage transformer"),
    "string": ({**METADATA, "storage_transformers": ["x"]}, {}, "one storage transformer"),
    "other": ({**declared(), "storage_transformers": [{"name": "x"}]}, {}, "is not chunk-manifest"),
    "metadata": ({**declared(), "fill_value": True}, {}, "fill_value is not what was asked"),
    "dropped": ({**declared(), "codecs": []}, {}, "codecs is not what was asked"),
    "inline": (declared(ENTRIES), {}, "inline or not"),
    "not inline": (declared(), {"inline": True}, "inline or not"),
    "absent": (declared("./other.json"), {}, "g/a/other.json was not written"),
    "elsewhere": (declared("https://host/m.json"), {}, "not named relative"),
    "outside": (declared("../../../m.json"), {}, "climbs out"),
    "base": (declared(base="../"), {}, "base is not"),
    "null": (declared(base=None), {}, "is null"),
    "member": (declared(codec=[]), {}, "unknown members"),
    "codecs": (declared(codecs=["gzip"]), {}, "other codecs"),
    "not encoded": (declared(codecs=["gzip"]), {"codecs": ["gzip"]}, "is not gzip"),
    "shape": (blocks("all", shape=(2, 2)), PARTITIONED, "another partition_shape"),
    "shape of floats": (blocks("all", shape=(1.0, 2)), PARTITIONED, "another partition_shape"),
    "template": (blocks("all", name="m.json"), PARTITIONED, "{partition} once"),
    "lost document": (blocks("all"), PARTITIONED, "g/a/m/1.0.json was not written"),
    "lost of a list": (blocks(["1.0"]), PARTITIONED, "g/a/m/1.0.json was not written"),
    "unlisted": (blocks(["0.0"]), PARTITIONED, "chunk 1.1 was asked for, and has no entry"),
    "twice": (blocks(["0.0", "0.0"]), PARTITIONED, "names a block twice"),
    "no block": (blocks(["0.1"]), PARTITIONED, "not a block of the array"),
    "numbers": (blocks([0]), PARTITIONED, 'neither "all", nor a list'),
    "word": (blocks("some"), PARTITIONED, 'neither "all", nor a list'),
    "stale": (declared(checksum=checksum_of({})), {}, "has another checksum"),
    "digest alone": (declared("{digest}.json"), {}, "there is no checksum"),
    "two digests": (declared("{digest}{digest}", checksum=CHECKSUM), {}, "more than once"),
    "algorithm": (declared(checksum=f"md5:{'0' * 32}"), {}, "not sha256"),
    "capitals": (declared(checksum=CHECKSUM.upper()), {}, "not sha256"),
    "inline checksum": (declared(ENTRIES, checksum=CHECKSUM), {"inline": True}, "single document"),
    "lost by digest": (declared("m-{digest}", checksum=CHECKSUM), {}, "was not written"),
    "stale block": (blocks({"0.0": CHECKSUM}), PARTITIONED, "has another checksum"),
    "block without one": (blocks({"0.0": None}), PARTITIONED, "block 0.0 has no checksum"),
    "no block by digest": (blocks({"0.1": CHECKSUM}), PARTITIONED, "not a block of the array"),
}


@pytest.mark.parametrize("kind", WRONG_DECLARATIONS)
def test_wrong_declarations_fail(tmp_path: Path, kind: str) -> None:
    node, request, message = WRONG_DECLARATIONS[kind]
    documents = {"manifest.json": ENTRIES, "m/0.0.json": BLOCKS[0]}
    assert message in problem(tmp_path, node, request, **documents)


def test_an_entry_in_the_document_of_another_block_fails(tmp_path: Path) -> None:
    documents = {"m/0.0.json": {}, "m/1.0.json": ENTRIES}
    said = problem(tmp_path, blocks("all"), PARTITIONED, **documents)
    assert said == "g/a/m/1.0.json: 0.0 belongs to another block"


def test_a_refused_array_must_not_be_there(tmp_path: Path) -> None:
    assert left_behind(tmp_path, REQUEST) == ""
    problem(tmp_path, declared())
    assert "all the same" in left_behind(tmp_path, REQUEST)


def test_a_case_that_asks_for_nonsense_is_not_the_writers_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="asks for what is invalid"):
        problem(tmp_path, declared(ENTRIES), {"inline": True, "chunks": [{"chunk": [7, 7]}]})


# ------------------------------------------------------------------ in a run


@pytest.mark.parametrize(
    ("expect", "do", "message"),
    [
        ({"written": True}, {"files": True, "answer": {}}, ""),
        ({"written": True}, {"answer": {}}, "g/a/zarr.json was not written"),
        ({"error": {"code": "invalid_entry"}}, {"answer": {}}, "expected error invalid_entry"),
        (
            {"error": {"code": "invalid_entry"}},
            {"files": True, "error": "invalid_entry"},
            "the refused array has a zarr.json all the same",
        ),
        ({"error": {"code": "invalid_entry"}}, {"error": "invalid_entry"}, ""),
        ({"written": True}, {"files": True, "error": "invalid_entry"}, "expected an array, got"),
    ],
)
def test_writers_are_checked_in_a_run(
    tmp_path: Path, expect: dict[str, Any], do: dict[str, Any], message: str
) -> None:
    written = {"g/a/zarr.json": declared(), "g/a/manifest.json": ENTRIES}
    files = {name: json.dumps(content) for name, content in written.items()}
    error = {"code": do.get("error"), "phase": "manifest", "message": "no"}
    answer = {"ok": False, "error": error} if "error" in do else {}
    corpus = CorpusWriter(tmp_path)
    corpus.case(
        "a/write",
        [{**REQUEST, "expect": expect}],
        [{"files": files if "files" in do else {}, "answer": answer}],
        features=["write"],
    )
    (result,) = run_suite(adapter_command(features=["write"]), corpus.load()).results
    assert message in result.verdict.message
    assert bool(message) == bool(result.verdict.message)
