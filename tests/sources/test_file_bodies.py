"""A large file that is read piece by piece: the bytes of the file that was opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from obstore.store import MemoryStore

import zarr_manifest as zm
from tests.properties import examples
from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import FileBody, SourceRange, Sources, in_own_loop, reader_of

WHOLE = SourceRange(0, None, False)
SIZE = 2**22 + 5
CONTENT = os.urandom(SIZE)


def open_body(file: Path, span: SourceRange = WHOLE) -> memoryview | FileBody:
    sources = Sources({file.parent.as_uri(): None}, reader_of(MemoryStore()))
    return in_own_loop(sources.fetch_lazily(UrlLocation("file", "", str(file)[1:]), span))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "large"
    file.write_bytes(CONTENT)
    return file


@pytest.fixture(scope="module")
def body(large: Path) -> Iterator[FileBody]:
    body = open_body(large)
    assert isinstance(body, FileBody)
    yield body
    body.close()


@given(st.integers(0, SIZE + 2), st.integers(0, SIZE + 2) | st.none())
@examples(0.4)
def test_slices_are_those_of_the_bytes(body: FileBody, start: int, stop: int | None) -> None:
    assert body[start:stop] == CONTENT[start:stop]


@given(st.integers(0, SIZE), st.integers(0, SIZE))
@examples(0.4)
def test_bytes_are_read_into_memory(body: FileBody, start: int, size: int) -> None:
    wanted = CONTENT[start : start + size]
    filled = bytearray(len(wanted))
    body.read_into(start, memoryview(filled))
    assert filled == wanted


def test_all_of_it(body: FileBody) -> None:
    assert len(body) == SIZE
    assert bytes(body) == CONTENT == bytes(body)


def test_a_range_of_a_file(large: Path) -> None:
    part = open_body(large, SourceRange(2, None, False))
    assert isinstance(part, FileBody)
    assert bytes(part) == CONTENT[2:]
    assert part[:3] == CONTENT[2:5]
    part.close()


def test_small_files_are_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"abc")
    assert open_body(tmp_path / "small") == b"abc"


def test_too_large_a_file(large: Path) -> None:
    with pytest.raises(zm.errors.LimitExceededError):
        open_body(large, structs.replace(WHOLE, most=SIZE - 1))


def test_a_file_that_is_replaced_or_cut_short_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(CONTENT)
    body = open_body(path)
    (tmp_path / "other").write_bytes(bytes(SIZE))
    (tmp_path / "other").rename(path)
    assert bytes(body) == CONTENT
    assert isinstance(body, FileBody)
    body.close()
    body = open_body(path)
    assert isinstance(body, FileBody)
    os.truncate(path, SIZE - 1)
    with pytest.raises(zm.errors.ShortReadError):
        bytes(body)
    with pytest.raises(zm.errors.ShortReadError):
        body.read_into(SIZE - 2, memoryview(bytearray(2)))
    body.close()
    with pytest.raises(zm.errors.SourceError):
        bytes(body)
