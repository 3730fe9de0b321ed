"""Precedence: which metadata of a node count while a change of several nodes is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import (
    PendingChange,
    collect,
    document_checksum,
    dump_node,
    interpret_pending,
    parse_node,
    parse_pending,
    with_pending,
)

PATHS = ("a", "g", "g/b", "g/c", "h/d")
NODES = st.fixed_dictionaries(
    {"node_type": st.sampled_from(["array", "group"]), "attributes": st.integers(0, 3)}
)
DOCUMENTS = st.none() | NODES.map(dump_node)
STATES = st.fixed_dictionaries(dict.fromkeys(PATHS, DOCUMENTS))


def change_from(old: dict[str, bytes | None], new: dict[str, bytes | None]) -> PendingChange:
    """Return the change that makes `new` nodes of `old` ones, as its commit writes it."""
    copies = {path: json.loads(body) for path, body in new.items() if body is not None}
    root = {
        "node_type": "group",
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": copies},
    }
    pending = {
        path: None if (own := old[path]) is None else document_checksum(own)
        for path in old
        if old[path] != new[path]
    }
    return PendingChange(pending, dump_node(with_pending(root, pending)))


@given(STATES, STATES, st.sets(st.sampled_from(PATHS)))
def test_readers_see_the_new_state_however_many_nodes_have_been_written(
    old: dict[str, bytes | None], new: dict[str, bytes | None], written: set[str]
) -> None:
    change = change_from(old, new)
    for path in PATHS:
        own = new[path] if path in written else old[path]
        counts = change.counting(path, own)
        assert (None if counts is None else parse_node(counts)) == (
            None if (body := new[path]) is None else parse_node(body)
        )


@given(STATES, STATES, STATES)
def test_what_is_neither_the_old_state_nor_named_counts_as_it_is(
    old: dict[str, bytes | None], new: dict[str, bytes | None], later: dict[str, bytes | None]
) -> None:
    change = change_from(old, new)
    for path in PATHS:
        if later[path] != old[path] or old[path] == new[path]:
            assert change.standing(path, later[path]) == "own"
            assert change.counting(path, later[path]) is later[path]


@given(STATES, STATES)
def test_pending_is_read_as_it_is_written_and_leaves_no_trace(
    old: dict[str, bytes | None], new: dict[str, bytes | None]
) -> None:
    pending = change_from(old, new).pending
    root: dict[str, Any] = {"attributes": {"x": 1}, "consolidated_metadata": {"metadata": {}}}
    stated = with_pending(root, pending)
    assert parse_pending(stated) == pending
    assert with_pending(stated, {}) == root
    assert with_pending({"node_type": "group"}, pending) == {"node_type": "group"}


def test_a_group_has_copies_of_its_members_as_long_as_it_had_some() -> None:
    copies: dict[str, Any] = {
        # As zarr consolidates: a group below the root has copies, of no node.
        "g": {"node_type": "group", "consolidated_metadata": {"metadata": {}}},
        "g/a": {"node_type": "array", "shape": [5]},
        "ga": {"node_type": "array", "shape": [1]},
    }
    plain = dump_node({"node_type": "group"})
    consolidated = dump_node({"node_type": "group", "consolidated_metadata": {"metadata": {}}})
    for own in (plain, consolidated):
        pending = {"g": document_checksum(own)}
        root = with_pending({"consolidated_metadata": {"metadata": copies}}, pending)
        found = parse_node(PendingChange(pending, dump_node(root)).counting("g", own) or b"") or {}
        described = found.get("consolidated_metadata")
        assert (described is None) == (own is plain)
        if described is not None:
            assert described["metadata"] == {"a": copies["g/a"]}


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        (["a"], "'pending' is not an object"),
        ({"a": "sha256:00"}, "'pending' says \"sha256:00\" of the node 'a'"),
        ({"a": "sha256:" + "A" * 64}, "which is neither null nor 'sha256:' and 64 lowercase"),
        ({"": None}, "'pending' names '', which is not a node's path"),
        ({"../a": None}, "'pending' names '../a', which is not a node's path"),
        ({"a/zarr.json": None}, "'pending' names 'a/zarr.json'"),
    ],
)
def test_a_malformed_member_is_refused(stated: object, problem: str) -> None:
    root: dict[str, Any] = {"consolidated_metadata": {"metadata": {}, "pending": stated}}
    with pytest.raises(zm.errors.InvalidConfigurationError) as caught:
        parse_pending(root)
    assert problem in str(caught.value)


def test_every_malformed_item_is_found_and_the_others_are_kept() -> None:
    pending = {"a": None, "b": 1, "c//d": None, "e": document_checksum(b"")}
    found, problems = collect(interpret_pending({"consolidated_metadata": {"pending": pending}}))
    assert found == {"a": None, "e": document_checksum(b"")}
    assert len(problems) == 2


@pytest.mark.parametrize("consolidated", [None, [], {"metadata": {}}, "x"])
def test_nothing_is_pending_without_the_member(consolidated: object) -> None:
    assert parse_pending({"consolidated_metadata": consolidated}) == {}
    assert parse_pending({}) == {}
