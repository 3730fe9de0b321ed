"""Byte ranges: reading the source range equals slicing the bytes of the whole chunk."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from zarr_manifest.errors import RangeOutOfBoundsError
from zarr_manifest.showing import counted
from zarr_manifest.sources import WHOLE, SourceRange, slice_bounds, source_range

NUMBERS = st.integers(0, 40)


def bounded(start: int, stop: int) -> SourceRange:
    return SourceRange(start, stop, False)


def beginning(start: int) -> SourceRange:
    return SourceRange(start, None, False)


def last(count: int) -> SourceRange:
    return SourceRange(-count, None if count else 0, False)


REQUESTS: st.SearchStrategy[SourceRange] = st.one_of(
    st.just(WHOLE),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: bounded(min(pair), max(pair))),
    NUMBERS.map(beginning),
    NUMBERS.map(last),
)
OBJECTS = st.binary(max_size=30)


def read(source: bytes, wanted: SourceRange) -> bytes:
    """Read as an object store does: the end of the object cuts a range short."""
    if wanted.start < 0:
        assert wanted.stop is None
        return source[max(len(source) + wanted.start, 0) :]
    part = source[wanted.start : wanted.stop]
    if wanted.exact:
        assert wanted.stop is not None
        assert len(part) == wanted.stop - wanted.start
    return part


def slice_chunk(chunk: bytes, request: SourceRange) -> bytes:
    """Slice with Python's own rules, which clamp as the table in the specification does."""
    return chunk[request.start : request.stop]


@given(OBJECTS, st.data(), REQUESTS)
def test_known_length_equals_slicing(
    source: bytes, data: st.DataObject, request_: SourceRange
) -> None:
    offset = data.draw(st.integers(0, len(source)))
    length = data.draw(st.integers(0, len(source) - offset))
    size = data.draw(st.none() | st.just(len(source)))
    wanted = source_range(offset, length, request_, size=size)
    assert wanted.exact
    assert read(source, wanted) == slice_chunk(source[offset : offset + length], request_)


def needs_size(offset: int, length: int | None, request_: SourceRange) -> bool:
    """Whether a suffix of the object could reach back before the entry."""
    return length is None and offset > 0 and request_.start < 0


@given(OBJECTS, st.data(), REQUESTS)
def test_unknown_length_equals_slicing(
    source: bytes, data: st.DataObject, request_: SourceRange
) -> None:
    offset = data.draw(st.integers(0, len(source)))
    assume(not needs_size(offset, None, request_))
    wanted = source_range(offset, None, request_)
    assert read(source, wanted) == slice_chunk(source[offset:], request_)


@given(OBJECTS, st.data(), REQUESTS)
def test_known_size_equals_slicing(
    source: bytes, data: st.DataObject, request_: SourceRange
) -> None:
    assume(source)
    offset = data.draw(st.integers(0, len(source) - 1))
    wanted = source_range(offset, None, request_, size=len(source))
    assert wanted.exact
    assert read(source, wanted) == slice_chunk(source[offset:], request_)


@given(NUMBERS, NUMBERS, REQUESTS)
def test_result_lies_within_the_entry(offset: int, length: int, request_: SourceRange) -> None:
    wanted = source_range(offset, length, request_)
    assert wanted.stop is not None
    assert offset <= wanted.start <= wanted.stop <= offset + length
    assert wanted.exact


@given(NUMBERS, st.none() | NUMBERS, REQUESTS)
@example(0, None, last(3))
def test_needs_size_predicts_the_error(
    offset: int, length: int | None, request_: SourceRange
) -> None:
    if needs_size(offset, length, request_):
        with pytest.raises(ValueError, match="need the object's size"):
            source_range(offset, length, request_)
    else:
        wanted = source_range(offset, length, request_)
        assert wanted.start < 0 or wanted.stop is None or wanted.start <= wanted.stop


@given(st.binary(max_size=30), REQUESTS)
def test_slice_bounds_equals_slicing(value: bytes, request_: SourceRange) -> None:
    start, stop = slice_bounds(len(value), request_)
    assert 0 <= start <= stop <= len(value)
    assert value[start:stop] == slice_chunk(value, request_)


@given(NUMBERS, st.integers(1, 40), REQUESTS)
def test_offset_past_the_end(size: int, beyond: int, request_: SourceRange) -> None:
    with pytest.raises(
        RangeOutOfBoundsError, match=f"byte {size + beyond}, .* only {counted(size, 'byte')}\\."
    ):
        source_range(size + beyond, None, request_, size=size)


def test_size_does_not_stretch_or_cut_a_known_length() -> None:
    for size in (100, 3):
        assert source_range(10, 5, WHOLE, size=size) == SourceRange(10, 15, True)


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (-1, None), (5, -1)])
def test_negative_entry(offset: int, length: int | None) -> None:
    with pytest.raises(ValueError, match="an entry cannot have"):
        source_range(offset, length, WHOLE, size=10)
