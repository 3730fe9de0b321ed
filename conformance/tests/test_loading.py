"""Loading a corpus: what does not match its index is refused, and so is what nobody understands."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from conformance.runner.cases import FEATURES, load_corpus
from conformance.runner.errors import UsageError
from conformance.tests.corpora import CorpusWriter, sha256

VALUES = struct.pack("<6h", 1, 2, 3, 4, 5, 6)
FILES = {"expected.bin": VALUES}
EXPECT = {
    "values": "expected.bin",
    "sha256": sha256(VALUES),
    "shape": [2, 3],
    "data_type": "int16",
}
READ = {"op": "read", "array": "a", "expect": EXPECT}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusWriter:
    return CorpusWriter(tmp_path)


def test_hashes_are_verified(corpus: CorpusWriter, tmp_path: Path) -> None:
    for name in ("changed", "missing", "added", "whole"):
        corpus.case(f"a/{name}", [READ], files={**FILES, "hierarchy/x": b"x"})
    corpus.write_index()
    case = tmp_path / "cases" / "a"
    (case / "changed/hierarchy/x").write_bytes(b"y")
    (case / "missing/hierarchy/x").unlink()
    (case / "added/hierarchy/y").write_bytes(b"y")
    (case / "stray").mkdir()
    (case / "stray/case.json").write_bytes(b"{}")
    with pytest.raises(UsageError) as raised:
        load_corpus(tmp_path)
    assert str(raised.value).splitlines()[1:] == [
        "  a/changed: hierarchy/x has a different SHA-256",
        "  a/missing: hierarchy/x is missing",
        "  a/added: hierarchy/y is not listed",
        "  a/stray: not listed",
    ]


def test_the_hash_of_expected_values_is_verified(corpus: CorpusWriter) -> None:
    corpus.case("a/one", [READ], files={"expected.bin": VALUES[::-1]})
    with pytest.raises(UsageError, match="the SHA-256 of an expected file is not"):
        corpus.load()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"features": ["read", "reed"]}, r"unknown features \['reed'\]"),
        ({"level": "shall"}, "unknown level 'shall'"),
        ({"setps": []}, r"unknown members \['setps'\]"),
        ({"open": {"base": "@SOURCE@"}}, r"unknown placeholders \['@SOURCE@'\]"),
        ({"features": []}, "no features"),
        ({"class": "cautious"}, "unknown class 'cautious'"),
        ({"lacks": ["reed"]}, r"unknown features \['reed'\]"),
        ({"lacks": ["read"]}, r"both needs and lacks \['read'\]"),
        ({"links": {"expected.bin": "x"}}, r"both files and links or pipes \['expected.bin'\]"),
    ],
)
def test_a_malformed_case(corpus: CorpusWriter, members: dict[str, Any], message: str) -> None:
    corpus.case("a/one", [READ], files=FILES, **members)
    with pytest.raises(UsageError, match=message):
        corpus.load()


def test_selecting(corpus: CorpusWriter) -> None:
    for name in ("a/one", "a/two", "b/one", "c/one"):
        corpus.case(name, [READ], files=FILES)
    loaded = corpus.load()
    assert [case.id for case in loaded.select(only=["*/two"], areas=["b"]).cases] == [
        "a/two",
        "b/one",
    ]
    assert loaded.select() is loaded
    with pytest.raises(UsageError, match="no case matches d"):
        loaded.select(areas=["d"])


def test_the_documentation_lists_the_features() -> None:
    readme = Path(__file__).parents[1] / "README.md"
    section = readme.read_text(encoding="utf-8").partition("### Features")[2].partition("###")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert set(re.findall(r"`(.*?)`", " ".join(cells))) == FEATURES
