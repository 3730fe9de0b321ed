"""``partitions`` in a declaration: which values are valid, and what writers state."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from zarr_manifest.format import (
    Partitions,
    collect,
    format_canonical,
    interpret_partition_names,
    names_outside,
    parse_canonical,
    state_partitions,
    strict,
)

NUMBERS = st.integers(0, 12) | st.integers(0, 2**53 - 1)
NAMES = st.lists(st.lists(NUMBERS, min_size=1, max_size=3).map(format_canonical), max_size=4)
ODD = ["", "0", "00", "1.", ".1", "1..2", "+1", "-1", "1,2", "0.0,0.0", "٣", "1\n", " 1", "c/0",
       str(2**53), "9" * 20, "1e3", "1.0"]  # fmt: skip


@given(NAMES | st.lists(st.sampled_from(ODD), max_size=4) | st.lists(st.text("01.,x"), max_size=4),
       st.integers(0, 3))  # fmt: skip
@examples(4)
def test_names_are_those_of_partitions_and_each_there_once(names: list[str], ndim: int) -> None:
    found, problems = collect(interpret_partition_names(tuple(names), ndim))
    is_valid = len(set(names)) == len(names) and all(
        parse_canonical(name, ndim) is not None for name in names
    )
    assert found == (frozenset(names) if is_valid else None)
    assert [problem.code for problem in problems] == ["invalid_configuration"] * (not is_valid)


def test_messages_name_what_is_wrong() -> None:
    for names, expected in (
        (("0.0", "1.1", "1.1"), "names '1.1' twice"),
        (("0.0", "01.1"), "'01.1', which is not the name of a partition, such as '0.0'"),
        (("x" * 10_000,), "'xxxxx"),
    ):
        _, (problem,) = collect(interpret_partition_names(names, 2))
        assert expected in problem.problem
        assert len(problem.problem) < 200


# What writers state ----------------------------------------------------------------

BLOCKS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=3).map(
    lambda pairs: Partitions(tuple(n for n, _ in pairs), tuple(p for _, p in pairs))
)


@given(BLOCKS, st.data())
def test_what_is_stated_says_which_partitions_have_a_document(
    partitions: Partitions, data: st.DataObject
) -> None:
    every = list(itertools.product(*map(range, partitions.counts)))
    documents = data.draw(st.sets(st.sampled_from(every))) if every else set[tuple[int, ...]]()
    first = (0,) * len(partitions.shape)
    documents.add(first)  # is always written, even if there are no partitions at all
    stated = state_partitions(partitions, documents)
    if stated == "all":
        assert documents | {first} == {*every, first}
        return
    assert isinstance(stated, list)
    named = strict(interpret_partition_names(tuple(stated), len(partitions.shape)))
    assert named == {format_canonical(index) for index in documents}
    assert names_outside(partitions, stated) == []
    assert set(stated) < {format_canonical(index) for index in every}
