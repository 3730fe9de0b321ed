"""Import of kerchunk's JSON in columns: as one by one, however it is cut; and how cheap."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.kerchunk.kerchunk_sets import ZGROUP, zarray
from tests.conversion.kerchunk.many_references import JSONSet, calls, json_sets, plain_json
from tests.properties import examples
from zarr_manifest.conversion import ArrayNode, Node, read_kerchunk_json
from zarr_manifest.conversion.kerchunk.json import references
from zarr_manifest.errors import ManifestError


def told(found: Any) -> list[Any]:
    """Return what nodes say, manifests as documents; or the error."""
    try:
        return [_told(node) for node in read_kerchunk_json(found)]
    except ManifestError as error:
        return [(type(error), str(error))]


def _told(node: Node) -> Any:
    if isinstance(node, ArrayNode):
        document = node.manifest.dumps()  # type: ignore[union-attr]
        return node.path, node.metadata, document, list(map(str, node.notes))
    return node


@pytest.mark.slow
@pytest.mark.parametrize("with_mistakes", [False, True])
@examples(1.5)
@given(data=st.data(), size=st.integers(1, 400), at_once=st.integers(1, 9))
def test_parts_of_a_document_are_read_as_the_whole_one_by_one(
    data: st.DataObject, size: int, at_once: int, with_mistakes: bool
) -> None:
    found = data.draw(json_sets(with_mistakes=with_mistakes))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(references, "usual_rows", lambda *_: None)
        wanted = told(found.parsed())
    assert told(found.parsed()) == wanted
    assert told(found.text()) == wanted
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("zarr_manifest.conversion.kerchunk.json.decoding._PART", size)
        monkeypatch.setattr("zarr_manifest.conversion.kerchunk.json.decoding._BATCH_SIZE", at_once)
        assert told(found.text()) == wanted
        assert told(found.parsed()) == wanted


@pytest.mark.slow
@examples(2)
@given(json_sets(with_mistakes=True), st.data())
def test_damaged_documents_fail_alike(found: JSONSet, data: st.DataObject) -> None:
    # Of repeated keys, only the last value has to be valid.
    whole = dataclasses.replace(found, items=list(dict(found.items).items()))
    text = bytearray(whole.text())
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b'"]}\xff,\\'))
    wanted = told(bytes(text))
    with pytest.MonkeyPatch.context() as monkeypatch:
        size = data.draw(st.integers(1, 200))
        monkeypatch.setattr("zarr_manifest.conversion.kerchunk.json.decoding._PART", size)
        assert told(bytes(text)) == wanted
    try:
        json.loads(bytes(text))
    except ValueError:
        assert isinstance(wanted[0], tuple)


def test_the_last_of_repeated_keys_counts() -> None:
    text = '{".zgroup": %s, "a/.zarray": %s, "a/0.0": "first", "a/0.1": ["s3://b/f", 1, 2], '
    text += '"a/x": "no chunk", "a/0.0": ["s3://b/g", 3, 4], "a/x": "again", "b/0": "", "b/0": ""}'
    document = (text % (json.dumps(ZGROUP), json.dumps(zarray()))).encode()
    wanted = told(json.loads(document))
    assert '"0.0":{"path":"s3://b/g","offset":3,"length":4}' in wanted[1][2].decode()
    assert wanted[1][3] == ["the reference 'x' is not part of the array, and left out"]
    assert "the reference 'b/0' is not part of any array" in str(wanted[2])
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("zarr_manifest.conversion.kerchunk.json.decoding._PART", 1)
        assert told(document) == wanted


# How cheap ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("arrays", [1, 3])
def test_nothing_is_called_for_each_reference(arrays: int) -> None:
    few, many = (plain_json(count, arrays=arrays) for count in (10_000, 20_000))
    list(read_kerchunk_json(few))
    more = calls(lambda: list(read_kerchunk_json(many))) - calls(
        lambda: list(read_kerchunk_json(few))
    )
    # Only its directory is asked of a key in a batch of several arrays.
    assert more < (0.1 if arrays == 1 else 1.1) * 10_000 * arrays


@pytest.mark.slow
def test_memory_is_little_beyond_the_document() -> None:
    list(read_kerchunk_json(plain_json(1000)))
    document = plain_json(count := 50_000)
    tracemalloc.start()
    try:
        nodes = list(read_kerchunk_json(document))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(nodes[1], ArrayNode)
    assert held < 25 * count
    assert peak < 100 * count
