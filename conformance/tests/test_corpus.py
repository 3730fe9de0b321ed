"""The corpus is what its generator writes, and what the documentation of the suite says it is."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numcodecs
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from conformance.generator.areas import AREAS, all_cases
from conformance.generator.arrays import Array
from conformance.generator.case import Case
from conformance.generator.classification import CLASSES, FEATURES, anchors
from conformance.generator.frames import blosc_frame, gzip_member, shard, zstd_bomb, zstd_frame
from conformance.generator.writing import (
    differences,
    render,
    withdrawals,
    write,
    wrong_withdrawals,
)
from conformance.runner import cases as runner_cases
from zarr_manifest import errors

CONFORMANCE = Path(__file__).parents[1]
SPECIFICATION = Path(__file__).parents[2] / "specs" / "chunk-manifest-json"
INDEX: list[dict[str, Any]] = json.loads((CONFORMANCE / "index.json").read_bytes())["cases"]
CASES: dict[str, dict[str, Any]] = {
    entry["id"]: json.loads((CONFORMANCE / "cases" / entry["id"] / "case.json").read_bytes())
    for entry in INDEX
}
# Codes of the protocol, beside those of the specification.
ONLY_IN_THE_SUITE = {"missing_chunk", "zarr_error"}
# Nothing in the protocol writes.
NOT_ASKED_FOR = {"read_only", "manifest_error", "not_convertible", "write_conflict"}


def expectations(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every expectation of a case; of alternatives, each."""
    for step in case["steps"]:
        yield from step["expect"].get("any_of", [step["expect"]])


def expected_codes(case: dict[str, Any]) -> set[str]:
    codes: set[str] = set()
    for expect in expectations(case):
        if "error" in expect:
            code = expect["error"]["code"]
            codes |= set(code) if isinstance(code, list) else {code}
        codes |= {problem["code"] for problem in expect.get("problems", ())}
    return codes


# ---------------------------------------------------------------- the corpus as a whole


def test_the_corpus_is_what_the_generator_writes() -> None:
    assert differences(CONFORMANCE, render(all_cases())) == []


def test_there_are_enough_cases_and_enough_refusals() -> None:
    refusing = [case for case in CASES.values() if any("error" in e for e in expectations(case))]
    assert len(CASES) >= 170
    assert len(refusing) >= max(70, len(CASES) / 3)


def test_ids_are_unique() -> None:
    assert [name for name, n in Counter(entry["id"] for entry in INDEX).items() if n > 1] == []


@pytest.mark.parametrize("area", AREAS)
def test_every_area_has_cases_that_read_and_must(area: str) -> None:
    cases = [case for name, case in CASES.items() if name.startswith(area.replace("_", "-") + "/")]
    must = [case for case in cases if case["level"] == "must"]
    assert any(not expected_codes(case) for case in must)


def test_every_error_code_is_expected_somewhere() -> None:
    codes = {
        error.code
        for _, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, errors.ManifestError)
    }
    wanted = set[str]().union(*map(expected_codes, CASES.values()))
    assert wanted - ONLY_IN_THE_SUITE == codes - NOT_ASKED_FOR


def test_errors_come_in_every_phase() -> None:
    phases = {
        expect["error"]["phase"]
        for case in CASES.values()
        for expect in expectations(case)
        if "error" in expect and "phase" in expect["error"]
    }
    assert phases == {"declaration", "manifest", "chunk"}


def sections(document: Path) -> set[str]:
    """The sections of a document, as cases name them."""
    prefix = "" if document.name == "README.md" else f"{document.name}#"
    return {f"{prefix}{anchor}" for anchor in anchors(document)}


def test_sections_are_in_the_specification() -> None:
    there = set().union(*map(sections, SPECIFICATION.glob("*.md")))
    assert {case["section"] for case in CASES.values()} - there == set()


def test_each_class_has_cases_that_must_pass() -> None:
    classes = {entry["class"] for entry in INDEX if entry["level"] == "must"}
    assert classes == set(CLASSES)


def test_withdrawn_cases_are_gone_and_their_successors_are_there() -> None:
    assert wrong_withdrawals(withdrawals(CONFORMANCE), CASES.keys()) == []


def test_wrong_withdrawals_are_noticed() -> None:
    withdrawn: dict[str, Any] = {
        "a/right": {"successor": "a/new", "reason": "the bytes changed"},
        "a/dropped": {"successor": None, "reason": "nothing says so"},
        "a/again": {"successor": "a/right", "reason": "renamed"},
        "a/still-there": {"successor": None, "reason": "?"},
        "a/lost": {"successor": "a/gone", "reason": "?"},
        "a/silent": {"successor": None, "reason": ""},
        "a/short": "?",
    }
    assert wrong_withdrawals(withdrawn, {"a/new", "a/still-there"}) == [
        "a/still-there: withdrawn, but in the corpus",
        "a/lost: its successor a/gone does not exist",
        "a/silent: does not say its successor (an id or null) and the reason",
        "a/short: does not say its successor (an id or null) and the reason",
    ]


def test_descriptions_differ_unless_one_case_validates_what_another_reads() -> None:
    counted = Counter((name.split("/")[0], case["description"]) for name, case in CASES.items())
    assert max(counted.values()) <= 4


# ---------------------------------------------------------------- every case


def test_cases_satisfy_the_schema() -> None:
    schema = json.loads((CONFORMANCE / "case.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = {
        name: error.message for name, case in CASES.items() for error in validator.iter_errors(case)
    }
    assert wrong == {}


def test_the_index_repeats_what_the_cases_say() -> None:
    for entry in INDEX:
        case = CASES[entry["id"]]
        for member in ("id", "level", "class", "section", "features", "lacks"):
            assert entry.get(member) == case.get(member), entry["id"]


def test_files_with_expected_values_are_used_and_as_long_as_they_must_be() -> None:
    for entry in INDEX:
        used: dict[str, str] = {}
        for expect in expectations(CASES[entry["id"]]):
            name = expect.get("values") or expect.get("bytes")
            if name is None:
                continue
            used[name] = expect["sha256"]
            if "values" in expect:
                size = np.dtype(expect["data_type"]).itemsize * int(np.prod(expect["shape"]))
                path = CONFORMANCE / "cases" / entry["id"] / name
                assert path.stat().st_size == size, entry["id"]
        listed = {name: sha for name, sha in entry["files"].items() if name.startswith("expected")}
        assert used == listed, entry["id"]


def test_cases_are_small_and_portable() -> None:
    for entry in INDEX:
        for name in entry["files"]:
            path = CONFORMANCE / "cases" / entry["id"] / name
            assert path.stat().st_size < 32 * 1024, path
            for segment in path.relative_to(CONFORMANCE).parts:
                # What Windows or a Mac would not store, or store under another name.
                assert not re.search(r'[<>:"\\|?*\x00-\x1f]|[. ]$', segment), path
        lower = [name.lower() for name in entry["files"]]
        assert len(lower) == len(set(lower)), entry["id"]


def test_placeholders_are_known_and_not_where_nobody_replaces_them() -> None:
    known = {name.encode() for name in runner_cases.PLACEHOLDERS}
    for entry in INDEX:
        for name in entry["files"]:
            content = (CONFORMANCE / "cases" / entry["id"] / name).read_bytes()
            used = set(re.findall(rb"@[A-Z0-9_]+@", content))
            replaced = name.startswith("hierarchy/") and name.endswith(".json")
            assert used <= (known if replaced or name == "case.json" else set()), entry["id"]


def test_servers_have_a_directory_to_serve() -> None:
    for entry in INDEX:
        for server in CASES[entry["id"]].get("servers", {}).values():
            root = "" if server["root"] == "." else server["root"]
            files = [name for name in entry["files"] if name.startswith(root)]
            redirects = any("location" in rule for rule in server.get("rules", ()))
            validates = CASES[entry["id"]]["features"] == ["validate", "http"]
            assert files or redirects or validates, entry["id"]


# ---------------------------------------------------------------- the generator


def test_the_runner_knows_the_same_classes_and_features() -> None:
    assert tuple(runner_cases.CLASSES) == CLASSES
    assert set(FEATURES) == runner_cases.FEATURES


def test_documents_say_which_features_they_need() -> None:
    entry = {"path": "data.bin", "checksum": "md5:0", "etag": "x"}
    codecs = [{"name": "zstd"}, "crc32c"]

    def case(document: Any, lacks: Sequence[str] = (), **declared: Any) -> Case:
        made = Case("a/b", "reading", "", lacks=lacks)
        configuration = {"manifest": "./manifest.json", **declared}
        return made.array(manifest=document, configuration=configuration).lists()

    plain = case({"0": {"path": "checksum"}, "checksum": {}})
    assert (plain.features, plain.cls) == (["list"], "core")
    conditional = case({"0": entry})
    assert conditional.features == ["list", "checksums", "source-conditions"]
    assert conditional.cls == "checksums"
    inline = case(b"", manifest={"0": {"data": "AA==", "checksum": None}})
    assert inline.features == ["list", "checksums"]
    encoded = case(b"[", codecs=codecs, partition_shape=[True])
    assert encoded.features == ["list", "encoded-manifests", "manifest-zstd", "partitions"]
    assert encoded.cls == "partitions"
    lacking = case({"0": {"data": "AA==", "checksum": "md5:0"}}, lacks=["checksums"])
    assert (lacking.features, lacking.lacks, lacking.cls) == (["list"], ["checksums"], "core")


def test_a_section_decides_the_class_before_the_features() -> None:
    case = Case("a/b", "checksums", "", needs=["partitions"]).lists()
    assert case.cls == "checksums"
    assert case.reports().cls == "validator"
    assert Case("a/b", "checksums", "", cls="safe").lists().cls == "safe"
    with pytest.raises(ValueError, match="unknown class 'cautious'"):
        _ = Case("a/b", "checksums", "", cls="cautious").lists().cls


def test_differences_are_listed(tmp_path: Path) -> None:
    def made(content: bytes) -> Case:
        return Case("area/name", "entries", "x").array(manifest={}).put("a/d.bin", content).lists()

    write(tmp_path, render([made(b"1")]))
    (tmp_path / "cases" / "LICENSE").write_text("by hand")
    assert differences(tmp_path, render([made(b"1")])) == []
    (tmp_path / "cases/area/name/stray").write_bytes(b"")
    (tmp_path / "cases/area/name/hierarchy/a/zarr.json").unlink()
    assert differences(tmp_path, render([made(b"2")])) == [
        "differs: cases/area/name/hierarchy/a/d.bin",
        "differs: index.json",
        "missing: cases/area/name/hierarchy/a/zarr.json",
        "stale: cases/area/name/stray",
    ]
    write(tmp_path, render([]))
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"LICENSE", "index.json", "vectors.json"}
    assert not (tmp_path / "cases" / "area").exists()


@given(data=st.binary(max_size=300))
def test_frames_decode(data: bytes) -> None:
    assert gzip.decompress(gzip_member(data)) == data
    assert zlib.decompress(gzip_member(data), wbits=31) == data
    assert numcodecs.Blosc().decode(blosc_frame(data + b"xx", 2)) == data + b"xx"
    for size_is_stated in (True, False):
        frame = zstd_frame(data, content_size=size_is_stated)
        stated = zstandard.get_frame_parameters(frame).content_size
        assert (stated == len(data)) == size_is_stated
        reader = zstandard.ZstdDecompressor().stream_reader(frame)
        assert reader.read() == data


@pytest.mark.parametrize("size", [65535, 65536, 131072, 200_000])
def test_large_frames_decode(size: int) -> None:
    data = bytes(range(250)) * (size // 250 + 1)
    assert gzip.decompress(gzip_member(data[:size])) == data[:size]
    frame = zstd_frame(data[:size], content_size=False)
    assert zstandard.ZstdDecompressor().stream_reader(frame).read() == data[:size]


def test_the_bomb_is_one() -> None:
    bomb = zstd_bomb(b"{", b" ", 64, b"}")
    decoded = zstandard.ZstdDecompressor().stream_reader(bomb).read()
    assert len(bomb) < 512
    assert decoded == b"{" + b" " * 2**23 + b"}"


@given(
    shape=st.lists(st.integers(0, 5), max_size=3),
    data=st.data(),
    data_type=st.sampled_from(["int16", "uint8", "float64"]),
    endian=st.sampled_from(["little", "big"]),
)
def test_chunks_are_those_of_the_values(
    shape: list[int], data: st.DataObject, data_type: str, endian: str
) -> None:
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    array = Array(
        tuple(shape), chunks, data_type, endian=endian, fill_value=9, order=order
    )  # fmt: skip
    dtype = np.dtype(data_type).newbyteorder("<" if endian == "little" else ">")
    values = np.array(array.numbers, dtype).reshape(shape)
    got_shape, got = array.expected()
    assert got_shape == shape
    assert got == values.astype(dtype.newbyteorder("<")).tobytes()
    for index in array.indices():
        padded = np.full(chunks, 9, dtype)
        part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
        padded[tuple(slice(0, n) for n in part.shape)] = part
        assert array.chunk(index) == padded.transpose(order).tobytes()


def test_a_shard_has_its_index_where_it_says() -> None:
    for index_at in ("start", "end"):
        whole = shard([b"abc", None, b"de"], index_at=index_at, checksum=False)
        index = np.frombuffer(whole[:48] if index_at == "start" else whole[-48:], "<u8")
        (first, n), (absent, _), (third, m) = index.reshape(3, 2).tolist()
        assert whole[first : first + n] == b"abc"
        assert absent == 2**64 - 1
        assert whole[third : third + m] == b"de"
