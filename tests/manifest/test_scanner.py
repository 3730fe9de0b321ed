"""What is read at once is what is read entry by entry; whatever else there is, is left alone."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.combinations import crossed
from tests.properties import examples
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import Limits, collect, strict
from zarr_manifest.manifest import (
    Grid,
    JoinedReferences,
    Manifest,
    PathNumbers,
    References,
    interpret_manifest,
)
from zarr_manifest.manifest.parts import LazyPart
from zarr_manifest.manifest.scanner import Scanner

LARGEST = 2**53 - 1
SPACE = st.sampled_from(["", " ", "\n", "\t \r\n"])
# As JSON; most are like what writers write.
STRINGS = st.one_of(
    st.sampled_from(["s3://b/f.nc", "s3://b/g.nc", "s3://b/f.n", "", "x" * 70, "x" * 69 + "y"]),
    st.sampled_from(["x" * 300, "x" * 200 + "y" + "x" * 99, "x" * 299 + "y", "y" + "x" * 299]),
    st.text("ab/.:{} ", max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
).map(json.dumps)
NUMBERS = st.one_of(
    st.integers(0, 2000),
    st.sampled_from([10**7, 10**8 - 1, 10**8, 10**15 - 1, 10**15, LARGEST, LARGEST + 1]),
    st.integers(0, 10**15 - 1),
).map(str)
VALUES = {
    "path": STRINGS,
    "offset": NUMBERS,
    "length": NUMBERS,
    "checksum": st.sampled_from(['"crc32c:0a1b2c3d"', '"crc32c:00000000"', f'"md5:{"0" * 32}"']),
    "etag": st.sampled_from(['"\\"e\\""', '"f"', '"W/x"']),
    "last_modified": st.sampled_from(['"2024-01-31T12:00:00Z"', '"2025-01-31T12:00:00+01:00"']),
    "version": st.sampled_from(['"v1"', '"v2"']),
    "size": st.sampled_from(["0", "17"]) | NUMBERS,
}
UNUSUAL = st.sampled_from(
    ["", "{}", "null", "1.0", "1e3", "-1", "007", '"\\u0061"', '"\n"', '"\\x"', '"a,b"', '"ü"', '"']
)
SHAPES = st.sampled_from([(12,), (3, 4), (2, 3, 2), (10**9,), (2, 10**9), (10**8, 2), (200, 200)])


def key_of(index: tuple[int, ...]) -> str:
    return ".".join(map(str, index))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[str], Callable[[str, list[str]], str], str, str]:
    """The members of each entry, how one is formatted, and what is around and between them."""
    names = draw(st.lists(st.sampled_from(sorted(set(VALUES) - {"path"})), unique=True))
    names.insert(draw(st.integers(0, len(names))), "path")
    spaces = [draw(SPACE) for _ in range(4 + 4 * len(names))]

    def formatted(key: str, values: list[str]) -> str:
        space = iter(spaces)
        members = [
            f'{next(space)}"{name}"{next(space)}:{next(space)}{value}{next(space)}'
            for name, value in zip(names, values, strict=True)
        ]
        return f'"{key}"{next(space)}:{next(space)}{{{",".join(members)}}}'

    return names, formatted, draw(SPACE), draw(SPACE)


@st.composite
def documents(draw: st.DrawFn, *, proper: bool) -> tuple[bytes, tuple[int, ...]]:
    """A document of entries that are written alike, and its grid; others may be anything."""
    names, formatted, before, after = draw(layouts())
    shape = draw(SHAPES)
    indices = draw(
        st.lists(
            st.tuples(*(st.integers(0, n - 1) for n in shape)), min_size=2, max_size=6, unique=True
        )
    )
    entries = []
    for index in indices:
        values = [draw(VALUES[name]) for name in names]
        entries.append(formatted(key_of(index), values))
    text = f"{before}{{{before}{f'{after},{before}'.join(entries)}{after}}}{after}"
    if not proper:
        for _ in range(draw(st.integers(1, 2))):
            start = draw(st.integers(0, len(text) - 1))
            wrong = draw(UNUSUAL | st.text('0123456789"{},.:\\ ab', max_size=2))
            text = text[:start] + wrong + text[start + draw(st.integers(0, 2)) :]
    return text.encode(), shape


def at_once(document: bytes, grid: Grid, limits: Limits) -> Any:
    """What is read at once, as values that compare; None if nothing is."""
    paths = PathNumbers()
    rows = Scanner(grid, limits, paths, {}).scan(LazyPart(document, 0, len(document)))
    if rows is None:
        assert not paths
        return None
    joined = JoinedReferences(paths)
    joined.add(*rows)
    assert grid.shape is not None
    references = joined.references(grid.shape)
    assert references is not None
    return comparable(references)


@contextmanager
def scanned_from(least_bytes: int) -> Iterator[None]:
    """Read smaller documents entry by entry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.manifest.decoding._LEAST_BYTES", least_bytes)
        yield


def one_by_one(document: bytes, grid: Grid, limits: Limits) -> Any:
    """What is read entry by entry, or the error."""
    try:
        with scanned_from(2**60):
            return comparable(strict(interpret_manifest(document, grid, limits)))
    except zm.ManifestError as error:
        return error


def refuse_some(path: str) -> None:
    """Refuse paths, as resolving them may."""
    if path.endswith("g.nc"):
        raise InvalidPathError("it is not usable")


def validated(document: bytes, grid: Grid, least_bytes: int) -> Any:
    """What validators find, with or without a scanner."""
    with scanned_from(least_bytes):
        findings = interpret_manifest(document, grid, Limits(), resolve=refuse_some)
        found, problems = collect(findings)
    return [] if found is None or problems else comparable(found), [*map(str, problems)]


@pytest.mark.slow
@examples(2)
@given(st.booleans().flatmap(lambda proper: documents(proper=proper)))
def test_validators_find_the_same_at_once(given: tuple[bytes, tuple[int, ...]]) -> None:
    document, shape = given
    grid = Grid(len(shape), shape)
    slowly = validated(document, grid, least_bytes=2**60)
    assert validated(document, grid, least_bytes=0) == slowly


def comparable(references: References) -> Any:
    arrays = [(column.dtype, column.tolist()) for column in references.columns()]
    return references.grid_shape, arrays, references.paths, [*references.extras()]


@pytest.mark.slow
@given(documents(proper=False), st.sampled_from([Limits(), Limits(path_length=3)]))
@examples(4)
@example((b'{"0":{"path":"a"},"1":{}}', (12,)), Limits())
@example((b'{"0":{"path":"a"},"1":{"path":"a"}}}', (12,)), Limits())
@example((b'{"0":{"path":"a"},"1":{"path":"a}"}', (12,)), Limits())
@example((b'{"0":{"path":"a"},"0":{"path":"b"}}', (12,)), Limits())
@example((b'{"0":{"path":"a"},"1":{"path":"b"}}x', (12,)), Limits())
@example((b'{"0":{"offset":1,"path":"a"},"1":{"offset":1,"path":"b"}}', (12,)), Limits())
@example((b'{"0":{"offset":1,"path":"a"},"1":{"ofset":1 ,"path":"b"}}', (12,)), Limits())
@example((b'{"0":{"path":"a","path":"a"},"1":{"path":"a","path":"a"}}', (12,)), Limits())
@example((b'{"0":{"path":"a","length":0},"1":{"path":"a","length":1}}', (12,)), Limits())
@example((b'{"0":{"path":"\xff"},"1":{"path":"\xff"}}', (12,)), Limits())
@example((b'{"0":{"path":"\xed\xa0\x80"},"1":{"path":"b"}}', (12,)), Limits())
def test_what_is_read_at_once_is_what_the_document_says(
    case: tuple[bytes, tuple[int, ...]], limits: Limits
) -> None:
    document, shape = case
    for region in (None, tuple(range(-(-count // 2)) for count in shape)):
        grid = Grid(len(shape), shape, region)
        found = at_once(document, grid, limits)
        assert found is None or found == one_by_one(document, grid, limits)


@pytest.mark.slow
@given(documents(proper=True))
@examples(4)
def test_valid_documents_are_read_at_once(case: tuple[bytes, tuple[int, ...]]) -> None:
    document, shape = case
    grid = Grid(len(shape), shape)
    found = at_once(document, grid, Limits())
    expected = one_by_one(document, grid, Limits())
    if found is None:
        assert isinstance(expected, zm.ManifestError) or is_unusual(document)
    else:
        assert found == expected


@pytest.mark.slow
@given(st.lists(documents(proper=True) | documents(proper=False), min_size=2, max_size=4))
@examples(2)
def test_a_document_is_read_as_if_none_had_been_read_before(
    cases: list[tuple[bytes, tuple[int, ...]]],
) -> None:
    """All are read into the same memory: nothing of one may be taken for another's."""
    grid = Grid(1, (12,))
    reader = Scanner(grid, Limits(), PathNumbers(), {})
    for document, _ in cases:
        found = reader.scan(LazyPart(document, 0, len(document)))
        alone = Scanner(grid, Limits(), PathNumbers(), {}).scan(
            LazyPart(document, 0, len(document))
        )
        assert (found is None) == (alone is None)
        if found is not None and alone is not None:
            for column, expected in zip(found[0][:3], alone[0][:3], strict=True):
                assert column.tolist() == expected.tolist()


def test_a_document_that_ends_early_is_not_continued_by_the_one_before() -> None:
    document = b'{"0":{"path":"a","offset":1},"1":{"path":"a","offset":2},"2":{"path":"a"}}'
    reader = Scanner(Grid(1, (12,)), Limits(), PathNumbers(), {})
    longer = (
        b'{"3":{"path":"a","offset":1},"4":{"path":"a","offset":2},"5":{"path":"a","offset":3}}'
    )
    assert reader.scan(LazyPart(longer, 0, len(longer))) is not None
    for end in range(1, 60):
        assert reader.scan(LazyPart(document, 0, end)) is None, end


def is_unusual(document: bytes) -> bool:
    """Whether a valid document has what is left to others: large numbers, or commas in strings."""
    entries = json.loads(document)
    numbers = [n for entry in entries.values() for n in entry.values() if isinstance(n, int)]
    numbers += [int(part) * 10**7 for key in entries for part in key.split(".")]
    return max(numbers) >= 10**15 or any("," in entry["path"] for entry in entries.values())


def plain(count: int) -> dict[str, dict[str, Any]]:
    """Entries of a grid of 1,000 columns, a few in each of the objects."""
    return {
        f"{n // 1000}.{n % 1000}": {
            "path": f"s3://bucket/directory/file-{n // 300:05}.nc",
            "offset": n % 300 * 1_234_567,
            "length": 1_234_567 - n % 100,
        }
        for n in range(count)
    }


WRITERS: dict[str, Callable[[dict[str, dict[str, Any]]], bytes]] = {
    "json.dumps": lambda entries: json.dumps(entries).encode(),
    "compact": lambda entries: json.dumps(entries, separators=(",", ":")).encode(),
    "indented": lambda entries: json.dumps(entries, indent=2).encode(),
    "sorted": lambda entries: json.dumps(entries, sort_keys=True).encode(),
    "ours": lambda entries: Manifest.loads(json.dumps(entries).encode(), ndim=2).dumps(),
}


MORE: list[dict[str, str]] = [
    {},
    {"checksum": "crc32c:0a1b2c3d"},
    {"etag": '"0123456789abcdef"', "last_modified": "2024-01-31T12:00:00Z", "version": "3/L4kq"},
]


@pytest.mark.parametrize(("more", "writer"), crossed(MORE, WRITERS))
def test_what_writers_write_is_read_at_once(more: dict[str, str], writer: str) -> None:
    entries = {key: {**entry, **more} for key, entry in plain(1500).items()}
    document = WRITERS[writer](entries)
    for region in (None, (range(2), range(1000))):
        reader = Scanner(Grid(2, (2, 1000), region), Limits(), PathNumbers(), {})
        rows = reader.scan(LazyPart(document, 0, len(document)))
        assert rows is not None
        columns, _ = rows
        assert columns.offsets.tolist() == [
            entries[f"{number // 1000}.{number % 1000}"]["offset"]
            for number in columns.numbers.tolist()
        ]


def calls(count: int) -> int:
    """The number of Python functions that are called to read a document of so many entries."""
    document = json.dumps(plain(count)).encode()
    found = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count_call)
    try:
        Manifest.loads(document, grid_shape=(count // 1000, 1000))
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
def test_no_function_is_called_per_entry() -> None:
    """But some tens per part of the document, of about ten thousand entries."""
    assert calls(60_000) - calls(30_000) < 1000


@pytest.mark.slow
def test_memory_while_a_document_is_read() -> None:
    """Beside the document: its columns take a third of that, and parts of it some megabytes."""
    document = memoryview(json.dumps(plain(100_000)).encode())
    peaks: list[int] = []
    # The least of three: what threads of other tests allocate meanwhile counts, too.
    for _ in range(3):
        tracemalloc.start()
        try:
            strict(interpret_manifest(document, Grid(2, (100, 1000)), Limits()))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) <= len(document)


@pytest.mark.slow
def test_memory_per_reference() -> None:
    document = json.dumps(plain(100_000)).encode()
    references = strict(interpret_manifest(document, Grid(2, (100, 1000)), Limits()))
    assert references.nbytes == 20 * 100_000
    columns = references.columns()
    kept = [columns.offsets, columns.lengths, columns.path_numbers]
    # What no row uses is left over because the number of rows is not known in advance.
    held = [column if column.base is None else column.base for column in kept]
    assert sum(column.nbytes for column in held) <= 21.5 * 100_000
