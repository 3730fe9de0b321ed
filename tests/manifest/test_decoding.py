"""A manifest document that is read in parts gives what it gives at once, whatever is in it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.combinations import crossed
from tests.format.test_manifest_document import WRONG_ENTRIES
from tests.manifest.test_manifest import ENTRIES
from tests.properties import examples
from zarr_manifest.format import Limits, strict
from zarr_manifest.manifest import Grid, Manifest, References, interpret_manifest

# Of a grid of 3 by 4 chunks; some are outside, in the array's own spelling, or no keys at all.
KEYS = st.one_of(
    st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 4)),
    st.sampled_from(["c/0/1", "0.01", "x},"]),
)
VALID = ENTRIES.map(json.dumps)
UNUSUAL = st.sampled_from(
    [
        *(entry for entry, _ in WRONG_ENTRIES.values()),
        '{"path": "a},", "offset": 1}',
        '{"x": [{}, {}], "path": "a"}',
        '{"x": {"y": {}}, "path": "a"}',
        '{"path": "a", "checksum": "crc9:00"}',
        '{"path": "a", "checksum": "md5:"}',
    ]
)
SEPARATORS = st.sampled_from([",", ",\n", " , "])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """What looks like a manifest document: members may stand twice, and a character be wrong."""
    entries = VALID | UNUSUAL if draw(st.booleans()) else VALID
    members = draw(st.lists(st.tuples(KEYS, entries), max_size=8))
    if draw(st.booleans()):
        members = list(dict(members).items())
    inside = draw(SEPARATORS).join(f"{json.dumps(key)}:{entry}" for key, entry in members)
    text = f"{{{inside}}}"
    if draw(st.integers(0, 3)) == 0:
        start = draw(st.integers(0, len(text)))
        wrong = draw(st.sampled_from(["", "}", "{", ",", "},", '"', " ", "ü", "\\"]))
        text = text[:start] + wrong + text[start + draw(st.integers(0, 1)) :]
    return text.encode()


def parse_key(key: str) -> tuple[int, ...] | None:
    return (0, 1) if key == "c/0/1" else None


@contextmanager
def parts_of(part_bytes: int, whole_bytes: int = 2**24) -> Iterator[None]:
    """Read documents in parts of a size, also small ones; never larger ones as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.manifest.decoding._PART_BYTES", part_bytes)
        patch.setattr("zarr_manifest.manifest.decoding._LEAST_BYTES", min(part_bytes + 1, 2**14))
        patch.setattr("zarr_manifest.manifest.decoding._WHOLE_BYTES", whole_bytes)
        yield


def outcome(
    document: bytes, part_bytes: int, grid: Grid, limits: Limits, whole_bytes: int = 2**24
) -> Any:
    """The columns, as values that compare; or the error and what it says."""
    try:
        with parts_of(part_bytes, whole_bytes):
            return comparable(strict(interpret_manifest(document, grid, limits)))
    except zm.ManifestError as error:
        return type(error), error.chunk, str(error)


def comparable(references: References) -> Any:
    arrays = [(column.dtype, column.tolist()) for column in references.columns()]
    extras = [*references.extras()]
    return references.grid_shape, arrays, references.paths, extras


@pytest.mark.slow
@given(
    documents(),
    st.integers(1, 60),
    st.sampled_from([None, (range(2), range(4)), (range(4), range(5))]),
    st.sampled_from([Limits(), Limits(entries=3), Limits(inline_bytes=6)]),
)
@examples(4)
@example(b'{"0.0":{},}', 1, None, Limits())
@example(b'{"0.0":{"path":"a"}, ,"0.1":{}}', 1, None, Limits())
@example(b'{"0.0":{},"0.1":{}}}', 1, None, Limits())
@example(b'{},"0.1":{}}', 1, None, Limits())
@example(b'{"0.1":{"path":"b"},"0.2":{},"0.0":{"path":"a"}}', 1, None, Limits())
@example(b'{"9.9":{"path":1},"9.9":{},"0.0":{}}', 1, None, Limits())
@example(b'{"0.0":{},"0.1":{},"0.2":{},"0.3":{}}', 1, None, Limits(entries=3))
@example(b'{"0.0":{"data":"YWJjZA=="},"9.9":{"data":"YWJj"}}', 1, None, Limits(inline_bytes=6))
def test_in_parts_as_at_once(
    document: bytes, part_bytes: int, region: tuple[range, range] | None, limits: Limits
) -> None:
    for shape in ((3, 4), None):
        grid = Grid(2, shape, region, parse_key)
        at_once = outcome(document, len(document), grid, limits)
        assert outcome(document, part_bytes, grid, limits) == at_once


def has_duplicates(document: bytes) -> bool:
    members = json.loads(document, object_pairs_hook=list)
    return len(dict(members)) < len(members)


@pytest.mark.slow
@given(documents(), st.integers(1, 60), st.sampled_from([Limits(), Limits(entries=3)]))
@examples(4)
@example(b'{"0.0":{"_":"},"},"0.1" : {"a":{},"x":[{},{}]} , "1.0":{}}', 1, Limits())
@example(b'{"0.0":{},"0.0":{}}', 1, Limits())
@example(b" [1] ", 1, Limits())
def test_in_bounded_memory_as_at_once(document: bytes, part_bytes: int, limits: Limits) -> None:
    for shape in ((3, 4), None):
        grid = Grid(2, shape, None, parse_key)
        at_once = outcome(document, len(document), grid, limits)
        bounded = outcome(document, part_bytes, grid, limits, whole_bytes=0)
        if isinstance(bounded[0], type):
            # Of duplicate members, only the last may count.
            assert isinstance(at_once[0], type) or has_duplicates(document)
        else:
            assert bounded == at_once


MEMBERS = [
    b'"%d":1',
    b'"%d":{} ',
    b'"%d":{"_":"},"}',
    b'"%d":{"path":"%%d"}',
    b'"x%d":{}',
    b'"%d":{"_":{"a":{},"b":{}}}',
]


@pytest.mark.slow
@pytest.mark.parametrize(("validating", "member"), crossed([False, True], MEMBERS))
def test_memory_for_a_hostile_document(validating: bool, member: bytes) -> None:
    """Decoded as a whole, some take thirty times their size."""
    document = b"{" + b",".join(member % n for n in range(8_000)) + b"}"
    tracemalloc.start()
    try:
        resolve = str if validating else None
        with parts_of(2**12, 2**13):
            for _ in interpret_manifest(document, Grid(1, (2**40,)), Limits(), resolve=resolve):
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(document)


@pytest.mark.slow
def test_memory_while_a_document_is_read() -> None:
    count = 40_000
    document = json.dumps(
        {
            f"{n // 500}.{n % 500}": {"path": f"s3://b/{n // 500}", "offset": n, "length": 64}
            for n in reversed(range(count))
        },
        indent=1,
    ).encode()
    peaks: list[int] = []
    # The least of three: what threads of other tests allocate meanwhile counts, too.
    for _ in range(3):
        tracemalloc.start()
        try:
            manifest = Manifest.loads(document, grid_shape=(count // 500, 500))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(manifest) == count
    assert min(peaks) / count <= 150
