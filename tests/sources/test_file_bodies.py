"""A large file that is read piece by piece: the bytes of the file that was opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import zarr_manifest as zm
from tests.properties import examples
from zarr_manifest.sources import Directory, FileBody, FileReader, SourceRange
from zarr_manifest.sources.local_files import open_body

WHOLE = SourceRange(0, None, False)
SIZE = 2**22 + 5
CONTENT = os.urandom(SIZE)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> FileReader:
    directory = tmp_path_factory.mktemp("files")
    (directory / "large").write_bytes(CONTENT)
    (directory / "small").write_bytes(b"abc")
    return FileReader(Directory(str(directory)))


@pytest.fixture(scope="module")
def body(reader: FileReader) -> Iterator[FileBody]:
    body = open_body(reader, "large", WHOLE)
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


def test_a_range_of_a_file(reader: FileReader) -> None:
    part = open_body(reader, "large", SourceRange(2, None, False))
    assert isinstance(part, FileBody)
    assert bytes(part) == CONTENT[2:]
    assert part[:3] == CONTENT[2:5]
    part.close()


def test_small_files_are_read_at_once(reader: FileReader) -> None:
    assert open_body(reader, "small", WHOLE) == b"abc"


def test_too_large_a_file(reader: FileReader) -> None:
    with pytest.raises(zm.errors.LimitExceededError):
        open_body(reader, "large", structs.replace(WHOLE, most=SIZE - 1))


def test_a_file_that_is_replaced_or_cut_short_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(CONTENT)
    body = open_body(FileReader(Directory(str(tmp_path))), "large", WHOLE)
    (tmp_path / "other").write_bytes(bytes(SIZE))
    (tmp_path / "other").rename(path)
    assert bytes(body) == CONTENT
    assert isinstance(body, FileBody)
    body.close()
    body = open_body(FileReader(Directory(str(tmp_path))), "large", WHOLE)
    assert isinstance(body, FileBody)
    os.truncate(path, SIZE - 1)
    with pytest.raises(zm.errors.ShortReadError):
        bytes(body)
    with pytest.raises(zm.errors.ShortReadError):
        body.read_into(SIZE - 2, memoryview(bytearray(2)))
    body.close()
    with pytest.raises(zm.errors.SourceError):
        bytes(body)
