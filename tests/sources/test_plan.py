"""Planning: every range is covered once, within the limits, by as few requests as possible."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import Sources, reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator

type Range = tuple[int, int]

HIERARCHY = reader_of(MemoryStore())


class Planned(NamedTuple):
    start: int
    stop: int
    members: tuple[int, ...]


def plan(ranges: list[Range], max_gap: int, max_size: int) -> list[Planned]:
    """Return the requests for ranges of a remote object; one range is always requested as it is."""
    sources = Sources({"s3://b/": None}, HIERARCHY, max_gap=max_gap)
    planned = sources.plan(UrlLocation("s3", "b", "f"), ranges, max_size)
    return [Planned(each.start, each.stop, each.members) for each in planned]


def ranges_within(end: int) -> st.SearchStrategy[Range]:
    return st.tuples(st.integers(0, end), st.integers(0, end)).map(lambda r: (min(r), max(r)))


RANGES = st.lists(ranges_within(300), max_size=30)
FEW_RANGES = st.lists(ranges_within(24), max_size=6)
LIMITS = st.integers(0, 100)


def is_allowed(group: list[Range], max_gap: int, max_size: int) -> bool:
    """Say whether one request may answer these ranges, from the rules rather than the algorithm."""
    start, stop = min(r[0] for r in group), max(r[1] for r in group)
    if stop - start > max_size and (start, stop) not in group:
        return False
    reached = start
    for first, last in sorted(group):
        if first - reached > max_gap:
            return False
        reached = max(reached, last)
    return True


def partitions(items: list[Range]) -> Iterator[list[list[Range]]]:
    if not items:
        yield []
        return
    for smaller in partitions(items[1:]):
        yield [[items[0]], *smaller]
        for i, group in enumerate(smaller):
            yield [*smaller[:i], [items[0], *group], *smaller[i + 1 :]]


@given(RANGES, LIMITS, LIMITS)
def test_every_range_is_covered_once(ranges: list[Range], max_gap: int, max_size: int) -> None:
    planned = plan(ranges, max_gap=max_gap, max_size=max_size)
    assert sorted(i for request in planned for i in request.members) == list(range(len(ranges)))
    for request in planned:
        for i in request.members:
            assert request.start <= ranges[i][0] <= ranges[i][1] <= request.stop


@given(RANGES, LIMITS, LIMITS)
def test_requests_keep_to_the_limits(ranges: list[Range], max_gap: int, max_size: int) -> None:
    for request in plan(ranges, max_gap=max_gap, max_size=max_size):
        group = [ranges[i] for i in request.members]
        assert is_allowed(group, max_gap, max_size)
        assert request.start == min(start for start, _ in group)
        assert request.stop == max(stop for _, stop in group)


@given(RANGES, LIMITS, LIMITS)
def test_requests_and_members_are_sorted(ranges: list[Range], max_gap: int, max_size: int) -> None:
    planned = plan(ranges, max_gap=max_gap, max_size=max_size)
    for one, next_ in pairwise(planned):
        assert one.start <= next_.start
        assert one.stop < next_.stop
    for request in planned:
        starts = [ranges[i][0] for i in request.members]
        assert starts == sorted(starts)


@given(FEW_RANGES, st.integers(0, 8), st.integers(0, 24))
def test_no_partition_needs_fewer_requests(
    ranges: list[Range], max_gap: int, max_size: int
) -> None:
    planned = plan(ranges, max_gap=max_gap, max_size=max_size)
    fewest = min(
        len(groups)
        for groups in partitions(ranges)
        if all(is_allowed(group, max_gap, max_size) for group in groups)
    )
    assert len(planned) == fewest


@given(st.lists(ranges_within(300), max_size=30).flatmap(st.permutations), LIMITS, LIMITS)
def test_order_of_the_ranges_does_not_matter(
    ranges: list[Range], max_gap: int, max_size: int
) -> None:
    planned = plan(ranges, max_gap=max_gap, max_size=max_size)
    of_sorted = plan(sorted(ranges), max_gap=max_gap, max_size=max_size)
    assert [(each.start, each.stop) for each in planned] == [
        (each.start, each.stop) for each in of_sorted
    ]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(5, 5)], [(5, 5, (0,))]),
        ([(0, 10), (15, 20)], [(0, 20, (0, 1))]),
        ([(0, 10), (16, 20)], [(0, 10, (0,)), (16, 20, (1,))]),
        ([(30, 50), (0, 30)], [(0, 50, (1, 0))]),
        ([(0, 30), (30, 51)], [(0, 30, (0,)), (30, 51, (1,))]),
        ([(3, 9), (3, 9), (3, 9)], [(3, 9, (0, 1, 2))]),
        ([(0, 10), (0, 90), (80, 90), (90, 91)], [(0, 90, (1, 0, 2)), (90, 91, (3,))]),
        ([(0, 10), (5, 90), (6, 20)], [(0, 10, (0,)), (5, 90, (1, 2))]),
    ],
)
def test_examples(ranges: list[Range], expected: list[tuple[int, int, tuple[int, ...]]]) -> None:
    planned = plan(ranges, max_gap=5, max_size=50)
    assert planned == expected


@pytest.mark.parametrize("bad", [(2, 1), (-1, 1), (-5, -1)])
def test_invalid_range(bad: Range) -> None:
    with pytest.raises(ValueError, match="invalid byte range"):
        plan([(0, 1), bad], max_gap=0, max_size=10)


def test_limits() -> None:
    """Without a gap that is worth reading, each range is a request of its own."""
    assert plan([(0, 1), (1, 2)], max_gap=-1, max_size=9) == [(0, 1, (0,)), (1, 2, (1,))]
    with pytest.raises(ValueError, match="must not be negative"):
        plan([], max_gap=1, max_size=-1)
